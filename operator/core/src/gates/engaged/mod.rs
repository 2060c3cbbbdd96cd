//! Engaged: what a config changes had a way to act, or its runs say nothing about it.
//!
//! A trigger of 100 files does nothing in runs that never have more than two, whatever their times look like. So each option
//! has a sign that shows it at work, in a trial of the config or of the baseline. Where none of a config's options has
//! shown its sign in a scenario, nothing about the config can be learned there.
//!
//! Which options those are follows from the specs; whether a value reached RocksDB at all is for other gates.

mod case;
mod levels;
mod rules;
mod signs;

use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::{Engagement, EngineConfig, Summary, TrialId};

use self::case::{Answer, Case, Place};
use self::signs::{BLOCK_CACHE, TRIGGER, WRITE_OPTIONS};
use super::view::View;
use super::{Code, Findings, Gate, Note};
use crate::experiment::ConfigUnderTest;

pub(super) fn check(view: &View<'_>, findings: &mut Findings) {
    let Some(baseline) = view.experiment.baseline_config() else { return };
    let mut seen: BTreeMap<(&str, &str), Vec<&Summary>> = BTreeMap::new();
    for &trial in view.completed() {
        let summary = view.summary(trial);
        seen.entry((&summary.trial.scenario, &summary.trial.config)).or_default().push(summary);
    }
    // Runs of the baseline are compared with each config.
    let mut all_unknown: BTreeMap<&TrialId, BTreeSet<String>> = BTreeMap::new();
    for scenario in &view.experiment.scenarios {
        for config in view.experiment.configs.iter().filter(|config| config.name != baseline.name) {
            let own = seen.get(&(scenario.name.as_str(), config.name.as_str()));
            let base = seen.get(&(scenario.name.as_str(), baseline.name.as_str()));
            // One arm alone says nothing yet.
            let Some((own, base)) = own.zip(base) else { continue };
            let runs: Vec<&Summary> = own.iter().chain(base).copied().collect();
            let both: Vec<&Engagement> = runs.iter().map(|run| &run.engagement).collect();
            // Universal compaction counts levels, too, when it asks whether a trigger is reached.
            let universal = [baseline, config].iter().any(|config| is_universal(&config.engine));
            let answers: BTreeMap<String, Answer> = changed(baseline, config, &scenario.workload.kind().families())
                .into_iter()
                .map(|(option, places)| {
                    let migration = scenario.dataset_from.is_some();
                    let case = Case { option: &option, places: &places, seen: &both, migration };
                    match signs::answer(&case) {
                        Answer::Idle(_) if universal && option == TRIGGER => (option, Answer::Unknown),
                        answer => (option, answer),
                    }
                })
                .collect();
            let unknown = say(findings, &scenario.name, &config.name, &answers);
            for run in runs.into_iter().filter(|_| !unknown.is_empty()) {
                all_unknown.entry(&run.trial).or_default().extend(unknown.iter().cloned());
            }
            let families = scenario.workload.kind().families();
            let tunes = |family: &&str| config.engine.family_options(family) != baseline.engine.family_options(family);
            if families.iter().any(tunes) {
                say_idle_families(findings, &scenario.name, &config.name, own);
            }
        }
    }
    for unknown in all_unknown.values() {
        findings.unknown(Gate::Engaged, unknown.iter().map(String::as_str));
    }
}

/// Says what never took effect, and of what that is unknown.
fn say(findings: &mut Findings, scenario: &str, config: &str, answers: &BTreeMap<String, Answer>) -> Vec<String> {
    let idle: Vec<String> = answers
        .iter()
        .filter_map(|(option, answer)| match answer {
            Answer::Idle(why) => Some(format!("{option} ({why})")),
            Answer::Acted | Answer::Unknown => None,
        })
        .collect();
    if !idle.is_empty() && idle.len() == answers.len() {
        let message = format!("no change of {config} took effect in {scenario}: {}", idle.join(", "));
        findings.cell(scenario, config, Code::NotEngaged, message);
    } else if !idle.is_empty() {
        let text = format!("Never took effect in {scenario}: {}.", idle.join(", "));
        findings.note(Gate::Engaged, Some(config), text);
    }
    let unknown: Vec<String> =
        answers.iter().filter(|(_, answer)| **answer == Answer::Unknown).map(|(option, _)| option.clone()).collect();
    if !unknown.is_empty() {
        let text = format!("Unknown whether these took effect in {scenario}: {}.", unknown.join(", "));
        findings.notes.insert(Note::unchecked(Gate::Engaged, Some(config), text));
    }
    unknown
}

/// A family that nobody writes to is tuned for nothing, whatever the others tell. A scenario that only reads has no others.
fn say_idle_families(findings: &mut Findings, scenario: &str, config: &str, runs: &[&Summary]) {
    let trials = || runs.iter().map(|run| &run.engagement);
    let written = trials().any(|seen| seen.user_bytes_written.is_some_and(|bytes| bytes > 0));
    let idle = trials().map(|seen| seen.idle_families.as_ref()).reduce(|a, b| a.filter(|_| a == b));
    if let Some(idle) = idle.flatten().filter(|idle| written && !idle.is_empty()) {
        let text = format!("It tunes families that {scenario} never writes to: {}.", idle.join(", "));
        findings.note(Gate::Engaged, Some(config), text);
    }
}

/// What a config changes, by option.
fn changed(baseline: &ConfigUnderTest, config: &ConfigUnderTest, families: &[&str]) -> BTreeMap<String, Vec<Place>> {
    let (base, own): (&EngineConfig, &EngineConfig) = (&baseline.engine, &config.engine);
    let mut changed: BTreeMap<String, Vec<Place>> = BTreeMap::new();
    let mut places = vec![Place { before: base.db_options.clone(), after: own.db_options.clone() }];
    places.extend(
        families.iter().map(|family| Place { before: base.family_options(family), after: own.family_options(family) }),
    );
    for place in places {
        for name in place.before.keys().chain(place.after.keys().filter(|name| !place.before.contains_key(*name))) {
            if place.before.get(name) != place.after.get(name) {
                changed.entry(name.clone()).or_default().push(place.clone());
            }
        }
    }
    let mut more = |name: &str, differs: bool| {
        if differs {
            changed.insert(name.to_owned(), Vec::new());
        }
    };
    more(BLOCK_CACHE, base.block_cache != own.block_cache);
    more(WRITE_OPTIONS, base.write_options != own.write_options);
    more("policy", base.policy != own.policy);
    more("image", baseline.image != config.image);
    changed
}

fn is_universal(engine: &EngineConfig) -> bool {
    let options = engine.column_families.iter().map(|entry| &entry.options).chain([&engine.db_options]);
    options.filter_map(|options| options.get("compaction_style")).any(|style| style.contains("Universal"))
}

#[cfg(test)]
mod tests;
