//! From rows to runs. What a row says is checked here once; afterwards every value can be judged.

mod rows;

use std::collections::{BTreeMap, BTreeSet};

use super::columns::Meaning;
use super::data::{Data, DataProblem, Name, Place, Replicate, Run, RunKey, Sample};
use super::policy::Policy;
use crate::validate::did_you_mean;
use crate::verdict::MetricRule;

/// Problems after which the rest of the data is not read: the same mistake is likely to be in every row.
const MOST_PROBLEMS: usize = 20;
/// Values are those of runs. Whoever has more of them has requests or iterations, which are no evidence of their own.
const MOST_VALUES: usize = 1_000_000;
const MOST_NAME: usize = 128;
/// Different names of configs, scenarios, sessions, blocks and replicates together.
const MOST_NAMES: usize = 100_000;

/// Takes rows and samples, and makes data of them.
#[derive(Debug)]
pub struct Collector<'a> {
    policy: &'a Policy,
    rules: Vec<MetricRule>,
    data: Data,
    values: usize,
    names: usize,
    problems: Vec<DataProblem>,
    /// A limit was passed.
    over: bool,
    /// The unit of each metric, and where it stood first.
    units: BTreeMap<Name, (Name, Place)>,
    /// Metrics that are not judged.
    others: BTreeSet<String>,
    unknown_columns: BTreeSet<String>,
    /// Runs without a name, by the rest of the key.
    counted: BTreeMap<(RunKey, usize), u32>,
}

impl<'a> Collector<'a> {
    pub fn new(policy: &'a Policy) -> Self {
        Self {
            policy,
            rules: policy.rules(),
            data: Data::default(),
            values: 0,
            names: 0,
            problems: Vec::new(),
            over: false,
            units: BTreeMap::new(),
            others: BTreeSet::new(),
            unknown_columns: BTreeSet::new(),
            counted: BTreeMap::new(),
        }
    }

    /// Begins a file; its number goes into places.
    pub fn file(&mut self, name: &str) -> u32 {
        self.data.files.push(name.to_owned());
        self.data.files.len() as u32 - 1
    }

    /// Whether reading on is of no use.
    pub fn is_full(&self) -> bool {
        self.over || self.problems.len() >= MOST_PROBLEMS
    }

    pub fn problem(&mut self, place: Place, column: Option<&str>, message: impl Into<String>) {
        self.problems.push(DataProblem {
            file: self.data.files.get(place.file as usize).cloned(),
            line: (place.line > 0).then_some(place.line),
            column: column.map(str::to_owned),
            message: message.into(),
        });
    }

