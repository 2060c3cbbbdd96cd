//! Pressure stall information, from our cgroup where it has its own, else from the whole machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::read;

/// Files that could be read when the probe opened, so that both ends of a window come from the same place.
#[derive(Clone, Debug)]
pub struct Sources {
    cpu: Option<PathBuf>,
    memory: Option<PathBuf>,
    io: Option<PathBuf>,
}

/// Stalled time since boot, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    cpu_some: Option<u64>,
    memory_full: Option<u64>,
    io_full: Option<u64>,
}

/// Percent of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    pub cpu_some: Option<f64>,
    pub memory_full: Option<f64>,
    pub io_full: Option<f64>,
}

impl Sources {
    pub fn find(proc: &Path, cgroup: Option<&Path>) -> Self {
        let source = |resource: &str, kind: &str| {
            let own = cgroup.map(|directory| directory.join(format!("{resource}.pressure")));
            let system = proc.join("pressure").join(resource);
            own.into_iter().chain([system]).find(|path| total(path, kind).is_some())
        };
        Self { cpu: source("cpu", "some"), memory: source("memory", "full"), io: source("io", "full") }
    }

    pub fn read(&self) -> Totals {
        let read = |source: &Option<PathBuf>, kind| source.as_deref().and_then(|path| total(path, kind));
        Totals {
            cpu_some: read(&self.cpu, "some"),
            memory_full: read(&self.memory, "full"),
            io_full: read(&self.io, "full"),
        }
    }
}

impl Totals {
    pub fn until(self, after: Self, window: Duration) -> Shares {
        let share = |before, after| {
            let stalled = read::growth(before, after)? as f64;
            // Averaging windows are closed lazily, so a total may hold a little more than the window.
            (!window.is_zero()).then(|| (stalled / window.as_micros() as f64 * 100.0).min(100.0))
        };
        Shares {
            cpu_some: share(self.cpu_some, after.cpu_some),
            memory_full: share(self.memory_full, after.memory_full),
            io_full: share(self.io_full, after.io_full),
        }
    }
}

fn total(path: &Path, kind: &str) -> Option<u64> {
    parse_total(&read::text(path)?, kind)
}

/// The total of the `some` or the `full` line.
pub fn parse_total(content: &str, kind: &str) -> Option<u64> {
    let line = content.lines().find(|line| line.split(' ').next() == Some(kind))?;
    line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}
