//! Devices beside the CPU, in builds that have them: `cargo test --release --features wgpu --test other_devices`.

#[cfg(feature = "wgpu")]
mod common;

#[cfg(any(feature = "tch", feature = "wgpu"))]
mod beside_the_cpu {
    use std::process::Command;

    use rstest::rstest;
    use serde_json::Value;

    fn output(command: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_adapter-lab")).args(command).output().unwrap();
        let (printed, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{printed}{errors}");
        printed
    }

    #[rstest]
    #[cfg_attr(feature = "tch", case("tch"))]
    #[cfg_attr(feature = "wgpu", case("wgpu"))]
    fn a_device_computes_what_the_cpu_does(
        #[case] device: &str,
        #[values(
            "adapters",
            "adapters --scaling learned",
            "pfeiffer",
            "parallel",
            "lora",
            "lora --targets query,key,value,attention-output,intermediate,output",
            "ia3",
            "ia3 --layout peft",
            "features",
            "features --pool mean",
            "features --pool mix",
            "bias",
            "layer-norm",
            "top-k --k 1",
            "full"
        )]
        method: &str,
    ) {
        let devices = format!("flex,{device}");
        let parity = ["parity", "--random", "--devices", &devices, "--tuning"];
        let printed = output(&parity.into_iter().chain(method.split(' ')).collect::<Vec<_>>());
        assert!(printed.contains("within the tolerance"), "{printed}");
    }

    /// Dropout included: its masks do not depend on the device.
    #[rstest]
    #[cfg_attr(feature = "tch", case("tch"))]
    #[cfg_attr(feature = "wgpu", case("wgpu"))]
    fn a_device_shares_batches_with_the_cpu(#[case] device: &str) {
        let loss = |devices: &str| {
            let what = ["train", "--task", "syn-acceptability", "--backbone", "nano", "--limit", "64"];
            let how = ["--epochs", "1", "--adapter-size", "8", "--json", "--devices", devices];
            let record: Value = serde_json::from_str(&output(&[&what[..], &how].concat())).unwrap();
            record["epochs"][0]["loss"].as_f64().unwrap()
        };
        let (alone, shared) = (loss("flex,flex"), loss(&format!("{device},flex")));
        assert!((alone - shared).abs() < 1e-5, "{alone} {shared}");
    }
}

/// The very device is taken away in the middle of a run.
#[cfg(feature = "wgpu")]
#[test]
fn a_graphics_adapter_that_is_lost_in_the_middle_is_an_error_and_the_run_is_kept() {
    use adapter_core::{AdapterConfig, Init, Method};
    use bert_backbone::{Backbone, RandomCheckpoint};
    use burn::{module::Module, tensor::Device};
    use experiments::{
        Adam, Checkpoint, CheckpointPolicy, DeviceFailed, DeviceName, Precision, RunError, Step, TrainConfig, Training,
        TrainingData, guard_on, train,
    };
    use tasks::{EvaluationSet, Head, HeadInput, TaskModel, TokenCache, TrainingSet};

    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::micro().write(folder.path(), &Device::flex()).unwrap();
    let (device, setup) = Device::wgpu_options().init_with_setup().unwrap();
    let (backbone, training) = (Backbone::load(folder.path(), &device).unwrap(), device.clone().autodiff());
    let (method, init) = (AdapterConfig::new(4), Init::new(0));
    let head = Head::new(&backbone.config.shape(), 2, HeadInput::Cls, init, &training);
    let model = TaskModel::tuned(&method, backbone.bert.clone().train(), head, init, &training).unwrap();
    let selection = method.select(&model);
    let model = selection.apply(model);
    let (dataset, cache) = (common::dataset(), TokenCache::none());
    let path = folder.path().join("checkpoint");
    let mut write = |checkpoint: &Checkpoint| checkpoint.write(&path, "run");
    let checkpoints = CheckpointPolicy::keeping(std::time::Duration::ZERO, &mut write);
    let mut lose = |step: &Step| {
        if step.step == 3 {
            setup.device.destroy();
        }
    };
    let info = common::info(&backbone, &*common::Tuning::Adapters.method(1e-2));
    let training = Training {
        info: &info,
        data: TrainingData {
            train: &TrainingSet::texts(&dataset, &dataset.train, &backbone.tokenizer, 16, &cache).unwrap(),
            validation: &EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 16, &cache).unwrap(),
            metric: "accuracy",
            network: &backbone.config,
        },
        config: &TrainConfig { learning_rate: 1e-3, epochs: 4, ..TrainConfig::default() },
        optimizer: &Adam::default(),
        devices: std::slice::from_ref(&training),
        precision: Precision::F32,
        probe_every: None,
    };
    let Err(error) =
        guard_on(&[DeviceName::Wgpu(None)], || train(model, &selection, &training, checkpoints, &mut lose))
    else {
        panic!("a device that is gone trains nothing");
    };
    assert!(matches!(error, RunError::Device(DeviceFailed::Device { .. })), "{error}");
    let step = Checkpoint::read(&path, "run").unwrap().state.step;
    assert_eq!(step, 2, "the last whole step is kept");
}

