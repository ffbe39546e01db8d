//! From examples to losses: the token cache, batches made ahead, heads, losses and submissions.

use std::{fs, sync::Arc};

use adapter_core::Init;
use bert_backbone::{Backbone, PackedBatch, RandomCheckpoint};
use burn::tensor::{Device, Tensor, TensorData};
use rstest::rstest;
use tasks::{
    BatchConfig, Example, Head, HeadInput, Prediction, Prefetch, Target, TaskKind, TaskModel, TestSet, TokenCache,
    epoch_batches, evaluate, in_order, loss, outputs, zip_submission,
};

fn backbone() -> Backbone {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
    Backbone::load(folder.path(), &Device::flex()).unwrap()
}

fn examples(count: usize) -> Vec<Example> {
    let example = |i: usize| Example {
        id: i.to_string(),
        text: "the cat sat on a mat ".repeat(1 + i % 4),
        pair: i.is_multiple_of(2).then(|| "who is it?".to_owned()),
        target: Some(Target::Class(i % 3)),
    };
    (0..count).map(example).collect()
}

#[test]
fn the_cache_gives_what_was_made_and_knows_what_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, backbone) = (TokenCache::new(folder.path()), backbone());
    let tokens = |examples: &[Example], length| cache.texts(examples, &backbone.tokenizer, length).unwrap();
    let files = || fs::read_dir(folder.path()).unwrap().count();
    let written =
        || fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().metadata().unwrap().modified().unwrap();
    let made = tokens(&examples(9), 16);
    assert_eq!(made, TokenCache::none().texts(&examples(9), &backbone.tokenizer, 16).unwrap());
    let first_written = written();
    assert_eq!((tokens(&examples(9), 16), files()), (made.clone(), 1));
    assert_eq!(written(), first_written, "the second time it is read, not made");
    tokens(&examples(9), 15);
    tokens(&examples(8), 16);
    let mut other = examples(9);
    other[3].text.push('x');
    tokens(&other, 16);
    other = examples(9);
    other[1].pair = Some(String::new());
    tokens(&other, 16);
    assert_eq!(files(), 5, "another length, number, text or pair is another file");
}

#[rstest]
#[case::truncated(|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2))]
#[case::flipped(|bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() ^= 1)]
#[case::emptied(|bytes: &mut Vec<u8>| bytes.clear())]
fn a_damaged_cache_file_is_made_anew(#[case] harm: fn(&mut Vec<u8>)) {
    let folder = tempfile::tempdir().unwrap();
    let (cache, backbone) = (TokenCache::new(folder.path()), backbone());
    let made = cache.texts(&examples(9), &backbone.tokenizer, 16).unwrap();
    let path = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    harm(&mut bytes);
    fs::write(&path, bytes).unwrap();
    assert_eq!(cache.texts(&examples(9), &backbone.tokenizer, 16).unwrap(), made);
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn many_at_once_make_the_same_cache() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, backbone) = (TokenCache::new(folder.path()), backbone());
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| cache.texts(&examples(50), &backbone.tokenizer, 16).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|tokens| *tokens == all[0]));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn batches_come_in_order_and_stop_when_nobody_takes_them() {
    let backbone = backbone();
    let tokens = Arc::new(TokenCache::none().texts(&examples(50), &backbone.tokenizer, 16).unwrap());
    let lengths: Vec<_> = (0..tokens.len()).map(|i| tokens.length(i)).collect();
    let plan = epoch_batches(&lengths, BatchConfig { size: 7, seed: 0, length_window: 0 }, 0);
    let start = || Prefetch::start(tokens.clone(), plan.clone(), backbone.config.clone(), Device::flex());
    let made: Vec<_> = start().map(|batch| batch.unwrap()).collect();
    assert_eq!(made.iter().map(|batch| batch.examples.clone()).collect::<Vec<_>>(), plan);
    for batch in &made {
        let expected: usize = batch.examples.iter().map(|&example| tokens.length(example)).sum();
        assert_eq!(batch.packed.tokens(), expected);
    }
    let mut few = start();
    few.next();
    drop(few);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while Arc::strong_count(&tokens) > 1 {
        assert!(std::time::Instant::now() < deadline, "the thread goes on for nobody");
        std::thread::yield_now();
    }
}

