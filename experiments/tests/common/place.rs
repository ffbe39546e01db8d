//! A folder with everything that an experiment needs.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use bert_backbone::RandomCheckpoint;
use burn::tensor::Device;
use serde_json::Value;

/// A folder with a small backbone, some tasks and an experiment.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new(experiment: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        RandomCheckpoint::tiny().write(&folder.path().join("tiny"), &Device::flex()).unwrap();
        for (task, word) in ["dog", "cat", "mat", "she", "play"].into_iter().enumerate() {
            let row = |i: usize| {
                let text = format!(
                    "{} {} is on the {}",
                    ["she", "it"][i % 2],
                    ["dog", "cat"][i / 2 % 2],
                    ["mat", "play"][i / 4 % 2]
                );
                format!("{text},{}\n", u8::from(text.contains(word)))
            };
            let rows: String = (0..96).map(row).collect();
            fs::write(folder.path().join(format!("task{task}.csv")), format!("text,label\n{rows}")).unwrap();
        }
        fs::write(folder.path().join("own.toml"), experiment).unwrap();
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program in the folder.
    pub fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adapter-lab"));
        command.current_dir(self.folder.path()).args(arguments);
        // Nothing of whoever runs the tests.
        let own = |name: &OsStr| name.to_string_lossy().starts_with("ADAPTER_LAB_") || name == "CLICOLOR_FORCE";
        for (name, _) in env::vars_os().filter(|(name, _)| own(name)) {
            command.env_remove(name);
        }
        command.env("ADAPTER_LAB_CACHE", self.path("cache")).stdin(Stdio::null());
        command
    }

    /// `run own.toml` in the folder, with more options.
    pub fn command(&self, options: &[&str]) -> Command {
        self.program(&[&["run", "own.toml", "--backbone", "tiny", "--json"], options].concat())
    }

    pub fn run(&self, options: &[&str]) -> Value {
        answer(self.command(options))
    }
}

/// What a program wrote on its standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every record of a store but for what depends on the clock, and the bytes of its trained tensors.
pub fn contents(runs: &Path) -> BTreeMap<String, (Value, Vec<u8>)> {
    let folders = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path());
    let finished = folders.filter(|folder| folder.join("record.json").exists()).map(|folder| {
        let mut record: Value = serde_json::from_slice(&fs::read(folder.join("record.json")).unwrap()).unwrap();
        record.as_object_mut().unwrap().remove("measured");
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        (name, (record, fs::read(folder.join("v.safetensors")).unwrap()))
    });
    finished.collect()
}

/// The JSON document that a command prints when all goes well.
pub fn answer(mut command: Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}
