use super::formats;
use crate::experiment::{Experiment, Scenario};

/// Assumed until something was measured: seconds of one thread for a point operation on a warm database.
const OPERATION_SECONDS: f64 = 5e-6;

/// Assumed for each entry of the dataset, loaded and settled once for every storage format.
const LOAD_SECONDS: f64 = 5e-6;

/// Assumed around every trial: clone, open, drain, evidence.
const TRIAL_SECONDS: f64 = 1.0;

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
    let mut busy = 0.0;
    let mut longest = 0.0_f64;
    for role in scenario.workload.kind().roles() {
        let mut steps = role.steps as f64 + role.warmup_steps as f64;
        if let Some(interval) = role.interval_ns.filter(|_| role.until_primary_ends) {
            // The primary role comes first.
            steps += 1e9 * longest / interval;
        }
        let seconds = steps * role.operations_per_step as f64 * OPERATION_SECONDS;
        busy += seconds;
        let paced = role.interval_ns.map_or(0.0, |interval| steps * interval / 1e9);
        longest = longest.max(seconds / f64::from(role.threads.max(1))).max(paced);
    }
    Duration {
        trial_seconds: TRIAL_SECONDS + longest.max(busy / f64::from(cpus.max(1))),
        dataset_seconds: scenario.workload.kind().volume().loaded_entries * LOAD_SECONDS,
    }
}

/// What the whole experiment is assumed to take, datasets included.
pub fn assumed_seconds(experiment: &Experiment) -> f64 {
    let slots = experiment.configs.len() as f64 - 1.0 + f64::from(experiment.baseline_replicates);
    let of_scenario = |scenario: &Scenario| {
        let Duration { trial_seconds, dataset_seconds } = assumed(scenario, experiment.cpus);
        let formats = formats(experiment, scenario) as f64;
        trial_seconds * slots * f64::from(experiment.repetitions) + dataset_seconds * formats
    };
    experiment.scenarios.iter().map(of_scenario).sum()
}
