//! What fuzzing calls: for every kind of input the function that a command calls with it. Whatever the bytes are, it returns.

use std::{fs, panic, path::PathBuf, sync::OnceLock};

use adapter_core::TaskFile;
use analysis::{Store, findings};
use bert_backbone::{Backbone, BertConfig, Checkpoint, RandomCheckpoint, Tokenizer};
use burn::tensor::Device;
use experiments::{Experiment, ImportOptions, Lab, Scale, Suite};
use tasks::{FileTask, TaskKind, Tasks, TokenCache, WindowConfig, read_squad};

/// A folder of this process, in memory where the system has one there.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = place.join(format!("adapter-lab-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for inputs");
        folder
    })
}

/// A file with these contents.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::create_dir_all(path.parent().unwrap_or(folder())).expect("a folder for inputs");
    fs::write(&path, bytes).expect("a file for inputs");
    path
}

fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(Lab::paper)
}

/// A backbone of a few hundred values.
fn backbone() -> &'static Backbone {
    static BACKBONE: OnceLock<Backbone> = OnceLock::new();
    BACKBONE.get_or_init(|| made("backbone", RandomCheckpoint::micro()))
}

fn made(name: &str, checkpoint: RandomCheckpoint) -> Backbone {
    let place = folder().join(name);
    checkpoint.write(&place, &Device::flex()).expect("a backbone");
    Backbone::load(&place, &Device::flex()).expect("a backbone")
}

/// Libraries whose panics are caught and named count as handled: without this, the fuzzer's own hook would end the process.
fn let_panics_be_caught() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| panic::set_hook(Box::new(|_| {})));
}

/// `model.safetensors`, and the weights of adapters from elsewhere.
pub fn checkpoint_safetensors(bytes: &[u8]) {
    let _ = Checkpoint::tensors_of(&file("weights.safetensors", bytes));
}

/// `pytorch_model.bin`.
pub fn checkpoint_bin(bytes: &[u8]) {
    let _ = Checkpoint::tensors_of(&file("weights.bin", bytes));
}

/// `config.json`.
pub fn config(bytes: &[u8]) {
    if let Ok(config) = BertConfig::read(&file("config.json", bytes)) {
        let _ = (config.shape(), config.activation());
    }
}

/// `tokenizer.json`; it is tried on a text.
pub fn tokenizer(bytes: &[u8]) {
    let_panics_be_caught();
    let path = folder().join("tokenizer.json");
    if let Ok(tokenizer) = Tokenizer::from_bytes(bytes, &path) {
        let _ = tokenizer.encode("The cats sat, didn't they? äöü 中文 aaaaaaaaab", Some("a [MASK]"), 32);
        let _ = (tokenizer.pieces("on the mat"), tokenizer.hash());
    }
}

/// A task file: v, its method and its head, on a backbone.
pub fn task_file(bytes: &[u8]) {
    if let Ok(mut file) = TaskFile::from_bytes(bytes) {
        file.info.backbone = backbone().id();
        let _ = lab().load(backbone(), file, &Device::flex());
    }
}

/// The state of a run.
pub fn training_checkpoint(bytes: &[u8]) {
    let _ = experiments::Checkpoint::read(&file("checkpoint.safetensors", bytes), "run");
}

/// `record.json`, as a report and a list read it.
pub fn record(bytes: &[u8]) {
    let runs = folder().join("runs");
    file("runs/run/record.json", bytes);
    if let Ok(store) = Store::read(&runs) {
        let _ = findings(&store);
    }
    let _ = analysis::list_runs(&runs);
}

/// A dataset of one's own: the first byte says in which form.
pub fn table(bytes: &[u8]) {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let name = ["own.csv", "own.tsv", "own.jsonl", "own.json"][usize::from(form % 4)];
    let path = file(name, bytes);
    let kinds = [TaskKind::Classification, TaskKind::Regression, TaskKind::MultiLabel];
    let _ = FileTask { kind: kinds[usize::from(form / 4 % 3)], ..FileTask::new(path) }.load();
}

