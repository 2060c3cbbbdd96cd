//! What the kernel counts for each CPU, and what of it happened between two looks.

mod interrupts;
mod throttle;

use std::collections::BTreeMap;
use std::path::Path;

use assay_api::agent::CpuCounters;
use assay_protocol::CpuList;

/// The counters as they are now. What can't be read is missing.
pub fn read(proc: &Path, sys: &Path) -> CpuCounters {
    let interrupts = std::fs::read_to_string(proc.join("interrupts")).unwrap_or_default();
    CpuCounters {
        throttled: throttle::read(&sys.join("devices/system/cpu")),
        interrupts: interrupts::parse(&interrupts).unwrap_or_default(),
    }
}

/// How often one of these CPUs clocked down for heat between two looks: a package is counted by each CPU in it, so their sum would say
/// nothing. `None` unless all are known.
pub fn throttle_events(before: &CpuCounters, after: &CpuCounters, cpus: &CpuList) -> Option<u64> {
    grown(&before.throttled, &after.throttled, cpus)?.into_iter().max()
}

/// How many interrupts of devices these CPUs served between two looks; `None` unless all are known.
pub fn device_interrupts(before: &CpuCounters, after: &CpuCounters, cpus: &CpuList) -> Option<u64> {
    Some(grown(&before.interrupts, &after.interrupts, cpus)?.into_iter().sum())
}

/// By how much the counter of each CPU has grown. One that is smaller than before counts from another start of the node.
fn grown(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>, cpus: &CpuList) -> Option<Vec<u64>> {
    cpus.iter().map(|cpu| after.get(&cpu)?.checked_sub(*before.get(&cpu)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(throttled: &[(u32, u64)], interrupts: &[(u32, u64)]) -> CpuCounters {
        CpuCounters { throttled: throttled.iter().copied().collect(), interrupts: interrupts.iter().copied().collect() }
    }

    #[test]
    fn what_happened_is_told_of_the_trials_cpus() {
        let before = counters(&[(0, 5), (1, 5), (2, 9)], &[(0, 100), (1, 7), (2, 0)]);
        let after = counters(&[(0, 5), (1, 7), (2, 12)], &[(0, 110), (1, 8), (2, 50)]);
        for (cpus, throttled, interrupts) in [
            (vec![0], Some(0), Some(10)),
            (vec![0, 1], Some(2), Some(11)),
            (vec![1, 2], Some(3), Some(51)),
            (vec![0, 3], None, None),
            (vec![], None, Some(0)),
        ] {
            let cpus: CpuList = cpus.into_iter().collect();
            assert_eq!(throttle_events(&before, &after, &cpus), throttled, "{cpus:?}");
            assert_eq!(device_interrupts(&before, &after, &cpus), interrupts, "{cpus:?}");
        }
        let one = CpuList::from_iter([1]);
        assert_eq!(throttle_events(&after, &before, &one), None, "the node was started again");
        assert_eq!(throttle_events(&before, &CpuCounters::default(), &one), None);
    }

    #[test]
    fn a_machine_that_counts_nothing_is_unknown() {
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(read(nothing.path(), nothing.path()), CpuCounters::default());
    }
}
