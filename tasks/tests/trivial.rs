//! What the trivial answer scores: the floor under every method.

use bert_backbone::{RandomCheckpoint, Tokenizer};
use burn::tensor::Device;
use tasks::{Dataset, EvaluationSet, Example, Target, TokenCache, TrainingSet};

fn scores(dataset: &Dataset) -> tasks::Scores {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
    let (tokenizer, cache) = (Tokenizer::load(folder.path()).unwrap(), TokenCache::none());
    let train = TrainingSet::texts(dataset, &dataset.train, &tokenizer, 16, &cache).unwrap();
    let validation = EvaluationSet::texts(dataset, &dataset.validation, &tokenizer, 16, &cache).unwrap();
    validation.trivial_scores(&train)
}

#[test]
fn the_most_frequent_training_class_is_scored_on_validation() {
    let of =
        |classes: &[usize]| classes.iter().map(|&class| Example::new("a", Target::Class(class))).collect::<Vec<_>>();
    let dataset = Dataset::classification("t", ["x", "y", "z"], of(&[2, 2, 0]), of(&[0, 0, 0, 2]));
    let scores = scores(&dataset);
    assert_eq!(
        (scores["accuracy"], scores["matthews"]),
        (0.25, 0.0),
        "the training set decides, not the validation set"
    );
}

#[test]
fn the_mean_says_nothing_of_the_order() {
    let of = |numbers: &[f32]| numbers.iter().map(|&score| Example::new("a", Target::Score(score))).collect::<Vec<_>>();
    let scores = scores(&Dataset::regression("t", of(&[1.0, 2.0]), of(&[0.0, 1.0, 5.0])));
    assert_eq!((scores["pearson"], scores["spearman"]), (0.0, 0.0));
}
