//! Metrics agree with scikit-learn, scipy, torchmetrics and transformers; the golden values are made by
//! `golden/make_metrics.py`.

use serde::Deserialize;
use tasks::{ConfusionMatrix, pearson, score_answer, spearman};

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
        assert_eq!(matrix.counts(), case.confusion, "case {number}");
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
