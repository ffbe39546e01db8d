//! Metrics agree with scikit-learn, scipy, torchmetrics and transformers; the golden values are made by
//! `golden/make_metrics.py`.

use rstest::rstest;
use serde::Deserialize;
use tasks::{
    Answer as Gold, ConfusionMatrix, Example, Metric, Metrics, Prediction, Question, Target, TaskKind, evaluate,
    pearson, score_answer, spearman,
};

#[derive(Deserialize)]
struct Golden {
    classification: Vec<Classification>,
    correlation: Vec<Correlation>,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Classification {
    predicted: Vec<usize>,
    gold: Vec<usize>,
    classes: usize,
    accuracy: f64,
    f1: f64,
    macro_f1: f64,
    matthews: f64,
    confusion: Vec<Vec<usize>>,
}

#[derive(Deserialize)]
struct Correlation {
    a: Vec<f64>,
    b: Vec<f64>,
    pearson: f64,
    spearman: f64,
}

#[derive(Deserialize)]
struct Answer {
    prediction: String,
    golds: Vec<String>,
    exact_match: f64,
    f1: f64,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/metrics.json")).unwrap()
}

fn close(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() < 1e-9
}

#[test]
fn classification_metrics_agree() {
    let cases = golden().classification;
    assert!(cases.len() >= 220);
    for (number, case) in cases.iter().enumerate() {
        let matrix = ConfusionMatrix::new(&case.predicted, &case.gold, case.classes);
        for (gold, row) in case.confusion.iter().enumerate() {
            let counts: Vec<usize> = (0..case.classes).map(|predicted| matrix.count(gold, predicted)).collect();
            assert_eq!(&counts, row, "case {number}");
        }
        assert!(close(matrix.accuracy(), case.accuracy), "case {number}");
        assert!(close(matrix.f1(1), case.f1), "case {number}: {} {}", matrix.f1(1), case.f1);
        assert!(close(matrix.macro_f1(), case.macro_f1), "case {number}");
        assert!(close(matrix.matthews(), case.matthews), "case {number}");
    }
}

#[test]
fn correlations_agree() {
    let cases = golden().correlation;
    assert!(cases.len() >= 220);
    for (number, case) in cases.iter().enumerate() {
        assert!(close(pearson(&case.a, &case.b), case.pearson), "case {number}");
        assert!(close(spearman(&case.a, &case.b), case.spearman), "case {number}");
    }
}

#[test]
fn answers_are_scored_as_in_the_official_evaluation() {
    let cases = golden().answers;
    assert!(cases.len() >= 20);
    for case in cases {
        let golds: Vec<&str> = case.golds.iter().map(String::as_str).collect();
        let (exact, f1) = score_answer(&case.prediction, &golds);
        // torchmetrics computes in f32.
        assert!(close(exact, case.exact_match) && (f1 - case.f1).abs() < 1e-6, "{}: {exact} {f1}", case.prediction);
    }
}

#[test]
fn nothing_to_score_scores_zero() {
    let nothing = ConfusionMatrix::new(&[], &[], 2);
    assert_eq!([nothing.accuracy(), nothing.f1(1), nothing.macro_f1(), nothing.matthews()], [0.0; 4]);
    assert_eq!([pearson(&[], &[]), spearman(&[], &[]), pearson(&[1.0], &[2.0])], [0.0; 3]);
    assert_eq!(score_answer("", &[]), (1.0, 1.0), "no answer is right where there is none");
    assert_eq!(score_answer("something", &[]), (0.0, 0.0));
}

/// Examples with the classes `gold`, and predictions of `predicted`.
fn classified(predicted: &[usize], gold: &[usize]) -> (Vec<Prediction>, Vec<Example>) {
    let predictions = predicted.iter().map(|&class| Prediction::Class(class, vec![])).collect();
    (predictions, gold.iter().map(|&class| Example::new("", Target::Class(class))).collect())
}

#[test]
fn evaluation_gives_the_same_numbers_bit_for_bit() {
    for case in golden().classification {
        let (predictions, examples) = classified(&case.predicted, &case.gold);
        let scores = evaluate(TaskKind::Classification, case.classes, &predictions, &examples);
        let matrix = ConfusionMatrix::new(&case.predicted, &case.gold, case.classes);
        let mut expected =
            vec![("accuracy", matrix.accuracy()), ("macro_f1", matrix.macro_f1()), ("matthews", matrix.matthews())];
        if case.classes == 2 {
            expected.insert(1, ("f1", matrix.f1(1)));
        }
        let found: Vec<_> = scores.iter().map(|(name, score)| (name.as_str(), score.to_bits())).collect();
        assert_eq!(found, expected.iter().map(|(name, score)| (*name, score.to_bits())).collect::<Vec<_>>());
    }
    for case in golden().correlation {
        let single = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<_>>();
        let double = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let (a, b) = (single(&case.a), single(&case.b));
        let predictions: Vec<_> = a.iter().map(|&score| Prediction::Score(score)).collect();
        let examples: Vec<_> = b.iter().map(|&score| Example::new("", Target::Score(score))).collect();
        let scores = evaluate(TaskKind::Regression, 0, &predictions, &examples);
        let (a, b) = (double(&a), double(&b));
        assert_eq!([scores["pearson"], scores["spearman"]], [pearson(&a, &b), spearman(&a, &b)]);
        assert_eq!(scores.len(), 2);
    }
}

#[test]
fn a_metric_of_ones_own_is_computed_beside_the_built_in_ones() {
    let mut metrics = Metrics::default();
    let share_of_zeros = |judged: &tasks::Judged<'_>| {
        let zeros = judged.predictions.iter().filter(|prediction| matches!(prediction, Prediction::Class(0, _)));
        zeros.count() as f64 / judged.targets.len() as f64
    };
    metrics.add(Metric::new("zeros", TaskKind::Classification, share_of_zeros)).unwrap();
    metrics.add(Metric::new("threes", TaskKind::Classification, |_| 3.0).for_classes(3)).unwrap();
    let (predictions, mut examples) = classified(&[0, 1, 0, 0], &[0, 1, 1, 0]);
    // Without a target, an example is not judged.
    examples[3].target = None;
    let scores = metrics.evaluate(TaskKind::Classification, 2, &predictions, &examples);
    let mut expected = evaluate(TaskKind::Classification, 2, &predictions, &examples);
    expected.insert("zeros".to_owned(), 2.0 / 3.0);
    assert_eq!(scores, expected);
    assert_eq!(metrics.evaluate(TaskKind::Classification, 3, &predictions, &examples)["threes"], 3.0);
    let numbers = metrics.evaluate(TaskKind::Regression, 0, &[], &[]);
    assert_eq!(numbers.keys().collect::<Vec<_>>(), ["pearson", "spearman"]);
}

