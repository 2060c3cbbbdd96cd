//! Observes how a trial was measured: which CPUs, which device, and who disturbed the window.
//!
//! Everything here reads `/proc` and `/sys` and reports; nothing judges. What could not be read, or what was read
//! but cannot be trusted, is `None`: unknown must never look like clean, and never like zero.

mod affinity;
mod background;
mod cgroup;
mod cpu_time;
mod disk;
mod host;
mod kernel_threads;
mod mounts;
mod neighbours;
mod pressure;
mod process;
mod read;
mod storage;
pub mod threads;
mod window;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use assay_protocol::{Build, Digest};

pub use background::BackgroundTime;
pub use process::{PeakRss, ProcessDelta, ProcessUsage};
pub use window::{Probe, Window};

/// Where the kernel's views are. Only tests replace them.
#[derive(Clone, Debug)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
    /// Ends up in the record, which makes the record invalid outside tests.
    pub replaced_sysfs: Option<String>,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys"), replaced_sysfs: None }
    }
}

impl Roots {
    /// Reads device and CPU topology from a directory in place of `/sys`, and says so in the record.
    pub fn with_sysfs(sys: &Path) -> Self {
        Self { sys: sys.to_owned(), replaced_sysfs: Some(sys.display().to_string()), ..Self::default() }
    }
}

/// What the program is. `bench_version` is the caller's `env!("CARGO_PKG_VERSION")`.
pub fn build_facts(bench_version: &str, rocksdb_version: String, rocksdb_build: String) -> Build {
    Build {
        bench_version: bench_version.to_owned(),
        // The link names the inode that was executed, even when the path holds another file by now.
        binary: fs::read("/proc/self/exe").ok().map(|image| Digest::of(&image)),
        rocksdb_version,
        rocksdb_build,
        allocator: "system".to_owned(),
        profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
    }
}
