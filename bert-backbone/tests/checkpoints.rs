//! Weights as they are found in the wild, and weights that cannot be used.

mod support;

use std::{collections::BTreeMap, fs, path::Path};

use bert_backbone::{Backbone, BackboneError, RandomCheckpoint};
use burn::tensor::Device;
use half::{bf16, f16};
use rstest::rstest;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use support::tiny_folder;

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Rewrites the weights of a checkpoint.
fn edit(folder: &Path, change: impl FnOnce(Tensors) -> Tensors) {
    let path = folder.join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = stored.iter().map(|(name, view)| {
        let tensor = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
        (name.to_owned(), tensor)
    });
    let tensors = change(tensors.collect());
    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, data))| (name, TensorView::new(*dtype, shape.clone(), data).unwrap()));
    fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn rename(tensors: Tensors, name: impl Fn(&str) -> String) -> Tensors {
    tensors.into_iter().map(|(old, tensor)| (name(&old), tensor)).collect()
}

fn load(folder: &Path) -> Result<Backbone, BackboneError> {
    Backbone::load(folder, &Device::flex())
}

#[rstest]
#[case::without_prefix(|name: &str| name.replace("bert.", ""))]
#[case::data_parallel(|name: &str| format!("module.{name}"))]
#[case::gamma_and_beta(|name: &str| name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"))]
fn every_naming_loads_the_same_network(#[case] name: fn(&str) -> String) {
    let folder = tiny_folder();
    let expected = load(folder.path()).unwrap();
    edit(folder.path(), |tensors| rename(tensors, name));
    let renamed = load(folder.path()).unwrap();
    assert_eq!(renamed.id().hash, expected.id().hash);
    assert!(renamed.masked_lm.is_some());
    assert_eq!(renamed.unused, [""; 0]);
}

#[rstest]
#[case("\"num_attention_heads\": 4", "\"num_attention_heads\": 2")]
#[case("\"layer_norm_eps\": 0.001", "\"layer_norm_eps\": 0.002")]
#[case("\"hidden_act\": \"gelu_new\"", "\"hidden_act\": \"relu\"")]
fn what_decides_the_computation_decides_the_hash(#[case] from: &str, #[case] to: &str) {
    let folder = tiny_folder();
    let before = load(folder.path()).unwrap().id();
    let path = folder.path().join("config.json");
    let config = fs::read_to_string(&path).unwrap();
    assert!(config.contains(from), "{config}");
    fs::write(&path, config.replace(from, to)).unwrap();
    assert_ne!(load(folder.path()).unwrap().id().hash, before.hash);
}

#[test]
fn a_pytorch_file_loads_the_same_network() {
    let folder = tempfile::tempdir().unwrap();
    RandomCheckpoint::micro().write(folder.path(), &Device::flex()).unwrap();
    let expected = load(folder.path()).unwrap();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let pickle = Path::new("tests/golden/micro.bin");
    fs::copy(pickle, folder.path().join("pytorch_model.bin")).unwrap();
    let loaded = load(folder.path()).unwrap();
    assert_eq!(loaded.id().hash, expected.id().hash);
    assert!(loaded.masked_lm.is_some());
    assert_eq!(loaded.unused, [""; 0]);
}

#[rstest]
#[case::f16(Dtype::F16, |x: f32| f16::from_f32(x).to_le_bytes(), |x: f32| f16::from_f32(x).to_f32())]
#[case::bf16(Dtype::BF16, |x: f32| bf16::from_f32(x).to_le_bytes(), |x: f32| bf16::from_f32(x).to_f32())]
fn half_precision_becomes_the_f32_it_stands_for(
    #[case] dtype: Dtype,
    #[case] shorten: fn(f32) -> [u8; 2],
    #[case] rounded: fn(f32) -> f32,
) {
    let (short, exact) = (tiny_folder(), tiny_folder());
    let map = |tensors: Tensors, dtype: Dtype, bytes: &dyn Fn(f32) -> Vec<u8>| -> Tensors {
        let floats = |data: &[u8]| data.as_chunks::<4>().0.iter().map(|&c| f32::from_le_bytes(c)).collect::<Vec<_>>();
        tensors
            .into_iter()
            .map(|(name, (_, shape, data))| {
                let data = floats(&data).into_iter().flat_map(bytes).collect();
                (name, (dtype, shape, data))
            })
            .collect()
    };
    edit(short.path(), |tensors| map(tensors, dtype, &|x| shorten(x).to_vec()));
    edit(exact.path(), |tensors| map(tensors, Dtype::F32, &|x| rounded(x).to_le_bytes().to_vec()));
    assert_eq!(load(short.path()).unwrap().id().hash, load(exact.path()).unwrap().id().hash);
    assert_ne!(load(short.path()).unwrap().id().hash, load(tiny_folder().path()).unwrap().id().hash);
}

