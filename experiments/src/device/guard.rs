//! Burn's devices panic where they fail: here that becomes an error.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{
    DeviceName,
    name::{joined, opened},
};

/// A panic: of a device that failed in the middle of its work, or a defect of this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceFailed {
    /// A device failed.
    #[error("device `{devices}` failed: {reason}")]
    Device {
        /// Which.
        devices: String,
        /// What it said.
        reason: String,
    },
    /// The CPU does not fail; its panics are ours.
    #[error("this is a defect: {reason} (RUST_BACKTRACE=1 shows where)")]
    Defect {
        /// What was said.
        reason: String,
    },
}

/// Runs `f`; what a device panics with becomes an error. `f` may use every device that this process has opened.
///
/// # Errors
/// What `f` fails with, or [`DeviceFailed`].
pub fn guard<T, E: From<DeviceFailed>>(f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(failure(&opened(), &*panic).into()))
}

/// Runs `f`, which uses these devices: what one of them panics with becomes an error.
///
/// # Errors
/// What `f` fails with, or [`DeviceFailed`].
pub fn guard_on<T, E: From<DeviceFailed>>(devices: &[DeviceName], f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(failure(devices, &*panic).into()))
}

/// What a panic means on these devices.
fn failure(open: &[DeviceName], panic: &(dyn Any + Send)) -> DeviceFailed {
    let reason = panic_text(panic).to_owned();
    let others: Vec<DeviceName> = open.iter().copied().filter(|name| *name != DeviceName::Flex).collect();
    if others.is_empty() {
        DeviceFailed::Defect { reason }
    } else {
        DeviceFailed::Device { devices: joined(&others), reason }
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
    #[case(&[DeviceName::Wgpu(None)], "device `wgpu` failed: device lost")]
    #[case(&[DeviceName::Cuda(0), DeviceName::Cuda(1)], "device `cuda:0,cuda:1` failed: device lost")]
    #[case(&[DeviceName::Flex], "this is a defect: device lost")]
    fn a_panic_means_what_the_open_devices_make_of_it(#[case] open: &[DeviceName], #[case] message: &str) {
        let panic = catch_unwind(|| panic!("device {}", "lost")).unwrap_err();
        assert!(failure(open, &*panic).to_string().starts_with(message));
    }

    #[test]
    fn what_fails_without_a_panic_stays_what_it_is() {
        let fails = guard(|| -> anyhow::Result<()> { Err(anyhow::anyhow!("no data")) });
        assert_eq!(fails.unwrap_err().to_string(), "no data");
        let panics = guard(|| -> anyhow::Result<()> { panic!("lost") });
        assert!(panics.unwrap_err().downcast_ref::<DeviceFailed>().is_some());
    }
}
