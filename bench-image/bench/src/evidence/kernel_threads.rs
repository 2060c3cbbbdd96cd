//! CPU time of kernel threads: write-back, journal, block layer. They have no owner, but next to a trial with its
//! placement they mostly finish what the trial began. Counting them as foreign would hold a config's own I/O against
//! its runs, and against those of the config that writes most first of all.

use std::{collections::BTreeMap, fs, path::Path};

use assay_protocol::CpuList;

use super::read;

/// The flag of a kernel thread in the ninth field of `stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Nanoseconds that each kernel thread has run that may run on our CPUs. Some may also run on others, and nothing tells
/// where they did: time that they spent elsewhere hides as much foreign time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelThreads(BTreeMap<u32, u64>);

impl KernelThreads {
    /// Those that may run on our CPUs. `None` where none can be seen, as in a container.
    pub fn read(proc: &Path, ours: &CpuList) -> Option<Self> {
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(proc).ok()?.filter_map(Result::ok) {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some(ran) = ran(&entry.path(), ours) {
                threads.insert(pid, ran);
            }
        }
        (!threads.is_empty()).then_some(Self(threads))
    }

    /// Seconds that they ran since an earlier reading.
    pub fn seconds_since(&self, earlier: &Self) -> f64 {
        let nanos = self.0.iter().map(|(pid, now)| {
            // A thread that is new has run all its time within the window; a reused pid looks the same.
            let before = earlier.0.get(pid).copied().unwrap_or_default();
            now.checked_sub(before).unwrap_or(*now)
        });
        nanos.sum::<u64>() as f64 / 1e9
    }
}

/// By its `stat`. The name is in parentheses and may hold anything; the fields are behind it.
pub fn is_kernel_thread(stat: &str) -> bool {
    let flags = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

fn ran(directory: &Path, ours: &CpuList) -> Option<u64> {
    if !is_kernel_thread(&read::text(&directory.join("stat"))?) {
        return None;
    }
    let status = read::text(&directory.join("status"))?;
    let allowed = CpuList::parse(read::field(&status, "Cpus_allowed_list")?)?;
    if allowed.is_disjoint(ours) {
        return None;
    }
    read::text(&directory.join("schedstat"))?.split_whitespace().next()?.parse().ok()
}
