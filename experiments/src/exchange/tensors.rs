//! Which tensor of ours is which of theirs.

use std::collections::{BTreeMap, BTreeSet};

use adapter_core::{TaskFile, Tensors};
use anyhow::{Context, Result, bail, ensure};
use bert_backbone::transpose;
use safetensors::{Dtype, tensor::TensorView};

/// How the values of a pair of tensors lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Alike.
    Same,
    /// A matrix, `[in, out]` here and `[out, in]` there.
    Transposed,
    /// A vector here, `[width, 1]` there.
    Column,
    /// A vector here, `[1, width]` there.
    Row,
}

/// A tensor here and there.
#[derive(Clone, Debug)]
pub struct Pair {
    pub ours: String,
    pub theirs: String,
    pub form: Form,
}

impl Pair {
    pub fn new(ours: String, theirs: String, form: Form) -> Self {
        Self { ours, theirs, form }
    }
}

/// A linear layer's weight and bias.
pub fn linear(ours: &str, theirs: &str) -> [Pair; 2] {
    [
        Pair::new(format!("{ours}.weight"), format!("{theirs}.weight"), Form::Transposed),
        Pair::new(format!("{ours}.bias"), format!("{theirs}.bias"), Form::Same),
    ]
}

/// Files by name, and which of our tensors are in them.
#[derive(Default)]
pub struct Written {
    pub files: BTreeMap<String, Vec<u8>>,
    used: BTreeSet<String>,
}

impl Written {
    /// Adds a document.
    pub fn document(&mut self, name: &str, document: &serde_json::Value) -> Result<()> {
        self.files.insert(name.to_owned(), (serde_json::to_string_pretty(document)? + "\n").into_bytes());
        Ok(())
    }

    /// Adds the tensors of `pairs`.
    pub fn tensors(&mut self, name: &str, file: &TaskFile, pairs: &[Pair]) -> Result<()> {
        let mut theirs = Tensors::new();
        for Pair { ours, theirs: name, form } in pairs {
            let (shape, values) = file.tensors().get(ours).with_context(|| format!("the file has no tensor {ours}"))?;
            let tensor = match (form, shape.as_slice()) {
                (Form::Same, _) => (shape.clone(), values.clone()),
                (Form::Transposed, [rows, columns]) => (vec![*columns, *rows], transpose(values, *rows, *columns)),
                (Form::Column, [width]) => (vec![*width, 1], values.clone()),
                (Form::Row, [width]) => (vec![1, *width], values.clone()),
                _ => bail!("tensor {ours} has shape {shape:?}"),
            };
            theirs.insert(name.clone(), tensor);
            self.used.insert(ours.clone());
        }
        self.files.insert(name.to_owned(), safetensors(&theirs)?);
        Ok(())
    }

    /// Our tensors that are in none of the files.
    pub fn rest(&self, file: &TaskFile) -> Vec<String> {
        file.tensors().keys().filter(|name| !self.used.contains(*name)).cloned().collect()
    }
}

/// A safetensors file, as PyTorch's libraries write it.
pub fn safetensors(tensors: &Tensors) -> Result<Vec<u8>> {
    let views = tensors.iter().map(|(name, (shape, values))| {
        Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytemuck::cast_slice(values))?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let metadata = std::collections::HashMap::from([("format".to_owned(), "pt".to_owned())]);
    Ok(safetensors::serialize(views, Some(metadata))?)
}

/// Our tensors, from theirs. Each of `pairs` must be there with its shape, and nothing else.
pub fn ours(theirs: Tensors, pairs: &[(Pair, Vec<usize>)]) -> Result<Tensors> {
    let (mut theirs, mut ours) = (theirs, Tensors::new());
    for (Pair { ours: name, theirs: from, form }, expected) in pairs {
        let (shape, values) = theirs.remove(from).with_context(|| format!("there is no tensor {from}"))?;
        let there = match (form, expected.as_slice()) {
            (Form::Transposed, [rows, columns]) => vec![*columns, *rows],
            (Form::Column, [width]) => vec![*width, 1],
            (Form::Row, [width]) => vec![1, *width],
            _ => expected.clone(),
        };
        ensure!(shape == there, "tensor {from} has shape {shape:?}, not {there:?}");
        let values = if *form == Form::Transposed { transpose(&values, there[0], there[1]) } else { values };
        ours.insert(name.clone(), (expected.clone(), values));
    }
    if let Some(name) = theirs.keys().next() {
        bail!("{} tensors are unknown, such as {name}", theirs.len());
    }
    Ok(ours)
}