#[test]
fn an_own_metric_of_answers_is_the_mean_over_questions() {
    let mut metrics = Metrics::default();
    metrics.add(Metric::answers("first", |answer, golds| f64::from(golds.first() == Some(&answer)))).unwrap();
    let question = |gold: &str| Question {
        id: String::new(),
        question: String::new(),
        context: gold.into(),
        answers: vec![Gold { start: 0, text: gold.to_owned() }],
    };
    let answers = ["the cat".to_owned(), "dog".to_owned()];
    let scores = metrics.evaluate_answers(&answers, &[question("Cat"), question("dog")]);
    assert_eq!([scores["exact_match"], scores["answer_f1"], scores["first"]], [1.0, 1.0, 0.5]);
}

#[rstest]
#[case::taken(Metric::new("f1", TaskKind::Regression, |_| 0.0), "there is a metric `f1` already")]
#[case::unnamed(Metric::new("", TaskKind::Regression, |_| 0.0), "needs a name")]
#[case::span(Metric::new("x", TaskKind::Span, |_| 0.0), "`Metric::answers`")]
#[case::both(Metric::answers("x", |_, _| 0.0).also(TaskKind::Regression), "`Metric::answers`")]
fn a_metric_that_cannot_be_added_is_explained(#[case] metric: Metric, #[case] message: &str) {
    let mut metrics = Metrics::default();
    let error = metrics.add(metric).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
    assert_eq!(metrics.names().count(), 8);
}

#[test]
fn an_unknown_metric_gets_the_nearest_and_all_that_are_known() {
    let metrics = Metrics::default();
    assert_eq!(metrics.find("matthews").unwrap().name(), "matthews");
    let message = |name| metrics.find(name).unwrap_err().to_string();
    let known = "known are accuracy, f1, macro_f1, matthews, pearson, spearman, exact_match, answer_f1";
    assert_eq!(message("mathews"), format!("unknown metric `mathews` (did you mean `matthews`?); {known}"));
    assert_eq!(message("bleu-of-translation"), format!("unknown metric `bleu-of-translation`; {known}"));
}

#[test]
fn every_kind_has_the_metric_it_is_judged_by() {
    for kind in [TaskKind::Classification, TaskKind::Regression, TaskKind::MultiLabel, TaskKind::Span] {
        assert!(Metrics::default().find(kind.metric()).unwrap().applies_to(kind, 5));
    }
    for task in &tasks::Tasks::paper() {
        let classes = task.classes.unwrap_or_default();
        assert!(Metrics::default().find(&task.metric).unwrap().applies_to(task.kind, classes), "{task:?}");
    }
}

/// As many classes as rows of a large file: what is kept grows with the examples, not with the square of the classes.
#[test]
fn a_confusion_matrix_of_a_million_classes_is_small() {
    let (classes, examples) = (1_000_000, 5_000);
    let gold: Vec<usize> = (0..examples).map(|i| i * 199).collect();
    let predicted: Vec<usize> = gold.iter().map(|&class| if class % 2 == 0 { class } else { class - 1 }).collect();
    let matrix = ConfusionMatrix::new(&predicted, &gold, classes);
    assert_eq!((matrix.accuracy(), matrix.count(199, 198), matrix.count(199, 199)), (0.5, 1, 0));
    // Every second class is found; every other one counts twice: as one that was missed, and as one that was invented.
    assert!((matrix.macro_f1() - 1.0 / 3.0).abs() < 1e-3, "{}", matrix.macro_f1());
}
