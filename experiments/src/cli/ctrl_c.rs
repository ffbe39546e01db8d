//! Ctrl-C: the first asks for an end in good order, the second ends the process.

use crate::train::Stop;

/// Lets Ctrl-C (and a request to terminate) ask `stop` from now on.
pub fn request_stop(stop: &Stop) {
    let stop = stop.clone();
    let handler = move || {
        if stop.request() {
            std::process::exit(130);
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("warning: Ctrl-C will end the run without a last checkpoint: {error}");
    }
}
