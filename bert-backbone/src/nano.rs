//! `nano`: a small BERT of the built-in language, carried inside the program.

use std::{fs, io, path::Path};

use adapter_core::write_atomically;

/// Its files, made by `adapter-lab pretrain --out bert-backbone/assets/nano`.
const FILES: [(&str, &[u8]); 4] = [
    ("config.json", include_bytes!("../assets/nano/config.json")),
    ("model.safetensors", include_bytes!("../assets/nano/model.safetensors")),
    ("tokenizer_config.json", include_bytes!("../assets/nano/tokenizer_config.json")),
    ("vocab.txt", include_bytes!("../assets/nano/vocab.txt")),
];

/// Its `config.json`.
pub const CONFIG: &str = include_str!("../assets/nano/config.json");

/// Puts the files into `folder`, unless they are there.
pub fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, contents) in FILES {
        let path = folder.join(name);
        // Another version of the program may have left its own.
        if fs::read(&path).is_ok_and(|there| there == contents) {
            continue;
        }
        write_atomically(&path, contents)?;
    }
    Ok(())
}
