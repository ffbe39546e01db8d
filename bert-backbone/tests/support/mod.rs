//! What several tests need: a small backbone and random sequences for it.

#![allow(dead_code)] // each test uses its own part

use bert_backbone::{Backbone, BertConfig, Encoded, RandomCheckpoint};
use burn::tensor::{Device, Tensor};
use tempfile::TempDir;

/// The tiny random checkpoint, in a folder of its own.
pub fn tiny_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::tiny().write(folder.path(), &Device::flex()).unwrap();
    folder
}

/// The tiny random checkpoint, loaded.
pub fn tiny(device: &Device) -> Backbone {
    Backbone::load(tiny_folder().path(), device).unwrap()
}

/// A sequence of any ids, of which the last half is the second text.
pub fn sequence(length: usize, seed: u32, config: &BertConfig) -> Encoded {
    let ids = (0..length as u32).map(|i| (i * 7 + seed * 13 + i * i) % config.vocab_size as u32);
    let types = (0..length).map(|i| u32::from(i > length / 2));
    Encoded { input_ids: ids.collect(), token_type_ids: types.collect(), ..Encoded::default() }
}

pub fn sequences(lengths: &[usize], config: &BertConfig) -> Vec<Encoded> {
    lengths.iter().zip(0..).map(|(&length, seed)| sequence(length, seed, config)).collect()
}

pub fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    // `f32::max` would pass over a NaN.
    differences.fold(0.0, |largest, x| if x.is_nan() { f32::INFINITY } else { x.max(largest) })
}
