//! `fill-mask`: what a masked language model would put in place of `[MASK]`.

use anyhow::{Context, Result, bail};
use bert_backbone::PackedBatch;
use burn::tensor::{Int, Tensor, TensorData, activation};
use clap::Args;
use serde::Serialize;

use crate::cli::{
    args::{BackboneArgs, DeviceArgs},
    output::{print, table},
};

/// Show the likeliest words for each [MASK] of a text
#[derive(Args, Debug)]
pub struct FillMaskArgs {
    #[command(flatten)]
    backbone: BackboneArgs,
    /// The text, with one or more [MASK]
    #[arg(long, allow_hyphen_values = true)]
    text: String,
    /// Number of candidates for each
    #[arg(long, default_value_t = 5, value_name = "N")]
    top: usize,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Candidate {
    token: String,
    id: u32,
    probability: f32,
}

pub fn run(args: &FillMaskArgs) -> Result<()> {
    let device = args.device.device.open()?;
    let backbone = args.backbone.load(&device)?;
    let Some(head) = &backbone.masked_lm else {
        bail!(
            "backbone `{}` carries no masked-LM head tied to its embeddings; use a checkpoint from pre-training",
            backbone.name
        );
    };
    let mask = backbone.tokenizer.id("[MASK]").context("the tokenizer has no [MASK]")?;
    let encoded = backbone.tokenizer.encode(&args.text, None, backbone.config.max_position_embeddings)?;
    let masked = encoded.input_ids.iter().zip(0i32..).filter(|(id, _)| **id == mask);
    let rows: Vec<i32> = masked.map(|(_, row)| row).collect();
    if rows.is_empty() {
        bail!("the text has no [MASK]: write one where a word is to be found");
    }
    let batch = PackedBatch::new(&[encoded], &backbone.config, &device)?;
    let count = rows.len();
    let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &device);
    let hidden = backbone.bert.forward(&batch).select(0, rows);
    let scores = head.forward(hidden, &backbone.bert.embeddings);
    let probabilities: Vec<f32> = activation::softmax(scores, 1).into_data().iter::<f32>().collect();

    let report: Vec<Vec<Candidate>> = probabilities
        .chunks(backbone.config.vocab_size)
        .map(|row| {
            let mut ids: Vec<usize> = (0..row.len()).collect();
            ids.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            let candidate = |&id: &usize| Candidate {
                token: backbone.tokenizer.token(id as u32).unwrap_or_default(),
                id: id as u32,
                probability: row[id],
            };
            ids.iter().take(args.top).map(candidate).collect()
        })
        .collect();
    print(&report, args.json, || {
        let mut rows = vec![["mask", "token", "probability"].map(str::to_owned).to_vec()];
        for (number, candidates) in report.iter().enumerate() {
            for candidate in candidates {
                let probability = format!("{:.4}", candidate.probability);
                rows.push(vec![(number + 1).to_string(), candidate.token.clone(), probability]);
            }
        }
        table(&rows)
    })
}
