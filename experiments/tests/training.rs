//! The optimiser against PyTorch's, and the training loop: it learns, repeats itself to the bit, and trains v alone.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use adapter_core::{
    Adapter, AdapterConfig, DropoutKey, Init, TaskFile, TaskInfo, Tuning, content_hash, tensors, visit_values,
};
use bert_backbone::{Backbone, BertConfig, Encoded, PackedBatch, RandomCheckpoint};
use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor, TensorData},
};
use experiments::{
    Adam, AdamConfig, AdamState, Checkpoint, Course, Found, Lessons, Numbers, Profile, RunStore, Safety, Step,
    StepGradients, Trained, train,
};
use rstest::rstest;
use serde::Deserialize;
use tasks::{
    Dataset, EvaluationSet, Example, Head, HeadInput, Metric, Target, TaskKind, TaskModel, TokenCache, TrainingSet,
};

#[derive(Deserialize)]
struct Golden {
    start: Values,
    gradients: Vec<Values>,
    rates: Vec<f64>,
    paper: Values,
    paper_clipped: Values,
    adapter_bert: Values,
}

#[derive(Deserialize)]
struct Values {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

#[derive(Module, Debug)]
struct Linear {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

fn matrix(values: &[f32], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values.to_vec(), [3, 4]), device)
}

fn vector(values: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [4]), device)
}

#[rstest]
#[case::paper(Profile::Paper, 0.0, |golden: Golden| golden.paper)]
#[case::clipped(Profile::Paper, 1.0, |golden: Golden| golden.paper_clipped)]
#[case::adapter_bert(Profile::AdapterBert, 1.0, |golden: Golden| golden.adapter_bert)]
fn adam_moves_tensors_as_pytorch_does(
    #[case] profile: Profile,
    #[case] clip: f64,
    #[case] expected: fn(Golden) -> Values,
) {
    let golden: Golden = serde_json::from_str(include_str!("golden/adam.json")).unwrap();
    let device = Device::flex().autodiff();
    let mut module = Linear {
        weight: Param::from_tensor(matrix(&golden.start.weight, &device)),
        bias: Param::from_tensor(vector(&golden.start.bias, &device)),
    };
    let mut adam = Adam::new(AdamConfig { clip, ..profile.settings().adam });
    for (gradient, &rate) in golden.gradients.iter().zip(&golden.rates) {
        // A loss whose gradient is the given one.
        let loss = (module.weight.val() * matrix(&gradient.weight, &device)).sum()
            + (module.bias.val() * vector(&gradient.bias, &device)).sum();
        let gradients = StepGradients::of(&module, &loss.backward());
        module = adam.update(module, &gradients, rate);
    }
    let expected = expected(golden);
    let close = |ours: Vec<f32>, theirs: &[f32]| ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 2e-6);
    assert!(close(module.weight.val().into_data().iter::<f32>().collect(), &expected.weight));
    assert!(close(module.bias.val().into_data().iter::<f32>().collect(), &expected.bias));
}

fn backbone() -> Backbone {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
    Backbone::load(folder.path(), &Device::flex()).unwrap()
}

/// Is there a dog in the sentence?
fn dataset() -> Dataset {
    let example = |i: usize| {
        let (a, b) = (["the", "a", "she", "it"][i % 4], ["sat", "was", "is", "play"][i / 4 % 4]);
        let animal = ["cat", "dog"][i % 2];
        let text = format!("{a} {animal} {b} on the mat");
        Example { id: i.to_string(), text, pair: None, target: Some(Target::Class(i % 2)) }
    };
    Dataset {
        task: "dogs".to_owned(),
        kind: TaskKind::Classification,
        labels: ["cat", "dog"].map(str::to_owned).to_vec(),
        train: (0..64).map(example).collect(),
        validation: (64..96).map(example).collect(),
        test: Vec::new(),
        notes: Vec::new(),
    }
}

fn run(backbone: &Backbone, tuning: Tuning, profile: Profile, seed: u64) -> Trained {
    run_course(backbone, tuning, profile, seed, |course| course)
}

