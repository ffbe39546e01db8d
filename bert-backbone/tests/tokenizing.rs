//! Special tokens, offsets, truncation and lower-casing.

mod support;

use std::fs;

use bert_backbone::{RandomCheckpoint, Tokenizer};
use burn::tensor::Device;
use rstest::rstest;
use serde_json::{Value, json};
use support::tiny_folder;

fn tokens(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect::<Vec<_>>().join(" ")
}

fn tiny() -> Tokenizer {
    Tokenizer::load(tiny_folder().path()).unwrap()
}

#[rstest]
#[case("the cats sat", None, 64, "[CLS] the cat ##s sat [SEP]")]
#[case("The Cat", Some("a DOG"), 64, "[CLS] the cat [SEP] a dog [SEP]")]
#[case("", None, 64, "[CLS] [SEP]")]
#[case("a [MASK] sat", None, 64, "[CLS] a [MASK] sat [SEP]")]
#[case("the cat sat on the mat", None, 5, "[CLS] the cat sat [SEP]")]
#[case("the cat sat on the mat", Some("a dog"), 8, "[CLS] the cat sat [SEP] a dog [SEP]")]
#[case("a dog", Some("the cat sat on the mat"), 8, "[CLS] a dog [SEP] the cat sat [SEP]")]
fn texts_become_word_pieces(
    #[case] text: &str,
    #[case] pair: Option<&str>,
    #[case] max_length: usize,
    #[case] expected: &str,
) {
    let tokenizer = tiny();
    let encoded = tokenizer.encode(text, pair, max_length).unwrap();
    assert_eq!(tokens(&tokenizer, &encoded.input_ids), expected);
}

#[test]
fn offsets_point_into_the_original_text() {
    let tokenizer = tiny();
    let (question, context) = ("Who sat?", "Thé café: the CAT sat.");
    let encoded = tokenizer.encode(question, Some(context), 64).unwrap();
    let covered = |text: usize, of: &str| -> Vec<String> {
        let pieces = encoded.offsets.iter().zip(&encoded.text_ids);
        pieces.filter(|(_, id)| **id == Some(text)).map(|(&(from, to), _)| of[from..to].to_owned()).collect()
    };
    assert_eq!(covered(0, question), ["Who", "sat", "?"]);
    let context = covered(1, context);
    assert_eq!(context[context.len() - 4..], ["the", "CAT", "sat", "."]);
    assert_eq!(context[0], "Thé");
    assert_eq!(encoded.text_ids.iter().filter(|id| id.is_none()).count(), 3);
}

#[test]
fn a_maximum_without_room_is_refused() {
    let error = tiny().encode("a", Some("b"), 2).unwrap_err().to_string();
    assert!(error.contains("no room beside 3 special tokens"), "{error}");
    assert_eq!(tiny().encode("a", Some("b"), 3).unwrap().input_ids.len(), 3);
}

#[rstest]
#[case(true, "[CLS] the [SEP]")]
#[case(false, "[CLS] [UNK] [SEP]")]
fn lower_casing_is_the_configurations_choice(#[case] lower: bool, #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::micro().write(folder.path(), &Device::flex()).unwrap();
    let config = format!(r#"{{"do_lower_case": {lower}}}"#);
    fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    assert_eq!(tokens(&tokenizer, &tokenizer.encode("THE", None, 8).unwrap().input_ids), expected);
}

/// A `tokenizer.json` with the tiny vocabulary, changed.
fn changed(change: impl FnOnce(&mut Value)) -> (tempfile::TempDir, Value) {
    let folder = tiny_folder();
    let vocabulary = fs::read_to_string(folder.path().join("vocab.txt")).unwrap();
    let vocabulary: serde_json::Map<String, Value> =
        vocabulary.lines().enumerate().map(|(id, token)| (token.to_owned(), id.into())).collect();
    let special = |token: &str| json!({"id": token, "ids": [vocabulary[token]], "tokens": [token]});
    let (start, end) = (
        json!({"SpecialToken": {"id": "[CLS]", "type_id": 0}}),
        |segment: u32| json!({"SpecialToken": {"id": "[SEP]", "type_id": segment}}),
    );
    let sequence = |id: &str, segment: u32| json!({"Sequence": {"id": id, "type_id": segment}});
    let mut document = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, sequence("A", 0), end(0)],
            "pair": [start, sequence("A", 0), end(0), sequence("B", 1), end(1)],
            "special_tokens": {"[CLS]": special("[CLS]"), "[SEP]": special("[SEP]")},
        },
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    change(&mut document);
    fs::write(folder.path().join("tokenizer.json"), document.to_string()).unwrap();
    (folder, document)
}

#[test]
fn a_plain_tokenizer_file_is_read() {
    let (folder, _) = changed(|_| {});
    let tokenizer = Tokenizer::load(folder.path()).unwrap();
    let encoded = tokenizer.encode("The cats", Some("a dog"), 64).unwrap();
    assert_eq!(tokens(&tokenizer, &encoded.input_ids), "[CLS] the cat ##s [SEP] a dog [SEP]");
}

/// The library panics on most of these; what is wrong is the file.
#[rstest]
#[case::no_special_tokens(|document: &mut Value| document["post_processor"]["special_tokens"] = json!({}))]
#[case::second_text_alone(|document: &mut Value| document["post_processor"]["single"] = json!([{"Sequence": {"id": "B", "type_id": 0}}]))]
#[case::short_charsmap(|document: &mut Value| document["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"}))]
#[case::long_prefix(|document: &mut Value| document["model"] = json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "####", "end_of_word_suffix": null, "fuse_unk": false, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}))]
#[case::length_of_nothing(|document: &mut Value| document["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0}))]
#[case::regex(|document: &mut Value| document["pre_tokenizer"] = json!({"type": "Split", "pattern": {"Regex": "(unclosed"}, "behavior": "Isolated", "invert": false}))]
#[case::nothing(|document: &mut Value| *document = json!({}))]
fn a_tokenizer_that_fails_is_named_by_its_file(#[case] change: fn(&mut Value)) {
    let (folder, _) = changed(change);
    let loaded = Tokenizer::load(folder.path()).and_then(|tokenizer| tokenizer.encode("zebra ab", None, 16));
    let error = loaded.unwrap_err().to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}

#[test]
fn a_long_text_costs_no_more_than_what_is_kept_of_it() {
    let tokenizer = tiny();
    let long = "the cat ".repeat(1 << 20);
    assert_eq!(
        tokenizer.encode(&long, None, 8).unwrap(),
        tokenizer.encode("the cat the cat the cat", None, 8).unwrap()
    );
    let error = tokenizer.pieces(&long.repeat(3)).unwrap_err().to_string();
    assert!(error.contains("is too long"), "{error}");
}

#[rstest]
#[case(None, 2)]
#[case(Some("a dog"), 3)]
fn special_tokens_alone_are_no_text(#[case] pair: Option<&str>, #[case] length: usize) {
    let error = tiny().check_room(pair.is_some(), length).unwrap_err().to_string();
    assert!(error.contains(&format!("a maximum length of {length} tokens has no room")), "{error}");
    assert!(tiny().check_room(pair.is_some(), length + 1).is_ok());
}
