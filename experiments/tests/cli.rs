//! The binary as a user meets it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use adapter_core::{AdapterConfig, Init, Method, MethodInfo, TaskFile, TaskInfo};
use bert_backbone::{Backbone, RandomCheckpoint};
use burn::tensor::Device;
use rstest::rstest;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use tasks::{Head, HeadInput, TaskKind, TaskModel};
use tempfile::TempDir;

/// Runs `adapter-lab` with an empty cache of its own.
fn adapter_lab(arguments: &[&str]) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    command.args(arguments).env("ADAPTER_LAB_CACHE", cache.path()).env_remove("ADAPTER_LAB_DEVICE");
    command.output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = adapter_lab(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The message of a command that must fail with nothing on standard output.
fn error(arguments: &[&str]) -> String {
    let output = adapter_lab(arguments);
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn tiny() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
    let path = folder.path().display().to_string();
    (folder, path)
}

#[rstest]
#[case("bert-base-uncased", "adapters", None, "2", 109_482_240, &[("adapters", 2_379_264), ("layer_norms", 38_400), ("head", 1_538)])]
#[case("bert-base-uncased", "top-k", Some("1"), "2", 109_482_240, &[("top_layers", 7_087_872), ("head", 1_538)])]
#[case("bert-base-uncased", "layer-norm", None, "2", 109_482_240, &[("layer_norms", 38_400), ("head", 1_538)])]
#[case("bert-base-uncased", "full", None, "2", 109_482_240, &[("backbone", 108_891_648), ("head", 1_538)])]
#[case("bert-large-uncased", "adapters", None, "3", 335_141_888, &[("adapters", 6_343_680), ("layer_norms", 100_352), ("head", 3_075)])]
fn params_of_published_shapes_need_no_weights(
    #[case] backbone: &str,
    #[case] tuning: &str,
    #[case] k: Option<&str>,
    #[case] classes: &str,
    #[case] size: u64,
    #[case] groups: &[(&str, u64)],
) {
    let mut arguments = vec!["params", "--backbone", backbone, "--tuning", tuning, "--adapter-size", "64"];
    arguments.extend(["--classes", classes, "--json"]);
    if let Some(k) = k {
        arguments.extend(["--k", k]);
    }
    let report = json(&arguments);
    assert_eq!(report["backbone"], size);
    for &(group, count) in groups {
        assert_eq!(report["groups"][group], count, "{group}");
    }
    assert_eq!(report["groups"].as_object().unwrap().len(), groups.len());
    assert_eq!(report["trained"], groups.iter().map(|(_, count)| count).sum::<u64>());
}

/// Counts of the literature, for BERT-base and without the head.
#[rstest]
#[case(&["pfeiffer"], 894_528)]
#[case(&["parallel"], 7_091_712)]
#[case(&["lora"], 294_912)]
#[case(&["lora", "--rank", "4", "--targets", "query,key,value,attention-output"], 294_912)]
#[case(&["ia3"], 55_296)]
#[case(&["ia3", "--layout", "peft"], 64_512)]
#[case(&["bias"], 102_144)]
#[case(&["adapters", "--layer-norm", "false"], 2_379_264)]
#[case(&["lora", "--layer-norm"], 294_912 + 38_400)]
#[case(&["ia3", "--top-layers", "1"], 55_296 + 7_087_872)]
fn methods_train_as_much_as_the_literature_says(#[case] method: &[&str], #[case] expected: u64) {
    let report = json(&[&["params", "--backbone", "bert-base-uncased", "--json", "--tuning"], method].concat());
    assert_eq!(report["trained"].as_u64().unwrap() - report["groups"]["head"].as_u64().unwrap(), expected);
}

#[test]
fn params_of_a_folder_are_those_of_its_checkpoint() {
    let (_folder, path) = tiny();
    let whole = json(&["params", "--backbone", &path, "--head", "pooler", "--tuning", "full", "--json"]);
    let cls = json(&["params", "--backbone", &path, "--head", "cls", "--tuning", "full", "--json"]);
    let pooler = 32 * 32 + 32;
    assert_eq!(whole["trained"].as_u64().unwrap(), cls["trained"].as_u64().unwrap() + pooler);
    assert_eq!(whole["groups"]["backbone"], whole["backbone"]);
}

#[test]
fn encode_writes_hugging_face_shapes_and_says_so() {
    let (folder, path) = tiny();
    let out = folder.path().join("new/out.safetensors");
    let out_text = out.display().to_string();
    let report = json(&[
        "encode",
        "--backbone",
        &path,
        "--text",
        "the cat",
        "--text-pair",
        "a dog",
        "--out",
        &out_text,
        "--json",
    ]);
    assert_eq!(report["tokens"].as_array().unwrap().len(), 7);
    let bytes = fs::read(out).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let shape = |name: &str| (tensors.tensor(name).unwrap().dtype(), tensors.tensor(name).unwrap().shape().to_vec());
    assert_eq!(shape("input_ids"), (Dtype::I64, vec![1, 7]));
    assert_eq!(shape("last_hidden_state"), (Dtype::F32, vec![1, 7, 32]));
    assert_eq!(shape("pooled"), (Dtype::F32, vec![1, 32]));
}

#[test]
fn fill_mask_ranks_candidates_for_every_mask() {
    let (_folder, path) = tiny();
    let report =
        json(&["fill-mask", "--backbone", &path, "--text", "the [MASK] sat on [MASK]", "--top", "3", "--json"]);
    let masks = report.as_array().unwrap();
    assert_eq!(masks.len(), 2);
    for candidates in masks {
        let probabilities: Vec<f64> =
            candidates.as_array().unwrap().iter().map(|c| c["probability"].as_f64().unwrap()).collect();
        assert_eq!(probabilities.len(), 3);
        assert!(probabilities.is_sorted_by(|a, b| a >= b) && probabilities[0] <= 1.0, "{probabilities:?}");
    }
}

/// A folder with the tiny backbone, an untrained per-task file for `task` on it, and their paths.
fn saved(task: &str, kind: TaskKind, labels: &[&str]) -> (TempDir, String, String) {
    let (folder, path) = tiny();
    let (device, init) = (Device::flex(), Init::new(1));
    let backbone = Backbone::load(folder.path(), &device).unwrap();
    let adapter = AdapterConfig { init_std: 0.3, ..AdapterConfig::new(4) };
    let head = if kind == TaskKind::Span { HeadInput::Tokens } else { HeadInput::Cls };
    let outputs = if kind == TaskKind::Span { 2 } else { labels.len().max(1) };
    let module = Head::new(&backbone.config.shape(), outputs, head, init, &device);
    let model = TaskModel::tuned(&adapter, backbone.bert.clone(), module, init, &device).unwrap();
    let info = TaskInfo {
        task: task.to_owned(),
        kind: kind.to_string(),
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        pairs: None,
        head: head.to_string(),
        max_length: 32,
        method: adapter.info(),
        backbone: backbone.id(),
        origin: Default::default(),
    };
    let file = folder.path().join("v.safetensors");
    TaskFile::from_model(&model, &adapter.select(&model), info).write(&file).unwrap();
    (folder, path, file.display().to_string())
}

#[test]
fn predict_names_labels_for_a_text_and_for_every_line_of_a_file() {
    let (folder, backbone, file) = saved("colours", TaskKind::Classification, &["red", "green"]);
    let one = json(&["predict", "--adapter", &file, "--backbone", &backbone, "--text", "-the cat", "--json"]);
    let label = one[0]["label"].as_str().unwrap();
    assert!(["red", "green"].contains(&label));
    let input = folder.path().join("texts.txt");
    fs::write(&input, "-the cat\nwho?\ta dog\n").unwrap();
    let input = input.display().to_string();
    let two = json(&["predict", "--adapter", &file, "--backbone", &backbone, "--input", &input, "--json"]);
    assert_eq!(two.as_array().unwrap().len(), 2);
    assert_eq!(two[0]["label"], label, "alone or among others");
    assert_eq!(two[1]["text_pair"], "a dog");
    let probabilities = two[1]["probabilities"].as_array().unwrap();
    let each: Vec<f64> = probabilities.iter().map(|p| p["probability"].as_f64().unwrap()).collect();
    assert!((each.iter().sum::<f64>() - 1.0).abs() < 1e-6 && each[0] >= each[1]);
    assert_eq!(probabilities[0]["label"], two[1]["label"], "the likeliest comes first");
    let text =
        String::from_utf8(adapter_lab(&["predict", "--adapter", &file, "--backbone", &backbone, "--text", "a"]).stdout);
    assert!(["red 0.", "green 0."].iter().all(|label| text.as_ref().unwrap().contains(label)), "{text:?}");
}

/// A folder with a small backbone, a table of pairs and what was trained on it, in the files' own columns.
fn trained_on_a_table(kind: &str) -> TempDir {
    let (folder, _) = tiny();
    let rows: String = (0..40).map(|i| format!("\"the {}, it sat\",she,{}\n", ["cat", "dog"][i % 2], i % 2)).collect();
    fs::write(folder.path().join("reviews.csv"), format!("review,reply,stars\n{rows}")).unwrap();
    fs::write(folder.path().join("held.csv"), format!("review,reply,stars\n{}", &rows[..rows.len() / 2])).unwrap();
    let columns = ["--text-column", "review", "--pair-column", "reply", "--label-column", "stars", "--labels", kind];
    let train = ["train", "--task", "file:reviews.csv", "--backbone", ".", "--epochs", "1", "--save", "v.safetensors"];
    let output = within(&folder, &[&train[..], &columns, &["--validation-file", "held.csv"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("the task file was written to v.safetensors"), "{said}");
    folder
}

/// Runs `adapter-lab` in a folder.
fn within(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    command.current_dir(folder.path()).args(arguments).env("ADAPTER_LAB_CACHE", folder.path().join("cache"));
    command.output().unwrap()
}

/// What is predicted are its texts, not its lines.
#[test]
fn predict_reads_a_table_by_the_columns_of_training() {
    let folder = trained_on_a_table("class");
    fs::write(folder.path().join("new.csv"), "id,review,reply\n1,\"a cat,\nand more\",who?\n2,a dog,she\n").unwrap();
    let texts = |rows: Value| -> Vec<(String, String)> {
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        rows.as_array().unwrap().iter().map(|row| (text(row, "text"), text(row, "text_pair"))).collect()
    };
    let predict = |arguments: &[&str]| {
        let output =
            within(&folder, &[&["predict", "--adapter", "v.safetensors", "--json", "--input"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        texts(serde_json::from_slice(&output.stdout).unwrap())
    };
    let expected = [("a cat,\nand more", "who?"), ("a dog", "she")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(predict(&["new.csv"]), expected);
    fs::write(folder.path().join("other.jsonl"), "{\"a\": \"a dog\", \"b\": \"she\"}\n").unwrap();
    assert_eq!(predict(&["other.jsonl", "--text-column", "a", "--pair-column", "b"]), expected[1..]);
    fs::write(folder.path().join("lines.txt"), "a dog\tshe\n").unwrap();
    assert_eq!(predict(&["lines.txt"]), expected[1..]);
    fs::write(folder.path().join("bare.csv"), "a dog,she\n".repeat(2)).unwrap();
    let refused = within(&folder, &["predict", "--adapter", "v.safetensors", "--input", "bare.csv"]);
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.contains("no columns `review` and `reply`; there are: a dog, she; give --text-column"),
        "{refused}"
    );
}

#[test]
fn a_score_is_shown_without_probabilities() {
    let folder = trained_on_a_table("score");
    let predict = ["predict", "--adapter", "v.safetensors", "--text", "a dog", "--text-pair", "she"];
    let text = String::from_utf8(within(&folder, &predict).stdout).unwrap();
    assert_eq!(text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(), ["prediction", "text"]);
}

/// What the file remembers may have moved since.
#[test]
fn eval_names_what_is_gone_and_what_to_give() {
    let folder = trained_on_a_table("class");
    let eval = |arguments: &[&str]| within(&folder, &[&["eval", "--adapter", "v.safetensors"], arguments].concat());
    let refused = |arguments: &[&str]| {
        let output = eval(arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let text = String::from_utf8(eval(&[]).stdout).unwrap();
    assert!(text.starts_with("file:reviews: validation set, 20 examples\n"), "{text}");
    assert!(text.ends_with("most frequent class of these examples: accuracy 0.5000\n"), "{text}");
    fs::rename(folder.path().join("held.csv"), folder.path().join("moved-held.csv")).unwrap();
    let message = "held.csv, which is not there: give --validation-file PATH";
    assert!(refused(&[]).contains(message), "{}", refused(&[]));
    assert!(eval(&["--validation-file", "moved-held.csv"]).status.success());
    fs::rename(folder.path().join("reviews.csv"), folder.path().join("moved.csv")).unwrap();
    let message = "reviews.csv, which is not there: give --task file:PATH --validation-file PATH\n";
    assert!(refused(&[]).contains(message), "{}", refused(&[]));
    let moved = eval(&["--task", "file:moved.csv", "--validation-file", "moved-held.csv"]);
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    let bare = refused(&["--task", "moved.csv"]);
    assert!(bare.contains("unknown task `moved.csv` (did you mean `file:moved.csv`?)"), "{bare}");
}

#[rstest]
#[case("eval")]
#[case("ablate")]
fn a_file_of_an_unknown_task_asks_for_one(#[case] command: &str) {
    let (_folder, backbone, file) = saved("reviews", TaskKind::Classification, &["yes", "no"]);
    let refused = error(&[command, "--adapter", &file, "--backbone", &backbone]);
    let message = format!("{file} is for the task `reviews`, which is not known here: give --task file:PATH\n");
    assert!(refused.ends_with(&message), "{refused}");
}

#[rstest]
#[case("eval")]
#[case("ablate")]
fn files_given_for_a_known_task_are_refused(#[case] command: &str) {
    let (_folder, backbone, file) = saved("syn-topic", TaskKind::Classification, &["yes", "no"]);
    let options = ["--adapter", &file, "--backbone", &backbone, "--validation-file", "x.csv"];
    let refused = error(&[&[command], &options[..]].concat());
    assert!(refused.contains("`syn-topic` has its own data: validation_file is for file:"), "{refused}");
}

/// The made-up language of `nano` is no English.
#[rstest]
#[case::foreign("photosynthesis converts sunlight", true)]
#[case::its_own("the song was lovely .", false)]
fn a_backbone_that_cannot_read_the_texts_is_noted(#[case] text: &str, #[case] noted: bool) {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..40).map(|i| format!("{text},{}\n", i % 2)).collect();
    fs::write(folder.path().join("own.csv"), format!("text,label\n{rows}")).unwrap();
    let output = within(&folder, &["train", "--task", "file:own.csv", "--backbone", "nano", "--epochs", "1"]);
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    let note = " % of the word pieces of file:own.csv are unknown to the backbone nano";
    assert_eq!(said.contains(note), noted, "{said}");
    assert!(text.contains("\nkept (last evaluation): accuracy "), "{text}");
    assert!(text.contains("\ntrivial answer (most frequent training class): accuracy "), "{text}");
    assert!(text.contains(", peak memory ") || !cfg!(target_os = "linux"), "{text}");
}

#[rstest]
#[case::single(false, &["--text", "a", "--text-pair", "b"], "is about single texts")]
#[case::pair(true, &["--text", "a"], "is about pairs of texts")]
fn a_text_of_the_wrong_form_is_refused(#[case] pairs: bool, #[case] texts: &[&str], #[case] message: &str) {
    let (_folder, backbone, file) = saved("colours", TaskKind::Classification, &["red", "green"]);
    let mut changed = TaskFile::read(Path::new(&file)).unwrap();
    changed.info.pairs = Some(pairs);
    changed.write(Path::new(&file)).unwrap();
    let refused = error(&[&["predict", "--adapter", &file, "--backbone", &backbone], texts].concat());
    assert!(refused.contains(message), "{refused}");
}

#[test]
fn a_file_of_an_unknown_method_says_whose_it_is() {
    let (_folder, backbone, file) = saved("colours", TaskKind::Classification, &["red", "green"]);
    let mut changed = TaskFile::read(Path::new(&file)).unwrap();
    changed.info.method = MethodInfo { name: "gated".to_owned(), config: Default::default() };
    changed.write(Path::new(&file)).unwrap();
    for command in [&["predict", "--text", "a"][..], &["eval"], &["ablate"]] {
        let refused = error(&[command, &["--adapter", &file, "--backbone", &backbone]].concat());
        let message =
            "it was made by the method `gated`, which this program does not have (it has adapters, full, top-k";
        assert!(refused.contains(message), "{refused}");
    }
}

#[test]
fn ablate_takes_questions_too() {
    let (folder, backbone, file) = saved("squad", TaskKind::Span, &[]);
    squad_files(folder.path());
    let data = folder.path().display().to_string();
    let report = json(&[
        "ablate",
        "--task",
        "squad",
        "--data-dir",
        &data,
        "--adapter",
        &file,
        "--backbone",
        &backbone,
        "--json",
    ]);
    assert_eq!((report["metric"].as_str(), report["spans"].as_array().unwrap().len()), (Some("answer_f1"), 6));
}

#[test]
fn what_cannot_be_written_is_said_before_the_work() {
    let (folder, backbone) = tiny();
    let data = folder.path().join("d.csv");
    fs::write(&data, "text,label\na,x\n".repeat(20)).unwrap();
    let task = format!("file:{}", data.display());
    let train = ["train", "--task", &task, "--backbone", &backbone, "--epochs", "100000", "--save", "/proc/nowhere/v"];
    assert!(error(&train).contains("cannot write /proc/nowhere/v"));
    // What it was tried with is nobody's business.
    let train = [&train[..train.len() - 1], &["/proc/v"]].concat();
    assert!(error(&train).ends_with("cannot write /proc/v: No such file or directory (os error 2)\n"));
    let reproduce = ["reproduce", "--preset", "fig6-init", "--out", "/proc/nowhere"];
    assert!(error(&reproduce).contains("cannot write /proc/nowhere"));
}

#[test]
fn a_list_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    assert!(command.args(["list", "backbones"]).env("ADAPTER_LAB_CACHE", &cache).output().unwrap().status.success());
    assert!(!cache.exists());
}

#[test]
fn eval_scores_a_file_of_ones_own_and_refuses_another_task() {
    let (folder, backbone, file) = saved("mine", TaskKind::Classification, &["yes", "no"]);
    let data = folder.path().join("mine.csv");
    let rows: String = (0..40).map(|i| format!("cat {i},{}\n", ["yes", "no"][usize::from(i % 4 == 1)])).collect();
    fs::write(&data, format!("text,label\n{rows}")).unwrap();
    let task = format!("file:{}", data.display());
    let arguments = ["eval", "--task", &task, "--adapter", &file, "--backbone", &backbone];
    let report = json(&[&arguments[..], &["--split", "train", "--json"]].concat());
    assert_eq!(report["examples"], 32);
    for metric in ["accuracy", "f1", "macro_f1", "matthews"] {
        assert!(report["scores"][metric].is_f64(), "{report}");
    }
    fs::write(&data, format!("text,label\n{}", rows.replace("yes", "maybe"))).unwrap();
    let other = error(&arguments);
    assert!(other.contains("mine.csv:2: label `maybe` is not one of yes, no"), "{other}");
    fs::write(&data, "text,label\na,no\nb,yes\n").unwrap();
    let held = data.display().to_string();
    let whole = ["--validation-file", &held, "--test-file", &held, "--split", "validation", "--json"];
    assert_eq!(json(&[&arguments[..], &whole[..]].concat())["examples"], 2, "labels in another order are the same");
}

#[test]
fn ablate_shows_every_span_and_refuses_a_file_without_adapters() {
    let (folder, backbone, file) = saved("mine", TaskKind::Classification, &["yes", "no"]);
    let data = folder.path().join("mine.csv");
    let rows: String = (0..40).map(|i| format!("cat {i},{}\n", ["yes", "no"][i % 2])).collect();
    fs::write(&data, format!("text,label\n{rows}")).unwrap();
    let task = format!("file:{}", data.display());
    let arguments = ["ablate", "--task", &task, "--adapter", &file, "--backbone", &backbone];
    let report = json(&[&arguments[..], &["--json"]].concat());
    let spans = report["spans"].as_array().unwrap();
    assert_eq!((spans.len(), report["layer_passes"].as_u64()), (6, Some(13)));
    let whole = report["whole"]["accuracy"].as_f64().unwrap();
    for span in spans {
        let change = (span["scores"]["accuracy"].as_f64().unwrap() - whole) / whole;
        assert!((span["relative_change"].as_f64().unwrap() - change).abs() < 1e-12, "{span}");
    }
    let text = String::from_utf8(adapter_lab(&arguments).stdout).unwrap();
    assert!(text.contains("13 layer passes instead of 21: spans share what lies below them"), "{text}");

    let bare = folder.path().join("bare.safetensors").display().to_string();
    json(&[
        "train",
        "--task",
        &task,
        "--backbone",
        &backbone,
        "--tuning",
        "head",
        "--epochs",
        "1",
        "--save",
        &bare,
        "--json",
    ]);
    let refused = error(&["ablate", "--task", &task, "--adapter", &bare, "--backbone", &backbone]);
    assert!(refused.contains("has no adapters to remove"), "{refused}");
}

#[test]
fn eval_answers_questions() {
    let (folder, backbone, file) = saved("squad", TaskKind::Span, &[]);
    squad_files(folder.path());
    let data = folder.path().display().to_string();
    let arguments =
        ["eval", "--task", "squad", "--data-dir", &data, "--adapter", &file, "--backbone", &backbone, "--json"];
    let report = json(&arguments);
    assert_eq!(report["examples"], 1);
    assert!(report["scores"]["answer_f1"].is_f64() && report["scores"]["exact_match"].is_f64(), "{report}");
}

/// SQuAD with one question, in `folder`.
fn squad_files(folder: &Path) {
    let squad = folder.join("squad");
    fs::create_dir(&squad).unwrap();
    let json_file = r#"{"data": [{"paragraphs": [{"context": "the cat sat on the mat",
        "qas": [{"id": "1", "question": "who sat?", "answers": [{"text": "the cat", "answer_start": 0}]}]}]}]}"#;
    for name in ["train-v1.1.json", "dev-v1.1.json"] {
        fs::write(squad.join(name), json_file).unwrap();
    }
}

/// GLUE's test files in `folder`, for CoLA and MNLI.
fn glue_tests(folder: &Path) {
    let pairs = "index\tsentence1\tsentence2\n0\ta\tb\n";
    for (file, contents) in [
        ("CoLA/test.tsv", "index\tsentence\n0\tHe sat.\n1\tSat he.\n"),
        ("MNLI/test_matched.tsv", pairs),
        ("MNLI/test_mismatched.tsv", pairs),
        ("diagnostic/diagnostic.tsv", pairs),
    ] {
        let path = folder.join("glue_data").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
}

const MNLI_LABELS: [&str; 3] = ["contradiction", "entailment", "neutral"];

#[test]
fn predict_writes_the_glue_servers_file_of_its_task() {
    let (folder, backbone, file) = saved("cola", TaskKind::Classification, &["0", "1"]);
    glue_tests(folder.path());
    let (data, out) = (folder.path().display().to_string(), folder.path().join("out").display().to_string());
    let arguments = ["predict", "--adapter", &file, "--backbone", &backbone, "--data-dir", &data, "--submission", &out];
    assert_eq!(json(&[&arguments[..], &["--json"]].concat())["examples"], 2);
    let written = fs::read_to_string(Path::new(&out).join("CoLA.tsv")).unwrap();
    assert!(written.starts_with("index\tprediction\n0\t"), "{written}");
    assert!(Path::new(&out).join("submission.zip").is_file());
}

#[test]
fn glue_submission_writes_the_files_of_several_tasks_and_says_what_is_missing() {
    let (folder, backbone, mnli) = saved("mnli", TaskKind::Classification, &MNLI_LABELS);
    // The same random backbone, so the same content hash.
    let (_other, _, cola) = saved("cola", TaskKind::Classification, &["0", "1"]);
    glue_tests(folder.path());
    let (data, out) = (folder.path().display().to_string(), folder.path().join("out").display().to_string());
    let options = ["--backbone", &backbone, "--data-dir", &data, "--out", &out, "--json"];
    let submission = json(&[&["glue-submission", "--adapter", &mnli, &cola], &options[..]].concat());
    assert_eq!(submission["examples"], 5);
    for name in ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv", "CoLA.tsv", "submission.zip"] {
        assert!(Path::new(&out).join(name).is_file(), "{name}");
    }
    let missing: Vec<_> = submission["missing"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(missing, ["SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv"]);
    let twice = error(&[&["glue-submission", "--adapter", &cola, &cola], &options[..]].concat());
    assert!(twice.contains("two of the files predict CoLA.tsv"), "{twice}");
}

#[test]
fn a_submission_is_refused_for_what_is_not_glues() {
    let (folder, backbone, file) = saved("colours", TaskKind::Classification, &["red", "green"]);
    let (data, out) = (folder.path().display().to_string(), folder.path().join("out").display().to_string());
    let options = ["--adapter", &file, "--backbone", &backbone, "--data-dir", &data, "--out", &out];
    let refused = error(&[&["glue-submission"], &options[..]].concat());
    assert!(refused.contains("task `colours` is not one of GLUE's"), "{refused}");
    let (_folder, backbone, file) = saved("rte", TaskKind::Classification, &["yes", "no"]);
    let rte = folder.path().join("glue_data/RTE");
    fs::create_dir_all(&rte).unwrap();
    fs::write(rte.join("test.tsv"), "index\tsentence1\tsentence2\n0\ta\tb\n").unwrap();
    let options = ["--adapter", &file, "--backbone", &backbone, "--data-dir", &data, "--out", &out];
    let refused = error(&[&["glue-submission"], &options[..]].concat());
    assert!(refused.contains("was trained for classification with labels [\"yes\", \"no\"]"), "{refused}");
}

#[test]
fn a_saved_file_is_refused_on_another_backbone_and_without_anything_to_do() {
    let (_folder, backbone, file) = saved("colours", TaskKind::Classification, &["red", "green"]);
    let other = tempfile::tempdir().unwrap();
    RandomCheckpoint { seed: 9, ..RandomCheckpoint::tiny() }.write(other.path(), &Device::flex()).unwrap();
    let other = other.path().display().to_string();
    let refused = error(&["predict", "--adapter", &file, "--backbone", &other, "--text", "a"]);
    assert!(refused.contains("were trained on backbone"), "{refused}");
    assert!(error(&["predict", "--adapter", &file]).contains("give --text, --input or --submission"));
    let eval = ["eval", "--task", "cola", "--adapter", &file];
    assert!(error(&[&eval[..], &["--backbone", &backbone]].concat()).contains("with --data-dir"));
    assert!(error(&eval).contains("was trained on the backbone"), "it is not in the cache");
    assert!(error(&["eval", "--task", "colla", "--adapter", &file]).contains("did you mean `cola`?"));
    assert!(error(&["predict", "--adapter", "/no/such/file", "--text", "a"]).contains("No such file"));
}

/// `analysis` knows tasks by their identifiers alone: its names must be those of all tasks.
#[test]
fn every_task_has_a_name_of_its_own_for_people() {
    let tasks = experiments::Lab::paper().tasks;
    let names: BTreeSet<String> = tasks.iter().map(|task| analysis::task_name(&task.name)).collect();
    // MNLI-mm and GLUE's diagnostic set have names that are no identifiers either.
    assert_eq!(names.len(), tasks.iter().count(), "{names:?}");
    for task in tasks.suite("synthetic") {
        let place = analysis::task_name(task.stands_for.as_ref().unwrap());
        let title = analysis::task_title(&task.name);
        assert!(title.contains(&format!("({place}’")), "{title}: {place}");
        assert!(analysis::task_name(&format!("{}-tuning", task.name)).ends_with(", tuning examples"));
    }
}

#[test]
fn list_tasks_says_whose_data_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let sms = folder.path().join("additional/sms_spam");
    fs::create_dir_all(&sms).unwrap();
    fs::write(sms.join("SMSSpamCollection"), "ham\thi\n").unwrap();
    let list = json(&["list", "tasks", "--data-dir", &folder.path().display().to_string(), "--json"]);
    let rows = list.as_array().unwrap();
    assert_eq!(rows.len(), 29 + 2 * 16);
    for row in rows {
        // What is built in needs no data.
        assert_eq!(
            row["present"],
            row["name"] == "sms-spam" || row["suite"] == "synthetic" || row["suite"] == "tuning",
            "{row}"
        );
        assert!(row["kind"].is_string() && row["metric"].is_string());
    }
}

#[rstest]
#[case("backbones", "minilm-l6")]
#[case("devices", "flex")]
#[case("tasks", "cola")]
#[case("methods", "top-k")]
#[case("thresholds", "Sizes: mean accuracy of the best minus the worst")]
fn lists_are_tables_and_json(#[case] what: &str, #[case] name: &str) {
    let names: Vec<_> =
        json(&["list", what, "--json"]).as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
    assert!(names.contains(&name.into()));
    let output = adapter_lab(&["list", what]);
    assert!(String::from_utf8(output.stdout).unwrap().contains(name));
}

/// A checkpoint without a pooler has fewer parameters than its shape says.
#[test]
fn backbones_are_listed_with_the_parameters_that_they_have() {
    let list = json(&["list", "backbones", "--json"]);
    let of = |name: &str| {
        let row = list.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        row["parameters"].as_u64().unwrap()
    };
    assert_eq!((of("gte-small"), of("bert-base-uncased")), (33_212_160, 109_482_240));
}

#[rstest]
#[case(&["params", "--backbone", "bert-bass"], "unknown backbone `bert-bass` (did you mean `bert-mini`? known: nano, minilm-l6")]
#[case(&["params", "--backbone", "./nowhere"], "there is no folder ./nowhere")]
#[case(&["params", "--backbone", "bert-base-uncased", "--adapter-size", "18446744073709551615"], "adapter_size 18446744073709551615: 65536 at most")]
#[case(&["bench", "step", "--batch", "1000000000000"], "1..=100000")]
#[case(&["bench", "step", "--layers", "1000000000"], "`num_hidden_layers` is 1000000000")]
#[case(&["train", "--task", "file:nofile.csv", "--backbone", "nano"], "nofile.csv: No such file or directory (os error 2)\n")]
#[case(&["params", "--backbone", "bert-base-uncased", "--tuning", "prefix"], "unknown tuning `prefix`")]
#[case(&["params", "--backbone", "bert-base-uncased", "--tuning", "top-k"], "`top-k` needs k: a number from 1 to 12")]
#[case(&["params", "--backbone", "bert-base-uncased", "--tuning", "top-k", "--k", "0"], "`top-k` needs k: a number from 1 to 12")]
#[case(&["train", "--lr", "1"], "give --task: a name of `list tasks`, file:PATH or hub:OWNER/NAME; and --backbone: a name of `list backbones`, or a folder\n")]
#[case(&["train", "--task", "cola", "--backbone", "nano", "--test-file", "x.csv"], "`cola` has its own data: test_file is for file: and hub: tasks")]
#[case(&["config", "show", "--task", "cola", "--set", "labels=score"], "`cola` has its own data: labels is for file: and hub: tasks")]
#[case(&["bench", "epoch", "--task", "cola", "--backbone", "nano", "--text-column", "a"], "`cola` has its own data")]
#[case(&["train", "--task", "syn-topic", "--backbone", "nano", "--metric", "zzz"], "unknown metric `zzz`; known are accuracy, f1, macro_f1,")]
#[case(&["predict", "--adapter", "v", "--input", "texts.txt", "--text-column", "a"], "texts.txt has a text on each line: columns are for .csv,")]
#[case(&["predict", "--adapter", "v", "--text", "a", "--text-column", "a"], "cannot be used with '--text-column <NAME>'")]
#[case(&["params", "--backbone", "bert-base-uncased", "--tuning", "top-k", "--k", "13"], "the backbone has 12")]
#[case(&["train", "--task", "cola", "--backbone", "bert-base-uncased", "--k", "1"], "`adapters` has no k")]
#[case(&["train", "--task", "cola", "--backbone", "bert-base-uncased", "--lr", "many"], "lr = \"many\"")]
#[case(&["params", "--backbone", "bert-base-uncased", "--adapter-size", "0"], "adapter_size 0")]
#[case(&["params", "--backbone", "bert-base-uncased", "--classes", "0"], "--classes")]
#[case(&["encode", "--backbone", "minilm-l6", "--text", "a", "--out", "x"], "run `adapter-lab fetch minilm-l6` first")]
#[case(&["encode", "--backbone", "minilm-l6", "--text", "a", "--out", "x", "--device", "gpu"], "unknown device `gpu`; there are flex, tch,")]
#[case(&["bench", "step", "--device", "rocm:0"], "build with `cargo build --release --features rocm`")]
#[case(&["train", "--task", "syn-acceptability", "--backbone", "nano", "--device", "rocm:0"], "`rocm:0` is not in this build")]
#[case(&["run", "fig6-init", "--backbone", "nano", "--runs", "x", "--set", "test_file=x.csv"], "test_file is for file: and hub: tasks")]
#[case(&["run", "fig6-init", "--backbone", "nano", "--runs", "x", "--device", "rocm:0"], "`rocm:0` is not in this build")]
#[case(&["train", "--task", "syn-acceptability", "--backbone", "nano", "--devices", "flex,rocm:7"], "`rocm:7` is not in this build")]
#[case(&["train", "--resume", "abc"], "--runs")]
#[case(&["train", "--resume", "abc", "--runs", "x"], "there is no run `abc` in x")]
#[case(&["train", "--resume", "abc", "--runs", "x", "--lr", "1"], "leave out lr")]
#[case(&["parity", "--random", "--devices", "flex"], "name at least two")]
#[case(&["parity", "--random", "--devices", "flex,rocm:0"], "`rocm:0` is not in this build")]
#[case(&["fetch", "no-such-model"], "nothing is called `no-such-model`")]
#[case(&["fetch", "minilm-l6", "--pip", "no-such-pip"], "is Python with pip installed")]
#[case(&["list", "everything"], "possible values: tasks, methods, presets, thresholds, backbones, devices")]
fn a_wrong_argument_is_answered_with_what_to_do(#[case] arguments: &[&str], #[case] message: &str) {
    let error = error(arguments);
    assert!(error.contains(message), "{error}");
}

#[rstest]
#[case(&["--max-length", "1"], "no room beside 2 special tokens")]
#[case(&["--out", "/proc/nowhere/x.safetensors"], "cannot write /proc/nowhere/x.safetensors")]
fn encode_explains_what_it_cannot_do(#[case] arguments: &[&str], #[case] message: &str) {
    let (folder, path) = tiny();
    let out = folder.path().join("x").display().to_string();
    let mut all = vec!["encode", "--backbone", &path, "--text", "a"];
    all.extend(arguments);
    if !arguments.contains(&"--out") {
        all.extend(["--out", &out]);
    }
    let error = error(&all);
    assert!(error.contains(message), "{error}");
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_text_without_a_mask_and_a_backbone_without_a_head_are_explained() {
    let (folder, path) = tiny();
    assert!(error(&["fill-mask", "--backbone", &path, "--text", "no mask"]).contains("has no [MASK]"));
    let weights: PathBuf = folder.path().join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let kept = stored.iter().filter(|(name, _)| !name.starts_with("cls."));
    fs::write(&weights, safetensors::serialize(kept, None).unwrap()).unwrap();
    assert!(error(&["fill-mask", "--backbone", &path, "--text", "a [MASK]"]).contains("no masked-LM head"));
}

#[test]
fn help_is_complete() {
    let help = String::from_utf8(adapter_lab(&["--help"]).stdout).unwrap();
    let commands = "demo train run reproduce report pretrain params encode fill-mask eval predict glue-submission ablate bench \
                    parity fetch list";
    for command in commands.split(' ') {
        assert!(help.contains(command));
        assert!(adapter_lab(&[command, "--help"]).status.success());
    }
    assert!(help.contains("Without a command: reproduce"));
}

#[test]
fn bench_says_what_was_measured() {
    let small = ["--layers", "1", "--hidden", "8", "--heads", "2", "--batch", "2", "--seq", "4"];
    let step = json(&[&["bench", "step", "--repeats", "3", "--adapter-size", "2", "--json"], &small[..]].concat());
    assert_eq!(step["seconds"].as_array().unwrap().len(), 3);
    assert!(step["repeats"] == 3 && step["seconds"][1] == step["median_s"] && step["seconds"][0] == step["best_s"]);
    // Two adapters of 2·2·8 + 8 + 2, three LayerNorms and a head for two classes.
    assert_eq!(step["trained"], 2 * 42 + 3 * 16 + 18);
    assert!(step["dropout"] == 0.1 && step["threads"].as_u64() > Some(0));
}
