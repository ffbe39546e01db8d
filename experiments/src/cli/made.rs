//! How a report came about: what its foot says.

use std::{env, fs, path::PathBuf, thread, time::SystemTime};

use analysis::Made;

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
    let version = concat!("adapter-lab ", env!("CARGO_PKG_VERSION"));
    option_env!("BUILD_COMMIT").map_or(version.to_owned(), |commit| format!("{version} (commit {commit})"))
}

/// The processor, its cores and the system.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let name = name.map_or(env::consts::ARCH, |(_, name)| name.trim());
    format!("{name}, {cores} {}, {}", if cores == 1 { "core" } else { "cores" }, env::consts::OS)
}
