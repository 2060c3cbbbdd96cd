//! What runs in a night, and what of its end is remembered.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::{
    CellsAdjust, Config, Futility, NightTemplate, Scenario, StopOn, TuningExperimentSpec, TuningSweepSpec,
};
use assay_protocol::Digest;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::confirm::{self, Evidence, Visit};
use super::failing::Failures;
use super::history::History;
use super::next::{Unmeasured, within};
use super::point::{Fingerprint, Gap, Night, Outcome, Point, Reference, Series, Subject, Trigger};
use super::settings;
use crate::attempt::Attempt;
use crate::decide::{Places, Samples, Unplanned};
use crate::judge::{JudgeError, standings};
use crate::plan::Plan;
use crate::status::shorten;
use crate::validate::matrix;
use crate::verdict::{Conclusion, Reason, Verdict};

/// Seconds: the longest that an experiment may stay by itself.
const YEAR: u32 = 31_536_000;
/// Bytes of the options of a night's subjects: an object of the history has to hold the night.
const MOST_SETTINGS: usize = 64 << 10;
/// Bytes of what a machine is called.
const MACHINE: usize = 200;

/// The experiment of a night: the reference against all subjects, those of a matrix written out. Every repetition runs, since each night is
/// to see as much as any other.
pub fn experiment(spec: &TuningSweepSpec) -> TuningExperimentSpec {
    let NightTemplate {
        seed,
        scenarios,
        repetitions,
        objectives,
        guardrails,
        default_guardrails,
        metrics,
        placement,
        failed_pod_retention_seconds,
        max_block_duration_seconds,
    } = spec.experiment.clone();
    let written = TuningExperimentSpec {
        seed,
        baseline: spec.reference.name.clone(),
        configs: std::iter::once(&spec.reference).chain(&spec.subjects).cloned().collect(),
        matrix: spec.matrix.clone(),
        scenarios,
        repetitions,
        stop_on: StopOn::Never,
        futility: Futility::default(),
        cells_adjust: CellsAdjust::default(),
        objectives,
        guardrails,
        default_guardrails,
        metrics,
        placement,
        suspend: None,
        // Its sweep deletes it, once it knows what came of it: an operator's default could be faster.
        ttl_seconds_after_finished: Some(YEAR),
        failed_pod_retention_seconds,
        max_block_duration_seconds,
        // Its sweep ends it when the next night is due.
        max_wait_seconds: None,
    };
    matrix::expand(written).0
}

/// The same with images by digest, by the name of their config.
#[must_use]
pub fn pinned(mut night: TuningExperimentSpec, images: &BTreeMap<String, String>) -> TuningExperimentSpec {
    for config in &mut night.configs {
        if let Some(image) = images.get(&config.name) {
            config.image = Some(image.clone());
        }
    }
    night
}

/// The name of a night's experiment: that of the sweep, and the minute in UTC.
pub fn name(sweep: &str, night: Timestamp) -> String {
    format!("{sweep}-{}", night.to_zoned(TimeZone::UTC).strftime("%Y%m%d-%H%M"))
}

/// The token of a night that somebody asks for at this moment. A token that the history has is answered: two within a second are two.
pub fn token(at: Timestamp) -> String {
    format!("now-{}", at.strftime("%Y%m%d-%H%M%S%.3f"))
}

/// What a night measures, given the image of configs that name none: two nights of one key are the same work, an A/A night.
pub fn key(night: &TuningExperimentSpec, bench: Option<&str>) -> Result<Digest, serde_json::Error> {
    let mut same = night.fixed();
    for config in &mut same.configs {
        // It names what the image's digest says.
        config.revision = None;
    }
    canonical(&(same, bench))
}

/// What a config writes, if there is room for it.
fn written(config: &Config, room: &mut usize) -> Result<Option<Config>, serde_json::Error> {
    let own = Config { name: String::new(), revision: None, image: None, ..config.clone() };
    let bytes = serde_json::to_vec(&own)?.len();
    *room = room.saturating_sub(bytes);
    Ok((*room > 0).then_some(own))
}

/// What a scenario's numbers go by besides the reference and the machine: with another workload, seed or page cache they are others, and
/// another query is another quantity, whatever it is called.
pub(super) fn workloads(night: &TuningExperimentSpec) -> Result<BTreeMap<String, Digest>, serde_json::Error> {
    let TuningExperimentSpec { seed, placement, metrics, .. } = night;
    let own = |scenario: &Scenario| {
        let Scenario { name, weight: _, workload, page_cache, dataset, deadline_seconds: _ } = scenario;
        let digest = canonical(&(
            (seed, workload, page_cache, dataset),
            (placement.cpus, &placement.memory, &placement.storage),
            metrics,
        ))?;
        Ok((name.clone(), digest))
    };
    night.scenarios.iter().map(own).collect()
}

