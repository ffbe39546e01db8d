//! What runs without data, weights and network: the built-in language, `nano`, and the way from there to the report.

use std::{fs, path::Path, process::Command, time::Duration};

use bert_backbone::{Backbone, BertConfig, RandomCheckpoint};
use burn::tensor::Device;
use experiments::{PretrainConfig, Pretraining, RunError, Stop};
use serde_json::Value;

/// Runs the real binary in `folder`, with a cache of its own.
fn lab(folder: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    command.current_dir(folder).env("ADAPTER_LAB_CACHE", folder.join("cache")).args(arguments).arg("--json");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const SMALL: PretrainConfig =
    PretrainConfig { hidden: 16, layers: 2, heads: 2, steps: 30, batch_size: 8, learning_rate: 2e-3, seed: 0 };

/// Pre-trains in `folder`, stopped after each of the steps `stops` and taken up again.
fn pretrained(config: PretrainConfig, folder: &Path, stops: &[usize]) -> Vec<f64> {
    let mut losses = Vec::new();
    for &end in stops.iter().chain([&usize::MAX]) {
        let stop = Stop::default();
        let pretraining = Pretraining::open(config, folder, &Device::flex()).unwrap();
        // A checkpoint after every step.
        let ended = pretraining.finish(Duration::ZERO, &stop, |state, loss| {
            losses.push(loss);
            if state.step == end {
                stop.request();
            }
        });
        match ended {
            Ok(state) => assert_eq!((end, state.step), (usize::MAX, config.steps)),
            Err(RunError::Interrupted { step, kept }) => assert_eq!((step, kept), (end, true)),
            Err(error) => panic!("{}", error.message()),
        }
    }
    losses
}

#[test]
fn pre_training_learns_and_repeats_itself_to_the_byte_however_often_it_is_stopped() {
    let make = |stops: &[usize]| {
        let folder = tempfile::tempdir().unwrap();
        let losses = pretrained(SMALL, folder.path(), stops);
        let backbone = Backbone::load(folder.path(), &Device::flex()).unwrap();
        assert!(backbone.masked_lm.is_some() && backbone.bert.pooler.is_some() && backbone.unused.is_empty());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "no checkpoint is left");
        (losses, fs::read(folder.path().join("model.safetensors")).unwrap())
    };
    let (losses, weights) = make(&[]);
    assert!(losses[29] < losses[0] - 0.2, "{losses:?}");
    assert!((losses, weights) == make(&[1, 11, 12, 29]));
}

#[test]
fn a_checkpoint_of_another_pre_training_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::default();
    stop.request();
    let open = |config| Pretraining::open(config, folder.path(), &Device::flex());
    let stopped = open(SMALL).unwrap().finish(Duration::from_secs(60), &stop, |_, _| {});
    assert!(matches!(stopped, Err(RunError::Interrupted { step: 1, kept: true })));
    let file = folder.path().join("pretraining.safetensors");
    let whole = fs::read(&file).unwrap();
    let refused = |config| format!("{:#}", open(config).err().unwrap());
    let other = refused(PretrainConfig { seed: 1, ..SMALL });
    assert!(other.contains("a checkpoint of another pre-training; remove it to begin anew"), "{other}");
    assert_eq!(fs::read(&file).unwrap(), whole);
    for length in [0, 9, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        let damaged = refused(SMALL);
        assert!(damaged.contains("pretraining.safetensors: the checkpoint is damaged"), "{damaged}");
    }
}

/// The asset is what the documented command makes:
/// `cargo test --release --workspace --test embedded -- --ignored nano_is_what_pretrain_makes`
#[test]
#[ignore = "pre-trains nano, which takes hours"]
fn nano_is_what_pretrain_makes() {
    let folder = tempfile::tempdir().unwrap();
    pretrained(PretrainConfig::default(), folder.path(), &[]);
    let asset = Path::new("../bert-backbone/assets/nano");
    for file in ["config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"] {
        assert!(fs::read(folder.path().join(file)).unwrap() == fs::read(asset.join(file)).unwrap(), "{file} differs");
    }
}

