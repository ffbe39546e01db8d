//! The network and the tokenizer compute what Hugging Face transformers computes.
//!
//! The golden values are made by `golden/make_golden.py`. The test on real weights needs them:
//! `adapter-lab fetch minilm-l6 && cargo test -p bert-backbone --release --test parity -- --ignored`
//! (with `ADAPTER_LAB_CACHE` as for the fetch, if it was set).

mod support;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use bert_backbone::{Backbone, Encoded, Fetcher, PackedBatch};
use burn::tensor::{Device, Int, Tensor, TensorData};
use safetensors::SafeTensors;
use serde::Deserialize;
use support::{floats, largest_difference, tiny_folder};

/// The largest permitted difference of an element.
const TOLERANCE: f32 = 5e-5;

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    text: String,
    pair: Option<String>,
    max_length: Option<usize>,
    repeat: Option<String>,
    times: Option<usize>,
    pair_times: Option<usize>,
    ids: Option<String>,
}

impl Input {
    fn encode(&self, backbone: &Backbone) -> Encoded {
        let tokenizer = &backbone.tokenizer;
        if let Some(token) = &self.ids {
            let input_ids = vec![tokenizer.id(token).unwrap()];
            return Encoded { input_ids, token_type_ids: vec![0], ..Encoded::default() };
        }
        let text = self.repeat.as_ref().map_or(self.text.clone(), |text| text.repeat(self.times.unwrap()));
        let pair = self.pair.as_ref().map(|pair| pair.repeat(self.pair_times.unwrap_or(1)));
        tokenizer.encode(&text, pair.as_deref(), self.max_length.unwrap_or(512)).unwrap()
    }
}

struct Golden {
    bytes: Vec<u8>,
}

impl Golden {
    fn read(name: &str) -> Self {
        Self { bytes: fs::read(golden_folder().join(name)).unwrap() }
    }

    fn ints(&self, name: &str) -> Vec<i64> {
        self.values(name, i64::from_le_bytes)
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.values(name, f32::from_le_bytes)
    }

    fn has(&self, name: &str) -> bool {
        SafeTensors::deserialize(&self.bytes).unwrap().tensor(name).is_ok()
    }

    fn values<const N: usize, T>(&self, name: &str, read: fn([u8; N]) -> T) -> Vec<T> {
        let tensors = SafeTensors::deserialize(&self.bytes).unwrap();
        let tensor = tensors.tensor(name).unwrap();
        tensor.data().as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect()
    }
}

/// Tests run in their package's folder.
fn golden_folder() -> &'static Path {
    Path::new("tests/golden")
}

fn inputs() -> Vec<Input> {
    let text = fs::read_to_string(golden_folder().join("inputs.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn rows(tensor: Tensor<2>, rows: Vec<i64>) -> Tensor<2> {
    let (count, device) = (rows.len(), tensor.device());
    tensor.select(0, Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &device))
}

/// Checks every input alone, and all of them in one batch of mixed lengths.
fn check(folder: &Path, golden: &str) {
    let device = Device::flex();
    let backbone = Backbone::load(folder, &device).unwrap();
    let golden = Golden::read(golden);
    let inputs = inputs();
    assert!(inputs.len() >= 24);

    let encoded: Vec<Encoded> = inputs.iter().map(|input| input.encode(&backbone)).collect();
    for (number, encoded) in encoded.iter().enumerate() {
        let as_ints = |ids: &[u32]| ids.iter().map(|&id| i64::from(id)).collect::<Vec<_>>();
        assert_eq!(as_ints(&encoded.input_ids), golden.ints(&format!("input_ids.{number}")), "input {number}");
        assert_eq!(as_ints(&encoded.token_type_ids), golden.ints(&format!("token_type_ids.{number}")), "{number}");
    }

    let together = PackedBatch::new(&encoded, &backbone.config, &device).unwrap();
    let hidden_together = backbone.bert.forward(&together);
    let mut worst: f32 = 0.0;
    for (number, sequence) in encoded.iter().enumerate() {
        let alone = PackedBatch::new(std::slice::from_ref(sequence), &backbone.config, &device).unwrap();
        let hidden = backbone.bert.forward(&alone);
        let wanted = golden.ints(&format!("rows.{number}"));
        let theirs = golden.floats(&format!("last_hidden_state.{number}"));
        let start = together.boundaries()[number] as i64;
        let shifted = wanted.iter().map(|row| row + start).collect();
        for ours in [rows(hidden.clone(), wanted.clone()), rows(hidden_together.clone(), shifted)] {
            let difference = largest_difference(&floats(ours), &theirs);
            assert!(difference <= TOLERANCE, "input {number}: {difference:e}");
            worst = worst.max(difference);
        }

        let pooler = backbone.bert.pooler.as_ref().unwrap();
        let pooled = floats(pooler.forward(alone.first_tokens(hidden.clone())));
        assert!(largest_difference(&pooled, &golden.floats(&format!("pooled.{number}"))) <= TOLERANCE);

        if let Some(head) = &backbone.masked_lm
            && golden.has(&format!("mlm.{number}"))
        {
            let mask = backbone.tokenizer.id("[MASK]").unwrap();
            let masked = sequence.input_ids.iter().zip(0i64..).filter(|(id, _)| **id == mask);
            let hidden = rows(hidden, masked.map(|(_, row)| row).collect());
            let scores = floats(head.forward(hidden, &backbone.bert.embeddings));
            assert!(largest_difference(&scores, &golden.floats(&format!("mlm.{number}"))) <= 2.0 * TOLERANCE);
        }
    }
    println!("{} inputs, largest difference {worst:e}", inputs.len());
}

#[test]
fn a_random_checkpoint_gives_the_numbers_of_transformers() {
    check(tiny_folder().path(), "tiny.safetensors");
}

#[test]
#[ignore = "needs real weights: adapter-lab fetch minilm-l6"]
fn minilm_gives_the_numbers_of_transformers() {
    let cache = env::var_os("ADAPTER_LAB_CACHE").map_or_else(Fetcher::default_cache, PathBuf::from);
    check(&Fetcher::new(cache).find("minilm-l6").unwrap(), "minilm-l6.safetensors");
}

#[test]
#[ignore = "needs real weights: adapter-lab fetch minilm-l6"]
fn a_plain_vocabulary_tokenises_like_the_whole_tokenizer() {
    let cache = env::var_os("ADAPTER_LAB_CACHE").map_or_else(Fetcher::default_cache, PathBuf::from);
    let whole = Fetcher::new(cache).find("minilm-l6").unwrap();
    let plain = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"] {
        fs::copy(whole.join(file), plain.path().join(file)).unwrap();
    }
    let device = Device::flex();
    let (whole, plain) = (Backbone::load(&whole, &device).unwrap(), Backbone::load(plain.path(), &device).unwrap());
    for input in inputs() {
        assert_eq!(input.encode(&whole), input.encode(&plain));
    }
}
