//! Pressure stall information, from our cgroup where it has its own, else from the whole machine. Waits of our own group say nothing of
//! their cause, which may be the config. Memory that others want makes them wait, too.

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
        let share = |before, after| share(read::growth(before, after)?, window);
        Shares {
            cpu_some: share(self.cpu_some, after.cpu_some),
            memory_full: share(self.memory_full, after.memory_full),
            io_full: share(self.io_full, after.io_full),
        }
    }
}

/// Waits of other groups for memory.
#[derive(Clone, Debug)]
pub struct Others(Vec<Other>);

#[derive(Clone, Debug)]
struct Other {
    group: PathBuf,
    /// In microseconds since boot.
    stalled: u64,
    /// How often it reached a limit of its own.
    limited: u64,
}

impl Others {
    /// Groups whose waits can't be read are left out.
    pub fn read(groups: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(groups.into_iter().filter_map(Other::read).collect())
    }

    /// The longest wait of a group within the window, in percent; `None` where no other group can be seen. A group that reached a limit
    /// of its own waits for itself, which tells nothing of the machine.
    pub fn until(&self, window: Duration) -> Option<f64> {
        let after = self.0.iter().filter_map(|before| Some((before, Other::read(before.group.clone())?)));
        let waits = after.filter_map(|(before, after)| {
            let stalled = if after.limited > before.limited { 0 } else { after.stalled.checked_sub(before.stalled)? };
            share(stalled, window)
        });
        waits.max_by(f64::total_cmp)
    }
}

impl Other {
    fn read(group: PathBuf) -> Option<Self> {
        let stalled = total(&group.join("memory.pressure"), "full")?;
        let events = read::text(&group.join("memory.events")).unwrap_or_default();
        let limited = ["high", "max"].iter().filter_map(|name| read::number(&events, name)).sum();
        Some(Self { group, stalled, limited })
    }
}

/// Percent of the window. Averaging windows are closed lazily, so a total may hold a little more than the window.
fn share(stalled: u64, window: Duration) -> Option<f64> {
    (!window.is_zero()).then(|| (stalled as f64 / window.as_micros() as f64 * 100.0).min(100.0))
}

fn total(path: &Path, kind: &str) -> Option<u64> {
    parse_total(&read::text(path)?, kind)
}

/// The total of the `some` or the `full` line.
pub fn parse_total(content: &str, kind: &str) -> Option<u64> {
    let line = content.lines().find(|line| line.split(' ').next() == Some(kind))?;
    line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}