    /// Something worth telling that makes no value unfit.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.data.notes.contains(&text) {
            self.data.notes.push(text);
        }
    }

    /// One value of one run.
    pub fn sample(&mut self, place: Place, sample: &Sample) {
        if self.is_full() {
            return;
        }
        let named = [
            (Meaning::Scenario, Some(&sample.scenario)),
            (Meaning::Config, Some(&sample.config)),
            (Meaning::Metric, Some(&sample.metric)),
            (Meaning::Session, Some(&sample.session).filter(|text| !text.is_empty())),
            (Meaning::Block, sample.block.as_ref()),
            (Meaning::Replicate, sample.replicate.as_ref()),
            (Meaning::Unit, sample.unit.as_ref()),
            (Meaning::Work, sample.work.as_ref()),
            (Meaning::Build, sample.build.as_ref()),
        ];
        let mut fit = true;
        for (meaning, text) in named.into_iter().filter_map(|(meaning, text)| Some((meaning, text?))) {
            if let Some(problem) = name_problem(text) {
                let column = self.policy.columns.column(meaning);
                self.problem(place, Some(column), problem);
                fit = false;
            }
        }
        if !fit {
            return;
        }
        let Some(rule) = self.rules.iter().position(|rule| rule.name == sample.metric) else {
            if self.others.len() < MOST_NAME {
                self.others.insert(sample.metric.clone());
            }
            return;
        };
        if !self.unit(place, sample) {
            return;
        }
        let Some(value) = self.value(place, rule, &sample.value) else { return };
        self.values += 1;
        if self.values > MOST_VALUES {
            let message = format!(
                "has more than {MOST_VALUES} values to judge: a value must be that of a whole run, not of one request or \
                 iteration; reduce every run to one number per metric"
            );
            self.refuse(place, message);
            return;
        }
        self.keep(place, sample, rule, value);
    }

    /// A problem that makes all others unimportant.
    fn refuse(&mut self, place: Place, message: String) {
        self.over = true;
        self.problem(Place { line: 0, ..place }, None, message);
    }

    fn unit(&mut self, place: Place, sample: &Sample) -> bool {
        let Some(unit) = &sample.unit else { return true };
        let (metric, unit) = (self.name(&sample.metric), self.name(unit));
        let (known, first) = *self.units.entry(metric).or_insert((unit, place));
        if known == unit {
            return true;
        }
        let message = format!(
            "{} is in {} here and in {} at {}: convert one of them",
            sample.metric,
            self.data.names.text(unit),
            self.data.names.text(known),
            self.data.at(first)
        );
        let column = self.policy.columns.column(Meaning::Unit);
        self.problem(place, Some(column), message);
        false
    }

    fn value(&mut self, place: Place, rule: usize, text: &str) -> Option<f64> {
        let (metric, scale, direction) = (&self.rules[rule].name, self.rules[rule].scale, self.rules[rule].direction);
        let problem = match text.parse::<f64>() {
            _ if text.is_empty() => "is empty: leave the row out where a run gave no value".to_owned(),
            Err(_) => format!("{} is not a number: write it as 1234.5 or 1.2345e3", shown(text)),
            Ok(value) => match scale.transform(direction, value) {
                Ok(_) => return Some(value),
                Err(problem @ crate::stats::Unmeasurable::NotPositive) => format!(
                    "{} {problem}: correct it, or declare {metric} with scale: linear where zero is a legal value",
                    shown(text)
                ),
                Err(problem) => format!("{} {problem}: leave the row out where a run gave no value", shown(text)),
            },
        };
        let column = self.policy.columns.column(Meaning::Value);
        self.problem(place, Some(column), problem);
        None
    }

    fn keep(&mut self, place: Place, sample: &Sample, rule: usize, value: f64) {
        let mut key = RunKey {
            session: self.name(&sample.session),
            scenario: self.name(&sample.scenario),
            config: self.name(&sample.config),
            block: sample.block.as_ref().map(|block| self.name(block)),
            replicate: sample.replicate.as_ref().map_or(Replicate::Only, |text| Replicate::Named(self.name(text))),
        };
        if key.block.is_none() && key.replicate == Replicate::Only {
            // Without a name rows are runs in the order in which they stand, metric by metric.
            let count = self.counted.entry((key, rule)).or_insert(0);
            *count += 1;
            key.replicate = Replicate::Counted(*count);
        }
        if self.names > MOST_NAMES {
            let message = format!(
                "has more than {MOST_NAMES} different names: is a column with measurements mapped to one with names?"
            );
            self.refuse(place, message);
            return;
        }
        let work = sample.work.as_ref().map(|work| self.name(work));
        let build = sample.build.as_ref().map(|build| self.name(build));
        let run = self.data.runs.entry(key).or_insert_with(|| Run { place, work, build, ..Run::default() });
        let first = run.values.iter().find(|(metric, ..)| *metric == rule).map(|(.., place)| *place);
        let clash = match (run.work != work, run.build != build) {
            (true, _) => Some(Meaning::Work),
            (_, true) => Some(Meaning::Build),
            _ => None,
        };
        let began = run.place;
        if let Some(first) = first {
            let add = if sample.replicate.is_none() {
                "; a column replicate tells several runs of one config apart"
            } else {
                ""
            };
            let message = format!(
                "{} of this run of {} in {} stands at {} already: remove one of them{add}",
                sample.metric,
                sample.config,
                sample.scenario,
                self.data.at(first)
            );
            self.problem(place, None, message);
        } else if let Some(meaning) = clash {
            let message =
                format!("differs from {} within one run: a run has one {}", self.data.at(began), meaning.name());
            self.problem(place, Some(self.policy.columns.column(meaning)), message);
        } else {
            run.values.push((rule, value, place));
        }
    }

    fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.data.names.find(text) {
            return name;
        }
        self.names += 1;
        self.data.names.name(text)
    }

    /// The data, if all of it can be judged.
    pub fn finish(mut self) -> Result<Data, Vec<DataProblem>> {
        if self.problems.is_empty() {
            self.complete();
        }
        if !self.problems.is_empty() {
            if self.is_full() && !self.over {
                self.problems.push(DataProblem::new("the rest was not read: correct these first"));
            }
            return Err(self.problems);
        }
        if !self.others.is_empty() {
            let names: Vec<&str> = self.others.iter().map(String::as_str).collect();
            let text = format!("Not judged, since the policy does not declare them: {}.", names.join(", "));
            self.data.notes.push(text);
        }
        Ok(self.data)
    }

    /// What can only be said at the end.
    fn complete(&mut self) {
        let judged: BTreeSet<usize> =
            self.data.runs.values().flat_map(|run| run.values.iter().map(|(rule, ..)| *rule)).collect();
        for (rule, MetricRule { name, .. }) in self.rules.iter().enumerate() {
            if judged.contains(&rule) {
                continue;
            }
            let found: Vec<&str> = self.others.iter().map(String::as_str).collect();
            let hint = did_you_mean(name, found.iter().copied());
            let found = if found.is_empty() { String::new() } else { format!("; others are {}", found.join(", ")) };
            let message = format!(
                "no row has the metric {name}, which the policy declares{}",
                if hint.is_empty() { found } else { hint }
            );
            self.problems.push(DataProblem::new(message));
        }
        let of = |name: fn(&RunKey) -> Name| -> BTreeSet<&str> {
            self.data.runs.keys().map(|key| self.data.names.text(name(key))).collect()
        };
        let (configs, scenarios, sessions) = (of(|key| key.config), of(|key| key.scenario), of(|key| key.session));
        let declared = self.policy.configs.iter().map(|rule| ("config", rule.name.as_str(), &configs));
        let declared = declared
            .chain(self.policy.scenarios.iter().map(|rule| ("scenario", rule.name.as_str(), &scenarios)))
            .chain(self.policy.sessions.iter().map(|rule| ("session", rule.name.as_str(), &sessions)));
        let missing: Vec<DataProblem> = declared
            .filter(|(_, name, known)| !known.contains(name))
            .map(|(kind, name, known)| {
                let hint = did_you_mean(name, known.iter().copied());
                DataProblem::new(format!("no row is of the {kind} {name}, which the policy declares{hint}"))
            })
            .collect();
        self.problems.extend(missing);
    }
}

fn name_problem(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("is empty: every row needs one".to_owned());
    }
    let length = text.chars().count();
    if length > MOST_NAME {
        return Some(format!("has {length} characters, {MOST_NAME} at most: use a shorter name"));
    }
    text.chars().any(char::is_control).then(|| "has control characters: remove them".to_owned())
}

/// A value as it was written, as far as anybody wants to read it.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{more}")
}