fn run_course(
    backbone: &Backbone,
    tuning: Tuning,
    profile: Profile,
    seed: u64,
    change: impl FnOnce(Course) -> Course,
) -> Trained {
    let device = Device::flex().autodiff();
    let init = Init::new(seed);
    let adapter = AdapterConfig { init_std: profile.settings().init_std, ..AdapterConfig::new(8) };
    let bert = backbone.bert.clone().train().insert(|place| match tuning {
        Tuning::Adapters => adapter.init(place, 32, init, &device),
        _ => None::<Adapter>,
    });
    let head = Head::new(32, 2, HeadInput::Cls, init, &device).with_dropout(profile.settings().head_dropout);
    let model = tuning.apply(TaskModel::new(bert, head).unwrap());
    let (dataset, cache) = (dataset(), TokenCache::none());
    let lessons = Lessons {
        train: &TrainingSet::texts(&dataset, &dataset.train, &backbone.tokenizer, 32, &cache).unwrap(),
        validation: &EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 32, &cache).unwrap(),
        metric: Metric::Accuracy,
        network: &backbone.config,
    };
    let course = change(Course { batch_size: 8, ..Course::new(profile.settings(), 1e-2, 6, seed) });
    let info = TaskInfo {
        task: dataset.task.clone(),
        kind: dataset.kind.to_string(),
        labels: dataset.labels.clone(),
        head: HeadInput::Cls.to_string(),
        max_length: 32,
        tuning,
        adapter: (tuning == Tuning::Adapters).then(|| adapter.clone()),
        backbone: backbone.id(),
    };
    let mut steps = Vec::new();
    let watch = &mut |step: &Step| steps.push(step.step);
    let trained = train(model, &info, &lessons, &course, &device, Safety::default(), watch).unwrap();
    assert!(steps.into_iter().eq(1..=trained.epochs.last().unwrap().steps));
    trained
}

#[test]
fn adapters_learn_and_leave_the_backbone_as_it_was() {
    let backbone = backbone();
    let before = content_hash(&backbone.bert, "");
    let trained = run(&backbone, Tuning::Adapters, Profile::Paper, 0);
    assert!(trained.best.validation["accuracy"] > 0.95, "{:?}", trained.epochs);
    assert!(trained.epochs[5].loss < 0.5 * trained.epochs[0].loss, "{:?}", trained.epochs);
    assert_eq!(content_hash(&backbone.bert, ""), before, "w is never changed");
    // The file alone brings the result back.
    let model = TaskModel::load(&backbone, trained.file, &Device::flex()).unwrap();
    let (dataset, cache) = (dataset(), TokenCache::none());
    let set = EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 32, &cache).unwrap();
    let scores = set.evaluate(&model, &backbone.config, 16, &Device::flex()).unwrap();
    assert_eq!(scores[&Metric::Accuracy], trained.best.validation["accuracy"]);
}

/// A network large enough that products, element-wise operations and sums are divided among threads.
fn wide_backbone() -> Backbone {
    let folder = tempfile::tempdir().unwrap();
    let tiny = RandomCheckpoint::tiny();
    let mut vocabulary = tiny.vocabulary.clone();
    vocabulary.extend((vocabulary.len()..16_500).map(|i| format!("word{i}")));
    let config = BertConfig { vocab_size: vocabulary.len(), ..BertConfig::new(256, 2, 4) };
    RandomCheckpoint { config, vocabulary, ..tiny }.write(folder.path(), &Device::flex()).unwrap();
    Backbone::load(folder.path(), &Device::flex()).unwrap()
}

#[rstest]
#[case(Tuning::Adapters, Profile::Paper)]
#[case(Tuning::FullFineTuning, Profile::AdapterBert)]
fn the_same_steps_give_the_same_bits_with_one_thread_and_with_two(#[case] tuning: Tuning, #[case] profile: Profile) {
    let (backbone, device) = (wide_backbone(), Device::flex().autodiff());
    let sequence = |seed: u32| Encoded {
        input_ids: (0..128).map(|i| (i * 131 + seed * 977) % 16_500).collect(),
        token_type_ids: vec![0; 128],
        ..Encoded::default()
    };
    let two_steps = || {
        let bert = backbone.bert.clone().train().insert(|place| match tuning {
            Tuning::Adapters => AdapterConfig::new(64).init(place, 256, Init::new(0), &device),
            _ => None::<Adapter>,
        });
        let mut model =
            tuning.apply(TaskModel::new(bert, Head::new(256, 2, HeadInput::Cls, Init::new(0), &device)).unwrap());
        let mut adam = Adam::new(profile.settings().adam);
        for step in 0..2 {
            let sequences: Vec<_> = (0..8).map(|i| sequence(8 * step as u32 + i)).collect();
            let batch = PackedBatch::new(&sequences, &backbone.config, &device).unwrap();
            let batch = batch.with_dropout(DropoutKey { seed: 0, step });
            let loss = tasks::loss::cross_entropy(model.forward(&batch), &[0, 1, 0, 1, 1, 0, 1, 0]);
            let gradients = StepGradients::of(&model, &loss.backward());
            model = adam.update(model, &gradients, 1e-3);
        }
        content_hash(&model, "")
    };
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(two_steps)
    };
    assert_eq!(with_threads(1), with_threads(2));
}

