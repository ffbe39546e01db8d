//! How a report came about: what its foot says.

use std::{env, fs, thread, time::SystemTime};

use analysis::Made;

/// This program, on this machine, now.
pub fn made() -> Made {
    let arguments: Vec<String> = env::args().skip(1).collect();
    Made {
        at: Some(SystemTime::now()),
        command: ["adapter-lab".to_owned()].into_iter().chain(arguments).collect::<Vec<_>>().join(" "),
        program: program(),
        machine: machine(),
    }
}

/// The version, and the commit where it is known.
pub fn program() -> String {
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
