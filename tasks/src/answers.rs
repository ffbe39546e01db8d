//! SQuAD's evaluation: answers compared as normalised words.

use std::collections::HashMap;

/// Exact match and F1 of `prediction`, each against the right answer that is most like it.
///
/// A question without an answer has the empty text as its only right answer.
pub fn score_answer(prediction: &str, golds: &[&str]) -> (f64, f64) {
    let prediction = normalise(prediction);
    let unanswerable = [""];
    let golds = if golds.is_empty() { &unanswerable } else { golds };
    golds.iter().map(|gold| normalise(gold)).fold((0.0, 0.0), |(exact, f1): (f64, f64), gold| {
        let same = if prediction == gold { 1.0 } else { 0.0 };
        (exact.max(same), f1.max(word_f1(&prediction, &gold)))
    })
}

/// Lower case, without ASCII punctuation and the words *a*, *an* and *the*, single spaces.
fn normalise(text: &str) -> Vec<String> {
    let kept: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let mut words = String::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    // Runs of word characters and of others: an article is a whole run of word characters.
    let mut rest = kept.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (run, remaining) = rest.split_at(end);
        words.push_str(if matches!(run, "a" | "an" | "the") { " " } else { run });
        rest = remaining;
    }
    // Python's `split` also divides at these separators.
    let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    words.split(is_space).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// F1 of two bags of words; 1 if both are empty, 0 if one is (the rule of v2.0's evaluation; v1.1's knows no empty answers).
fn word_f1(prediction: &[String], gold: &[String]) -> f64 {
    if prediction.is_empty() || gold.is_empty() {
        return if prediction == gold { 1.0 } else { 0.0 };
    }
    let mut left = HashMap::new();
    for word in gold {
        *left.entry(word).or_insert(0usize) += 1;
    }
    let common = prediction.iter().filter(|word| match left.get_mut(word) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    });
    2.0 * common.count() as f64 / (prediction.len() + gold.len()) as f64
}
