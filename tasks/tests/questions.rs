//! SQuAD: from characters to tokens and back.

use std::{fs, path::Path, sync::Arc};

use bert_backbone::{RandomCheckpoint, Tokenizer};
use burn::tensor::Device;
use rstest::rstest;
use tasks::{
    Answer, AnswerConfig, Question, SquadVersion, TokenCache, WindowConfig, Windows, best_answers, evaluate_answers,
    read_squad,
};

fn tokenizer() -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
    Tokenizer::load(folder.path()).unwrap()
}

fn question(question: &str, context: &str, answer: Option<&str>) -> Question {
    let answers = answer.map(|text| Answer { start: context.find(text).unwrap(), text: text.to_owned() });
    let (id, context) = ("q".to_owned(), Arc::from(context));
    Question { id, question: question.to_owned(), context, answers: answers.into_iter().collect() }
}

fn windows(questions: &[Question], max_length: usize, stride: usize) -> Windows {
    let config = WindowConfig { max_length, stride, max_question: 8 };
    TokenCache::none().windows(questions, &tokenizer(), config).unwrap()
}

fn write(path: &Path, context: &str, start: usize, text: &str, impossible: bool) {
    let json = serde_json::json!({"version": "x", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": [
        {"id": "1", "question": "Who?", "answers": [{"text": text, "answer_start": start}], "is_impossible": impossible},
    ]}]}]});
    fs::write(path, json.to_string()).unwrap();
}

#[test]
fn character_offsets_become_byte_offsets() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let context = "Ünïcödé 東京 and the cat.";
    write(file.path(), context, 8, "東京", false);
    let questions = read_squad(file.path()).unwrap();
    let answer = &questions[0].answers[0];
    assert_eq!(&context[answer.start..answer.start + answer.text.len()], "東京");
}

#[test]
fn a_question_without_an_answer_has_none() {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), "A cat.", 2, "cat", true);
    assert!(read_squad(file.path()).unwrap()[0].answers.is_empty());
}

