//! Devices beside the CPU, in builds that have them: `cargo test --release --features wgpu --test other_devices`.

#[cfg(feature = "wgpu")]
mod common;

#[cfg(any(feature = "tch", feature = "wgpu"))]
fn assert_computes_what_the_cpu_does(device: &str) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    let output = command.args(["parity", "--random", "--devices", &format!("flex,{device}")]).output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("within the tolerance"), "{printed}{errors}");
}

#[cfg(feature = "tch")]
#[test]
fn libtorch_computes_what_the_cpu_does() {
    assert_computes_what_the_cpu_does("tch");
}

#[cfg(feature = "wgpu")]
#[test]
fn a_graphics_adapter_computes_what_the_cpu_does() {
    assert_computes_what_the_cpu_does("wgpu");
}

/// The very device is taken away in the middle of a run.
#[cfg(feature = "wgpu")]
#[test]
fn a_graphics_adapter_that_is_lost_in_the_middle_is_an_error_and_the_run_is_kept() {
    use adapter_core::{AdapterConfig, Init, Tuning};
    use bert_backbone::{Backbone, RandomCheckpoint};
    use burn::{module::Module, tensor::Device};
    use clap::Parser;
    use experiments::{Checkpoint, Course, DeviceFailed, Keep, Lessons, Profile, Safety, Step, TrainingPlace, train};
    use tasks::{EvaluationSet, Head, HeadInput, Metric, TaskModel, TokenCache, TrainingSet};

    #[derive(Parser)]
    struct Place {
        #[command(flatten)]
        place: TrainingPlace,
    }
    let place = Place::parse_from(["", "--device", "wgpu"]).place;

    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::micro().write(folder.path(), &Device::flex()).unwrap();
    let (device, setup) = Device::wgpu_options().init_with_setup().unwrap();
    let (backbone, training) = (Backbone::load(folder.path(), &device).unwrap(), device.clone().autodiff());
    let adapter = AdapterConfig::new(4);
    let bert = backbone.bert.clone().train().insert(|place| adapter.init(place, 8, Init::new(0), &training));
    let head = Head::new(8, 2, HeadInput::Cls, Init::new(0), &training);
    let model = Tuning::Adapters.apply(TaskModel::new(bert, head).unwrap());
    let (dataset, cache) = (common::dataset(), TokenCache::none());
    let lessons = Lessons {
        train: &TrainingSet::texts(&dataset, &dataset.train, &backbone.tokenizer, 16, &cache).unwrap(),
        validation: &EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 16, &cache).unwrap(),
        metric: Metric::Accuracy,
        network: &backbone.config,
    };
    let course = Course::new(Profile::Paper.settings(), 1e-3, 4, 0);
    let info = common::info(&backbone, Tuning::Adapters, &adapter);
    let path = folder.path().join("checkpoint");
    let mut write = |checkpoint: &Checkpoint| checkpoint.write(&path);
    let keep = Some(Keep { every: std::time::Duration::ZERO, write: &mut write });
    let safety = Safety { keep, ..Safety::default() };
    let mut lose = |step: &Step| {
        if step.step == 3 {
            setup.device.destroy();
        }
    };
    let Err(error) = place.guard(|| train(model, &info, &lessons, &course, &training, safety, &mut lose)) else {
        panic!("a device that is gone trains nothing");
    };
    assert!(error.is::<DeviceFailed>(), "{error:#}");
    let step = Checkpoint::read(&path).unwrap().numbers.step;
    assert_eq!(step, 2, "the last whole step is kept");
}
