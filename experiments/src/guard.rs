//! Burn's devices panic where they fail: here that becomes an error.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use anyhow::{Result, anyhow};

use crate::device::{DeviceName, joined, opened};

/// A device that failed in the middle of its work.
#[derive(Debug, thiserror::Error)]
#[error("device `{devices}` failed: {reason}{}", if *kept { KEPT } else { "" })]
pub struct DeviceFailed {
    devices: String,
    reason: String,
    kept: bool,
}

const KEPT: &str = "; finished runs are kept, the same command goes on from the last checkpoint";

/// Runs a whole command: what one of its devices panics with becomes an error, and so does a defect.
pub fn guard<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(failure(&opened(), &*panic, false)))
}

/// Runs `f` on these devices; `kept` says whether its runs are kept.
///
/// # Errors
/// What `f` fails with, or [`DeviceFailed`].
pub fn guard_on<T>(names: &[DeviceName], kept: bool, f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(failure(names, &*panic, kept)))
}

/// What a panic means on these devices. The CPU does not fail; its panics are ours.
fn failure(names: &[DeviceName], panic: &(dyn Any + Send), kept: bool) -> anyhow::Error {
    let reason = panic_text(panic).to_owned();
    match names.iter().all(|name| *name == DeviceName::Flex) {
        true => anyhow!("a defect: {reason} (RUST_BACKTRACE=1 shows where)"),
        false => DeviceFailed { devices: joined(names), reason, kept }.into(),
    }
}

/// What a panic said, in its first line: libtorch's errors have whole backtraces in them.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason was given");
    text.split('\n').next().and_then(|line| line.split("\\n").next()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[DeviceName::Wgpu(None)], "device `wgpu` failed: device lost; finished runs are kept")]
    #[case(&[DeviceName::Cuda(0), DeviceName::Cuda(1)], "device `cuda:0,cuda:1` failed: device lost")]
    #[case(&[DeviceName::Flex], "a defect: device lost")]
    fn a_device_that_is_lost_in_the_middle_is_an_error(#[case] devices: &[DeviceName], #[case] message: &str) {
        let error = guard_on(devices, true, || -> Result<()> { panic!("device {}", "lost") }).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(error.is::<DeviceFailed>(), devices != [DeviceName::Flex]);
        // What fails without a panic stays what it is.
        let other = guard_on(devices, true, || -> Result<()> { Err(anyhow!("no data")) }).unwrap_err();
        assert_eq!(other.to_string(), "no data");
        // Nothing is promised that is not there.
        let error = guard_on(devices, false, || -> Result<()> { panic!("device lost") }).unwrap_err().to_string();
        assert!(!error.contains("kept"), "{error}");
    }
}
