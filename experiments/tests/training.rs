//! The optimiser against PyTorch's, and the training loop: it learns, repeats itself to the bit, and trains v alone.

use std::{collections::BTreeMap, fs, process::Command};

mod common;

use adapter_core::{
    Adapter, AdapterConfig, DropoutKey, FullFineTuning, Init, Method, TaskFile, content_hash, visit_values,
};
use analysis::Kept;
use bert_backbone::{Backbone, BertConfig, Encoded, PackedBatch, RandomCheckpoint};
use burn::{
    module::{Module, Param},
    nn::{LayerNorm, LayerNormConfig},
    tensor::{Device, Tensor, TensorData},
};
use common::{Profile, Tuning, backbone, dataset, run, run_with, train_on};
use experiments::{Adam, Inference, Lab, ModuleOptimizer, StepGradients, Trainer};
use rstest::rstest;
use serde::Deserialize;
use tasks::{EvaluationSet, Head, HeadInput, TaskModel, TokenCache};

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
    let optimizer = profile.setup(0).optimizer;
    let mut adam = ModuleOptimizer::new(&optimizer, clip);
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

/// A layer with a normalisation under a name of its own, and a vector that is no bias.
#[derive(Module, Debug)]
struct Own {
    weight: Param<Tensor<2>>,
    norm: LayerNorm,
    scale: Param<Tensor<1>>,
}

#[test]
fn weight_decay_asks_what_a_tensor_is_not_what_it_is_called() {
    let device = Device::flex().autodiff();
    let ones = |n| Tensor::<1>::ones([n], &device);
    let own = Own {
        weight: Param::from_tensor(Tensor::ones([3, 4], &device)),
        norm: LayerNormConfig::new(4).init(&device),
        scale: Param::from_tensor(ones(4)),
    };
    let optimizer = Adam { weight_decay: 0.5, ..Adam::default() };
    // A gradient of zero moves nothing: what is left is the decay.
    let loss = (own.weight.val().sum() + own.norm.gamma.val().sum() + own.scale.val().sum()) * 0.0;
    let gradients = StepGradients::of(&own, &loss.backward());
    let moved = ModuleOptimizer::new(&optimizer, 0.0).update(own, &gradients, 0.1);
    let first = |tensor: Tensor<1>| tensor.into_data().iter::<f32>().next().unwrap();
    assert!((first(moved.weight.val().reshape([12])) - 0.95).abs() < 1e-6);
    assert_eq!((first(moved.norm.gamma.val()), first(moved.scale.val())), (1.0, 1.0));
}

#[test]
fn adapters_learn_and_leave_the_backbone_as_it_was() {
    let backbone = backbone();
    let before = content_hash(&backbone.bert, "");
    let trained = run(&backbone, Tuning::Adapters, Profile::Paper, 0);
    assert!(trained.last.as_ref().unwrap().validation["accuracy"] > 0.95, "{:?}", trained.evaluations);
    assert!(trained.evaluations[5].loss < 0.5 * trained.evaluations[0].loss, "{:?}", trained.evaluations);
    assert_eq!(content_hash(&backbone.bert, ""), before, "w is never changed");
    // The file alone brings the result back.
    let model = Lab::paper().load(&backbone, trained.file.unwrap(), &Device::flex()).unwrap();
    let (dataset, cache) = (dataset(), TokenCache::none());
    let set = EvaluationSet::texts(&dataset, &dataset.validation, &backbone.tokenizer, 32, &cache).unwrap();
    let scores =
        model.evaluate(&set, Inference { network: &backbone.config, batch_size: 16, device: &Device::flex() }).unwrap();
    assert_eq!(scores, trained.last.unwrap().validation);
}

