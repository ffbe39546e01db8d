//! What each tuning trains on BERT-base: `cargo run -p tasks --example tunings`

use adapter_core::{AdapterConfig, Init, ParamCount, Tuning};
use bert_backbone::{Bert, BertConfig};
use burn::tensor::Device;
use tasks::{Head, HeadInput, TaskModel};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (device, init) = (Device::flex(), Init::new(0));
    let config = BertConfig::new(768, 12, 12);
    let adapter = AdapterConfig::new(64);
    for tuning in ["adapters", "full", "top-1", "top-3", "layer-norm", "bias", "head"] {
        let tuning: Tuning = tuning.parse()?;
        let bert = Bert::random(&config, init, &device)?.insert(|place| match tuning {
            Tuning::Adapters => adapter.init(place, config.hidden_size, init, &device),
            _ => None,
        });
        let head = Head::new(config.hidden_size, 2, HeadInput::Cls, init, &device);
        let count = ParamCount::of(&TaskModel::new(bert, head)?, tuning);
        println!("{tuning:<12}{:>12} trained, {:>7.3} %", count.trained, count.percent());
    }
    Ok(())
}
