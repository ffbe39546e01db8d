//! Writes a checkpoint with random weights in Hugging Face layout:
//! `cargo run -p bert-backbone --example random_checkpoint -- tiny|micro FOLDER`

use std::{env, path::PathBuf};

use bert_backbone::RandomCheckpoint;
use burn::tensor::Device;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (checkpoint, folder) = match &arguments[..] {
        [size, folder] if size == "tiny" => (RandomCheckpoint::tiny(), folder),
        [size, folder] if size == "micro" => (RandomCheckpoint::micro(), folder),
        _ => return Err("usage: random_checkpoint tiny|micro FOLDER".into()),
    };
    checkpoint.write(&PathBuf::from(folder), &Device::flex())?;
    println!("written to {folder}");
    Ok(())
}