#[test]
fn the_builder_trains_what_a_run_would() {
    let (backbone, dataset) = (backbone(), dataset());
    let trainer = Trainer::new(&backbone, &dataset, AdapterConfig::new(8)).max_length(32);
    let model = trainer.learning_rate(1e-2).epochs(6).batch_size(8).train().unwrap();
    let run = run(&backbone, Tuning::Adapters, Profile::Paper, 0);
    assert_eq!(model.trained().evaluations, run.evaluations);
    let texts: Vec<&str> = dataset.validation.iter().map(|example| example.text.as_str()).collect();
    let predictions = model.predict(&texts).unwrap();
    let right = predictions
        .iter()
        .zip(&dataset.validation)
        .filter(|(prediction, example)| prediction.label == if example.text.contains("dog") { "dog" } else { "cat" });
    assert_eq!(right.count() as f64 / 32.0, model.scores()["accuracy"]);
    assert_eq!(model.evaluate(&dataset, &dataset.validation).unwrap(), *model.scores());
    assert_eq!(model.file().info.pairs, Some(false));
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
#[case(Tuning::Full, Profile::AdapterBert)]
fn the_same_steps_give_the_same_bits_with_one_thread_and_with_two(#[case] tuning: Tuning, #[case] profile: Profile) {
    let backbone = wide_backbone();
    let sequence = |seed: u32| Encoded {
        input_ids: (0..128).map(|i| (i * 131 + seed * 977) % 16_500).collect(),
        token_type_ids: vec![0; 128],
        ..Encoded::default()
    };
    fn two_steps<M: Method>(
        method: &M,
        profile: Profile,
        backbone: &Backbone,
        sequence: &impl Fn(u32) -> Encoded,
    ) -> String {
        let device = Device::flex().autodiff();
        let head = Head::new(&backbone.config.shape(), 2, HeadInput::Cls, Init::new(0), &device);
        let model = TaskModel::tuned(method, backbone.bert.clone().train(), head, Init::new(0), &device).unwrap();
        let mut model = method.select(&model).apply(model);
        let setup = profile.setup(0);
        let mut adam = ModuleOptimizer::new(&setup.optimizer, setup.config.clip);
        for step in 0..2 {
            let sequences: Vec<_> = (0..8).map(|i| sequence(8 * step as u32 + i)).collect();
            let batch = PackedBatch::new(&sequences, &backbone.config, &device).unwrap();
            let batch = batch.with_dropout(DropoutKey { seed: 0, step });
            let loss = tasks::loss::cross_entropy(model.forward(&batch), &[0, 1, 0, 1, 1, 0, 1, 0]);
            let gradients = StepGradients::of(&model, &loss.backward());
            model = adam.update(model, &gradients, 1e-3);
        }
        content_hash(&model, "")
    }
    let two_steps = || match tuning {
        Tuning::Adapters => two_steps(&AdapterConfig::new(64), profile, &backbone, &sequence),
        _ => two_steps(&FullFineTuning {}, profile, &backbone, &sequence),
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
    assert_eq!((&first.file, &first.evaluations), (&again.file, &again.evaluations));
    assert_ne!(first.file, other.file);
}

#[test]
fn only_what_is_trained_has_an_optimiser_state() {
    let backbone = backbone();
    let device = Device::flex().autodiff();
    let (method, init) = (AdapterConfig::new(4), Init::new(0));
    let head = Head::new(&backbone.config.shape(), 2, HeadInput::Cls, init, &device);
    let model = TaskModel::tuned(&method, backbone.bert.clone().train(), head, init, &device).unwrap();
    let selection = method.select(&model);
    let model = selection.apply(model);
    let trained: Vec<String> = selection.trained.into_iter().map(|tensor| tensor.name).collect();
    let encoded = [backbone.tokenizer.encode("the cat", None, 16).unwrap()];
    let batch = PackedBatch::new(&encoded, &backbone.config, &device).unwrap();
    let loss = tasks::loss::cross_entropy(model.forward(&batch), &[1]);
    let optimizer = Adam::default();
    let mut adam = ModuleOptimizer::new(&optimizer, 0.0);
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
fn a_loss_that_is_not_finite_ends_the_run_as_a_result() {
    let (backbone, mut setup) = (backbone(), Profile::Paper.setup(0));
    setup.config.learning_rate = 1e38;
    let trained = train_on(1, &backbone, Tuning::Full, &setup, |_| {}).unwrap();
    assert!(trained.diverged.is_some() && trained.file.is_none());
    assert!(trained.loss_curve.iter().all(|(_, loss)| loss.is_finite()), "{:?}", trained.loss_curve);
}

#[test]
fn a_run_reports_its_last_evaluation_unless_the_best_is_asked_for() {
    let backbone = backbone();
    let run = |keep| {
        run_with(&backbone, Tuning::Full, Profile::Paper, 0, |setup| {
            (setup.config.keep, setup.config.learning_rate, setup.config.evaluate_every) = (keep, 3e-3, Some(1));
        })
    };
    let (last, best) = (run(Kept::Last), run(Kept::Best));
    assert_eq!((&last.evaluations, &last.best, &last.last), (&best.evaluations, &best.best, &best.last));
    assert_ne!(last.best.as_ref().unwrap().steps, last.last.as_ref().unwrap().steps, "the best is not the last");
    assert_ne!(last.file, best.file);
    assert_eq!(last.loss_curve.len(), 48, "a point for every step of a short run");
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
    assert_eq!(record["schema"], 2);
    assert_eq!(record["epochs"].as_array().unwrap().len(), 4);
    assert_eq!((&record["config"]["adapter_size"], &record["method"]["label"]), (&8.into(), &"adapters 8".into()));
    let again = lab(&[&["train"], &common[..], &options[..]].concat());
    for part in ["id", "config", "fingerprints", "params", "epochs", "best", "test"] {
        assert_eq!(record[part], again[part], "{part} is reproducible");
    }
    let other = lab(&[&["train"], &common[..], &options[..], &["--seed", "1"]].concat());
    assert_ne!(record["id"], other["id"]);

    let score = lab(&[&["eval"], &common[..], &["--adapter", &saved, "--json"]].concat());
    assert_eq!(score["scores"], record["last"]["validation"]);
    let remembered = lab(&["eval", "--adapter", &saved, "--json"]);
    assert_eq!(remembered, score, "the file remembers its task and its backbone");
    let info = TaskFile::read(&file).unwrap().info;
    assert_eq!((info.task.as_str(), info.max_length), ("file:dogs", 6), "later uses cut texts as training did");
    let differing = lab(&["train", "--profile", "adapter-bert", "--explain", "--json"]);
    assert_eq!((&differing["bias_correction"], &differing["init_std"]), (&false.into(), &1e-3.into()));
    assert_eq!(differing.as_object().unwrap().len(), 9, "{differing}");
}

#[test]
fn patience_ends_a_run_that_gets_no_better() {
    let backbone = backbone();
    // A rate that moves nothing: no epoch is better than the first.
    let epochs = |patience| {
        let change =
            |setup: &mut common::Setup| (setup.config.learning_rate, setup.config.patience) = (1e-30, patience);
        run_with(&backbone, Tuning::Head, Profile::Paper, 0, change).evaluations.len()
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
        run_with(&backbone, Tuning::Adapters, Profile::Paper, 0, |setup| {
            setup.optimizer.epsilon = 10.0;
            let config = &mut setup.config;
            (config.accumulate, config.epochs, config.learning_rate) = (accumulate, 2, 10.0);
        })
    };
    let (whole, divided) = (run(1), run(accumulate));
    assert!(
        difference(whole.file.as_ref().unwrap(), divided.file.as_ref().unwrap()) < 1e-4,
        "{}",
        difference(whole.file.as_ref().unwrap(), divided.file.as_ref().unwrap())
    );
    assert!((whole.evaluations[1].loss - divided.evaluations[1].loss).abs() < 1e-5);
}

#[test]
fn evaluation_every_few_steps_keeps_the_best_of_them() {
    let backbone = backbone();
    let run = |every| {
        run_with(&backbone, Tuning::Adapters, Profile::Paper, 0, |setup| {
            (setup.config.evaluate_every, setup.config.epochs) = (every, 2);
        })
    };
    let trained = run(Some(3));
    let steps: Vec<_> = trained.evaluations.iter().map(|evaluation| (evaluation.epoch, evaluation.steps)).collect();
    assert_eq!(steps, [(1, 3), (1, 6), (1, 8), (2, 9), (2, 12), (2, 15), (2, 16)]);
    // Looking more often changes nothing of what is learnt.
    let seldom = run(None);
    assert_eq!(trained.evaluations[6].validation, seldom.evaluations[1].validation);
    let score = |validation: &BTreeMap<String, f64>| validation["accuracy"];
    let best = trained.evaluations.iter().map(|evaluation| score(&evaluation.validation)).fold(0.0, f64::max);
    assert_eq!(score(&trained.best.as_ref().unwrap().validation), best);
    assert!(trained.evaluations.iter().any(|evaluation| evaluation.steps == trained.best.as_ref().unwrap().steps));
}

#[path = "../examples/own_loop.rs"]
mod own_loop;

#[test]
fn the_example_of_a_loop_of_ones_own_runs() {
    own_loop::main().unwrap();
}
