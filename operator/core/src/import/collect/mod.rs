//! From rows to runs. What a row says is checked here once; afterwards every value can be judged.

mod fields;
mod found;
mod ignored;
mod others;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::columns::Meaning;
use super::data::{Data, DataProblem, Name, Place, Replicate, Run, RunKey, Sample};
use super::policy::Policy;
use crate::validate::did_you_mean;
use crate::verdict::{Ending, MetricRule};

pub use found::Found;
use others::Others;

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
    /// How often the same is wrong in one file, by its place in the list.
    repeated: HashMap<(u32, Option<String>, String), (usize, u64)>,
    /// A limit was passed.
    over: bool,
    /// Metrics that are not judged.
    others: Others,
    /// Those that are, as far as rows name them.
    seen: BTreeSet<usize>,
    /// Columns of which it was asked what they are.
    asked: BTreeSet<String>,
    /// All that there are.
    columns: BTreeSet<String>,
    found: Found,
    /// Runs without a name, by the rest of the key, the metric, and whether they failed.
    counted: BTreeMap<(RunKey, Name, bool), u32>,
    /// Where a failed run stands, metric by metric.
    failed: BTreeMap<(RunKey, Name), Place>,
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
            repeated: HashMap::new(),
            over: false,
            others: Others::default(),
            seen: BTreeSet::new(),
            asked: BTreeSet::new(),
            columns: BTreeSet::new(),
            found: Found::default(),
            counted: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }

    pub fn policy(&self) -> &'a Policy {
        self.policy
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
        let (message, column) = (message.into(), column.map(str::to_owned));
        let key = (place.file, column.clone(), message.clone());
        if let Some((_, rows)) = self.repeated.get_mut(&key) {
            *rows += 1;
            return;
        }
        self.repeated.insert(key, (self.problems.len(), 1));
        self.problems.push(DataProblem {
            file: self.data.files.get(place.file as usize).cloned(),
            line: (place.line > 0).then_some(place.line),
            column,
            message,
        });
    }

    /// Something worth telling that makes no value unfit.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.data.notes.contains(&text) {
            self.data.notes.push(text);
        }
    }

    /// What the rows have named so far.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// One value of one run, or that it failed.
    pub fn sample(&mut self, place: Place, sample: &Sample) {
        if self.is_full() || !self.has_names(place, sample) {
            return;
        }
        let Some(ending) = self.ending(place, sample) else { return };
        let rule = self.rules.iter().position(|rule| rule.name == sample.metric);
        if let Some(rule) = rule {
            self.seen.insert(rule);
            self.found.add(sample);
        } else {
            self.not_judged(sample);
        }
        // A failed run is worse than any that ended: it counts whatever it measured, and whichever metric its row is about.
        let value = if ending.has_failed() {
            None
        } else {
            let Some(rule) = rule else { return };
            let Some(value) = self.measured(place, sample, rule) else { return };
            Some((rule, value))
        };
        self.values += 1;
        if self.values > MOST_VALUES {
            let message = format!(
                "more than {MOST_VALUES} values to judge: a value must stand for a whole run, not one request or \
                 iteration; reduce each run to one number per metric"
            );
            self.refuse(place, message);
            return;
        }
        self.keep(place, sample, ending, value);
    }

    /// A value of a metric that nobody asked for.
    fn not_judged(&mut self, sample: &Sample) {
        self.found.add(sample);
        self.others.add(sample);
    }

    /// A problem that makes all others unimportant.
    fn refuse(&mut self, place: Place, message: String) {
        self.over = true;
        self.problem(Place { line: 0, ..place }, None, message);
    }

    fn keep(&mut self, place: Place, sample: &Sample, ending: Ending, value: Option<(usize, f64)>) {
        let mut key = RunKey {
            session: self.name(&sample.session),
            scenario: self.name(&sample.scenario),
            config: self.name(&sample.config),
            block: sample.block.as_ref().map(|block| self.name(block)),
            replicate: sample.replicate.as_ref().map_or(Replicate::Only, |text| Replicate::Named(self.name(text))),
        };
        let metric = self.name(&sample.metric);
        if key.block.is_none() && key.replicate == Replicate::Only {
            key.replicate = self.next_run(key, metric, ending);
        }
        if self.names > MOST_NAMES {
            let message =
                format!("more than {MOST_NAMES} different names: is a column of measurements mapped to names?");
            self.refuse(place, message);
            return;
        }
        let work = sample.work.as_ref().map(|work| self.name(work));
        let build = sample.build.as_ref().map(|build| self.name(build));
        let run = self.data.runs.entry(key).or_insert_with(|| Run { place, ending, values: Vec::new(), work, build });
        let first = match value {
            Some((rule, _)) => run.values.iter().find(|(known, ..)| *known == rule).map(|(.., place)| *place),
            None => self.failed.insert((key, metric), place),
        };
        let clash = match (run.ending != ending, run.work != work, run.build != build) {
            (true, ..) => Some(Meaning::Failed),
            (_, true, _) => Some(Meaning::Work),
            (.., true) => Some(Meaning::Build),
            _ => None,
        };
        let began = run.place;
        if let Some(first) = first {
            let add = if sample.replicate.is_none() {
                ", or add a replicate column to tell runs of one config apart"
            } else {
                ""
            };
            let message = format!(
                "{} of this run of {} in {} duplicates {}: remove one of them{add}",
                sample.metric,
                sample.config,
                sample.scenario,
                self.data.at(first)
            );
            self.problem(place, None, message);
        } else if let Some(meaning) = clash {
            let what = if meaning == Meaning::Failed {
                "mark all rows of a run as failed, or none".to_owned()
            } else {
                format!("a run has only one {}", meaning.name())
            };
            let message = format!("differs from {} within one run: {what}", self.data.at(began));
            self.problem(place, Some(self.policy.columns.column(meaning)), message);
        } else {
            run.values.extend(value.map(|(rule, value)| (rule, value, place)));
        }
    }

    /// A run that nothing names: rows are runs in the order in which they stand, metric by metric.
    fn next_run(&mut self, key: RunKey, metric: Name, ending: Ending) -> Replicate {
        let failed = ending.has_failed();
        let count = self.counted.entry((key, metric, failed)).or_insert(0);
        *count += 1;
        if failed { Replicate::CountedFailed(*count) } else { Replicate::Counted(*count) }
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
        for &(problem, rows) in self.repeated.values().filter(|(_, rows)| *rows > 1) {
            let message = &mut self.problems[problem].message;
            *message = format!("{message} ({rows} rows; this is the first)");
        }
        if !self.problems.is_empty() {
            if self.is_full() && !self.over {
                self.problems.push(DataProblem::new("the rest was not read: fix these first"));
            }
            return Err(self.problems);
        }
        self.data.notes.extend(self.others.note(self.policy));
        Ok(self.data)
    }

    /// The data as far as it was read, whatever is wrong with the whole of it.
    #[cfg(test)]
    pub(in crate::import) fn into_data(self) -> Data {
        assert!(self.problems.is_empty(), "{:?}", self.problems);
        self.data
    }

    /// What can only be said at the end.
    fn complete(&mut self) {
        for (rule, MetricRule { name, .. }) in self.rules.iter().enumerate() {
            if self.seen.contains(&rule) {
                continue;
            }
            let found: Vec<&str> = self.others.names().collect();
            let hint = did_you_mean(name, found.iter().copied());
            let found = if found.is_empty() { String::new() } else { format!("; metrics found: {}", found.join(", ")) };
            let message =
                format!("no row has the declared metric {name}{}", if hint.is_empty() { found } else { hint });
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
                DataProblem::new(format!("no row has the declared {kind} {name}{hint}"))
            })
            .collect();
        self.problems.extend(missing);
        self.problems.extend(self.not_there());
    }
}
