//! Ctrl-C: the first asks for an end in good order, the second ends the process.

use std::sync::{Mutex, OnceLock, PoisonError};

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
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            eprintln!("warning: Ctrl-C will end the run without a last checkpoint: {error}");
        }
    });
}
