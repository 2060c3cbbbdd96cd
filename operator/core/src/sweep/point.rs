//! What one night leaves behind, as one line of JSON. Lines are never changed, only added.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::{Accept, Config, bounds};
use assay_protocol::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::confirm::Visit;
use super::culprit::Search;
use super::failing::Failures;
use super::level::interval;
use crate::stats::{Interval, Scale};
use crate::verdict::Verdict;

/// The version of the lines that this crate writes and reads.
pub const VERSION: u32 = 1;

/// The most series that a sweep may have, so that a night fits into an object.
pub const MOST_SERIES: usize = 500;

/// Characters of a name, of an image and of a message.
const MOST_NAME: usize = 253;
const MOST_IMAGE: usize = 512;
const MOST_MESSAGE: usize = 1024;
const MOST_REASON: usize = 64;
/// Candidates of a search: those that a sweep may list, both ends, and a change of options.
const MOST_CANDIDATES: usize = bounds::CANDIDATES + 3;
/// Blocks of a visit, and runs of a night.
const MOST_BLOCKS: usize = 1000;
const MOST_RUNS: u32 = 1_000_000;

/// A night of a sweep, measured or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Night {
    pub version: u32,
    /// Name of the sweep.
    pub sweep: String,
    /// The scheduled minute, in UTC. It names the night: there is one for each minute at most.
    pub night: Timestamp,
    pub trigger: Trigger,
    /// What somebody wrote into `runNow` to have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_now: Option<String>,
    pub outcome: Outcome,
    /// Why it was not measured: one word in `CamelCase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for people, with details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Name of the experiment that measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// Digest of all that was asked for, whatever machine measured it: with the same again, nothing has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Digest>,
    /// How it was measured; always there if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// What all subjects were compared with; always there if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Subject>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
    /// Series that have no point in a night that was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Subjects and scenarios in which a run failed, or one of the reference's. In a visit: those whose failures it asks about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failures>,
    /// Fresh trials about a suspicion: no night of any series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visit: Option<Visit>,
    /// No trials: somebody takes a change as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Acceptance>,
}

/// A change that somebody takes as it is. The message of its entry says why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Acceptance {
    /// Its name.
    pub change: String,
    /// Until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

impl Acceptance {
    pub fn of(accept: &Accept) -> Self {
        Self { change: accept.change.clone(), expires: accept.expires.as_ref().map(|expires| expires.0) }
    }
}

/// What made the night begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// Its scheduled minute.
    Schedule,
    /// A missed minute, later.
    CatchUp,
    /// A person or CI.
    Manual,
    /// Nothing had changed for so long that the sweep had to show that it works.
    Canary,
    /// A suspicion.
    Confirmation,
}

impl Trigger {
    /// Whether it is for the schedule that the night began.
    pub fn is_scheduled(self) -> bool {
        match self {
            Self::Schedule | Self::CatchUp | Self::Canary => true,
            Self::Manual | Self::Confirmation => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It has points.
    Measured,
    /// It was not meant to be measured.
    Skipped,
    /// It should have been measured and was not.
    Gap,
    /// It has trials about a suspicion.
    Visited,
    /// Nothing ran: somebody has accepted a change.
    Accepted,
}

/// How a night was measured. Ratios are comparable only if it and the reference are the same, so a change starts a new segment of each
/// series that it concerns. What is part of it is told apart so that a segment can say why it starts, and that a bridge is known to cross
/// nothing but a new reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fingerprint {
    /// Kind of machine: the node's label, else what the records say of CPU and disk.
    pub machine: String,
    /// Version of the trial protocol.
    pub protocol: u32,
    /// By scenario, the digest of all that makes its work: workload, seed, dataset, limits of a trial.
    pub workloads: BTreeMap<String, Digest>,
}

/// What subjects are compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reference {
    pub name: String,
    /// By digest; absent if all run the same bench.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Digest of its options.
    pub config: Digest,
}

