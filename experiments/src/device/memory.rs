//! What the system says of memory and processor, where it does.

use std::fs;

/// The process's largest memory since [`forget_peak`], in bytes.
pub fn peak() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM:")
}

/// Lets the peak begin anew, so that a run's is its own and not that of one before it in the same process.
pub fn forget_peak() {
    // Where that is not possible, the peak is that of the process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Tells the allocator to keep what is freed: every training step asks for the same memory again, and getting fresh pages
/// from the system takes a tenth of a step's time.
pub fn retain_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // Blocks up to this size come from memory that is kept; 32 MB is the most that the allocator takes.
        const KEPT: i32 = 32 << 20;
        // SAFETY: `mallopt` sets numbers of the allocator; it is called before any thread is started.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
            libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
            libc::mallopt(libc::M_TOP_PAD, 2 * KEPT);
        }
    }
}

/// Bits of the processor's widest vectors, on which the last bits of results depend; `None` where that is unknown.
pub fn vector_bits() -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        let widths = [(std::is_x86_feature_detected!("avx512f"), 512), (std::is_x86_feature_detected!("avx2"), 256)];
        Some(widths.into_iter().find(|(has, _)| *has).map_or(128, |(_, bits)| bits))
    }
    #[cfg(target_arch = "aarch64")]
    {
        Some(128)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        None
    }
}

/// Processor time of this process, counted over all its threads.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock(Option<f64>);

impl CpuClock {
    /// Counts from now on.
    pub fn start() -> Self {
        #[cfg(unix)]
        {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
            Self(Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9))
        }
        #[cfg(not(unix))]
        Self(None)
    }

    /// Adds the seconds since it was asked last to `sum`, where the system tells.
    pub fn add_to(&mut self, sum: &mut Option<f64>) {
        let now = Self::start();
        if let (Some(before), Some(now)) = (self.0, now.0) {
            *sum.get_or_insert_default() += now - before;
        }
        *self = now;
    }
}

/// All memory, in bytes.
pub fn total() -> Option<u64> {
    kilobytes("/proc/meminfo", "MemTotal:")
}

/// Memory that is free for more, in bytes.
pub fn free() -> Option<u64> {
    kilobytes("/proc/meminfo", "MemAvailable:")
}

fn kilobytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kilobytes)
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_grows_with_what_is_used_and_can_be_forgotten() {
        super::forget_peak();
        let before = super::peak().unwrap();
        let block = vec![1u8; 200 << 20];
        let with = super::peak().unwrap();
        assert!(with > before + (150 << 20), "{before} {with} {}", block[before as usize % block.len()]);
        drop(block);
        super::forget_peak();
        assert!(super::peak().unwrap() < with - (100 << 20));
    }
}
