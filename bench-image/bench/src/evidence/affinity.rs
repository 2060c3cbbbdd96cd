//! Where the threads of this process may run.

use std::fs;
use std::path::Path;

use assay_protocol::CpuList;

use super::read;

/// The CPUs that any thread of the process may use.
///
/// The union, not the main thread's set: one thread that may leave the pinned CPUs is enough to break both the
/// placement and the accounting of foreign time, and in the union it shows.
pub fn of_process(proc: &Path) -> Option<CpuList> {
    let mut union = CpuList::default();
    for task in fs::read_dir(proc.join("self/task")).ok()? {
        // A thread may end between the listing and the reading: it can't run anywhere any more.
        let Some(status) = read::text(&task.ok()?.path().join("status")) else { continue };
        union.join(CpuList::parse(read::field(&status, "Cpus_allowed_list")?)?);
    }
    (!union.is_empty()).then_some(union)
}

/// Whether every hyper-thread of every core that we use is ours.
pub fn whole_cores(sys: &Path, cpus: &CpuList) -> Option<bool> {
    let mut whole = true;
    for cpu in cpus.iter() {
        let siblings = read::line(&sys.join(format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")))?;
        whole &= CpuList::parse(&siblings)?.is_subset(cpus);
    }
    Some(whole)
}
