//! A BERT that was exported to ONNX: its weights under the names that PyTorch gives them.

use std::collections::BTreeMap;

use prost::Message;
use safetensors::{Dtype, tensor::TensorView};

use crate::checkpoint::transpose;

/// The parts of ONNX's own messages that hold weights; numbers are those of its schema.
#[derive(Message)]
struct Model {
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
}

#[derive(Message)]
struct Graph {
    #[prost(message, repeated, tag = "1")]
    node: Vec<Node>,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<Initializer>,
}

#[derive(Message)]
struct Node {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    op_type: String,
}

#[derive(Message)]
struct Initializer {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

/// ONNX's number for f32.
const F32: i32 = 1;

/// Why a file has no weights that can be used.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// It is not ONNX, or damaged.
    #[error("not an ONNX file ({0})")]
    Damaged(#[from] prost::DecodeError),
    /// It has no network.
    #[error("an ONNX file without a graph")]
    Empty,
    /// A tensor's bytes do not fit its shape, or are no f32.
    #[error("the tensor `{0}` is not f32, or its size does not fit its shape")]
    Tensor(String),
    /// The tensors make no file.
    #[error("cannot write the tensors: {0}")]
    Write(#[from] safetensors::SafeTensorError),
}

impl Initializer {
    /// Its shape and values.
    fn values(&self) -> Result<(Vec<usize>, Vec<f32>), OnnxError> {
        let wrong = || OnnxError::Tensor(self.name.clone());
        let shape: Option<Vec<usize>> = self.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
        let shape = shape.ok_or_else(wrong)?;
        let size = shape.iter().try_fold(4usize, |bytes, &size| bytes.checked_mul(size));
        if self.data_type != F32 || size != Some(self.raw_data.len()) {
            return Err(wrong());
        }
        let values = self.raw_data.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        Ok((shape, values.collect()))
    }
}

/// The weights in an ONNX file as the contents of a `model.safetensors`.
///
/// The exporter keeps the names of biases, normalisations and embeddings. It turns linear weights and calls them by numbers; the
/// node that multiplies with one is named after its module.
///
/// # Errors
/// If the file is damaged, or holds a tensor that is not f32.
pub(crate) fn to_safetensors(bytes: &[u8]) -> Result<Vec<u8>, OnnxError> {
    let Graph { node, initializer } = Model::decode(bytes)?.graph.ok_or(OnnxError::Empty)?;
    let stored: BTreeMap<&str, &Initializer> =
        initializer.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)> = BTreeMap::new();
    for (name, tensor) in &stored {
        let of_bert = ["embeddings.", "encoder.", "pooler."].iter().any(|part| name.starts_with(part));
        if of_bert && (name.ends_with(".weight") || name.ends_with(".bias")) {
            tensors.insert((*name).to_owned(), tensor.values()?);
        }
    }
    for node in node.iter().filter(|node| node.op_type == "MatMul") {
        if let Some(tensor) = node.input.iter().find_map(|input| stored.get(input.as_str())) {
            let (shape, values) = tensor.values()?;
            let [rows, columns] = shape[..] else { return Err(OnnxError::Tensor(tensor.name.clone())) };
            let module = node.name.trim_start_matches('/').trim_end_matches("/MatMul").replace('/', ".");
            tensors.insert(format!("{module}.weight"), (vec![columns, rows], transpose(&values, rows, columns)));
        }
    }
    let views = tensors.iter().map(|(name, (shape, values))| {
        TensorView::new(Dtype::F32, shape.clone(), bytemuck::cast_slice(values)).map(|view| (name, view))
    });
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    Ok(safetensors::serialize(views.collect::<Result<Vec<_>, _>>()?, Some(metadata))?)
}

#[cfg(test)]
mod tests {
    use safetensors::SafeTensors;

    use super::*;

    fn tensor(name: &str, dims: &[i64], values: &[f32]) -> Initializer {
        let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Initializer { dims: dims.to_vec(), data_type: F32, name: name.to_owned(), raw_data }
    }

    fn encoded(initializer: Vec<Initializer>) -> Vec<u8> {
        let node = |input: &str, name: &str, op_type: &str| Node {
            input: vec!["x".to_owned(), input.to_owned()],
            name: name.to_owned(),
            op_type: op_type.to_owned(),
        };
        let nodes = vec![
            node("onnx::MatMul_7", "/encoder/layer.0/attention/self/query/MatMul", "MatMul"),
            node("y", "/encoder/layer.0/attention/self/MatMul_1", "MatMul"),
            node("encoder.bias", "/encoder/Add", "Add"),
        ];
        Model { graph: Some(Graph { node: nodes, initializer }) }.encode_to_vec()
    }

    #[test]
    fn linear_weights_are_turned_back_and_get_their_names() {
        let file = encoded(vec![
            tensor("embeddings.word_embeddings.weight", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
            tensor("onnx::MatMul_7", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
            tensor("position_ids", &[1], &[1.0]),
        ]);
        let bytes = to_safetensors(&file).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let mut names = tensors.names();
        names.sort_unstable();
        assert_eq!(names, ["embeddings.word_embeddings.weight", "encoder.layer.0.attention.self.query.weight"]);
        let turned = tensors.tensor("encoder.layer.0.attention.self.query.weight").unwrap();
        assert_eq!(turned.shape(), [3, 2]);
        assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(turned.data()), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let half = Initializer { data_type: 10, ..tensor("encoder.bias", &[1], &[1.0]) };
        let long = tensor("encoder.bias", &[i64::MAX, 4], &[1.0]);
        for wrong in [encoded(vec![half]), encoded(vec![long]), Vec::new(), b"no ONNX at all".to_vec()] {
            assert!(to_safetensors(&wrong).is_err());
        }
    }
}
