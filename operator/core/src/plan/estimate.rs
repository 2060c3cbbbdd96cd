use assay_record::{Mix, Preload, Workload};

use crate::experiment::{Experiment, Scenario};

/// Assumed until something was measured: seconds of one thread for a point operation on a warm database.
const OPERATION_SECONDS: f64 = 10e-6;

/// Assumed for each further entry of a scan.
const ENTRY_SECONDS: f64 = 1e-6;

/// Assumed for each entry of the dataset, loaded and settled once for every storage format.
const LOAD_SECONDS: f64 = 5e-6;

/// Assumed around every trial: clone, open, drain, evidence.
const TRIAL_SECONDS: f64 = 2.0;

/// How long a scenario is assumed to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duration {
    /// One trial.
    pub trial_seconds: f64,
    /// One dataset.
    pub dataset_seconds: f64,
}

/// What a scenario is assumed to take on this number of CPUs: a guess, until its first trial has been measured.
pub fn assumed(scenario: &Scenario, cpus: u32) -> Duration {
    let Workload::KeyValue(workload) = &scenario.workload;
    let mut busy = 0.0;
    let mut longest = 0.0_f64;
    for role in &workload.roles {
        let steps = role.steps as f64 + role.warmup_steps as f64;
        let seconds = steps * f64::from(role.batch) * operation_seconds(role.mix, role.scan_length);
        busy += seconds;
        let paced = role.steps_per_second.map_or(0.0, |rate| steps / rate.max(1) as f64);
        longest = longest.max(seconds / f64::from(role.threads.max(1))).max(paced);
    }
    let loaded = if workload.preload == Preload::Empty { 0 } else { workload.keys };
    Duration {
        trial_seconds: TRIAL_SECONDS + longest.max(busy / f64::from(cpus.max(1))),
        dataset_seconds: loaded as f64 * LOAD_SECONDS,
    }
}

fn operation_seconds(mix: Mix, scan_length: u32) -> f64 {
    let scans = f64::from(mix.scan);
    let points = f64::from(mix.put) + f64::from(mix.get) + f64::from(mix.get_missing) + f64::from(mix.delete);
    let scan = OPERATION_SECONDS + f64::from(scan_length) * ENTRY_SECONDS;
    if points + scans > 0.0 { (points * OPERATION_SECONDS + scans * scan) / (points + scans) } else { 0.0 }
}

/// What the whole experiment is assumed to take, datasets included.
pub fn assumed_seconds(experiment: &Experiment) -> f64 {
    let slots = experiment.configs.len() as f64 - 1.0 + f64::from(experiment.baseline_replicates);
    let of_scenario = |scenario: &Scenario| {
        let Duration { trial_seconds, dataset_seconds } = assumed(scenario, experiment.cpus);
        let formats = crate::validate::disk::formats(experiment, scenario) as f64;
        trial_seconds * slots * f64::from(experiment.repetitions) + dataset_seconds * formats
    };
    experiment.scenarios.iter().map(of_scenario).sum()
}
