//! The per-task file holds v and nothing else, and comes back bit for bit or not at all.

use std::{fs, path::Path};

mod support;

use adapter_core::{Adapter, AdapterConfig, DropoutKey, Init, InnerNorm, TaskFile, TaskFileError, TaskInfo};
use bert_backbone::{Backbone, PackedBatch, RandomCheckpoint};
use burn::{module::Module, tensor::Device};
use rstest::rstest;
use safetensors::SafeTensors;
use support::Tuning;
use tasks::{Head, HeadInput, ModelError, TaskKind, TaskModel};
use tempfile::TempDir;

type Model = TaskModel<Option<Adapter>>;

fn backbone(seed: u64) -> Backbone {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    RandomCheckpoint { seed, ..RandomCheckpoint::tiny() }.write(folder.path(), &device).unwrap();
    Backbone::load(folder.path(), &device).unwrap()
}

fn adapter(norm: InnerNorm) -> AdapterConfig {
    AdapterConfig { norm, init_std: 0.3, ..AdapterConfig::new(8) }
}

/// A model whose new parts are decided by `seed`.
fn model(backbone: &Backbone, tuning: Tuning, adapter: &AdapterConfig, seed: u64) -> Model {
    let device = Device::flex();
    let init = Init::new(seed);
    let d = backbone.config.hidden_size;
    let bert = backbone.bert.clone().insert(|place| match tuning {
        Tuning::Adapters => adapter.init(place, d, init, &device),
        _ => None,
    });
    TaskModel::new(bert, Head::new(&backbone.config.shape(), 3, HeadInput::Cls, init, &device)).unwrap()
}

/// As training would leave it: every trained tensor and statistic moved.
fn trained(model: Model, tuning: Tuning) -> Model {
    let names: Vec<_> = tuning.select(&model).trained.into_iter().map(|tensor| tensor.name).collect();
    adapter_core::replace_values(model, |tensor| {
        let moved = names.contains(&tensor.name) || tensor.name.contains("running_");
        moved.then(|| (0..tensor.elements()).map(|i| 0.5 + 0.1 * (i as f32).sin()).collect())
    })
}

fn info(backbone: &Backbone, tuning: Tuning, adapter: &AdapterConfig) -> TaskInfo {
    TaskInfo {
        task: "colours".to_owned(),
        kind: TaskKind::Classification.to_string(),
        labels: ["red", "green", "blue"].map(str::to_owned).to_vec(),
        pairs: Some(false),
        head: HeadInput::Cls.to_string(),
        max_length: 32,
        method: tuning.info(adapter),
        backbone: backbone.id(),
        origin: Default::default(),
    }
}

fn predict(model: &Model, backbone: &Backbone) -> Vec<f32> {
    let device = Device::flex();
    let texts = ["the cat sat on the mat", "who is it?", ""];
    let encoded: Vec<_> = texts.iter().map(|text| backbone.tokenizer.encode(text, None, 32).unwrap()).collect();
    let batch = PackedBatch::new(&encoded, &backbone.config, &device).unwrap();
    model.forward(&batch).into_data().iter::<f32>().collect()
}

/// A saved file of `tuning`, with what it was saved from.
fn saved(tuning: Tuning, norm: InnerNorm) -> (TempDir, Backbone, Model) {
    let (folder, backbone, adapter) = (tempfile::tempdir().unwrap(), backbone(0), adapter(norm));
    let model = trained(model(&backbone, tuning, &adapter, 1), tuning);
    let file = TaskFile::from_model(&model, &tuning.select(&model), info(&backbone, tuning, &adapter));
    file.write(&folder.path().join("v.safetensors")).unwrap();
    (folder, backbone, model)
}

#[rstest]
fn saving_and_loading_predicts_bit_for_bit(
    #[values(Tuning::Adapters, Tuning::Full, Tuning::TopLayers(2), Tuning::LayerNorm, Tuning::Head, Tuning::Bias)]
    tuning: Tuning,
    #[values(InnerNorm::None, InnerNorm::Batch)] norm: InnerNorm,
) {
    let (folder, first, original) = saved(tuning, norm);
    let fresh = backbone(0);
    let file = TaskFile::read(&folder.path().join("v.safetensors")).unwrap();
    assert_eq!(file.info.method, info(&first, tuning, &adapter(norm)).method);
    assert_eq!(file.info.labels, ["red", "green", "blue"]);
    let untrained = model(&fresh, tuning, &adapter(norm), 2);
    assert_ne!(predict(&untrained, &fresh), predict(&original, &first));
    let loaded = tuning.load(&adapter(norm), &fresh, file).unwrap();
    assert_eq!(predict(&loaded, &fresh), predict(&original, &first));
}