fn tensor<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::flex())
}

fn scalar(tensor: Tensor<1>) -> f32 {
    tensor.into_scalar::<f32>()
}

/// Values computed by hand from the definitions.
#[test]
fn losses_are_their_definitions() {
    let scores = tensor(&[1.0, 2.0, 0.0, 0.0, 0.0, 3.0], [2, 3]);
    let row = |right: f32, all: [f32; 3]| all.iter().map(|x| x.exp()).sum::<f32>().ln() - right;
    let expected = (row(2.0, [1.0, 2.0, 0.0]) + row(0.0, [0.0, 0.0, 3.0])) / 2.0;
    assert!((scalar(loss::cross_entropy(scores.clone(), &[1, 0])) - expected).abs() < 1e-6);

    let error = scalar(loss::squared_error(tensor(&[1.0, 3.0], [2, 1]), &[2.0, 5.0]));
    assert!((error - 2.5).abs() < 1e-6);

    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let terms =
        [sigmoid(1.0), 1.0 - sigmoid(2.0), sigmoid(0.0), 1.0 - sigmoid(0.0), 1.0 - sigmoid(0.0), 1.0 - sigmoid(3.0)];
    let expected = -terms.iter().map(|p| p.ln()).sum::<f32>() / 6.0;
    assert!((scalar(loss::multi_label(scores, &[vec![0, 2], vec![]])) - expected).abs() < 1e-6);
}

#[test]
fn the_span_loss_is_taken_over_each_sequences_own_tokens() {
    let backbone = backbone();
    let encode = |text: &str| backbone.tokenizer.encode(text, None, 32).unwrap();
    let batch = [encode("the cat"), encode("a")];
    let packed = PackedBatch::new(&batch, &backbone.config, &Device::flex()).unwrap();
    assert_eq!(packed.tokens(), 4 + 3);
    let scores: Vec<f32> = (0..14).map(|i| (i as f32 * 0.7).sin()).collect();
    let column = |side: usize, rows: std::ops::Range<usize>| rows.map(|row| scores[2 * row + side]).collect::<Vec<_>>();
    let entropy = |column: Vec<f32>, right: usize| column.iter().map(|x| x.exp()).sum::<f32>().ln() - column[right];
    let expected = (entropy(column(0, 0..4), 1)
        + entropy(column(1, 0..4), 2)
        + entropy(column(0, 4..7), 0)
        + entropy(column(1, 4..7), 1))
        / 4.0;
    let ours = scalar(loss::span(tensor(&scores, [7, 2]), &packed, &[(1, 2), (0, 1)]));
    assert!((ours - expected).abs() < 1e-6, "{ours} {expected}");
}

