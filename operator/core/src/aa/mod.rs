//! A/A: an experiment whose configs are all the baseline, so that whatever differs is noise.

mod advice;
mod noise;

use serde_json::{Value, json};

pub use advice::advice;
pub use noise::{Noise, noise};

use crate::experiment::Experiment;
use crate::plan::power::{Power, Smallest, Spreads};
use crate::report::Report;
use crate::verdict::Verdict;

/// Repetitions for which the detectable gain is told.
pub const REPETITIONS: [u32; 6] = [8, 12, 20, 30, 50, 100];

/// The A/A of a sound experiment document: its baseline against itself under so many other names. Everything that decides
/// noise stays: scenarios, repetitions, metrics, placement.
pub fn document(experiment: &Value, names: usize) -> Value {
    let mut document = experiment.clone();
    let metadata = &document["metadata"];
    let name = metadata["name"].as_str().or(metadata["generateName"].as_str()).unwrap_or_default();
    // A name has 63 characters at most.
    let name: String = name.chars().take(60).collect();
    document["metadata"]["name"] = json!(format!("{}-aa", name.trim_end_matches('-')));
    let spec = &mut document["spec"];
    let baseline = spec["baseline"].clone();
    let configs = spec["configs"].as_array().cloned().unwrap_or_default();
    let Some(own) = configs.into_iter().find(|config| config["name"] == baseline) else { return document };
    let taken = baseline.as_str().unwrap_or_default().to_owned();
    let copies = (1..).map(|number| format!("same-{number}")).filter(|name| *name != taken).take(names).map(|name| {
        let mut copy = own.clone();
        copy["name"] = json!(name);
        copy
    });
    let copies: Vec<Value> = copies.collect();
    spec["configs"] = Value::Array(std::iter::once(own).chain(copies).collect());
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("matrix");
    }
    for scenario in spec["scenarios"].as_array_mut().into_iter().flatten() {
        // Data in the format of a config that is not there any more.
        if let Some(scenario) = scenario.as_object_mut() {
            scenario.remove("dataset");
        }
    }
    document
}

/// Claims of a difference that can only be false, overall and in scenarios.
pub fn false_claims(report: &Report) -> (usize, usize) {
    let claim = |verdict: Verdict| matches!(verdict, Verdict::Win | Verdict::Reject | Verdict::Tradeoff);
    let overall = report.configs.iter().filter(|config| claim(config.ruling.verdict)).count();
    (overall, report.cells.iter().filter(|cell| claim(cell.ruling.verdict)).count())
}

/// Smallest gain that this number of repetitions finds with 80 % probability; `None` if unknown.
pub fn resolves(experiment: &Experiment, repetitions: u32, spreads: &Spreads, threads: usize) -> Option<Smallest> {
    Power::new(&experiment.repeated(repetitions).design(), spreads, threads).map(|power| power.gain())
}

#[cfg(test)]
mod tests;