#[test]
fn pooler_and_masked_lm_head_are_optional_and_strangers_are_listed() {
    let folder = tiny_folder();
    let whole = load(folder.path()).unwrap();
    assert!(whole.bert.pooler.is_some() && whole.masked_lm.is_some());
    edit(folder.path(), |mut tensors| {
        tensors.retain(|name, _| !name.contains("pooler") && !name.starts_with("cls."));
        tensors.insert("cls.seq_relationship.bias".to_owned(), (Dtype::F32, vec![2], vec![0; 8]));
        tensors.insert("bert.embeddings.position_ids".to_owned(), (Dtype::I64, vec![1, 2], vec![0; 16]));
        tensors
    });
    let bare = load(folder.path()).unwrap();
    assert!(bare.bert.pooler.is_none() && bare.masked_lm.is_none());
    assert_eq!(bare.unused, ["cls.seq_relationship.bias"]);
}

#[test]
fn all_missing_and_misshapen_tensors_are_listed() {
    let folder = tiny_folder();
    edit(folder.path(), |mut tensors| {
        tensors.remove("bert.encoder.layer.1.output.dense.bias");
        tensors.remove("bert.embeddings.LayerNorm.weight");
        tensors.insert("bert.encoder.layer.2.attention.self.key.bias".into(), (Dtype::I8, vec![32], vec![0; 32]));
        tensors.insert("bert.encoder.layer.0.intermediate.dense.weight".into(), (Dtype::F32, vec![1, 2], vec![0; 8]));
        tensors
    });
    let error = load(folder.path()).unwrap_err().to_string();
    for part in [
        "missing: encoder.layer.1.output.dense.bias [32]",
        "missing: embeddings.LayerNorm.weight [32]",
        "misshapen: encoder.layer.0.intermediate.dense.weight is [1, 2], not [64, 32]",
        "unsupported: encoder.layer.2.attention.self.key.bias is stored as I8",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_masked_lm_head_that_is_not_tied_is_left_out() {
    let folder = tiny_folder();
    let words = |tensors: &Tensors| tensors["bert.embeddings.word_embeddings.weight"].clone();
    let decoder = "cls.predictions.decoder.weight";
    edit(folder.path(), |mut tensors| {
        tensors.insert(decoder.to_owned(), words(&tensors));
        tensors
    });
    assert!(load(folder.path()).unwrap().masked_lm.is_some(), "a copy of the embeddings is the usual case");
    edit(folder.path(), |mut tensors| {
        tensors.get_mut(decoder).unwrap().2[0] ^= 1;
        tensors
    });
    let untied = load(folder.path()).unwrap();
    assert!(untied.masked_lm.is_none());
    assert!(untied.unused.contains(&decoder.to_owned()), "and said so");
}

#[rstest]
#[case::no_weights("model.safetensors", None, "no weights here")]
#[case::truncated("model.safetensors", Some(1000), "damaged or truncated")]
#[case::cut_in_the_data("model.safetensors", Some(100_000), "damaged or truncated")]
#[case::empty("model.safetensors", Some(0), "damaged or truncated")]
#[case::no_config("config.json", None, "config.json: No such file")]
#[case::half_a_config("config.json", Some(40), "not the configuration of a BERT")]
#[case::no_tokenizer("vocab.txt", None, "no tokenizer here")]
#[case::half_a_vocabulary("vocab.txt", Some(12), "the vocabulary has no `[SEP]`")]
#[case::half_a_tokenizer_config("tokenizer_config.json", Some(12), "tokenizer_config.json")]
fn a_damaged_folder_is_explained(#[case] file: &str, #[case] bytes: Option<usize>, #[case] message: &str) {
    let folder = tiny_folder();
    let path = folder.path().join(file);
    match bytes {
        Some(bytes) => fs::write(&path, &fs::read(&path).unwrap()[..bytes]).unwrap(),
        None => fs::remove_file(&path).unwrap(),
    }
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn a_damaged_pytorch_file_is_explained() {
    let folder = tiny_folder();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    fs::write(folder.path().join("pytorch_model.bin"), b"PK\x03\x04 not a checkpoint").unwrap();
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("pytorch_model.bin: damaged or truncated"), "{error}");
}

/// Everything that the public types are made of can be named from outside.
#[test]
fn parts_of_the_network_and_of_errors_have_names() {
    use bert_backbone::{CheckpointError, Embedding, MaskedLmHead, Misfits, Transform};
    fn words(bert: &bert_backbone::Bert) -> &Embedding {
        &bert.embeddings.word_embeddings
    }
    fn transform(head: &MaskedLmHead) -> &Transform {
        &head.transform
    }
    fn problems(error: &CheckpointError) -> Option<&Misfits> {
        match error {
            CheckpointError::Misfit { problems, .. } => Some(problems),
            _ => None,
        }
    }
    let _ = (words as fn(&_) -> &_, transform as fn(&_) -> &_, problems as fn(&_) -> Option<&_>);
}

#[rstest]
#[case(f32::NAN)]
#[case(f32::INFINITY)]
fn a_tensor_without_numbers_is_named(#[case] value: f32) {
    let folder = tiny_folder();
    edit(folder.path(), |mut tensors| {
        let bias = tensors.get_mut("bert.encoder.layer.1.output.dense.bias").unwrap();
        bias.2[8..12].copy_from_slice(&value.to_le_bytes());
        tensors
    });
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("the tensor `encoder.layer.1.output.dense.bias` has values that are not finite"), "{error}");
}

/// A file that somebody shortens while it is read is an error, not the end of the process.
#[test]
fn weights_that_become_shorter_are_damaged_weights() {
    let folder = tiny_folder();
    let path = folder.path().join("model.safetensors");
    let config = bert_backbone::BertConfig::read(&folder.path().join("config.json")).unwrap();
    let bert = bert_backbone::Bert::random(&config, adapter_core::Init::new(0), &Device::flex()).unwrap();
    let mut checkpoint = bert_backbone::Checkpoint::open(folder.path()).unwrap();
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    let error = checkpoint.load(bert, "").unwrap_err().to_string();
    assert!(error.contains("ends too early"), "{error}");
}

/// A header that claims more than there is, in every way that a number can.
#[rstest]
#[case(u64::MAX)]
#[case(1 << 40)]
#[case(200)]
#[case(7)]
fn a_header_that_lies_about_its_length_is_damaged(#[case] length: u64) {
    let folder = tiny_folder();
    let path = folder.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("damaged or truncated"), "{error}");
}

