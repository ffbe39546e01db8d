//! How a report came about: what its foot says.

use std::{env, fs, path::PathBuf, thread, time::SystemTime};

use analysis::Made;

use crate::run::BURN_VERSION;

/// This program, on this machine, now.
pub fn made() -> Made {
    let mut arguments = env::args();
    let name =
        arguments.next().map(PathBuf::from).and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let name = name.unwrap_or_else(|| "adapter-lab".to_owned());
    Made {
        at: Some(SystemTime::now()),
        command: std::iter::once(name).chain(arguments).map(quoted).collect::<Vec<_>>().join(" "),
        program: program(),
        machine: machine(),
    }
}

/// An argument as a shell takes it.
fn quoted(argument: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

/// The version, and the commit where it is known.
fn program() -> String {
    format!("adapter-lab {}", version())
}

/// The version, and the commit where it is known.
pub fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    option_env!("BUILD_COMMIT").map_or(version.to_owned(), |commit| format!("{version} (commit {commit})"))
}

/// What `--version` says: all that this program was built of.
pub fn long_version() -> String {
    let features = [
        (cfg!(feature = "parquet"), "parquet"),
        (cfg!(feature = "dashboard"), "dashboard"),
        (cfg!(feature = "pdf-text"), "pdf-text"),
        (cfg!(feature = "tch"), "tch"),
        (cfg!(feature = "wgpu"), "wgpu"),
        (cfg!(feature = "cuda"), "cuda"),
        (cfg!(feature = "rocm"), "rocm"),
        (cfg!(feature = "tuned"), "tuned"),
    ];
    let features: Vec<&str> = features.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!("{}\nburn {BURN_VERSION}\nfeatures: {features}\ntarget: {}", version(), env!("BUILD_TARGET"))
}

/// The processor, its cores and the system.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let name = name.map_or(env::consts::ARCH, |(_, name)| name.trim());
    format!("{name}, {cores} {}, {}", if cores == 1 { "core" } else { "cores" }, env::consts::OS)
}