/// SQuAD's questions, cut into windows.
pub fn squad(bytes: &[u8]) {
    if let Ok(questions) = read_squad(&file("squad.json", bytes)) {
        let config = WindowConfig { max_length: 16, stride: 4, max_question: 6 };
        let _ = TokenCache::none().windows(&questions, &backbone().tokenizer, config);
    }
}

/// A Parquet file, as a dataset and as questions.
pub fn parquet(bytes: &[u8]) {
    let_panics_be_caught();
    let path = file("own.parquet", bytes);
    let _ = FileTask::new(&path).load();
    let _ = read_squad(&path);
}

/// An archive of posts, before it is compressed.
pub fn tar(bytes: &[u8]) {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    if packed.write_all(bytes).is_err() {
        return;
    }
    let Ok(packed) = packed.finish() else { return };
    file("data/additional/20newsgroups/20news-bydate.tar.gz", &packed);
    static TASKS: OnceLock<Tasks> = OnceLock::new();
    if let Ok(task) = TASKS.get_or_init(Tasks::paper).find("20-newsgroups") {
        let _ = task.load(&folder().join("data"));
    }
}

/// An experiment file, and its grid.
pub fn experiment(bytes: &[u8]) {
    let path = file("own.toml", bytes);
    let name = path.display().to_string();
    for scale in [Scale::Quick, Scale::Paper] {
        if let Ok(experiment) = Experiment::load(lab(), &name, scale, Suite::Paper, &[]) {
            let shape = |_: &str| Ok((BertConfig::new(16, 2, 2), true));
            let _ = experiment.grid(lab(), &shape, &folder().join("nothing"));
        }
    }
}

/// A folder that Python saved, in one piece: the lengths of all files but the last, two bytes each, and their contents.
fn import(bytes: &[u8], name: &str, files: &[&str]) {
    let Some((lengths, mut rest)) = bytes.split_at_checked(2 * (files.len() - 1)) else { return };
    for (number, inside) in files.iter().enumerate() {
        let length = lengths.get(2 * number..2 * number + 2).map(|at| usize::from(u16::from_le_bytes([at[0], at[1]])));
        let Some((contents, others)) = rest.split_at_checked(length.unwrap_or(rest.len())) else { return };
        file(&format!("{name}/{inside}"), contents);
        rest = others;
    }
    static BACKBONE: OnceLock<Backbone> = OnceLock::new();
    let backbone = BACKBONE.get_or_init(|| made("import", RandomCheckpoint::tiny()));
    if let Ok(imported) = experiments::import(&folder().join(name), backbone, &ImportOptions::default()) {
        let _ = lab().load(backbone, imported, &Device::flex());
    }
}

/// The files of a folder of AdapterHub's `adapters`.
pub const ADAPTERHUB: [&str; 4] =
    ["adapter_config.json", "head_config.json", "adapter.safetensors", "model_head.safetensors"];
/// The files of a folder of `peft`.
pub const PEFT: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

/// A folder of AdapterHub's `adapters`.
pub fn adapterhub(bytes: &[u8]) {
    import(bytes, "adapterhub", &ADAPTERHUB);
}

/// A folder of `peft`.
pub fn peft(bytes: &[u8]) {
    import(bytes, "peft", &PEFT);
}

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// What there is to call, by name.
pub const TARGETS: [(&str, Target); 14] = [
    ("adapterhub", adapterhub),
    ("checkpoint_bin", checkpoint_bin),
    ("checkpoint_safetensors", checkpoint_safetensors),
    ("config", config),
    ("experiment", experiment),
    ("parquet", parquet),
    ("peft", peft),
    ("record", record),
    ("squad", squad),
    ("table", table),
    ("tar", tar),
    ("task_file", task_file),
    ("tokenizer", tokenizer),
    ("training_checkpoint", training_checkpoint),
];