#[rstest]
#[case(HeadInput::Cls)]
#[case(HeadInput::Pooler)]
#[case(HeadInput::Tokens)]
#[case(HeadInput::Mean)]
#[case(HeadInput::Layers)]
fn outputs_do_not_depend_on_the_batch_size(#[case] input: HeadInput) {
    let (backbone, device) = (backbone(), Device::flex());
    let head = Head::new(&backbone.config.shape(), 2, input, Init::new(0), &device);
    let model = TaskModel::new(backbone.bert.clone(), head).unwrap();
    let tokens = Arc::new(TokenCache::none().texts(&examples(11), &backbone.tokenizer, 16).unwrap());
    let by = |size| outputs(&model, &tokens, &backbone.config, size, &device).unwrap();
    let (one, four) = (by(1), by(4));
    assert_eq!(one.len(), 11);
    for (i, (a, b)) in one.iter().zip(&four).enumerate() {
        assert_eq!(a.len(), if input == HeadInput::Tokens { 2 * tokens.length(i) } else { 2 });
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    assert_eq!(in_order(11, 4).len(), 3);
}

#[test]
fn outputs_become_predictions_and_scores() {
    let class = |outputs: &[f32]| Prediction::from_outputs(TaskKind::Classification, outputs);
    assert!(matches!(class(&[0.1, 2.0, 2.0]), Prediction::Class(1, p) if (p.iter().sum::<f32>() - 1.0).abs() < 1e-6));
    let labels = Prediction::from_outputs(TaskKind::MultiLabel, &[1.0, -1.0, 0.1]);
    assert!(matches!(&labels, Prediction::Labels(labels, _) if *labels == [0, 2]));

    let predictions: Vec<_> = (0..6).map(|i| Prediction::Class((i + usize::from(i == 5)) % 3, vec![])).collect();
    let scores = evaluate(TaskKind::Classification, 3, &predictions, &examples(6));
    assert!((scores["accuracy"] - 5.0 / 6.0).abs() < 1e-9);
    assert!(!scores.contains_key("f1"), "F1 of class 1 is for two classes");

    let scored = |score| Example { target: Some(Target::Score(score)), ..examples(1)[0].clone() };
    let numbers: Vec<_> = [1.0, 2.0, 3.0].map(Prediction::Score).into();
    let scores = evaluate(TaskKind::Regression, 0, &numbers, &[scored(2.0), scored(4.0), scored(6.0)]);
    assert!(scores["pearson"] > 1.0 - 1e-12 && scores["spearman"] > 1.0 - 1e-12);

    let many = |labels: &[usize]| Example { target: Some(Target::Labels(labels.to_vec())), ..examples(1)[0].clone() };
    let found = [Prediction::Labels(vec![0, 2], vec![]), Prediction::Labels(vec![1], vec![])];
    let scores = evaluate(TaskKind::MultiLabel, 3, &found, &[many(&[2, 0]), many(&[0])]);
    assert_eq!(scores["accuracy"], 0.5);
    assert!((scores["macro_f1"] - (2.0 / 3.0 + 0.0 + 1.0) / 3.0).abs() < 1e-9);
}

/// Files of test examples under `glue_data`.
fn test_files(files: &[(&str, &str)]) -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    for (file, contents) in files {
        let path = data.path().join("glue_data").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    data
}

const PAIRS: &str = "index\tsentence1\tsentence2\n0\ta\tb\n7\tc\td\n";

#[test]
fn submissions_have_the_servers_names_columns_and_labels() {
    let data = test_files(&[("RTE/test.tsv", PAIRS), ("STS-B/test.tsv", PAIRS), ("MNLI/test_mismatched.tsv", PAIRS)]);
    let out = tempfile::tempdir().unwrap();
    let written = |task: &str, predictions: &[Prediction]| {
        let sets = TestSet::of(task, data.path()).unwrap();
        assert_eq!(sets.len(), 1);
        let path = sets[0].write(predictions, out.path()).unwrap();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
    };
    let classes = [Prediction::Class(1, vec![]), Prediction::Class(0, vec![])];
    let rows = "index\tprediction\n0\tnot_entailment\n7\tentailment\n";
    assert_eq!(written("rte", &classes), ("RTE.tsv".to_owned(), rows.to_owned()));
    let scores = [Prediction::Score(5.7), Prediction::Score(2.12345)];
    let rows = "index\tprediction\n0\t5.000\n7\t2.123\n";
    assert_eq!(written("sts-b", &scores), ("STS-B.tsv".to_owned(), rows.to_owned()));
    let rows = "index\tprediction\n0\tentailment\n7\tcontradiction\n";
    assert_eq!(written("mnli", &classes), ("MNLI-mm.tsv".to_owned(), rows.to_owned()));

    let archive = zip::ZipArchive::new(fs::File::open(zip_submission(out.path()).unwrap()).unwrap()).unwrap();
    let mut names: Vec<_> = archive.file_names().map(|name| name.unwrap().into_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, ["MNLI-mm.tsv", "RTE.tsv", "STS-B.tsv"]);

    let refused = |task: &str| TestSet::of(task, data.path()).unwrap_err().to_string();
    assert!(refused("sms-spam").contains("not one of GLUE's"));
    assert!(refused("cola").contains("no test examples"));
}

#[test]
fn a_model_of_mnli_answers_three_test_sets() {
    let files = ["MNLI/test_matched.tsv", "MNLI/test_mismatched.tsv", "diagnostic/diagnostic.tsv"];
    let data = test_files(&files.map(|file| (file, PAIRS)));
    for task in ["mnli", "mnli-mm"] {
        let sets = TestSet::of(task, data.path()).unwrap();
        assert_eq!(sets.iter().map(|set| set.file).collect::<Vec<_>>(), ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]);
    }
}