pub(super) fn canonical(value: &impl serde::Serialize) -> Result<Digest, serde_json::Error> {
    let mut value = serde_json::to_value(value)?;
    value.sort_all_objects();
    Digest::of_json(&value)
}

/// Evidence of a night.
#[derive(Default)]
struct Measured {
    points: Vec<Point>,
    /// Series without a point, each with the reason.
    gaps: Vec<Gap>,
    failures: Vec<Failures>,
}

fn measured(plan: &Plan, attempts: &[Attempt]) -> Result<Measured, JudgeError> {
    let places = Places::new(plan, attempts)?;
    let design = plan.experiment.design();
    let cells = standings(&places, &design)?.cells;
    let observed = Samples::of(&places, &design, design.max_blocks, true).observed;
    let Measured { mut points, mut gaps, mut failures } = Measured::default();
    for (unit, conclusion) in cells.iter().enumerate() {
        let (place, config) = (unit / design.configs.len(), unit % design.configs.len());
        let (scenario, subject) = (&design.scenarios[place].name, &design.configs[config]);
        let (own, reference) = observed.runs(place, config, design.max_blocks);
        if own.failed > 0 || reference.failed > 0 {
            let (subject, scenario) = (subject.clone(), scenario.clone());
            failures.push(Failures { subject, scenario, own: own.into(), reference: reference.into() });
        }
        for (effect, rule) in conclusion.metrics.iter().zip(&design.metrics) {
            let gap = |reason: String| Gap {
                subject: subject.clone(),
                scenario: scenario.clone(),
                metric: Some(rule.name.clone()),
                reason,
            };
            let value = effect.estimate.zip(effect.sd_block).filter(|_| conclusion.outcome.verdict != Verdict::Invalid);
            let Some((estimate, sd)) = value else {
                gaps.push(gap(why(conclusion, effect.n)));
                continue;
            };
            let series = Series { subject: subject.clone(), scenario: scenario.clone(), metric: rule.name.clone() };
            let error = sd / (effect.n as f64).sqrt();
            let outcome = &conclusion.outcome;
            let point = Point::new(series, rule.scale, estimate, error, effect.n as u32, Some(outcome.verdict));
            points.push(Point { is_likely_harm: matches!(outcome.reason, Reason::LikelyHarm { .. }), ..point });
        }
    }
    Ok(Measured { points, gaps, failures })
}

/// What a machine is, by what its trials see of it: the models of its CPU and its disk.
pub fn machine(cpu: Option<&str>, disk: Option<&str>) -> Option<String> {
    let known: Vec<&str> = [cpu, disk].into_iter().flatten().map(str::trim).filter(|model| !model.is_empty()).collect();
    (!known.is_empty()).then(|| shorten(&known.join(", "), MACHINE))
}

/// What the machines of a night are together. However many kinds there are, other ones have another name.
pub fn machines(kinds: &BTreeSet<String>) -> String {
    let all = kinds.iter().map(String::as_str).collect::<Vec<_>>().join(" + ");
    if all.is_empty() {
        return "unknown".to_owned();
    }
    if all.len() <= MACHINE {
        return all;
    }
    let digest = Digest::of(all.as_bytes()).to_string();
    let room = MACHINE.saturating_sub(digest.len() + 3);
    format!("{} ({digest})", within(&all, room))
}

/// A night that has ended, and what it was.
pub struct Ended<'a> {
    pub sweep: &'a str,
    pub night: Timestamp,
    pub trigger: Trigger,
    pub run_now: Option<String>,
    /// What it asked, if it was a visit.
    pub visit: Option<&'a Visit>,
    pub experiment: &'a str,
    /// What ran, with images by digest.
    pub spec: &'a TuningExperimentSpec,
    /// Kinds of the machines that it ran on.
    pub machines: BTreeSet<String>,
    /// The image of whoever names none.
    pub bench: Option<&'a str>,
}

