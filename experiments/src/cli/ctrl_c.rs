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
            log::note("stopping in good order; Ctrl-C once more ends at once");
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            log::note(&format!("Ctrl-C will end the run without a last checkpoint: {error}"));
        }
    });
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