#[test]
fn another_seed_is_another_run_and_the_same_one_repeats_itself() {
    let backbone = backbone();
    let run = |seed| run(&backbone, Tuning::Adapters, Profile::Paper, seed);
    let (first, again, other) = (run(3), run(3), run(4));
    assert_eq!((&first.file, &first.epochs), (&again.file, &again.epochs));
    assert_ne!(first.file, other.file);
}

#[test]
fn only_what_is_trained_has_an_optimiser_state() {
    let backbone = backbone();
    let device = Device::flex().autodiff();
    let bert =
        backbone.bert.clone().train().insert(|place| AdapterConfig::new(4).init(place, 32, Init::new(0), &device));
    let head = Head::new(32, 2, HeadInput::Cls, Init::new(0), &device);
    let model = Tuning::Adapters.apply(TaskModel::new(bert, head).unwrap());
    let trained: Vec<String> = Tuning::Adapters.trained(&model).into_iter().map(|tensor| tensor.name).collect();
    let encoded = [backbone.tokenizer.encode("the cat", None, 16).unwrap()];
    let batch = PackedBatch::new(&encoded, &backbone.config, &device).unwrap();
    let loss = tasks::loss::cross_entropy(model.forward(&batch), &[1]);
    let mut adam = Adam::new(Profile::Paper.settings().adam);
    let values = |model: &TaskModel<Option<Adapter>>| {
        let mut all = BTreeMap::new();
        visit_values(model, |_| true, |tensor, values| drop(all.insert(tensor.name, values)));
        all
    };
    let before = values(&model);
    let gradients = StepGradients::of(&model, &loss.backward());
    let after = values(&adam.update(model, &gradients, 1e-2));
    let mut with_state: Vec<&str> = adam.names().collect();
    with_state.sort_unstable();
    let mut expected: Vec<&str> = trained.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(with_state, expected);
    for (name, values) in &before {
        assert!(trained.contains(name) || after[name] == *values, "{name} is frozen");
    }
    assert!(trained.iter().filter(|name| after[*name] != before[*name]).count() > trained.len() / 2);
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run_with_a_reason() {
    let backbone = backbone();
    let device = Device::flex().autodiff();
    let bert = backbone.bert.clone().train();
    let model = Tuning::FullFineTuning
        .apply(TaskModel::new(bert, Head::new(32, 2, HeadInput::Cls, Init::new(0), &device)).unwrap());
    assert!(!tensors(&model).is_empty());
    let (dataset, cache) = (dataset(), TokenCache::none());
    let lessons = Lessons {
        train: &TrainingSet::texts(&dataset, &dataset.train, &backbone.tokenizer, 32, &cache).unwrap(),
        validation: &EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 32, &cache).unwrap(),
        metric: Metric::Accuracy,
        network: &backbone.config,
    };
    let settings = Profile::Paper.settings();
    let course = Course { batch_size: 8, ..Course::new(settings, 1e38, 2, 0) };
    let info = TaskInfo {
        task: "dogs".to_owned(),
        kind: "classification".to_owned(),
        labels: dataset.labels.clone(),
        head: "cls".to_owned(),
        max_length: 32,
        tuning: Tuning::FullFineTuning,
        adapter: None,
        backbone: backbone.id(),
    };
    let error = train(model, &info, &lessons, &course, &device, Safety::default(), &mut |_: &Step| {})
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("try a lower learning rate"), "{error}");
}

