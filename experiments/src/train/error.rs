//! Why a run did not come to its end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::device::DeviceFailed;

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It was stopped from outside.
    #[error("interrupted after step {step}; {}", if *kept { "run the same command again to continue" } else { "nothing was kept (--runs DIR would)" })]
    Interrupted {
        /// Steps taken.
        step: usize,
        /// Whether there is a checkpoint.
        kept: bool,
    },
    /// Another process has it.
    #[error("another process is running {id} ({owner})")]
    Busy {
        /// The run.
        id: String,
        /// The process, or the file that says so.
        owner: String,
    },
    /// A device failed, or this program has a defect.
    #[error(transparent)]
    Device(#[from] DeviceFailed),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl RunError {
    /// The whole message, with all its causes.
    pub fn message(self) -> String {
        format!("{:#}", anyhow::Error::from(self))
    }

    /// What is said to whoever waits for runs that are `kept`: after a device failed, that nothing is lost.
    pub fn explained(self, kept: bool) -> anyhow::Error {
        match self {
            RunError::Device(error @ DeviceFailed::Device { .. }) if kept => {
                anyhow::anyhow!(
                    "{error}; finished runs are kept, and the same command continues from the last checkpoint"
                )
            }
            error => error.into(),
        }
    }

    /// Whether further runs would end in the same way.
    pub fn ends_everything(&self) -> bool {
        matches!(self, RunError::Interrupted { .. } | RunError::Device(DeviceFailed::Device { .. }))
    }
}

/// A request to stop, shared by whoever may make it and the work that must heed it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the work to end in good order. Returns whether that was asked before.
    pub fn request(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    /// What says so, for whoever can do no more than set it: the handler of a signal.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Whether somebody asked.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
