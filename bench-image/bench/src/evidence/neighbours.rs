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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::evidence::tests::Tree;

    /// As the kernel writes it: column 9 has the flags, column 39 the CPU.
    fn stat(process: u32, name: &str, flags: u64, cpu: u32) -> String {
        format!("{process} ({name}) S 1 1 1 0 -1 {flags} {}{cpu} 0 0\n", "0 ".repeat(29))
    }

    fn thread(tree: &Tree, process: u32, thread: u32, name: &str, (cpu, nanos): (u32, u64)) {
        let task = format!("proc/{process}/task/{thread}");
        tree.file(&format!("proc/{process}/stat"), &stat(process, name, 0x0040_0000, cpu))
            .file(&format!("{task}/stat"), &stat(thread, name, 0x0040_0000, cpu))
            .file(&format!("{task}/schedstat"), &format!("{nanos} 7 3\n"));
    }

    #[test]
    fn programs_on_our_cpus_are_named_with_their_shares() {
        const MS: u64 = 1_000_000;
        let tree = Tree::new();
        let read = || Neighbours::read(&tree.path("proc"));
        thread(&tree, 40, 40, "cc1 (plus) x", (0, 100 * MS));
        assert!(read().is_none(), "without the kernel's threads, others may be hidden, too");
        tree.file("proc/2/stat", &stat(2, "kthreadd", 0x0020_8040, 0));
        let before = read().unwrap();
        thread(&tree, 40, 40, "cc1 (plus) x", (0, 600 * MS));
        thread(&tree, 40, 41, "cc1 (plus) x", (1, 200 * MS));
        thread(&tree, 50, 50, "elsewhere", (5, 900 * MS));
        thread(&tree, 60, 60, "small", (1, 9 * MS));
        thread(&tree, 70, 70, "browser", (1, 800 * MS));
        thread(&tree, std::process::id(), 80, "ourselves", (0, 900 * MS));
        let ours = CpuList::parse("0-1").unwrap();
        let found = read().unwrap().since(&before, &ours, Duration::from_secs(1));
        let found: Vec<(&str, f64)> = found.iter().map(|one| (one.name.as_str(), one.cpu_percent)).collect();
        assert_eq!(found, [("browser", 40.0), ("cc1 (plus) x", 35.0)]);

        let alone = Tree::new();
        alone.file("proc/2/stat", &stat(2, "kthreadd", 0x0020_8040, 0));
        assert!(Neighbours::read(&alone.path("proc")).is_none(), "a machine always has other programs");
    }
}
