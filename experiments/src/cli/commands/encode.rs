//! `encode`: a text's vectors, as a safetensors file.

use std::path::PathBuf;

use adapter_core::write_atomically;
use anyhow::{Context, Result};
use bert_backbone::PackedBatch;
use burn::tensor::Tensor;
use clap::Args;
use safetensors::{Dtype, tensor::TensorView};
use serde::Serialize;

use crate::cli::{
    args::{BackboneArgs, DeviceArgs, check_writable},
    output::print,
};

/// Encode a text, or a pair, with a backbone: input_ids, last_hidden_state and pooled as a safetensors file
#[derive(Args, Debug)]
pub struct EncodeArgs {
    #[command(flatten)]
    backbone: BackboneArgs,
    /// The text
    #[arg(long, allow_hyphen_values = true)]
    text: String,
    /// The second text of a pair
    #[arg(long, allow_hyphen_values = true)]
    text_pair: Option<String>,
    /// Longest sequence in tokens; the longer text is cut first [default: the backbone's maximum]
    #[arg(long, value_name = "TOKENS")]
    max_length: Option<usize>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    backbone: String,
    out: PathBuf,
    tokens: Vec<String>,
    input_ids: Vec<u32>,
    hidden_size: usize,
    pooled: bool,
}

pub fn run(args: &EncodeArgs) -> Result<()> {
    check_writable(&args.out)?;
    let device = args.device.device.open()?;
    let backbone = args.backbone.load(&device)?;
    let longest = backbone.config.max_position_embeddings;
    let max_length = args.max_length.unwrap_or(longest);
    let encoded = backbone.tokenizer.encode(&args.text, args.text_pair.as_deref(), max_length)?;
    let input_ids = encoded.input_ids.clone();
    let batch = PackedBatch::new(&[encoded], &backbone.config, &device)?;
    let hidden = backbone.bert.forward(&batch);
    let pooler = backbone.bert.pooler.as_ref();
    let pooled = pooler.map(|pooler| pooler.forward(batch.first_tokens(hidden.clone())));

    // Shapes as in Hugging Face: a batch of one.
    let (tokens, d) = (input_ids.len(), backbone.config.hidden_size);
    let ids: Vec<i64> = input_ids.iter().map(|&id| i64::from(id)).collect();
    let (hidden, pooled) = (floats(hidden)?, pooled.map(floats).transpose()?);
    let mut views = vec![
        ("input_ids", TensorView::new(Dtype::I64, vec![1, tokens], bytemuck::cast_slice(&ids))?),
        ("last_hidden_state", TensorView::new(Dtype::F32, vec![1, tokens, d], bytemuck::cast_slice(&hidden))?),
    ];
    if let Some(pooled) = &pooled {
        views.push(("pooled", TensorView::new(Dtype::F32, vec![1, d], bytemuck::cast_slice(pooled))?));
    }
    let bytes = safetensors::serialize(views, None)?;
    write_atomically(&args.out, &bytes).with_context(|| format!("cannot write {}", args.out.display()))?;

    let token = |&id: &u32| backbone.tokenizer.token(id).unwrap_or_default();
    let report = Report {
        backbone: backbone.name.clone(),
        out: args.out.clone(),
        tokens: input_ids.iter().map(token).collect(),
        input_ids,
        hidden_size: d,
        pooled: pooled.is_some(),
    };
    print(&report, args.json, || {
        let pieces = report.tokens.join(" ");
        format!("{pieces}\n{tokens} tokens of width {d} written to {}", report.out.display())
    })
}

fn floats(tensor: Tensor<2>) -> Result<Vec<f32>> {
    tensor.into_data().try_to_vec().map_err(|e| anyhow::anyhow!("cannot read the result: {e:?}"))
}
