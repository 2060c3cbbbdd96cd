//! Scenarios: whether a workload can do what it says.

use std::collections::BTreeMap;

use assay_api::{Config, Scenario, TuningExperimentSpec};
use assay_protocol::WorkloadProblem;

use super::configs::{config_path, effective, unknown};
use super::problem::{FieldPath, Problem};

/// The path of `spec.scenarios[index]`.
pub fn scenario_path(index: usize) -> FieldPath {
    FieldPath::root().keys("spec.scenarios").index(index)
}

/// Everything that can be said about scenarios without running them, with the configs that the user wrote down.
pub fn check(spec: &TuningExperimentSpec, written: &[Config]) -> Vec<Problem> {
    let engines = effective(spec);
    let mut problems = Vec::new();
    for (index, scenario) in spec.scenarios.iter().enumerate() {
        let path = scenario_path(index);
        dataset(scenario, written, &path.keys("dataset.from"), &mut problems);
        let kind = scenario.workload.kind();
        let of_workload = kind.problems(u64::from(scenario.deadline_seconds));
        let is_sound = !of_workload.iter().any(|problem| problem.is_error);
        let path = path.key("workload").key(kind.name());
        problems.extend(of_workload.into_iter().map(|problem| below(&path, problem)));
        if is_sound {
            for (index, engine) in engines.iter().enumerate() {
                let of_config = kind.config_problems(engine).into_iter();
                problems.extend(of_config.map(|problem| below(&config_path(index), problem)));
            }
        }
    }
    problems
}

/// What a workload says about a field, which it names from where its own fields or those of a config begin.
fn below(path: &FieldPath, problem: WorkloadProblem) -> Problem {
    let path = problem.field.split('/').fold(path.clone(), |path, part| match part.parse() {
        Ok(index) => path.index(index),
        Err(_) => path.key(part),
    });
    if problem.is_error { Problem::error(path, problem.message) } else { Problem::warning(path, problem.message) }
}

fn dataset(scenario: &Scenario, written: &[Config], path: &FieldPath, problems: &mut Vec<Problem>) {
    let Some(from) = &scenario.dataset.from else { return };
    problems.extend(unknown(from, written, path.clone()));
    if scenario.workload.kind().volume().loaded_entries == 0.0 {
        let message = "no data to migrate: preload is Empty; remove one of them";
        problems.push(Problem::error(path.clone(), message));
    }
}

/// Whether a scenario writes anything, its preparation apart.
pub fn writes(scenario: &Scenario) -> bool {
    scenario.workload.kind().volume().written_entries > 0.0
}

/// Scenarios whose primary role keeps a fixed rate, so that their throughput says nothing.
pub fn paced(spec: &TuningExperimentSpec) -> BTreeMap<usize, &str> {
    let is_paced =
        |scenario: &Scenario| scenario.workload.primary_role().is_some_and(|role| role.interval_ns.is_some());
    let scenarios = spec.scenarios.iter().enumerate();
    scenarios.filter(|(_, scenario)| is_paced(scenario)).map(|(index, s)| (index, s.name.as_str())).collect()
}
