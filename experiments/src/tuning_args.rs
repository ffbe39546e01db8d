//! Tunings as the command line names them.

use adapter_core::Tuning;
use anyhow::{Result, bail};
use clap::Args;

/// What is trained.
#[derive(Args, Clone, Debug)]
pub struct TuningArgs {
    /// What is trained: adapters, full, top-k (with --k), layer-norm, head or bias
    #[arg(long, default_value = "adapters")]
    pub tuning: String,
    /// Number of top layers, for --tuning top-k
    #[arg(long)]
    pub k: Option<usize>,
    /// Width of the adapters' bottleneck
    #[arg(long, default_value_t = 64, value_name = "M")]
    pub adapter_size: usize,
}

/// Reads a tuning's name and `k` together, for a network with `layers` layers.
pub fn parse_tuning(name: &str, k: Option<usize>, layers: usize) -> Result<Tuning> {
    let tuning = match (name, k) {
        ("top-k", Some(k)) => format!("top-{k}").parse()?,
        ("top-k", None) => bail!("--tuning top-k needs --k, from 1 to {layers}"),
        (_, Some(_)) => bail!("--k goes with --tuning top-k, not with `{name}`"),
        (_, None) => name.parse()?,
    };
    match tuning {
        Tuning::TopLayers(k) if k > layers => bail!("top {k} layers asked for, the backbone has {layers}"),
        tuning => Ok(tuning),
    }
}
