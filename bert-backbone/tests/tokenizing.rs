//! Special tokens, offsets, truncation and lower-casing.

mod support;

use std::fs;

use bert_backbone::{RandomCheckpoint, Tokenizer};
use burn::tensor::Device;
use rstest::rstest;
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