impl Ended<'_> {
    /// The entry in the history of a night whose plan is done: a gap where no series has a point.
    pub fn entry(&self, plan: &Plan, attempts: &[Attempt], history: &History) -> Result<Night, Unreadable> {
        if let Some(visit) = self.visit {
            let Evidence { visit, failures, nothing } = confirm::measured(visit, plan, attempts)?;
            let night = Night { visit: Some(visit), failures, ..self.gap("InvalidNight", "") };
            return Ok(match nothing {
                None => Night { outcome: Outcome::Visited, reason: None, message: None, ..night },
                Some(why) => Night { message: Some(format!("no series could be measured: {why}")), ..night },
            });
        }
        let Measured { points, gaps, failures } = measured(plan, attempts)?;
        // A night in which every run of a subject failed counts as measured: its failures are the result.
        if points.is_empty() && failures.iter().all(|own| own.own.failed == 0) {
            let reasons: BTreeSet<&str> = gaps.iter().map(|gap| gap.reason.as_str()).collect();
            let reasons: Vec<&str> = reasons.into_iter().collect();
            let message = format!("no series could be measured: {}", reasons.join(", "));
            return Ok(self.gap("InvalidNight", &message));
        }
        let spec = self.spec;
        let last = history.within(..self.night).filter(|night| night.outcome == Outcome::Measured).last();
        let (reference, subjects) = self.arms(plan, last)?;
        let fingerprint = Fingerprint {
            machine: machines(&self.machines),
            protocol: assay_protocol::VERSION,
            workloads: workloads(spec)?,
        };
        let mut night = Night {
            outcome: Outcome::Measured,
            reason: None,
            message: None,
            key: Some(key(spec, self.bench)?),
            fingerprint: Some(fingerprint),
            reference,
            subjects,
            points,
            gaps,
            failures,
            ..self.gap("", "")
        };
        if last.is_some_and(|last| !night.news(last).is_empty()) {
            // Whatever differs from the night before is not by chance alone.
            for subject in &mut night.subjects {
                subject.unchanged = false;
            }
        }
        Ok(night)
    }

    /// What ran, and which of it had run in the night before.
    fn arms(
        &self,
        plan: &Plan,
        before: Option<&Night>,
    ) -> Result<(Option<Reference>, Vec<Subject>), serde_json::Error> {
        let (mut reference, mut subjects, mut room) = (None, Vec::new(), MOST_SETTINGS);
        // What is written of a subject means something else over another reference.
        let base = plan.experiment.baseline_config().map(|own| settings::digest(&own.engine)).transpose()?;
        let is_same_base = before.and_then(|night| night.reference.as_ref()).map(|own| &own.config) == base.as_ref();
        for (config, planned) in self.spec.configs.iter().zip(&plan.experiment.configs) {
            let (name, image, digest) = (config.name.clone(), self.image(config), settings::digest(&planned.engine)?);
            if name == self.spec.baseline {
                reference = Some(Reference { name, image, config: digest });
                continue;
            }
            let revision = config.revision.clone();
            let mut subject = Subject { name, image, revision, config: digest, settings: None, unchanged: false };
            let before = before.and_then(|night| night.subject(&subject.name));
            subject.unchanged = before.is_some_and(|before| before.same(&subject));
            if !is_same_base || before.is_none_or(|before| before.config != subject.config) {
                subject.settings = written(config, &mut room)?;
            }
            subjects.push(subject);
        }
        Ok((reference, subjects))
    }

    /// The entry of a night that has ended without a result.
    pub fn gap(&self, reason: &str, message: &str) -> Night {
        let unmeasured = Unmeasured {
            night: self.night,
            trigger: self.trigger,
            run_now: self.run_now.clone(),
            visit: self.visit.cloned(),
            accepted: None,
            outcome: Outcome::Gap,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        Night { experiment: Some(self.experiment.to_owned()), ..unmeasured.night(self.sweep) }
    }

    fn image(&self, config: &Config) -> Option<String> {
        config.image.as_deref().or(self.bench).map(str::to_owned)
    }
}