/// Whatever the device was doing: the runs before it are there, and the same command does the rest.
#[cfg(feature = "wgpu")]
#[test]
fn an_experiment_whose_device_is_lost_keeps_its_finished_runs_and_goes_on_later() {
    use std::{fs, path::PathBuf, process::Command, thread, time::Duration};

    use bert_backbone::RandomCheckpoint;
    use burn::tensor::{Device, DeviceKind, DeviceType};
    use experiments::{Lab, run_command};

    let kinds = [DeviceKind::DiscreteGpu(0), DeviceKind::IntegratedGpu(0), DeviceKind::VirtualGpu(0), DeviceKind::Cpu];
    let open = |kind| Device::wgpu_options().device_kind(kind).init_with_setup().ok();
    let (device, setup) = kinds.into_iter().find_map(open).expect("a graphics adapter");
    assert_eq!(Device::enumerate(DeviceType::Wgpu).into_vec()[0], device, "it is what `wgpu:0` names");

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (experiment, backbone, runs, cache) = (path("own.toml"), path("tiny"), path("runs"), path("cache"));
    RandomCheckpoint::tiny().write(backbone.as_ref(), &Device::flex()).unwrap();
    common::write_dataset(path("dogs.csv").as_ref());
    let grid = format!("about = \"two seeds\"\ntask = \"file:{}\"\nepochs = 2\nseed = [0, 1]\n", path("dogs.csv"));
    fs::write(&experiment, grid).unwrap();
    let options = ["run", &experiment, "--backbone", &backbone, "--runs", &runs, "--cache-dir", &cache];
    let options = [&options[..], &["--checkpoint-every", "0", "--jobs", "1", "--device"]].concat();

    let finished = || -> Vec<(String, Vec<u8>)> {
        let folders = fs::read_dir(&runs).into_iter().flatten().map(|entry| entry.unwrap().path());
        let record = |folder: PathBuf| {
            Some((folder.file_name()?.to_string_lossy().into_owned(), fs::read(folder.join("record.json")).ok()?))
        };
        folders.filter_map(record).collect()
    };
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            while finished().is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            setup.device.destroy();
        });
        run_command(&Lab::paper(), [&options[..], &["wgpu:0"]].concat())
    });
    let error = format!("{:#}", ended.unwrap_err());
    assert!(error.starts_with("device `wgpu:0` failed"), "{error}");
    let before = finished();
    assert_eq!(before.len(), 1, "the run that was cut off has no record");

    // A process of its own opens the adapter anew, under whatever number.
    let output = Command::new(env!("CARGO_BIN_EXE_adapter-lab")).args(&options).arg("wgpu").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let after = finished();
    assert_eq!(after.len(), 2);
    assert!(after.contains(&before[0]), "the finished run is as it was, to the byte");
}
