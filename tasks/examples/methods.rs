//! What each method trains on BERT-base: `cargo run -p tasks --example methods`

use adapter_core::{
    AdapterConfig, BiasOnly, FullFineTuning, HeadOnly, Init, LayerNormOnly, Method, ParamCount, TopLayers,
};
use bert_backbone::{Bert, BertConfig};
use burn::tensor::Device;
use tasks::{Head, HeadInput, ModelError, TaskModel};

fn show<M: Method>(method: &M) -> Result<(), ModelError> {
    let (device, init, config) = (Device::flex(), Init::new(0), BertConfig::new(768, 12, 12));
    let bert = Bert::random(&config, init, &device).expect("this is a BERT");
    let head = Head::new(&config.shape(), 2, HeadInput::Cls, init, &device);
    let count = ParamCount::of(&TaskModel::tuned(method, bert, head, init, &device)?, method);
    println!("{:<18}{:>12} trained, {:>7.3} %", method.label(), count.trained, count.percent());
    Ok(())
}

fn main() -> Result<(), ModelError> {
    show(&AdapterConfig::new(64))?;
    show(&FullFineTuning {})?;
    show(&TopLayers::new(1))?;
    show(&TopLayers::new(3))?;
    show(&LayerNormOnly {})?;
    show(&BiasOnly {})?;
    show(&HeadOnly {})
}