#[test]
fn running_statistics_are_saved_as_of_the_last_step_and_loaded_into_one_model_alone() {
    let device = Device::flex().autodiff();
    let (backbone, adapter) = (backbone(0), adapter(InnerNorm::Batch));
    let bert = backbone.bert.clone().train();
    let bert = bert.insert(|place| adapter.init(place, 32, Init::new(1), &device));
    let trained =
        TaskModel::new(bert, Head::new(&backbone.config.shape(), 3, HeadInput::Cls, Init::new(1), &device)).unwrap();
    let start = trained.valid();
    let encoded = [backbone.tokenizer.encode("the cat sat", None, 32).unwrap()];
    for step in 0..2 {
        let batch = PackedBatch::new(&encoded, &backbone.config, &device).unwrap();
        trained.forward(&batch.with_dropout(DropoutKey { seed: 0, step }));
    }
    let info = info(&backbone, Tuning::Adapters, &adapter);
    let selection = Tuning::Adapters.select(&trained);
    let taken = |model: &Model| TaskFile::from_model(model, &selection, info.clone());
    let file = taken(&trained);
    assert_eq!(file, taken(&trained.valid()));
    assert_ne!(file, taken(&start), "the statistics moved");

    let clone = start.clone();
    let before = taken(&start);
    let loaded = file.clone().apply(clone, &selection, &backbone.id()).unwrap();
    assert_eq!(taken(&loaded), file);
    assert_eq!(taken(&start), before, "other clones keep their own");
}

#[rstest]
#[case(Tuning::Adapters, InnerNorm::None, 0)]
#[case(Tuning::Adapters, InnerNorm::Batch, 3 * 2 * 2 * 8)]
#[case(Tuning::TopLayers(1), InnerNorm::None, 0)]
#[case(Tuning::Head, InnerNorm::None, 0)]
fn the_file_holds_v_and_nothing_else(#[case] tuning: Tuning, #[case] norm: InnerNorm, #[case] statistics: usize) {
    let (folder, _, model) = saved(tuning, norm);
    let bytes = fs::read(folder.path().join("v.safetensors")).unwrap();
    let (header, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let entries = metadata.metadata().as_ref().unwrap();
    // Quotes of the nested document are escaped in the header.
    let escaped: usize = entries.iter().map(|(k, v)| k.len() + v.len() + v.matches('"').count() + 10).sum();
    let trained = tuning.count(&model).trained;
    assert_eq!(metadata.data_len(), 4 * (trained + statistics));
    assert_eq!(bytes.len(), 8 + header + metadata.data_len());
    let per_tensor = (header - escaped) as f64 / metadata.tensors().len() as f64;
    assert!(per_tensor < 160.0, "{per_tensor} bytes of header for each tensor");
    let again = folder.path().join("again.safetensors");
    TaskFile::read(&folder.path().join("v.safetensors")).unwrap().write(&again).unwrap();
    assert_eq!(fs::read(again).unwrap(), bytes, "the same contents are the same bytes");
}

/// What can happen to a file, and what is said then.
#[rstest]
#[case::absent(|path: &Path| fs::remove_file(path).unwrap(), "No such file")]
#[case::truncated(|path: &Path| edit(path, |bytes| { bytes.pop(); }), "truncated")]
#[case::header_alone(|path: &Path| edit(path, |bytes| bytes.truncate(3000)), "truncated")]
#[case::almost_empty(|path: &Path| edit(path, |bytes| bytes.truncate(5)), "truncated")]
#[case::flipped_header_syntax(|path: &Path| flip(path, "\"dtype\"", 0), "the header is damaged")]
#[case::flipped_header_name(|path: &Path| flip(path, "head.bias", 6), "do not match their checksum")]
#[case::flipped_header_metadata(|path: &Path| flip(path, "colours", 2), "do not match their checksum")]
#[case::flipped_data(|path: &Path| edit(path, |bytes| *bytes.last_mut().unwrap() ^= 1), "do not match their checksum")]
#[case::newer(|path: &Path| replace(path, r#"\"version\":2"#, r#"\"version\":9"#), "format version 9")]
#[case::stranger(|path: &Path| replace(path, "adapter_lab", "another_lab"), "was not written by this program")]
fn a_file_that_is_not_whole_has_its_own_message(#[case] harm: fn(&Path), #[case] message: &str) {
    let (folder, ..) = saved(Tuning::Adapters, InnerNorm::None);
    let path = folder.path().join("v.safetensors");
    harm(&path);
    let error = TaskFile::read(&path).unwrap_err().to_string();
    assert!(error.contains(message) && error.contains("v.safetensors"), "{error}");
}

#[test]
fn a_flipped_bit_in_any_byte_is_noticed_or_changes_nothing() {
    let (folder, ..) = saved(Tuning::Head, InnerNorm::None);
    let path = folder.path().join("v.safetensors");
    let whole = fs::read(&path).unwrap();
    let original = TaskFile::read(&path).unwrap();
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&path, bytes).unwrap();
        // A flip in white space or in an unused key of the header changes nothing that is read.
        if let Ok(read) = TaskFile::read(&path) {
            assert_eq!(read, original, "byte {place}");
        }
    }
}