#[cfg(unix)]
#[rstest]
#[case("config.json")]
#[case("tokenizer.json")]
fn what_never_ends_is_not_read(#[case] file: &str, #[values("/dev/zero", "pipe")] what: &str) {
    let folder = tiny_folder();
    let path = folder.path().join(file);
    let _ = fs::remove_file(&path);
    if what == "pipe" {
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    } else {
        std::os::unix::fs::symlink(what, &path).unwrap();
    }
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.contains(file) && error.contains("not a regular file"), "{error}");
}

#[test]
fn a_tokenizer_configuration_that_cannot_be_read_is_no_configuration() {
    for damage in [|path: &Path| fs::create_dir(path).unwrap(), |path: &Path| fs::write(path, [0xff, 0xfe]).unwrap()] {
        let folder = tiny_folder();
        let path = folder.path().join("tokenizer_config.json");
        fs::remove_file(&path).unwrap();
        damage(&path);
        let error = load(folder.path()).unwrap_err().to_string();
        assert!(error.contains("tokenizer_config.json"), "{error}");
    }
}

/// 600 bytes that stand for gigabytes: a tensor whose values are all the same one.
#[test]
fn a_pytorch_file_cannot_claim_more_than_it_has() {
    let folder = tiny_folder();
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    fs::copy("tests/golden/stride_0.bin", folder.path().join("pytorch_model.bin")).unwrap();
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("damaged or truncated") && error.contains("it claims"), "{error}");
    let mut tar = vec![0; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    fs::write(folder.path().join("pytorch_model.bin"), tar).unwrap();
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("a tar archive"), "{error}");
}
