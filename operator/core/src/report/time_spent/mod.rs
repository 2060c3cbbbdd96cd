//! Where the time went, config by config: the components of full records against the baseline's in the same blocks.

use std::collections::BTreeMap;

use assay_protocol::{COMPONENTS, Clock, RoleTime, TrialRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Report, number};
use crate::stats::{Interval, Paired};

/// Where the runs of one scenario spent their time, in microseconds per step. Explanation only: nothing is judged by
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeTable {
    pub scenario: String,
    /// The role whose steps are counted.
    pub role: String,
    /// Components that took time in any run.
    pub rows: Vec<TimeRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeRow {
    /// The component's name; `role: part` for the threads of a role.
    pub component: String,
    pub clock: Clock,
    /// Number of parent rows that this row is part of.
    pub depth: u32,
    /// Mean over the baseline's runs.
    pub baseline: f64,
    /// In the order of the report's configs.
    pub configs: Vec<TimeCell>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeCell {
    pub config: String,
    /// Mean over the config's runs; absent if none has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The config's runs minus the baseline's in the same blocks; positive means more time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval95: Option<Interval>,
}

impl TimeCell {
    /// Whether there is a difference at all, as far as 95 % intervals tell.
    pub(super) fn differs(&self) -> bool {
        let ends = self.interval95.map(|interval| (interval.low, interval.high));
        matches!(ends, Some((Some(low), _)) if low > 0.0) || matches!(ends, Some((_, Some(high))) if high < 0.0)
    }

    /// The difference as people read it, and its interval.
    pub(super) fn difference_texts(&self) -> (String, String) {
        let Some(difference) = self.difference else { return ("unknown".to_owned(), "no complete block".to_owned()) };
        let interval = match self.interval95 {
            Some(Interval { low: Some(low), high: Some(high) }) => format!("{} to {}", signed(low), signed(high)),
            Some(Interval { low: Some(low), high: None }) => format!("at least {}", signed(low)),
            Some(Interval { low: None, high: Some(high) }) => format!("at most {}", signed(high)),
            Some(Interval { low: None, high: None }) | None => "too few blocks".to_owned(),
        };
        (signed(difference), interval)
    }
}

fn signed(value: f64) -> String {
    let text = number::measured(value.abs());
    // No sign where nothing but zeros would follow it.
    let sign = if text.chars().all(|c| matches!(c, '0' | '.')) {
        ""
    } else if value < 0.0 {
        "-"
    } else {
        "+"
    };
    format!("{sign}{text}")
}

pub(super) fn clock_text(clock: Clock) -> &'static str {
    match clock {
        Clock::Cpu => "CPU",
        Clock::Wall => "wall",
        Clock::SampledWall => "wall, sampled",
    }
}

/// How to read the tables, for those who have not read the manual.
pub(super) const HOW: &str = "Microseconds per step of the primary role, averaged over the runs that count. Times of \
                              several threads add up. Indented rows are part of their parent; other rows overlap, and \
                              wall time includes waits. A difference is the estimate over blocks with its 95 % \
                              interval; positive means more time. Bold: the interval excludes 0, as 1 in 20 does by \
                              chance.";

/// Collects the tables from records in any order.
#[derive(Clone, Debug, Default)]
pub struct TimeTables {
    scenarios: BTreeMap<String, Scenario>,
}

#[derive(Clone, Debug, Default)]
struct Scenario {
    role: String,
    /// The rows that a table can have, in its order.
    parts: Vec<Part>,
    trials: Vec<Trial>,
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    component: String,
    clock: Clock,
    depth: u32,
}

/// Microseconds per step by component.
#[derive(Clone, Debug)]
struct Trial {
    config: String,
    block: u32,
    times: BTreeMap<String, f64>,
}

impl TimeTables {
    /// Adds a trial. Give only trials that count.
    pub fn add(&mut self, record: &TrialRecord) {
        let Some(primary) = record.spec.workload.primary_role() else { return };
        // A record from before this was measured would leave rows of roles only.
        if record.time_spent.is_empty() || primary.steps == 0 {
            return;
        }
        let (mut parts, mut times) = (Vec::new(), BTreeMap::new());
        for (part, seconds) in measured(record) {
            if let Some(seconds) = seconds {
                times.insert(part.component.clone(), seconds * 1e6 / primary.steps as f64);
            }
            parts.push(part);
        }
        let trial = Trial { config: record.spec.trial.config.clone(), block: record.spec.trial.block, times };
        let scenario = self.scenarios.entry(record.spec.trial.scenario.clone()).or_default();
        (scenario.role, scenario.parts) = (primary.name, parts);
        scenario.trials.push(trial);
    }

    /// The tables of a report's scenarios.
    pub fn finish(self, report: &Report) -> Vec<TimeTable> {
        let tables = report.design.scenarios.iter().filter_map(|name| {
            let scenario = self.scenarios.get(name)?;
            let rows: Vec<TimeRow> = scenario.parts.iter().filter_map(|part| scenario.row(part, report)).collect();
            (!rows.is_empty()).then(|| TimeTable { scenario: name.clone(), role: scenario.role.clone(), rows })
        });
        tables.collect()
    }
}

/// Every row that the record could have, with its seconds where it has it.
fn measured(record: &TrialRecord) -> Vec<(Part, Option<f64>)> {
    let roles: Vec<_> = record
        .spec
        .workload
        .kind()
        .roles()
        .into_iter()
        .map(|role| (record.evidence.role_time.get(&role.name), role))
        .collect();
    let mut all = Vec::new();
    for component in COMPONENTS {
        let depth = component.depth();
        let part = Part { component: component.name.to_owned(), clock: component.clock, depth };
        all.push((part, record.time_spent.get(component.name).copied()));
        if component.name == "workload_threads" {
            let own = roles.iter().filter(|_| roles.len() > 1);
            all.extend(own.map(|(time, role)| {
                let part = Part { component: format!("{}: cpu", role.name), clock: Clock::Cpu, depth: depth + 1 };
                (part, time.and_then(|time| time.cpu_seconds))
            }));
        }
        if component.name == "other_threads" {
            all.extend(roles.iter().flat_map(|(time, role)| walls(&role.name, *time)));
        }
    }
    all
}

/// What the threads of a role did all the window.
fn walls(role: &str, time: Option<&RoleTime>) -> Vec<(Part, Option<f64>)> {
    let part = |name: &str, depth, of: fn(&RoleTime) -> Option<f64>| {
        let part = Part { component: format!("{role}: {name}"), clock: Clock::Wall, depth };
        (part, time.and_then(of))
    };
    vec![
        part("wall", 0, |time| Some(time.wall_seconds)),
        part("db", 1, |time| Some(time.db_seconds)),
        part("generator", 1, |time| Some(time.generator_seconds)),
        part("compute", 1, |time| Some(time.compute_seconds)),
        part("idle", 1, |time| Some(time.idle_seconds)),
        part("run_queue", 1, |time| time.run_queue_seconds),
    ]
}

impl Scenario {
    /// Nothing where no run spent time on it.
    fn row(&self, part: &Part, report: &Report) -> Option<TimeRow> {
        let took = |trial: &Trial| trial.times.get(&part.component).copied();
        let mean = |config: &str| {
            let runs = self.trials.iter().filter(|trial| trial.config == config);
            let times: Vec<f64> = runs.filter_map(took).collect();
            (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
        };
        if self.trials.iter().filter_map(took).all(|time| time == 0.0) {
            return None;
        }
        let baseline = mean(&report.baseline)?;
        let replicates = report.design.baseline_replicates as usize;
        let cell = |config: &str| {
            let paired =
                self.paired(&part.component, &report.baseline, config, replicates).filter(|paired| paired.n() > 0);
            TimeCell {
                config: config.to_owned(),
                mean: mean(config),
                difference: paired.as_ref().and_then(Paired::estimate),
                interval95: paired.map(|paired| paired.interval(0.95)),
            }
        };
        let configs = report.configs.iter().map(|config| cell(&config.config)).collect();
        Some(TimeRow { component: part.component.clone(), clock: part.clock, depth: part.depth, baseline, configs })
    }

    /// The blocks that have the config's run and all of the baseline's.
    fn paired(&self, component: &str, baseline: &str, config: &str, replicates: usize) -> Option<Paired> {
        let mut blocks: BTreeMap<u32, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for trial in &self.trials {
            let Some(time) = trial.times.get(component) else { continue };
            let (own, theirs) = blocks.entry(trial.block).or_default();
            if trial.config == config {
                own.push(*time);
            } else if trial.config == baseline {
                theirs.push(*time);
            }
        }
        blocks.retain(|_, (own, theirs)| own.len() == 1 && theirs.len() == replicates);
        let (own, theirs): (Vec<_>, Vec<_>) = blocks.into_values().unzip();
        Paired::new(own.concat(), theirs.concat(), replicates).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;
