//! Inputs that nobody should have to trust, in process: the seeds of `fuzz/`, what was found by fuzzing, and some of their neighbours.
//! `fuzz/run` looks for more of them, for as long as one likes.

#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

use std::{
    fs,
    path::{Path, PathBuf},
};

use adapter_core::{AdapterConfig, FullFineTuning, HeadOnly, Ia3, Init, Lora, Method, TaskFile, TaskInfo, mix};
use bert_backbone::{Backbone, RandomCheckpoint};
use burn::tensor::Device;
use fuzz::{ADAPTERHUB, PEFT, TARGETS};
use rstest::rstest;
use tasks::{Head, HeadInput, TaskModel};

fn seeds(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target)
}

/// Some bytes changed, left out, doubled or put elsewhere: a function of the number.
fn mutated(seed: &[u8], number: u64) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for change in 0..1 + mix(&[number, 0]) % 4 {
        let pick = |what: u64, below: usize| (mix(&[number, change, what]) % below.max(1) as u64) as usize;
        let (at, length) = (pick(1, bytes.len()), 1 + pick(2, 16));
        let end = (at + length).min(bytes.len());
        match pick(3, 6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << pick(4, 8),
            1 if !bytes.is_empty() => bytes[at] = [0, 0xff, b'"', b'-', b'9', b'{'][pick(4, 6)],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                let to = pick(4, bytes.len());
                bytes.splice(to..to, part);
            }
            4 => bytes.truncate(at),
            _ => {
                let part = vec![[0, 0xff, b'9', b'['][pick(4, 4)]; length];
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

#[rstest]
fn inputs_are_read_or_refused(
    #[values(
        "adapterhub",
        "checkpoint_bin",
        "checkpoint_safetensors",
        "config",
        "experiment",
        "parquet",
        "peft",
        "record",
        "squad",
        "table",
        "tar",
        "task_file",
        "tokenizer",
        "training_checkpoint"
    )]
    target: &str,
) {
    let (_, call) = TARGETS.into_iter().find(|(name, _)| *name == target).unwrap();
    let rounds = std::env::var("FUZZ_ROUNDS").map_or(200, |rounds| rounds.parse().unwrap());
    let mut paths: Vec<PathBuf> = fs::read_dir(seeds(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in &paths {
        let seed = fs::read(path).unwrap();
        call(&seed);
        (0..rounds / paths.len() as u64).for_each(|number| call(&mutated(&seed, number)));
    }
    call(&[]);
}

/// What is tried has a list of its own in the file that the fuzzer is built of.
#[test]
fn every_target_is_built() {
    let manifest = fs::read_to_string(seeds("../Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")) && seeds(name).is_dir(), "{name}");
    }
}

/// Makes the seeds of binary forms: small, and by this project alone. Texts are written by hand.
#[test]
#[ignore = "it writes fuzz/seeds; run it when a format changes"]
fn make_seeds() {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(seeds(target)).unwrap();
        fs::write(seeds(target).join(name), bytes).unwrap();
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let copy = |target: &str, name: &str, from: &str| write(target, name, &fs::read(root.join(from)).unwrap());
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex());
    RandomCheckpoint::micro().write(folder.path(), &device).unwrap();
    let backbone = Backbone::load(folder.path(), &device).unwrap();
    write("config", "micro.json", &fs::read(folder.path().join("config.json")).unwrap());
    write("checkpoint_safetensors", "micro", &fs::read(folder.path().join("model.safetensors")).unwrap());
    copy("checkpoint_bin", "micro", "bert-backbone/tests/golden/micro.bin");
    copy("checkpoint_bin", "stride_0", "bert-backbone/tests/golden/stride_0.bin");
    copy("checkpoint_bin", "adapter", "experiments/tests/golden/exchange/houlsby/pytorch_model_head.bin");

    fn file<M: Method>(method: &M, backbone: &Backbone, device: &Device) -> TaskFile {
        let init = Init::new(0);
        let head = Head::new(&backbone.config.shape(), 2, HeadInput::Cls, init, device);
        let model = TaskModel::tuned(method, backbone.bert.clone(), head, init, device).unwrap();
        let info = TaskInfo {
            task: "own".to_owned(),
            kind: "classification".to_owned(),
            labels: ["no", "yes"].map(str::to_owned).to_vec(),
            pairs: Some(false),
            head: "cls".to_owned(),
            max_length: 16,
            method: method.info(),
            backbone: backbone.id(),
            origin: Default::default(),
        };
        TaskFile::from_model(&model, &method.select(&model), info)
    }
    let files = [
        ("head", file(&HeadOnly {}, &backbone, &device)),
        ("adapters", file(&AdapterConfig::new(1), &backbone, &device)),
        ("lora", file(&Lora { rank: 1, ..Lora::default() }, &backbone, &device)),
        ("ia3", file(&Ia3::default(), &backbone, &device)),
        ("full", file(&FullFineTuning {}, &backbone, &device)),
    ];
    for (name, file) in &files[..4] {
        write("task_file", name, &file.to_bytes().unwrap());
    }
    let path = folder.path().join("checkpoint");
    let state = experiments::TrainState::default();
    let optimizer = experiments::OptimizerState::default();
    for (name, file) in &files[..2] {
        let checkpoint = experiments::Checkpoint {
            state: state.clone(),
            now: file.clone(),
            best: Some(file.clone()),
            optimizer: optimizer.clone(),
        };
        checkpoint.write(&path, "run").unwrap();
        write("training_checkpoint", name, &fs::read(&path).unwrap());
    }

    let export = analysis::documents(&root.join("docs/results/desk.jsonl.gz")).unwrap();
    let (name, record) = export.iter().find(|(name, _)| name.ends_with("/record.json")).unwrap();
    assert!(!name.is_empty());
    write("record", "run", record);
    let mut archive = tar::Builder::new(Vec::new());
    for (name, post) in [("20news-bydate-train/sci.space/1", "a post"), ("20news-bydate-test/sci.med/2", "another")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(post.len() as u64);
        header.set_cksum();
        archive.append_data(&mut header, name, post.as_bytes()).unwrap();
    }
    write("tar", "posts", &archive.into_inner().unwrap());
    for preset in ["fig4", "fig6-spans", "stream", "baseline", "variants"] {
        copy("experiment", preset, &format!("experiments/presets/{preset}.toml"));
    }
    let golden = root.join("tasks/tests/golden/hub");
    let mut parquet = Vec::new();
    let mut folders = vec![golden];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "parquet") {
                parquet.push(entry);
            }
        }
    }
    parquet.sort();
    for (number, path) in parquet.iter().take(4).enumerate() {
        write("parquet", &number.to_string(), &fs::read(path).unwrap());
    }
    let pack = |from: &str, files: &[&str]| {
        let read =
            |file: &&str| fs::read(root.join("experiments/tests/golden/exchange").join(from).join(file)).unwrap();
        let contents: Vec<Vec<u8>> = files.iter().map(read).collect();
        let lengths = contents[..files.len() - 1].iter();
        let lengths = lengths.flat_map(|bytes| u16::try_from(bytes.len()).unwrap().to_le_bytes());
        lengths.chain(contents.iter().flatten().copied()).collect::<Vec<u8>>()
    };
    for name in ["pfeiffer", "parallel", "lora", "ia3"] {
        write("adapterhub", name, &pack(name, &ADAPTERHUB));
    }
    for name in ["peft-lora", "peft-ia3"] {
        write("peft", name, &pack(name, &PEFT));
    }
}
