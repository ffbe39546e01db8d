//! What training takes, measured through the real binary.
//!
//! `cargo test --release -p experiments --test memory -- --ignored --nocapture`

use std::{fs, process::Command};

use bert_backbone::{BertConfig, RandomCheckpoint};
use burn::tensor::Device;
use rstest::rstest;

#[rstest]
#[case::minilm(BertConfig::new(384, 6, 12), 32)]
#[case::bert_base(BertConfig::new(768, 12, 12), 16)]
#[ignore = "trains networks of real size for a minute or more"]
fn peak_memory_of_training_adapters_is_recorded(#[case] shape: BertConfig, #[case] batch: usize) {
    let folder = tempfile::tempdir().unwrap();
    let tiny = RandomCheckpoint::tiny();
    let mut vocabulary = tiny.vocabulary.clone();
    vocabulary.extend((vocabulary.len()..shape.vocab_size).map(|i| format!("word{i}")));
    let (hidden, layers, words) = (shape.hidden_size, shape.num_hidden_layers, shape.vocab_size);
    RandomCheckpoint { config: shape, vocabulary, ..tiny }.write(folder.path(), &Device::flex()).unwrap();
    // Every text fills 128 tokens.
    let text =
        |i: usize| (0..140).map(|j| format!("word{}", 1000 + (i * 977 + j * 131) % (words - 1000))).collect::<Vec<_>>();
    let rows: String = (0..3 * batch).map(|i| format!("{},{}\n", text(i).join(" "), i % 2)).collect();
    fs::write(folder.path().join("texts.csv"), format!("text,label\n{rows}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_adapter-lab"))
        .current_dir(folder.path())
        .args([
            "train",
            "--task",
            "file:texts.csv",
            "--backbone",
            ".",
            "--adapter-size",
            "64",
            "--epochs",
            "1",
            "--json",
        ])
        .args(["--batch-size", &batch.to_string(), "--max-length", "128"])
        .env("ADAPTER_LAB_CACHE", folder.path().join("cache"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = record["measured"]["peak_memory_bytes"].as_u64().unwrap();
    let weights = 4 * record["params"]["total"].as_u64().unwrap();
    assert!(peak > weights, "it holds at least the weights");
    let megabytes = |bytes: u64| bytes / 1_000_000;
    println!(
        "{layers} layers of width {hidden}, batch {batch} × 128: {} MB at most, {} MB of them weights",
        megabytes(peak),
        megabytes(weights)
    );
}