#[test]
fn the_command_trains_saves_and_scores() {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
    let data = folder.path().join("dogs.csv");
    let rows: String = dataset()
        .train
        .iter()
        .map(|e| format!("{},{}\n", e.text, ["no", "yes"][e.id.parse::<usize>().unwrap() % 2]))
        .collect();
    fs::write(&data, format!("text,label\n{rows}")).unwrap();
    let (task, backbone) = (format!("file:{}", data.display()), folder.path().display().to_string());
    let file = folder.path().join("v.safetensors");
    let saved = file.display().to_string();
    let lab = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
        let output = command.args(arguments).env("ADAPTER_LAB_CACHE", folder.path().join("cache")).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let common = ["--task", &task, "--backbone", &backbone];
    let options =
        ["--adapter-size", "8", "--lr", "1e-2", "--epochs", "4", "--batch-size", "8", "--max-length", "6", "--json"];
    let record = lab(&[&["train"], &common[..], &options[..], &["--save", &saved]].concat());
    assert_eq!(record["schema"], 1);
    assert_eq!(record["epochs"].as_array().unwrap().len(), 4);
    assert_eq!(record["config"]["adapter"]["size"], 8);
    let again = lab(&[&["train"], &common[..], &options[..]].concat());
    for part in ["id", "config", "fingerprints", "params", "epochs", "best", "test"] {
        assert_eq!(record[part], again[part], "{part} is reproducible");
    }
    let other = lab(&[&["train"], &common[..], &options[..], &["--seed", "1"]].concat());
    assert_ne!(record["id"], other["id"]);

    let score = lab(&[&["eval"], &common[..], &["--adapter", &saved, "--json"]].concat());
    assert_eq!(score["scores"]["accuracy"], record["best"]["validation"]["accuracy"]);
    let info = TaskFile::read(&file).unwrap().info;
    assert_eq!((info.task.as_str(), info.max_length), ("file:dogs", 6), "later uses cut texts as training did");
    let differing = lab(&["train", "--profile", "adapter-bert", "--explain", "--json"]);
    assert_eq!(differing["adam.bias_correction"], false);
    assert_eq!(differing["init_std"], 1e-3);
    assert_eq!(differing.as_object().unwrap().len(), 9);
}

