//! Ctrl-C: the first asks for an end in good order, the second ends the process. A cluster's signal asks in the same way.

use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Result;

use super::log;
use crate::train::Stop;

/// What Ctrl-C stops: the command that asked last.
static CURRENT: Mutex<Option<Stop>> = Mutex::new(None);

/// Lets Ctrl-C (and a request to terminate) ask `stop` from now on.
pub fn request_stop(stop: &Stop) {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop.clone());
    INSTALLED.get_or_init(|| {
        let handler = || {
            let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
            if current.as_ref().is_some_and(Stop::request) {
                std::process::exit(130);
            }
            log::note("stopping as soon as everything is saved; press Ctrl-C again to stop immediately");
        };
        let ignored = hang_up::is_ignored();
        if let Err(error) = ctrlc::set_handler(handler) {
            log::note(&format!("Ctrl-C will end the run without a last checkpoint: {error}"));
        }
        if ignored {
            hang_up::ignore();
        }
    });
}

/// SIGHUP, which comes when a terminal is closed. Whoever starts a program with `nohup` has it ignored, and it stays so.
#[cfg(unix)]
mod hang_up {
    use std::{mem, ptr};

    pub fn is_ignored() -> bool {
        // SAFETY: a `sigaction` of zeros is one, and the system only writes into it.
        unsafe {
            let mut now: libc::sigaction = mem::zeroed();
            libc::sigaction(libc::SIGHUP, ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
        }
    }

    pub fn ignore() {
        // SAFETY: no handler of ours is called.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
}

#[cfg(not(unix))]
mod hang_up {
    pub fn is_ignored() -> bool {
        false
    }

    pub fn ignore() {}
}

/// Lets SIGUSR1 ask `stop`: a cluster sends it when a job's time is nearly up. What is returned says whether it did.
///
/// # Errors
/// If the system does not let us.
#[cfg(unix)]
pub fn stop_when_time_is_up(stop: &Stop) -> Result<Stop> {
    let time_is_up = Stop::default();
    for flag in [&time_is_up, stop] {
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, flag.flag())?;
    }
    Ok(time_is_up)
}

/// Other systems have no such signal.
#[cfg(not(unix))]
pub fn stop_when_time_is_up(_: &Stop) -> Result<Stop> {
    Ok(Stop::default())
}
