//! Programs that ran on the trial's CPUs beside it: by name, so that people can stop them. How much they took in all is told by the
//! CPUs' own times (see `cpu_time`), which have those that ended meanwhile, too.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use assay_protocol::{CpuList, Neighbour};

use super::{kernel_threads::is_kernel_thread, read};

/// The most that are named.
const NAMED: usize = 3;
/// Less than this of the CPUs' time, in percent, disturbs nobody.
const LEAST_PERCENT: f64 = 0.5;

/// What threads of other processes have run, by their numbers. `None` where only a container's own can be seen.
#[derive(Debug)]
pub struct Neighbours(BTreeMap<u32, Thread>);

#[derive(Debug)]
struct Thread {
    /// Of the process.
    name: String,
    nanos: u64,
    cpu: u32,
}

impl Neighbours {
    pub fn read(proc: &Path) -> Option<Self> {
        let (mut threads, mut sees_the_kernels) = (BTreeMap::new(), false);
        let own = std::process::id();
        for process in numbered(proc) {
            let Some(stat) = read::text(&proc.join(process.to_string()).join("stat")) else { continue };
            if is_kernel_thread(&stat) {
                sees_the_kernels = true;
            } else if process != own
                && let Some((head, _)) = stat.rsplit_once(')')
                && let Some((_, name)) = head.split_once('(')
            {
                let tasks = proc.join(process.to_string()).join("task");
                for task in numbered(&tasks) {
                    if let Some((nanos, cpu)) = ran(&tasks.join(task.to_string())) {
                        threads.insert(task, Thread { name: name.to_owned(), nanos, cpu });
                    }
                }
            }
        }
        (sees_the_kernels && !threads.is_empty()).then_some(Self(threads))
    }

    /// Those that ran last on one of our CPUs, the busiest first, with their shares of these CPUs' time.
    pub fn since(&self, earlier: &Self, ours: &CpuList, window: Duration) -> Vec<Neighbour> {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (number, thread) in self.0.iter().filter(|(_, thread)| ours.iter().any(|cpu| cpu == thread.cpu)) {
            // One that is new has run all its time within the window.
            let before = earlier.0.get(number).map_or(0, |thread| thread.nanos);
            *by_name.entry(&thread.name).or_default() += thread.nanos.saturating_sub(before);
        }
        let whole = window.as_nanos() as f64 * ours.len() as f64;
        let share =
            |(name, nanos): (&str, u64)| Neighbour { name: name.to_owned(), cpu_percent: 100.0 * nanos as f64 / whole };
        let mut found: Vec<Neighbour> =
            by_name.into_iter().map(share).filter(|one| one.cpu_percent >= LEAST_PERCENT).collect();
        found.sort_by(|a, b| b.cpu_percent.total_cmp(&a.cpu_percent));
        found.truncate(NAMED);
        found
    }
}

fn numbered(dir: &Path) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Nanoseconds that a thread has run, and the CPU on which it ran last: column 39, of which the name ends the second.
fn ran(task: &Path) -> Option<(u64, u32)> {
    let stat = read::text(&task.join("stat"))?;
    let cpu = stat.rsplit_once(") ")?.1.split_ascii_whitespace().nth(36)?.parse().ok()?;
    Some((read::text(&task.join("schedstat"))?.split_ascii_whitespace().next()?.parse().ok()?, cpu))
}