/// What was compared with the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    pub name: String,
    /// By digest; absent if all run the same bench, and while it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The commit or version that the image was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Digest of its options, with those of the reference that it takes over.
    pub config: Digest,
    /// Its options, if they are not those of the night before: what it was before a change can then run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Config>,
    /// Nothing changed since the last measured night, in the reference and the workloads neither: an A/A night of this subject.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
}

/// What has one value a night.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    pub subject: String,
    pub scenario: String,
    pub metric: String,
}

/// What a night says of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Point {
    pub series: Series,
    pub scale: Scale,
    /// Subject against reference, within blocks; positive is better. On the log scale the natural logarithm of their ratio. On the
    /// linear one their difference in the metric's unit: of a share, 0.01 is one percentage point.
    pub effect: f64,
    /// Of the effect, from the night's own blocks. Its interval is that of Student's t with `blocks - 1` degrees of freedom.
    pub standard_error: f64,
    pub blocks: u32,
    /// The verdict of the night's experiment on this subject in this scenario.
    pub verdict: Option<Verdict>,
    /// The verdict is Inconclusive because a loss is likely, but not proven.
    pub is_likely_harm: bool,
}

/// Why a series has no point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gap {
    pub subject: String,
    pub scenario: String,
    /// Absent: every metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// One word in `CamelCase`.
    pub reason: String,
}

/// A point as it is written, with its unit in its name.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    subject: String,
    scenario: String,
    metric: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    difference: Option<f64>,
    standard_error: f64,
    blocks: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    likely_harm: bool,
}

impl TryFrom<Written> for Point {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let Written {
            subject,
            scenario,
            metric,
            log_ratio,
            difference,
            standard_error,
            blocks,
            verdict,
            likely_harm: is_likely_harm,
        } = written;
        let (scale, effect) = match (log_ratio, difference) {
            (Some(ratio), None) => (Scale::Log, ratio),
            (None, Some(difference)) => (Scale::Linear, difference),
            _ => return Err("a point has either a logRatio or a difference"),
        };
        let series = Series { subject, scenario, metric };
        Ok(Self { series, scale, effect, standard_error, blocks, verdict, is_likely_harm })
    }
}

impl From<Point> for Written {
    fn from(point: Point) -> Self {
        let Point { series, scale, effect, standard_error, blocks, verdict, is_likely_harm: likely_harm } = point;
        let Series { subject, scenario, metric } = series;
        let (log_ratio, difference) = match scale {
            Scale::Log => (Some(effect), None),
            Scale::Linear => (None, Some(effect)),
        };
        Self { subject, scenario, metric, log_ratio, difference, standard_error, blocks, verdict, likely_harm }
    }
}

impl Point {
    /// A point without the digits that nobody can measure: seven behind the point are kept, 0.00001 %.
    pub fn new(
        series: Series,
        scale: Scale,
        effect: f64,
        standard_error: f64,
        blocks: u32,
        verdict: Option<Verdict>,
    ) -> Self {
        let short = |value: f64| if value.abs() < 1e8 { (value * 1e7).round() / 1e7 } else { value };
        let (effect, standard_error) = (short(effect), short(standard_error));
        Self { series, scale, effect, standard_error, blocks, verdict, is_likely_harm: false }
    }

    /// Its 95 % interval; open where there is a single block.
    pub fn interval95(&self) -> Interval {
        interval(self.effect, self.standard_error, self.blocks as usize)
    }
}

/// Why a night can't be kept: a field, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Refused {
    pub field: String,
    pub problem: String,
}

fn refused(field: impl Into<String>, problem: impl Into<String>) -> Refused {
    Refused { field: field.into(), problem: problem.into() }
}

