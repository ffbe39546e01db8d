//! Tells the program which commit it was built from, where that is known.

use std::{fs, path::Path, process::Command};

/// What the program is made of, seen from the repository's root.
const SOURCES: [&str; 17] = [
    "Cargo.toml",
    "Cargo.lock",
    "adapter-core/Cargo.toml",
    "adapter-core/src",
    "analysis/Cargo.toml",
    "analysis/src",
    "analysis/templates",
    "bert-backbone/Cargo.toml",
    "bert-backbone/assets",
    "bert-backbone/src",
    "experiments/Cargo.toml",
    "experiments/build.rs",
    "experiments/presets",
    "experiments/profiles",
    "experiments/src",
    "tasks/Cargo.toml",
    "tasks/src",
];

fn main() {
    for source in SOURCES {
        println!("cargo::rerun-if-changed=../{source}");
    }
    println!("cargo::rustc-env=BUILD_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir("..").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Sources that were unpacked inside of another repository are not of its commits.
    let root = git(&["rev-parse", "--show-toplevel"]);
    let ours =
        |root: &String| fs::canonicalize(root).is_ok_and(|root| fs::canonicalize("..").is_ok_and(|own| own == root));
    let Some(commit) = root.filter(ours).and_then(|_| git(&["rev-parse", "--short=12", "HEAD"])) else { return };
    // What git changes with every commit, wherever it keeps it.
    for file in ["HEAD", "logs/HEAD", "packed-refs"] {
        let path = git(&["rev-parse", "--git-path", file]).unwrap_or_default();
        let path = Path::new("..").join(path);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let arguments: Vec<&str> = ["status", "--porcelain", "--"].into_iter().chain(SOURCES).collect();
    let changed = git(&arguments).is_none_or(|files| !files.is_empty());
    println!("cargo::rustc-env=BUILD_COMMIT={commit}{}", if changed { ", changed since" } else { "" });
}
