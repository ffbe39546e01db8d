//! Where to compute: devices by name, how precisely, and what becomes of a failure.

mod devices;
mod guard;
mod list;
pub mod memory;
mod name;
mod precision;

pub use devices::Devices;
pub use guard::{DeviceFailed, guard, guard_on, panic_text};
pub use list::{DeviceKind, FoundDevice, device_kinds};
pub use memory::{CpuClock, retain_freed_memory, vector_bits};
pub use name::{DeviceError, DeviceName, cpu};
pub use precision::{Precision, UnknownPrecision};