/// Whether what a visit says of a search makes sense.
fn check_search(search: &Search) -> Result<(), Refused> {
    let Search { reference, candidate, blocks, candidates, unusable } = search;
    if candidates.len() > MOST_CANDIDATES || *candidate >= MOST_CANDIDATES || reference >= candidate {
        return Err(refused("visit.search", format!("a candidate after another one, of at most {MOST_CANDIDATES}")));
    }
    if !candidates.is_empty() && *candidate >= candidates.len() {
        return Err(refused("visit.search.candidate", format!("there are only {}", candidates.len())));
    }
    if *blocks > MOST_BLOCKS {
        return Err(refused("visit.search.blocks", format!("at most {MOST_BLOCKS}")));
    }
    if unusable.is_some_and(|which| ![reference, candidate].contains(&&which)) {
        return Err(refused("visit.search.unusable", "neither the reference nor the candidate"));
    }
    for (index, own) in candidates.iter().enumerate() {
        image(format!("visit.search.candidates[{index}].image"), own.image.as_deref())?;
        image(format!("visit.search.candidates[{index}].revision"), own.revision.as_deref())?;
    }
    Ok(())
}

impl Night {
    /// A line of JSON, without its end.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    pub fn subject(&self, name: &str) -> Option<&Subject> {
        self.subjects.iter().find(|own| own.name == name)
    }

    /// Whether series may have points of it: it is neither about a suspicion nor an acceptance.
    pub fn is_of_series(&self) -> bool {
        self.trigger != Trigger::Confirmation && self.outcome != Outcome::Accepted
    }

    /// Whether it has a point of the series, or says why not.
    pub(super) fn names(&self, series: &Series) -> bool {
        self.points.iter().any(|point| point.series == *series) || self.gaps.iter().any(|gap| gap.covers(series))
    }

    /// Whether the night makes sense on its own.
    pub fn check(&self) -> Result<(), Refused> {
        if self.version != VERSION {
            return Err(newer(self.version));
        }
        named("sweep", &self.sweep)?;
        if self.night.as_second().rem_euclid(60) != 0 || self.night.subsec_nanosecond() != 0 {
            return Err(refused("night", format!("{} is not a whole minute", self.night)));
        }
        if self.message.as_ref().is_some_and(|message| message.len() > MOST_MESSAGE) {
            return Err(refused("message", format!("longer than {MOST_MESSAGE} bytes")));
        }
        for (field, name) in [("experiment", &self.experiment), ("runNow", &self.run_now)] {
            name.as_ref().map_or(Ok(()), |name| named(field, name))?;
        }
        if let Some(fingerprint) = &self.fingerprint {
            named("fingerprint.machine", &fingerprint.machine)?;
        }
        if let Some(reference) = &self.reference {
            named("reference.name", &reference.name)?;
            image("reference.image", reference.image.as_deref())?;
        }
        let mut subjects = BTreeSet::new();
        for (index, subject) in self.subjects.iter().enumerate() {
            let field = |name: &str| format!("subjects[{index}].{name}");
            named(field("name"), &subject.name)?;
            image(field("image"), subject.image.as_deref())?;
            image(field("revision"), subject.revision.as_deref())?;
            if !subjects.insert(subject.name.as_str()) {
                return Err(refused(field("name"), format!("{} is used by an earlier subject", subject.name)));
            }
        }
        match self.outcome {
            Outcome::Measured => self.check_measured(&subjects)?,
            Outcome::Skipped | Outcome::Gap => self.check_unmeasured()?,
            Outcome::Visited | Outcome::Accepted => self.check_empty()?,
        }
        self.check_visit()?;
        let is_accepted = self.outcome == Outcome::Accepted;
        if self.accepted.is_some() != is_accepted {
            return Err(refused("accepted", "required for what was accepted, and for nothing else"));
        }
        self.accepted.as_ref().map_or(Ok(()), |accepted| named("accepted.change", &accepted.change))
    }

    /// Whether what it says of a suspicion makes sense.
    fn check_visit(&self) -> Result<(), Refused> {
        let is_visit = match self.outcome {
            Outcome::Visited => true,
            Outcome::Skipped | Outcome::Gap => self.visit.is_some(),
            Outcome::Measured | Outcome::Accepted => false,
        };
        if (self.trigger == Trigger::Confirmation) != is_visit || self.visit.is_some() != is_visit {
            return Err(refused("visit", "required for what a confirmation has begun, and for nothing else"));
        }
        let Some(visit) = &self.visit else { return Ok(()) };
        named("visit.subject", &visit.subject)?;
        if visit.series.len() > MOST_SERIES || (visit.series.is_empty() && visit.failing.is_empty()) {
            return Err(refused("visit.series", format!("1 to {MOST_SERIES} series")));
        }
        for (index, scenario) in visit.failing.iter().enumerate() {
            named(format!("visit.failing[{index}]"), scenario)?;
        }
        if !(0.0..1.0).contains(&visit.alpha) {
            return Err(refused("visit.alpha", format!("{} is no probability of an error", visit.alpha)));
        }
        for (index, asked) in visit.series.iter().enumerate() {
            let field = |name: &str| format!("visit.series[{index}].{name}");
            named(field("scenario"), &asked.scenario)?;
            named(field("metric"), &asked.metric)?;
            let is_finite = |value: &f64| (-1e100..=1e100).contains(value);
            if asked.shift == 0.0 || !is_finite(&asked.shift) {
                return Err(refused(field("shift"), format!("{} is no change", asked.shift)));
            }
            if !(0.0..=1e100).contains(&asked.margin) {
                return Err(refused(field("margin"), format!("{} is no margin", asked.margin)));
            }
            if asked.losses.len() > MOST_BLOCKS || !asked.losses.iter().all(is_finite) {
                return Err(refused(field("losses"), format!("at most {MOST_BLOCKS} finite numbers")));
            }
        }
        visit.search.as_ref().map_or(Ok(()), check_search)?;
        let is_measured = visit.series.iter().any(|asked| !asked.losses.is_empty()) || !self.failures.is_empty();
        if is_measured != (self.outcome == Outcome::Visited) {
            return Err(refused("visit.series", "losses are what a visit has measured, and nothing else has"));
        }
        self.check_failures(|own| own.subject == visit.subject && visit.failing.contains(&own.scenario))
    }

    fn check_failures(&self, is_known: impl Fn(&Failures) -> bool) -> Result<(), Refused> {
        for (index, own) in self.failures.iter().enumerate() {
            let field = |name: &str| format!("failures[{index}]{name}");
            let same = |other: &&Failures| (&other.subject, &other.scenario) == (&own.subject, &own.scenario);
            if !is_known(own) {
                return Err(refused(field(""), format!("{}, {} is not what it measured", own.subject, own.scenario)));
            }
            if self.failures[..index].iter().any(|other| same(&other)) {
                return Err(refused(field(""), format!("{}, {} has an earlier entry", own.subject, own.scenario)));
            }
            for (name, counts) in [(".own", own.own), (".reference", own.reference)] {
                if counts.runs > MOST_RUNS || counts.failed > counts.runs || counts.damaged > counts.failed {
                    return Err(refused(field(name), "more runs damaged than failed, or failed than ended"));
                }
            }
        }
        Ok(())
    }

    fn check_empty(&self) -> Result<(), Refused> {
        let has_failures = !self.failures.is_empty() && self.outcome != Outcome::Visited;
        if self.points.is_empty() && self.gaps.is_empty() && !has_failures {
            return Ok(());
        }
        Err(refused("points", "a night that was not measured has neither points nor gaps of single series"))
    }

    fn check_unmeasured(&self) -> Result<(), Refused> {
        self.check_empty()?;
        let Some(reason) = &self.reason else {
            return Err(refused("reason", "required for a night that was not measured"));
        };
        is_reason("reason", reason)
    }

    fn check_measured(&self, subjects: &BTreeSet<&str>) -> Result<(), Refused> {
        if self.reason.is_some() {
            return Err(refused("reason", "only for a night that was not measured"));
        }
        let Some(fingerprint) = &self.fingerprint else {
            return Err(refused("fingerprint", "required for a measured night"));
        };
        if self.reference.is_none() {
            return Err(refused("reference", "required for a measured night"));
        }
        if self.points.is_empty() && self.failures.is_empty() {
            return Err(refused("points", "a measured night has at least one, or failures; without any it is a gap"));
        }
        let count = self.points.len() + self.gaps.len();
        if count > MOST_SERIES {
            return Err(refused("points", format!("{count} series, at most {MOST_SERIES}")));
        }
        let known = |field: String, subject: &str, scenario: &str| {
            if !subjects.contains(subject) {
                return Err(refused(format!("{field}.subject"), format!("{subject} is not in subjects")));
            }
            if !fingerprint.workloads.contains_key(scenario) {
                return Err(refused(
                    format!("{field}.scenario"),
                    format!("{scenario} is not in fingerprint.workloads"),
                ));
            }
            Ok(())
        };
        let mut seen = BTreeSet::new();
        for (index, point) in self.points.iter().enumerate() {
            let field = format!("points[{index}]");
            let Series { subject, scenario, metric } = &point.series;
            known(field.clone(), subject, scenario)?;
            named(format!("{field}.metric"), metric)?;
            // Within these bounds all sums, squares and their reciprocals stay finite.
            if !(-1e100..=1e100).contains(&point.effect) {
                return Err(refused(field, format!("{} is no effect; leave a gap with a reason", point.effect)));
            }
            if point.standard_error != 0.0 && !(1e-100..=1e100).contains(&point.standard_error) {
                let problem = format!("{} is no standard error", point.standard_error);
                return Err(refused(format!("{field}.standardError"), problem));
            }
            if point.blocks == 0 {
                return Err(refused(format!("{field}.blocks"), "a point needs at least one block"));
            }
            if !seen.insert(&point.series) {
                return Err(refused(field, format!("{subject}, {scenario}, {metric} has an earlier point")));
            }
        }
        for (index, gap) in self.gaps.iter().enumerate() {
            let field = format!("gaps[{index}]");
            let Gap { subject, scenario, metric, reason } = gap;
            known(field.clone(), subject, scenario)?;
            is_reason(format!("{field}.reason"), reason)?;
            let clash = |point: &Point| gap.covers(&point.series);
            if let Some(metric) = metric {
                named(format!("{field}.metric"), metric)?;
            }
            if self.points.iter().any(clash) {
                return Err(refused(field, "the series has a point as well"));
            }
        }
        self.check_failures(|own| {
            subjects.contains(own.subject.as_str()) && fingerprint.workloads.contains_key(&own.scenario)
        })
    }
}