/// The tasks need what pre-training gives: the same network with random weights stays far behind.
#[test]
fn adapters_on_nano_are_far_ahead_of_adapters_on_random_weights() {
    let folder = tempfile::tempdir().unwrap();
    let asset = Path::new("../bert-backbone/assets/nano");
    let vocabulary: Vec<String> =
        fs::read_to_string(asset.join("vocab.txt")).unwrap().lines().map(str::to_owned).collect();
    let config = BertConfig::read(&asset.join("config.json")).unwrap();
    RandomCheckpoint { config, vocabulary, seed: 0 }.write(&folder.path().join("random"), &Device::flex()).unwrap();
    let score = |task: &str, backbone: &str| {
        let options = ["--adapter-size", "16", "--lr", "3e-3", "--limit", "800", "--epochs", "2"];
        let run = lab(folder.path(), &[&["train", "--task", task, "--backbone", backbone], &options[..]].concat());
        run["last"]["validation"]["accuracy"].as_f64().unwrap()
    };
    let (mut nano, mut random) = (0.0, 0.0);
    for task in ["syn-acceptability", "syn-topic"] {
        let scores = (score(task, "nano"), score(task, "random"));
        println!("{task}: {scores:?}");
        (nano, random) = (nano + scores.0 / 2.0, random + scores.1 / 2.0);
    }
    assert!(nano > random + 0.15, "{nano} against {random}");
}

#[test]
fn demo_goes_from_text_to_adapter_to_prediction_to_heat_map() {
    let folder = tempfile::tempdir().unwrap();
    let report = lab(folder.path(), &["demo", "--text", "the song was lovely .", "--save", "demo.safetensors"]);
    let accuracy = report["accuracy"].as_f64().unwrap();
    assert!(accuracy > report["most_frequent_class"].as_f64().unwrap() + 0.2, "{report}");
    assert_eq!(report["predictions"][0]["label"], "positive");
    assert_eq!(report["ablation"]["spans"].as_array().unwrap().len(), 21, "every span of six layers");
    let told = ["predict", "--adapter", "demo.safetensors", "--text", "the song was awful ."];
    assert!(lab(folder.path(), &told).to_string().contains("negative"));
}

#[test]
fn reproduce_runs_shared_runs_once_and_writes_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["--set", "limit=48", "--set", "epochs=1", "--set", "seed=0", "--set", "adapter_size=4"];
    let arguments =
        [&["reproduce", "--preset", "fig6-init", "fig6-spans", "--jobs", "1", "--set", "init_std=1e-2"], &small[..]];
    let written = lab(folder.path(), &arguments.concat());
    assert_eq!(written["runs"], 2, "one run for each task, whichever experiment it is for");
    let out = folder.path().join("out");
    for file in ["report.html", "figures/fig6-spans.svg", "figures/fig6-init.png", "figures/fig6-init.pdf"] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let runs = || {
        let records = fs::read_dir(out.join("runs")).unwrap().map(|entry| entry.unwrap().path().join("record.json"));
        let mut times: Vec<_> = records.filter_map(|path| path.metadata().ok()?.modified().ok()).collect();
        times.sort();
        times
    };
    let before = runs();
    assert_eq!((lab(folder.path(), &arguments.concat())["runs"].as_u64(), runs()), (Some(2), before));
    let again = lab(folder.path(), &["report", "--runs", "out/runs", "--out", "other"]);
    assert_eq!((again["runs"].as_u64(), folder.path().join("other/report.html").exists()), (Some(2), true));
}

/// From training to the page: two findings have enough seeds to be judged, and the verdict on the page is the one that follows
/// from the effects. Whether the paper is right is for the runs to say:
/// `cargo test --workspace --test embedded -- --ignored a_verdict_follows_from_training_to_page`
#[test]
#[ignore = "trains some seventy models; a step of its own in .ci/run"]
fn a_verdict_follows_from_training_to_page() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["reproduce", "--preset", "fig4", "--set", "adapter_size=16", "--set", "k=1"];
    let report = lab(folder.path(), &arguments);
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    for name in ["LayerNorm alone is not enough", "Tuning only the top layer is worse than adapters"] {
        let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["finding"] == name).unwrap();
        println!("{name}: {} ({})", finding["verdict"], finding["shows"]);
        let verdict = finding["verdict"].as_str().unwrap();
        assert!(["agrees", "disagrees", "cannot-say"].contains(&verdict));
        assert!(finding["shows"].as_str().unwrap().contains("95 %"), "its interval is said: {finding}");
        assert!(page.contains(name) && page.contains(&verdict.replace('-', " ")));
    }
}
