//! CPU time of RocksDB's background threads, which it names by what they are for.

use std::{fs, path::Path};

use nix::{
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};

use super::read;

/// Seconds since the threads started. RocksDB keeps its threads once it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackgroundTime {
    pub compaction: f64,
    pub flush: f64,
}

impl BackgroundTime {
    pub fn now() -> Option<Self> {
        let mut time = Self::default();
        for entry in fs::read_dir("/proc/self/task").ok()? {
            let path = entry.ok()?.path();
            let Some(sum) = time.of(&path) else { continue };
            let thread = path.file_name()?.to_str()?.parse().ok()?;
            *sum += cpu_seconds(thread)?;
        }
        Some(time)
    }

    /// Where the time of a thread belongs.
    fn of(&mut self, task: &Path) -> Option<&mut f64> {
        match read::line(&task.join("comm"))?.as_str() {
            "rocksdb:low" | "rocksdb:bottom" => Some(&mut self.compaction),
            "rocksdb:high" => Some(&mut self.flush),
            _ => None,
        }
    }

    pub fn since(self, earlier: Self) -> Self {
        Self {
            compaction: (self.compaction - earlier.compaction).max(0.0),
            flush: (self.flush - earlier.flush).max(0.0),
        }
    }
}

/// Of any thread of this process, by the clock whose number the kernel makes from the thread's: what /proc tells lacks the
/// time since the last clock tick.
fn cpu_seconds(thread: i32) -> Option<f64> {
    const OF_THREAD: i32 = 4;
    const SCHEDULED: i32 = 2;
    let time: TimeSpec = clock_gettime(ClockId::from_raw((!thread) << 3 | OF_THREAD | SCHEDULED)).ok()?;
    Some(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::evidence::{
        tests::Tree,
        threads::{self, ThreadClock},
    };

    #[test]
    fn a_threads_clock_is_found_by_its_number() {
        let own = nix::unistd::gettid().as_raw();
        let (clock, before) = (ThreadClock::start(), cpu_seconds(own).unwrap());
        let mut sum = 0_u64;
        while cpu_seconds(own).unwrap() - before < 0.05 {
            sum = std::hint::black_box(sum + 1);
        }
        let seen = cpu_seconds(own).unwrap() - before;
        assert!(clock.stop().cpu_seconds.unwrap() >= seen);
        let asked = || threads::cpu_seconds().unwrap();
        let (before, found, after) = (asked(), cpu_seconds(own).unwrap(), asked());
        assert!((before..=after).contains(&found), "{before} <= {found} <= {after}");
        let beyond_any = 1 << 24;
        assert_eq!(cpu_seconds(beyond_any), None);
    }

    #[test]
    fn threads_are_told_by_their_names() {
        let tree = Tree::new();
        for (thread, name) in [("1", "rocksdb:low"), ("2", "rocksdb:high"), ("3", "rocksdb:dump_st"), ("4", "low")] {
            tree.file(&format!("task/{thread}/comm"), &format!("{name}\n"));
        }
        let mut time = BackgroundTime { compaction: 1.0, flush: 2.0 };
        let found = ["1", "2", "3", "4", "5"].map(|thread| time.of(&tree.path(&format!("task/{thread}"))).copied());
        assert_eq!(found, [Some(1.0), Some(2.0), None, None, None]);
        assert!(BackgroundTime::now().is_some());
    }

    #[test]
    fn time_of_running_threads_is_summed() {
        let (done, all) = std::sync::mpsc::channel();
        for name in ["rocksdb:low", "rocksdb:high"] {
            let done = done.clone();
            let work = move || {
                while threads::cpu_seconds().unwrap() < 0.05 {
                    std::hint::black_box(0);
                }
                done.send(()).unwrap();
                // They stay, as RocksDB's do: one that ends while somebody counts makes the sum unknown.
                loop {
                    std::thread::park();
                }
            };
            std::thread::Builder::new().name(name.to_owned()).spawn(work).unwrap();
        }
        assert_eq!(all.iter().take(2).count(), 2);
        let now = BackgroundTime::now().unwrap();
        // Databases of other tests may add to it.
        assert!(now.compaction >= 0.05 && now.flush >= 0.05, "{now:?}");
    }

    #[test]
    fn time_is_what_was_spent_since() {
        let earlier = BackgroundTime { compaction: 1.0, flush: 2.0 };
        let now = BackgroundTime { compaction: 4.0, flush: 2.5 };
        assert_eq!(now.since(earlier), BackgroundTime { compaction: 3.0, flush: 0.5 });
        assert_eq!(earlier.since(now), BackgroundTime::default(), "a thread that ended took its time along");
    }
}