#[rstest]
#[case::misplaced("A cat.", 3, "question 1: `cat` does not stand at character 3")]
#[case::beyond("A cat.", 300, "does not stand at character 300")]
fn an_answer_that_does_not_stand_there_is_refused(#[case] context: &str, #[case] start: usize, #[case] message: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), context, start, "cat", false);
    let error = read_squad(file.path()).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[rstest]
#[case("{\"data\": []}", "no questions")]
#[case("{\"data\": [", "not in SQuAD's format")]
#[case("[]", "not in SQuAD's format")]
fn another_format_is_refused(#[case] contents: &str, #[case] message: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), contents).unwrap();
    let error = read_squad(file.path()).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[rstest]
#[case("the CAT", "Yesterday the CAT sat, not the dog.")]
#[case("24–10", "It ended 24–10 in the end.")]
#[case("é", "café é a")]
#[case("東京", "in 東京 today")]
#[case("mat.", "on the mat.")]
fn an_answer_is_found_again_from_its_tokens(#[case] answer: &str, #[case] context: &str) {
    let start = context.rfind(answer).unwrap();
    let mut question = question("who?", context, None);
    question.answers.push(Answer { start, text: answer.to_owned() });
    let windows = windows(&[question], 64, 32);
    assert_eq!(windows.len(), 1);
    assert_eq!(windows.text(0, windows.target(0), context), answer);
}

#[test]
fn a_long_text_is_divided_with_the_stride_and_every_token_is_in_a_window() {
    let words: Vec<String> = (0..40).map(|i| ["a", "cat", "sat", "on", "mat"][i % 5].to_owned()).collect();
    let context = format!("{} dog {}", words.join(" "), words.join(" "));
    let question = question("who is it?", &context, Some("dog"));
    let windows = windows(&[question], 24, 8);
    // 81 tokens of text; 24 − 3 special − 4 of the question leave room for 17: one window, then one every 8 tokens.
    assert_eq!(windows.len(), 1 + (81usize - 17).div_ceil(8));
    let holding: Vec<usize> = (0..windows.len()).filter(|&i| windows.target(i) != (0, 0)).collect();
    assert_eq!(holding, [3, 4, 5], "the 41st token lies in the windows that start at tokens 24, 32 and 40");
    for &i in &holding {
        assert_eq!(windows.text(i, windows.target(i), &context), "dog");
        assert!(windows.tokens().length(i) <= 24);
    }
}

#[test]
fn a_window_without_room_is_refused() {
    let config = WindowConfig { max_length: 6, stride: 4, max_question: 8 };
    let error = TokenCache::none().windows(&[question("who is it?", "a cat", None)], &tokenizer(), config).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
}

/// Scores that prefer `first` and `last` of window `best`.
fn scores(windows: &Windows, best: usize, first: usize, last: usize) -> Vec<Vec<[f32; 2]>> {
    (0..windows.len())
        .map(|i| {
            let mut scores = vec![[0.0; 2]; windows.tokens().length(i)];
            if i == best {
                scores[first][0] = 5.0;
                scores[last][1] = 5.0;
            }
            scores
        })
        .collect()
}

#[test]
fn the_best_answer_comes_from_the_best_window() {
    let context = "the cat sat on the mat and the dog sat on it";
    let questions = [question("who?", context, Some("dog"))];
    let windows = windows(&questions, 12, 4);
    let best = (0..windows.len()).find(|&i| windows.target(i) != (0, 0)).unwrap();
    let (first, last) = windows.target(best);
    let answers = best_answers(&questions, &windows, &scores(&windows, best, first, last), AnswerConfig::default());
    assert_eq!(answers, ["dog"]);
    assert_eq!(evaluate_answers(&answers, &questions)["exact_match"], 1.0);
}

/// Two windows see the same word; the one in which it stands in the middle counts, however sure the other is.
#[test]
fn an_answer_comes_from_the_window_that_gives_it_most_context() {
    let questions = [question("who?", "the cat sat on the mat and the dog sat on it", Some("and"))];
    let windows = windows(&questions, 12, 4);
    let having: Vec<usize> = (0..windows.len()).filter(|&i| windows.target(i) != (0, 0)).collect();
    assert!(having.len() > 1, "the word is in several windows");
    // Tokens of the text: behind the question and its two special tokens, before the last one.
    let least = |&i: &usize| {
        let (token, length) = (windows.target(i).0, windows.tokens().length(i));
        (token - 4).min(length - 2 - token)
    };
    // The first of equal ones counts.
    let (most, fewest) = (having.iter().rev().copied().max_by_key(least), having.iter().copied().min_by_key(least));
    let answer = |window: usize| {
        let (first, last) = windows.target(window);
        best_answers(&questions, &windows, &scores(&windows, window, first, last), AnswerConfig::default())
    };
    assert_ne!(most, fewest);
    assert_eq!(answer(most.unwrap()), ["and"]);
    assert_ne!(answer(fewest.unwrap()), ["and"]);
}

#[rstest]
#[case::backwards(8, 5)]
#[case::in_the_question(1, 1)]
#[case::special(0, 0)]
fn what_is_no_span_of_the_text_is_not_an_answer(#[case] first: usize, #[case] last: usize) {
    let context = "the cat sat on the mat and the dog sat on it";
    let questions = [question("who?", context, Some("dog"))];
    let windows = windows(&questions, 64, 32);
    let answers = best_answers(&questions, &windows, &scores(&windows, 0, first, last), AnswerConfig::default());
    assert!(context.contains(&answers[0]) && !answers[0].is_empty(), "{answers:?}");
}

#[test]
fn answers_are_not_longer_than_allowed() {
    let context = "the cat sat on the mat and the dog sat on it";
    let questions = [question("who?", context, None)];
    let windows = windows(&questions, 64, 32);
    let config = AnswerConfig { max_answer: 3, ..AnswerConfig::default() };
    let answers = best_answers(&questions, &windows, &scores(&windows, 0, 4, 12), config);
    assert!(answers[0].split(' ').count() <= 3, "{answers:?}");
}

#[rstest]
#[case(SquadVersion::V1, 0.0, false)]
#[case(SquadVersion::V2, 0.0, true)]
#[case(SquadVersion::V2, 20.0, false)]
fn no_answer_is_given_only_where_there_may_be_none(
    #[case] version: SquadVersion,
    #[case] null_threshold: f32,
    #[case] nothing: bool,
) {
    let questions = [question("who?", "the cat sat", None)];
    let windows = windows(&questions, 64, 32);
    let mut scores = scores(&windows, 0, 4, 4);
    scores[0][0] = [9.0, 9.0];
    let config = AnswerConfig { version, null_threshold, ..AnswerConfig::default() };
    assert_eq!(best_answers(&questions, &windows, &scores, config)[0].is_empty(), nothing);
}

#[test]
fn windows_come_from_the_cache_and_another_answer_is_another_entry() {
    let (folder, tokenizer) = (tempfile::tempdir().unwrap(), tokenizer());
    let cache = TokenCache::new(folder.path());
    let get = |answer| {
        let questions = [question("who?", "the cat sat on the mat and the dog sat on it", Some(answer))];
        cache.windows(&questions, &tokenizer, WindowConfig { max_length: 12, stride: 4, max_question: 8 }).unwrap()
    };
    let written = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().metadata().unwrap().modified().unwrap()).collect::<Vec<_>>()
    };
    let made = get("dog");
    let before = written();
    assert_eq!(get("dog"), made);
    assert_eq!(written(), before, "the second time it is read, not made");
    assert_ne!(get("cat"), made);
    assert_eq!(written().len(), 2);
}
