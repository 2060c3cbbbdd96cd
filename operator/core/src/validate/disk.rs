//! How much disk an experiment needs, before anything is written.

use assay_protocol::Workload;

use super::problem::{FieldPath, Problem};
use super::scenarios::scenario_path;
use crate::experiment::Experiment;
use crate::plan::formats;
use crate::quantity;

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
    /// Its datasets in so many formats.
    pub fn datasets(self, formats: usize) -> u64 {
        self.dataset_bytes.saturating_mul(formats as u64)
    }

    /// All datasets and the one trial that runs.
    pub fn total(self, formats: usize) -> u64 {
        self.datasets(formats).saturating_add(self.trial_bytes)
    }
}

/// Estimates what a workload needs.
pub fn need(workload: &Workload) -> DiskNeed {
    let volume = workload.kind().volume();
    let dataset = on_disk(volume.loaded_entries, volume.loaded_bytes * volume.compressed) * SPACE_AMPLIFICATION;
    let written = on_disk(volume.written_entries, volume.written_bytes * volume.compressed);
    DiskNeed { dataset_bytes: dataset as u64, trial_bytes: ((dataset + written) * REWRITE) as u64 }
}

/// The most bytes that a trial's directory may hold before the trial has failed under its config: uncompressed, with
/// everything that was ever written still there, and then some.
pub fn limit(workload: &Workload) -> u64 {
    let volume = workload.kind().volume();
    let raw =
        on_disk(volume.loaded_entries, volume.loaded_bytes) + on_disk(volume.written_entries, volume.written_bytes);
    (raw as u64).saturating_mul(RUNAWAY).saturating_add(SLACK)
}

fn on_disk(entries: f64, bytes: f64) -> f64 {
    entries * ENTRY_OVERHEAD as f64 + bytes
}

/// What a whole experiment needs on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The datasets of all scenarios, which stay until the last trial.
    pub datasets_bytes: u64,
    /// The scenario whose trial may become largest, and how large that is before it has run away. Before each trial so much has to
    /// be free, or a full disk would look like the fault of a config.
    pub scenario: usize,
    pub trial_bytes: u64,
}

impl Room {
    pub fn total(self) -> u64 {
        self.datasets_bytes.saturating_add(self.trial_bytes)
    }
}

/// Room for an experiment, which has a scenario at least.
pub fn room(experiment: &Experiment) -> Room {
    let mut room = Room { datasets_bytes: 0, scenario: 0, trial_bytes: 0 };
    for (index, scenario) in experiment.scenarios.iter().enumerate() {
        let datasets = need(&scenario.workload).datasets(formats(experiment, scenario));
        room.datasets_bytes = room.datasets_bytes.saturating_add(datasets);
        if scenario.max_disk_bytes > room.trial_bytes {
            (room.scenario, room.trial_bytes) = (index, scenario.max_disk_bytes);
        }
    }
    room
}

/// Refuses an experiment that is larger than the space that the caller has seen.
pub fn check(experiment: &Experiment, free_bytes: u64) -> Option<Problem> {
    let room = room(experiment);
    let path: FieldPath = scenario_path(room.scenario).key("workload");
    (room.total() > free_bytes).then(|| {
        let message = format!(
            "the experiment needs {} of disk ({} for datasets, {} per trial of scenario {:?}; killed above that), but only {} is \
             free: use fewer keys or steps, or a larger disk",
            quantity::display(room.total()),
            quantity::display(room.datasets_bytes),
            quantity::display(room.trial_bytes),
            experiment.scenarios[room.scenario].name,
            quantity::display(free_bytes),
        );
        Problem::error(path, message)
    })
}