impl Gap {
    pub(super) fn covers(&self, series: &Series) -> bool {
        let Series { subject, scenario, metric } = series;
        self.subject == *subject && self.scenario == *scenario && self.metric.as_ref().is_none_or(|own| own == metric)
    }
}

pub(super) fn newer(version: u32) -> Refused {
    refused("version", format!("{version}; this Assay reads version {VERSION}, use the one that wrote it"))
}

fn named(field: impl Into<String>, name: &str) -> Result<(), Refused> {
    if name.is_empty() {
        return Err(refused(field, "empty"));
    }
    if name.len() > MOST_NAME {
        return Err(refused(field, format!("longer than {MOST_NAME} bytes")));
    }
    Ok(())
}

fn image(field: impl Into<String>, image: Option<&str>) -> Result<(), Refused> {
    match image {
        Some(image) if image.is_empty() || image.len() > MOST_IMAGE => {
            Err(refused(field, format!("1 to {MOST_IMAGE} bytes")))
        }
        _ => Ok(()),
    }
}

fn is_reason(field: impl Into<String>, reason: &str) -> Result<(), Refused> {
    let is_word = reason.starts_with(|first: char| first.is_ascii_uppercase())
        && reason.chars().all(|own| own.is_ascii_alphanumeric())
        && reason.len() <= MOST_REASON;
    if is_word {
        Ok(())
    } else {
        Err(refused(field, format!("one word in CamelCase of at most {MOST_REASON} letters")))
    }
}
