//! Tells the program which commit it was built from, where that is known.

use std::{path::Path, process::Command};

fn main() {
    // What the program is made of: a change of any of it makes another program.
    for source in ["adapter-core", "analysis", "bert-backbone", "experiments", "tasks", "Cargo.lock"] {
        println!("cargo::rerun-if-changed=../{source}");
    }
    let git = Path::new("../.git");
    let head = git.join("HEAD");
    if head.exists() {
        println!("cargo::rerun-if-changed={}", head.display());
        let branch = std::fs::read_to_string(&head).unwrap_or_default();
        let branch = branch.strip_prefix("ref:").map(|name| git.join(name.trim()));
        if let Some(branch) = branch.filter(|branch| branch.exists()) {
            println!("cargo::rerun-if-changed={}", branch.display());
        }
    }
    let said = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = said(&["rev-parse", "--short=12", "HEAD"]) else { return };
    let changed = said(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|files| !files.is_empty());
    println!("cargo::rustc-env=BUILD_COMMIT={commit}{}", if changed { ", changed since" } else { "" });
}