/// Why a night's entry can't be made.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error(transparent)]
    Unplanned(#[from] Unplanned),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// In a word, why a series has no value.
fn why(conclusion: &Conclusion, blocks: usize) -> String {
    match &conclusion.outcome.reason {
        Reason::Invalid { codes, .. } => codes.first().cloned().unwrap_or_else(|| "Invalid".to_owned()),
        _ if blocks < 2 => "TooFewBlocks".to_owned(),
        _ => "NoValue".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sweep::testing;

    /// A night of a reference and subjects with these options.
    fn night(configs: &[(&str, Value)], queries: &Value) -> (TuningExperimentSpec, Plan) {
        let config = |(name, options): &(&str, Value)| json!({"name": name, "dbOptions": options});
        let metrics: Vec<Value> = [json!({"metric": "throughput", "margin": "3%"})]
            .into_iter()
            .chain(queries.as_array().into_iter().flatten().map(|own| json!({"metric": own["name"], "margin": "3%"})))
            .collect();
        let spec = json!({
            "baseline": configs[0].0,
            "configs": configs.iter().map(config).collect::<Vec<_>>(),
            "scenarios": [{"name": "fill", "workload": {"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100},
                "roles": [{"name": "writer", "steps": 10000, "mix": {"put": 1}}]}}}],
            "repetitions": 12,
            "objectives": metrics,
            "metrics": queries,
        });
        let spec: TuningExperimentSpec = serde_json::from_value(spec).expect("a spec");
        let validation = crate::validate::validate("nightly-20260101-0200", &spec);
        let experiment = validation.experiment.unwrap_or_else(|| panic!("{:?}", validation.problems));
        (spec, Plan::new(experiment).expect("a plan"))
    }

    fn arms(configs: &[(&str, Value)], before: Option<&Night>) -> (Reference, Vec<Subject>) {
        let (spec, plan) = night(configs, &json!([]));
        let ended = Ended {
            sweep: "nightly",
            night: testing::time(1),
            trigger: Trigger::Schedule,
            run_now: None,
            visit: None,
            experiment: "nightly-20260102-0200",
            spec: &spec,
            machines: BTreeSet::new(),
            bench: None,
        };
        let (reference, subjects) = ended.arms(&plan, before).expect("arms");
        (reference.expect("a reference"), subjects)
    }

    #[test]
    fn a_subject_is_what_it_runs_and_not_what_is_written_of_it() {
        let (two, jobs) = (json!({"max_background_jobs": 2}), json!({"max_background_jobs": 4, "max_open_files": 100}));
        let own = ("main", json!({"bytes_per_sync": 4096}));
        let (old, subjects) = arms(&[("release", two.clone()), own.clone()], None);
        let before = Night { subjects, ..testing::measured(0) };
        let of = |reference: &Value, subject: (&str, Value)| {
            arms(&[("release", reference.clone()), subject], Some(&before)).1.remove(0)
        };
        assert!(of(&two, own.clone()).unchanged);
        assert!(!of(&two, ("main", json!({"bytes_per_sync": 8192}))).unchanged);
        assert!(!of(&jobs, own).unchanged, "it takes over what the reference sets");
        // The old reference as a subject of the new one runs what it ran only if all is set again that the new one sets.
        assert_ne!(of(&jobs, ("release-1", two.clone())).config, old.config);
        assert_eq!(of(&json!({"max_background_jobs": 4}), ("release-1", two)).config, old.config);
    }

    #[test]
    fn another_query_is_another_quantity() {
        let configs = [("release", json!({})), ("main", json!({"bytes_per_sync": 4096}))];
        let of = |query: &str, better: &str| {
            let metric = json!([{"name": "device_reads", "query": query, "better": better}]);
            workloads(&night(&configs, &metric).0).expect("workloads").remove("fill").expect("a scenario")
        };
        let (reads, bytes) = ("sum(rate(reads{node=\"$node\"}[$window]))", "sum(rate(bytes{node=\"$node\"}[$window]))");
        assert_eq!(of(reads, "Lower"), of(reads, "Lower"));
        assert_ne!(of(reads, "Lower"), of(bytes, "Lower"));
        assert_ne!(of(reads, "Lower"), of(reads, "Higher"));
    }

    #[test]
    fn a_night_has_room_for_all_its_kinds_of_machines() {
        let kinds = |count: usize| (0..count).map(|kind| format!("{kind} {}", "Prozeßor".repeat(9))).collect();
        let few: BTreeSet<String> = kinds(2);
        assert_eq!(machines(&few), few.iter().cloned().collect::<Vec<_>>().join(" + "));
        assert_eq!(machines(&BTreeSet::new()), "unknown");
        let names: BTreeSet<String> = (3..40).map(|count| machines(&kinds(count))).collect();
        assert_eq!(names.len(), 37, "other machines have other names");
        for machine in names {
            let mut night = testing::night(0, 0.0);
            night.fingerprint.as_mut().expect("it was measured").machine = machine;
            night.check().expect("there is room");
        }
    }
}