/// A store's run without what depends on the clock, and the bytes of its trained tensors.
fn finished(runs: &std::path::Path) -> (serde_json::Value, Vec<u8>) {
    let folders: Vec<_> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "one configuration is one run");
    let text = fs::read_to_string(folders[0].join("record.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record.as_object_mut().unwrap().remove("measured");
    assert!(!folders[0].join("checkpoint.safetensors").exists());
    (record, fs::read(folders[0].join("v.safetensors")).unwrap())
}

/// A command that trains on a small file in `folder`, and keeps the run in `runs` there.
fn small_run(folder: &std::path::Path, runs: &str, options: &[&str]) -> Command {
    let data = folder.join("dogs.csv");
    if !data.exists() {
        RandomCheckpoint::tiny().write(folder, &Device::flex()).unwrap();
        let rows: String = dataset().train.iter().enumerate().map(|(i, e)| format!("{},{}\n", e.text, i % 2)).collect();
        fs::write(&data, format!("text,label\n{}", rows.repeat(6))).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
    command.args(["train", "--task"]).arg(format!("file:{}", data.display())).arg("--backbone").arg(folder);
    command.args(["--epochs", "3", "--batch-size", "8", "--lr", "1e-2", "--checkpoint-every", "0", "--json"]);
    command.args(options).arg("--runs").arg(folder.join(runs)).env("ADAPTER_LAB_CACHE", folder.join("cache"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn checkpoint_of(runs: &std::path::Path) -> Option<std::path::PathBuf> {
    let run = runs.read_dir().ok()?.next()?.ok()?.path();
    Some(run.join("checkpoint.safetensors")).filter(|path| path.exists())
}

fn is_writing(runs: &std::path::Path) -> bool {
    let run = runs.read_dir().unwrap().next().unwrap().unwrap().path();
    run.read_dir().unwrap().flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(".tmp"))
}

#[rstest]
#[case::adapters(&["--tuning", "adapters", "--adapter-size", "8"])]
#[case::full(&["--tuning", "full", "--profile", "adapter-bert"])]
fn a_run_killed_again_and_again_ends_bit_for_bit_like_one_that_was_not(#[case] tuning: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let command = |runs: &str| small_run(folder.path(), runs, tuning);
    assert!(command("whole").status().unwrap().success());

    // Killed ten times: after a few more checkpoints each time, every other time in the middle of writing one.
    let log = folder.path().join("log");
    for round in 0..10usize {
        let mut child = command("killed")
            .stderr(fs::File::options().create(true).append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        let (mut seen, mut last) = (0, None);
        while seen <= round % 4 && child.try_wait().unwrap().is_none() {
            let checkpoint = checkpoint_of(&folder.path().join("killed"));
            let written = checkpoint.as_ref().and_then(|path| fs::metadata(path).ok()?.modified().ok());
            seen += usize::from(written.is_some() && written != last);
            last = written.or(last);
        }
        while round % 2 == 1 && child.try_wait().unwrap().is_none() && !is_writing(&folder.path().join("killed")) {}
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let resumed = fs::read_to_string(&log).unwrap();
    assert!(resumed.matches("goes on after step").count() >= 5, "too few runs were resumed:\n{resumed}");
    assert!(command("killed").status().unwrap().success());
    assert_eq!(finished(&folder.path().join("killed")), finished(&folder.path().join("whole")));

    // A finished run is not run again.
    let record = folder.path().join("whole").read_dir().unwrap().next().unwrap().unwrap().path().join("record.json");
    let written = fs::metadata(&record).unwrap().modified().unwrap();
    assert!(command("whole").status().unwrap().success());
    assert_eq!(fs::metadata(&record).unwrap().modified().unwrap(), written);
}

/// A record that says which metric was best, but not how good.
const NO_BEST: &[u8] =
    br#"{"schema": 1, "id": "run", "status": "finished", "config": {}, "fingerprints": {}, "software": {},
    "params": {"trained": 0, "total": 0, "backbone": 0, "groups": {}}, "epochs": [], "test": {},
    "best": {"epoch": 1, "steps": 1, "metric": "accuracy", "validation": {}},
    "measured": {"training_seconds": 0, "evaluation_seconds": 0, "tokens_per_second": 0, "peak_memory_bytes": null}}"#;

#[rstest]
#[case::record("record.json", b"{\"schema\": 1, \"id\"".as_slice(), "not a record this program can read")]
#[case::newer("record.json", br#"{"schema": 99}"#.as_slice(), "schema Some(99), this program reads 1")]
#[case::no_best("record.json", NO_BEST, "it has no best score")]
#[case::checkpoint("checkpoint.safetensors", b"half".as_slice(), "the checkpoint is damaged; remove it")]
fn a_damaged_run_is_explained_and_left_alone(#[case] file: &str, #[case] contents: &[u8], #[case] message: &str) {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    fs::create_dir_all(folder.path().join("run")).unwrap();
    let path = folder.path().join("run").join(file);
    fs::write(&path, contents).unwrap();
    let error = match store.open("run") {
        Err(error) => error,
        Ok(Found::Open(open)) => open.checkpoint().unwrap_err(),
        Ok(Found::Finished(_)) => panic!("a damaged run is not finished"),
    };
    assert!(format!("{error:#}").contains(message), "{error:#}");
    assert_eq!(fs::read(path).unwrap(), contents);
}

#[test]
fn a_run_belongs_to_one_process_at_a_time_and_a_dead_ones_lock_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    let Ok(Found::Open(held)) = store.open("run") else { panic!("a new run is open") };
    let error = store.open("run").err().unwrap().to_string();
    assert!(error.contains("is being run by another process"), "{error}");
    drop(held);
    assert!(folder.path().join("run/lock").exists(), "the file stays, the lock is gone");
    assert!(matches!(store.open("run"), Ok(Found::Open(_))));
}

#[test]
fn a_changed_number_in_a_checkpoint_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (backbone, path) = (backbone(), folder.path().join("checkpoint.safetensors"));
    let trained = run(&backbone, Tuning::HeadOnly, Profile::Paper, 0);
    let numbers =
        Numbers { step: 17, epochs: trained.epochs.clone(), best: Some(trained.best.clone()), ..Numbers::default() };
    let best = Some(trained.file.clone());
    let kept = Checkpoint { numbers, now: trained.file, best, adam: AdamState { step: 17, moments: BTreeMap::new() } };
    kept.write(&path).unwrap();
    assert_eq!(Checkpoint::read(&path).unwrap(), kept);
    let whole = fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&whole).into_owned();
    let place = text.find("\\\"step\\\":17").unwrap() + "\\\"step\\\":".len();
    let mut changed = whole.clone();
    changed[place] = b'2';
    fs::write(&path, changed).unwrap();
    let error = format!("{:#}", Checkpoint::read(&path).unwrap_err());
    assert!(error.contains("the checkpoint is damaged"), "{error}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_the_run_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let command = |runs: &str| small_run(folder.path(), runs, &["--adapter-size", "8"]);
    assert!(command("whole").status().unwrap().success());
    let mut child = command("stopped").stderr(Stdio::piped()).spawn().unwrap();
    while checkpoint_of(&folder.path().join("stopped")).is_none() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be stopped");
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("run the same command again to go on"), "{errors}");
    assert!(command("stopped").status().unwrap().success());
    assert_eq!(finished(&folder.path().join("stopped")), finished(&folder.path().join("whole")));
}

#[test]
fn patience_ends_a_run_that_gets_no_better() {
    let backbone = backbone();
    // A rate that moves nothing: no epoch is better than the first.
    let epochs = |patience| {
        let course = |course: Course| Course { learning_rate: 1e-30, patience, ..course };
        run_course(&backbone, Tuning::HeadOnly, Profile::Paper, 0, course).epochs.len()
    };
    assert_eq!([epochs(None), epochs(Some(1)), epochs(Some(3))], [6, 2, 4]);
}

/// The backbone without dropout, so that what is computed in another order can be compared.
fn still_backbone() -> Backbone {
    let folder = tempfile::tempdir().unwrap();
    let tiny = RandomCheckpoint::tiny();
    let config = BertConfig { hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0, ..tiny.config.clone() };
    RandomCheckpoint { config, ..tiny }.write(folder.path(), &Device::flex()).unwrap();
    Backbone::load(folder.path(), &Device::flex()).unwrap()
}

/// The largest difference of any trained value.
fn difference(a: &TaskFile, b: &TaskFile) -> f32 {
    let [a, b] = [a, b].map(|file| file.to_bytes().unwrap());
    let [a, b] = [&a, &b].map(|bytes| safetensors::SafeTensors::deserialize(bytes).unwrap());
    let values = |file: &safetensors::SafeTensors<'_>, name: &str| -> Vec<f32> {
        bytemuck::pod_collect_to_vec(file.tensor(name).unwrap().data())
    };
    let all = a.names().into_iter().flat_map(|name| {
        let pairs: Vec<_> = values(&a, name).into_iter().zip(values(&b, name)).collect();
        pairs.into_iter().map(|(x, y)| (x - y).abs())
    });
    all.fold(0.0, f32::max)
}

#[rstest]
fn a_divided_batch_has_the_gradient_of_the_whole(#[values(2, 3, 8, 20)] accumulate: usize) {
    let backbone = still_backbone();
    let run = |accumulate| {
        // With so large an ε Adam's step is in proportion to the gradient: a wrong scale cannot hide.
        let course = |mut course: Course| {
            course.settings.adam.epsilon = 10.0;
            Course { accumulate, epochs: 2, learning_rate: 10.0, ..course }
        };
        run_course(&backbone, Tuning::Adapters, Profile::Paper, 0, course)
    };
    let (whole, divided) = (run(1), run(accumulate));
    assert!(difference(&whole.file, &divided.file) < 1e-4, "{}", difference(&whole.file, &divided.file));
    assert!((whole.epochs[1].loss - divided.epochs[1].loss).abs() < 1e-5);
}

#[test]
fn evaluation_every_few_steps_keeps_the_best_of_them() {
    let backbone = backbone();
    let course = |course: Course| Course { evaluate_every: Some(3), epochs: 2, ..course };
    let trained = run_course(&backbone, Tuning::Adapters, Profile::Paper, 0, course);
    let steps: Vec<_> = trained.epochs.iter().map(|evaluation| (evaluation.epoch, evaluation.steps)).collect();
    assert_eq!(steps, [(1, 3), (1, 6), (1, 8), (2, 9), (2, 12), (2, 15), (2, 16)]);
    // Looking more often changes nothing of what is learnt.
    let seldom = run_course(&backbone, Tuning::Adapters, Profile::Paper, 0, |course| Course { epochs: 2, ..course });
    assert_eq!(trained.epochs[6].validation, seldom.epochs[1].validation);
    let score = |validation: &BTreeMap<String, f64>| validation["accuracy"];
    let best = trained.epochs.iter().map(|evaluation| score(&evaluation.validation)).fold(0.0, f64::max);
    assert_eq!(score(&trained.best.validation), best);
    assert!(trained.epochs.iter().any(|evaluation| evaluation.steps == trained.best.steps));
}

#[path = "../examples/own_adapter.rs"]
mod own_adapter;

#[test]
fn the_example_of_an_adapter_and_a_dataset_of_ones_own_learns() {
    own_adapter::main().unwrap();
}
