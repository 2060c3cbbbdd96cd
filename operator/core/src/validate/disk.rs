//! How much disk an experiment needs, before anything is written.

use assay_record::Workload;

use super::problem::{FieldPath, Problem};
use super::scenarios::scenario_path;
use super::{counted, quantity};
use crate::experiment::Experiment;
use crate::plan::format_of;

/// What RocksDB adds to an entry: sequence number, lengths, its share of index, filter and metadata.
const ENTRY_OVERHEAD: u64 = 16;

/// Levels hold dead entries beside live ones: about 10 % in a settled tree.
const SPACE_AMPLIFICATION: f64 = 1.1;

/// A compaction writes its result before it deletes what it read. The worst case rewrites everything at once.
const REWRITE: f64 = 2.0;

/// A config may be wasteful, that is a finding. Beyond this many times its raw bytes it has run away.
const RUNAWAY: u64 = 3;

/// WAL, OPTIONS, logs and a memtable or two: what even an empty database may hold.
const SLACK: u64 = 1 << 30;

/// What a scenario needs on disk, as an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskNeed {
    /// One dataset, settled. There is one for each storage format.
    pub dataset_bytes: u64,
    /// What one trial adds to the dataset, which it shares by hard links until it rewrites it.
    pub trial_bytes: u64,
}

impl DiskNeed {
    /// All datasets and the one trial that runs.
    pub fn total(self, formats: usize) -> u64 {
        self.dataset_bytes.saturating_mul(formats as u64).saturating_add(self.trial_bytes)
    }
}

/// Estimates what a workload needs.
pub fn need(workload: &Workload) -> DiskNeed {
    let volume = workload.volume();
    let dataset = on_disk(volume.loaded_entries, volume.loaded_bytes * volume.compressed) * SPACE_AMPLIFICATION;
    let written = on_disk(volume.written_entries, volume.written_bytes * volume.compressed);
    DiskNeed { dataset_bytes: dataset as u64, trial_bytes: ((dataset + written) * REWRITE) as u64 }
}

/// The most bytes that a trial's directory may hold before the trial has failed under its config: uncompressed, with
/// everything that was ever written still there, and then some.
pub fn limit(workload: &Workload) -> u64 {
    let volume = workload.volume();
    let raw =
        on_disk(volume.loaded_entries, volume.loaded_bytes) + on_disk(volume.written_entries, volume.written_bytes);
    (raw as u64).saturating_mul(RUNAWAY).saturating_add(SLACK)
}

fn on_disk(entries: f64, bytes: f64) -> f64 {
    entries * ENTRY_OVERHEAD as f64 + bytes
}

/// Number of storage formats in which the dataset of a scenario is written.
pub fn formats(experiment: &Experiment, scenario: &crate::experiment::Scenario) -> usize {
    let mut formats = Vec::new();
    for config in &experiment.configs {
        let format = format_of(experiment, scenario, config);
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    formats.len()
}

/// Refuses scenarios that are larger than the free space that the caller has seen.
pub fn check(experiment: &Experiment, free_bytes: u64) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, scenario) in experiment.scenarios.iter().enumerate() {
        let need = need(&scenario.workload);
        let formats = formats(experiment, scenario);
        let total = need.total(formats);
        if total > free_bytes {
            let path: FieldPath = scenario_path(index).key("workload");
            let message = format!(
                "scenario {:?} needs about {} of disk ({} for {} of the dataset, {} for the trial that runs) and {} are free: use fewer keys or steps, or a larger disk",
                scenario.name,
                quantity::display(total),
                quantity::display(total - need.trial_bytes),
                counted(formats, "storage format", "storage formats"),
                quantity::display(need.trial_bytes),
                quantity::display(free_bytes),
            );
            problems.push(Problem::error(path, message));
        }
    }
    problems
}
