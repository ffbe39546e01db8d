//! Processes that tests disturb.

use std::{fs, os::unix::process::CommandExt, process::Command};

use libc::c_int;

/// Sends a signal to a process; one that is over feels nothing.
pub fn signal(process: u32, signal: c_int) {
    send(process as c_int, signal);
}

/// Has a program that is about to start end at SIGINT from its first moment: what a shell starts in the background ignores it,
/// these tests too, and a program inherits that.
pub fn listen_to_ctrl_c(program: &mut Command) {
    let listen = || {
        // SAFETY: it may be called between fork and exec.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: it does nothing else.
    unsafe { program.pre_exec(listen) };
}

/// Sends a signal to a process and all of its group, as a terminal does.
pub fn signal_group(leader: u32, signal: c_int) {
    send(-(leader as c_int), signal);
}

fn send(to: c_int, signal: c_int) {
    // SAFETY: it touches no memory of ours.
    unsafe { libc::kill(to, signal) };
}

/// The processes that a process has started, the first one first.
#[cfg(target_os = "linux")]
pub fn children(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    // Its parent is the fourth field, behind a name in parentheses.
    let is_child = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&of.to_string())
    };
    let mut children: Vec<u32> = processes.filter(is_child).collect();
    children.sort_unstable();
    children
}
