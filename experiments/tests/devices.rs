//! Several devices, half precision, and a run that moves from one device to another: always the same lesson learnt.

mod common;

use std::{fs, process::Command};

use adapter_core::TaskFile;
use common::{Profile, Setup, Tuning, backbone, checkpoint_of, dry_backbone, run_on, run_with, small_run};
use experiments::Precision;
use rstest::rstest;
use serde_json::Value;

/// All values of v.
fn values(file: &TaskFile) -> Vec<f32> {
    let bytes = file.to_bytes().unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut names = tensors.names();
    names.sort_unstable();
    let values = |name: &str| bytemuck::pod_collect_to_vec::<u8, f32>(tensors.tensor(name).unwrap().data());
    names.into_iter().flat_map(values).collect()
}

fn short(setup: &mut Setup) {
    setup.config.epochs = 1;
}

#[rstest]
fn two_devices_train_as_one_does_with_the_whole_batch(#[values(Tuning::Adapters, Tuning::Full)] tuning: Tuning) {
    let backbone = dry_backbone();
    let one = run_with(&backbone, tuning, Profile::Paper, 0, short);
    let two = run_on(2, &backbone, tuning, Profile::Paper, 0, short);
    assert!((one.evaluations[0].loss - two.evaluations[0].loss).abs() < 1e-5);
    let (one, two) = (values(one.file.as_ref().unwrap()), values(two.file.as_ref().unwrap()));
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>().sqrt();
    let apart = norm(&mut one.iter().zip(&two).map(|(a, b)| a - b)) / norm(&mut one.iter().copied());
    assert!(apart < 1e-3, "{apart}");
}

#[test]
fn two_devices_give_the_bits_of_one_that_divides_its_batches() {
    let backbone = backbone();
    let two = run_on(2, &backbone, Tuning::Adapters, Profile::Paper, 0, short);
    let one = run_with(&backbone, Tuning::Adapters, Profile::Paper, 0, |setup| {
        short(setup);
        setup.config.accumulate = 2;
    });
    assert_eq!(two.file, one.file);
}

#[rstest]
fn half_precision_learns_too(#[values(Precision::F16, Precision::Bf16)] precision: Precision) {
    let change = |setup: &mut Setup| setup.precision = precision;
    let trained = run_with(&backbone(), Tuning::Adapters, Profile::Paper, 0, change);
    assert!(trained.last.as_ref().unwrap().validation["accuracy"] > 0.95, "{:?}", trained.evaluations);
}

#[rstest]
fn a_run_moves_to_another_device_and_says_so(#[values("f32", "f16")] dtype: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = small_run(folder.path(), "runs", &["--adapter-size", "8", "--dtype", dtype]).spawn().unwrap();
    let checkpoint = loop {
        if let Some(checkpoint) = checkpoint_of(&folder.path().join("runs")) {
            break checkpoint;
        }
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be stopped");
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let run = checkpoint.parent().unwrap();
    let id = run.file_name().unwrap().to_str().unwrap();

    // Another precision would be another run.
    let mut half = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    half.args(["train", "--resume", id, "--dtype", "bf16", "--runs"]).arg(folder.path().join("runs"));
    let refused = half.env("ADAPTER_LAB_CACHE", folder.path().join("cache")).output().unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{errors}");
    assert!(errors.contains(&format!("was started in {dtype}, not in bf16")), "{errors}");

    // The run remembers its data, and its backbone too; that one has moved.
    let (moved, files) =
        (folder.path().join("moved"), ["config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"]);
    fs::create_dir(&moved).unwrap();
    for file in files.iter().filter(|file| folder.path().join(file).exists()) {
        fs::rename(folder.path().join(file), moved.join(file)).unwrap();
    }
    let mut resume = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    resume.args(["train", "--resume", id, "--devices", "flex,flex", "--runs"]).arg(folder.path().join("runs"));
    resume.arg("--backbone").arg(&moved);
    let output = resume.env("ADAPTER_LAB_CACHE", folder.path().join("cache")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("moved from flex to flex,flex after step"), "{printed}");

    let record: Value = serde_json::from_str(&fs::read_to_string(run.join("record.json")).unwrap()).unwrap();
    assert_eq!(record["fingerprints"]["device"], "flex");
    assert_eq!(record["fingerprints"].get("dtype").map_or("f32", |name| name.as_str().unwrap()), dtype);
    assert_eq!(record["measured"]["resumes"], 1);
    let moves = record["moves"].as_array().unwrap();
    assert_eq!(moves.len(), 1);
    assert!(moves[0]["step"].as_u64().unwrap() > 0);
    assert_eq!((&moves[0]["from"], &moves[0]["to"]), (&Value::from("flex"), &Value::from("flex,flex")));
    assert_eq!(record["epochs"].as_array().unwrap().len(), 3);
}