#[test]
fn another_backbone_is_refused() {
    let (folder, ..) = saved(Tuning::Adapters, InnerNorm::None);
    let other = backbone(7);
    let file = TaskFile::read(&folder.path().join("v.safetensors")).unwrap();
    let error = Tuning::Adapters.load(&adapter(InnerNorm::None), &other, file.clone()).unwrap_err();
    assert!(matches!(error, ModelError::File(TaskFileError::OtherBackbone { .. })), "{error}");
    assert!(error.to_string().contains("were trained on backbone"), "{error}");
    let model = model(&other, Tuning::Adapters, &adapter(InnerNorm::None), 0);
    let selection = Tuning::Adapters.select(&model);
    assert!(file.apply(model, &selection, &other.id()).is_err(), "there is no way round the check");
}

#[rstest]
#[case::labels(|info: &mut TaskInfo| { info.labels.pop(); }, "3 outputs and 2 labels")]
#[case::kind(|info: &mut TaskInfo| info.kind = "regression".to_owned(), "a regression head")]
#[case::span(|info: &mut TaskInfo| info.kind = "span".to_owned(), "a span head on cls")]
#[case::unknown_kind(|info: &mut TaskInfo| info.kind = "poem".to_owned(), "unknown kind of task `poem`")]
#[case::unknown_head(|info: &mut TaskInfo| info.head = "tail".to_owned(), "unknown head `tail`")]
fn a_file_at_odds_with_itself_is_refused(#[case] change: fn(&mut TaskInfo), #[case] message: &str) {
    let (folder, backbone, _) = saved(Tuning::Adapters, InnerNorm::None);
    let mut file = TaskFile::read(&folder.path().join("v.safetensors")).unwrap();
    change(&mut file.info);
    let error = Tuning::Adapters.load(&adapter(InnerNorm::None), &backbone, file).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[rstest]
#[case::shape(Tuning::Adapters, 9, 3, "has shape [8] in the file and [9] in the model")]
#[case::classes(Tuning::Adapters, 8, 4, "tensor `head.bias` has shape [3]")]
#[case::tensors(Tuning::LayerNorm, 8, 3, "unknown to the model")]
fn a_model_of_another_shape_is_refused(
    #[case] tuning: Tuning,
    #[case] size: usize,
    #[case] classes: usize,
    #[case] message: &str,
) {
    let (folder, backbone, _) = saved(Tuning::Adapters, InnerNorm::None);
    let (device, init) = (Device::flex(), Init::new(0));
    let adapter = AdapterConfig::new(size);
    let bert = backbone.bert.clone().insert(|place| match tuning {
        Tuning::Adapters => adapter.init(place, 32, init, &device),
        _ => None,
    });
    let model =
        TaskModel::new(bert, Head::new(&backbone.config.shape(), classes, HeadInput::Cls, init, &device)).unwrap();
    let file = TaskFile::read(&folder.path().join("v.safetensors")).unwrap();
    let selection = Tuning::Adapters.select(&model);
    let error = file.apply(model, &selection, &backbone.id()).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Flips a bit in the byte `offset` after the first occurrence of `text`.
fn flip(path: &Path, text: &str, offset: usize) {
    edit(path, |bytes| {
        let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
        bytes[at + offset] ^= 1;
    });
}

fn replace(path: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    edit(path, |bytes| {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    });
}

/// A file whose tensors hold no numbers predicts nothing.
#[test]
fn values_that_are_not_finite_are_refused_by_name() {
    let (folder, ..) = saved(Tuning::Adapters, InnerNorm::None);
    let path = folder.path().join("v.safetensors");
    let file = TaskFile::read(&path).unwrap();
    let mut tensors = file.tensors().clone();
    tensors.get_mut("head.bias").unwrap().1[1] = f32::NAN;
    TaskFile::new(file.info.clone(), tensors).write(&path).unwrap();
    let error = TaskFile::read(&path).unwrap_err().to_string();
    assert!(error.contains("the tensor `head.bias` has values that are not finite"), "{error}");
}
