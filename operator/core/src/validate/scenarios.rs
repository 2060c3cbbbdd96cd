//! Scenarios: whether a workload can do what it says.

use std::collections::BTreeMap;

use assay_api::{Scenario, TuningExperimentSpec};
use assay_record::{KeyOrder, KeyValue, Role, ValueBytes, Workload};

use super::percent;
use super::problem::{FieldPath, Problem};
use super::schema::join;
use super::suggest::did_you_mean;
use super::{blockstore, ethrex};

/// The path of `spec.scenarios[index]`.
pub fn scenario_path(index: usize) -> FieldPath {
    FieldPath::root().keys("spec.scenarios").index(index)
}

/// Everything that can be said about scenarios without running them.
pub fn check(spec: &TuningExperimentSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, scenario) in spec.scenarios.iter().enumerate() {
        let path = scenario_path(index);
        dataset(scenario, spec, &path.keys("dataset.from"), &mut problems);
        match &scenario.workload {
            Workload::KeyValue(workload) => {
                let path = path.keys("workload.keyValue");
                key_value(workload, &path, &mut problems);
                for (index, role) in workload.roles.iter().enumerate() {
                    check_role(role, scenario, &path.key("roles").index(index), &mut problems);
                }
            }
            Workload::Ethrex(workload) => {
                ethrex::check(workload, scenario, &path.keys("workload.ethrex"), &mut problems);
            }
            Workload::Blockstore(workload) => {
                problems.extend(blockstore::check(workload, spec, &path.keys("workload.blockstore")));
            }
            Workload::RethHistory(workload) => {
                let path = path.keys("workload.rethHistory");
                let found = workload.problems().into_iter();
                problems.extend(found.map(|(field, message)| Problem::error(path.key(field), message)));
            }
        }
    }
    problems
}

fn dataset(scenario: &Scenario, spec: &TuningExperimentSpec, path: &FieldPath, problems: &mut Vec<Problem>) {
    let Some(from) = &scenario.dataset.from else { return };
    let names = || spec.configs.iter().map(|config| config.name.as_str());
    if names().all(|name| name != from) {
        let mut hint = did_you_mean(from, names());
        if hint.is_empty() {
            hint = format!("; the configs are {}", join(names()));
        }
        problems.push(Problem::error(path.clone(), format!("no config has the name {from:?}{hint}")));
    }
    if scenario.workload.volume().loaded_entries == 0.0 {
        let message = "there are no data to migrate, as preload is Empty; remove one of them";
        problems.push(Problem::error(path.clone(), message));
    }
}

fn key_value(workload: &KeyValue, path: &FieldPath, problems: &mut Vec<Problem>) {
    if let ValueBytes::Uniform { min, max } = workload.value_bytes
        && min > max
    {
        let message = format!("min {min} is above max {max}");
        problems.push(Problem::error(path.keys("valueBytes.uniform"), message));
    }
    let families = workload.families.len();
    if workload.keys < families as u64 {
        let message = format!("{} keys leave some of the {families} column families empty", workload.keys);
        problems.push(Problem::error(path.key("keys"), message));
    }
}

fn check_role(role: &Role, scenario: &Scenario, path: &FieldPath, problems: &mut Vec<Problem>) {
    let mut error = |at: FieldPath, message: String| problems.push(Problem::error(at, message));
    let mix = role.mix;
    let total = [mix.put, mix.get, mix.get_missing, mix.delete, mix.scan].into_iter().map(u64::from).sum::<u64>();
    if total == 0 {
        error(path.key("mix"), "has no operation: give at least one a weight above 0".to_owned());
    }
    if mix.scan > 0 && role.batch > 1 {
        let message =
            format!("a scan can't be batched; set batch to 1 (is {}) or give scans a role of their own", role.batch);
        error(path.key("batch"), message);
    }
    if role.steps < u64::from(role.threads) {
        error(path.key("steps"), format!("{} steps leave some of the {} threads idle", role.steps, role.threads));
    }
    if let Some(text) = &role.zipfian_exponent {
        let at = path.key("zipfianExponent");
        if role.key_order != KeyOrder::Zipfian {
            error(at, "needs keyOrder: Zipfian; set it, or remove the exponent".to_owned());
        } else if !percent::decimal(text).is_some_and(|exponent| exponent > 0.0) {
            error(at, format!("must be a decimal number above 0, such as 0.99, not {text:?}"));
        }
    }
    if let Some(rate) = role.steps_per_second.filter(|&rate| rate > 0) {
        let seconds = role.steps.saturating_add(role.warmup_steps).div_ceil(rate);
        if seconds >= u64::from(scenario.deadline_seconds) {
            let message = format!(
                "{} steps with {} to warm up take {seconds} s at {rate} steps per second, beyond deadlineSeconds {}",
                role.steps, role.warmup_steps, scenario.deadline_seconds
            );
            error(path.key("stepsPerSecond"), message);
        }
    }
}

/// Scenarios whose primary role keeps a fixed rate, so that their throughput says nothing.
pub fn paced(spec: &TuningExperimentSpec) -> BTreeMap<usize, &str> {
    let is_paced =
        |scenario: &Scenario| scenario.workload.primary_role().is_some_and(|role| role.interval_ns.is_some());
    let scenarios = spec.scenarios.iter().enumerate();
    scenarios.filter(|(_, scenario)| is_paced(scenario)).map(|(index, s)| (index, s.name.as_str())).collect()
}
