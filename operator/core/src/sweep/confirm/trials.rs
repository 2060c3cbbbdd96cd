//! The experiment of a visit, and what it measures.

use assay_api::{Config, JudgedMetric, TuningExperimentSpec, TuningSweepSpec};
use assay_protocol::{Digest, EngineConfig};
use jiff::Timestamp;
use statrs::distribution::{ContinuousCDF, Normal};

use super::answer::{LOOKS, SESSION};
use super::visit::{Asked, Visit};
use crate::attempt::Attempt;
use crate::decide::{Places, Samples, Unplanned};
use crate::experiment::ConfigUnderTest;
use crate::plan::Plan;
use crate::stats::{ALPHA, EFFICIENCY, n_min};
use crate::sweep::culprit::{Search, Sought};
use crate::sweep::failing::{Counts, Failures};
use crate::sweep::history::History;
use crate::sweep::point::Night;
use crate::sweep::{night, settings};
use crate::validate::{self, over};

/// The most blocks of a visit.
const MOST_BLOCKS: usize = 64;
/// With as many blocks as are planned, a change of a margin is found with 90 % probability.
const POWER: f64 = 0.9;

/// Names of the configs of a visit: that of the subject before the change, and that of the subject as it is. Each visit has its own, so that
/// the order of its trials and their operations are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arms {
    pub before: String,
    pub after: String,
}

impl Arms {
    pub fn of(visit: &Visit) -> Self {
        Self { before: format!("before-{}", visit.number), after: format!("after-{}", visit.number) }
    }
}

/// Why a change can't be confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unvisited {
    #[error("the history no longer has the night of {0}")]
    NoNight(Timestamp),
    #[error("the history does not say what {0} was set to")]
    NoConfig(String),
    #[error("the reference is another one than in the night of {0}")]
    Reference(Timestamp),
    #[error("the history no longer has the list of candidates")]
    NoCandidates,
}

/// The experiment of a visit: the reference, and both versions of the subject, in the scenarios that are asked about. All that made the
/// nights comparable is part of it: options, workloads, gates. A side that is the reference runs as it.
pub fn experiment(spec: &TuningSweepSpec, history: &History, visit: &Visit) -> Result<TuningExperimentSpec, Unvisited> {
    let mut night = night::experiment(spec);
    let today = effective(&night);
    let bad = named(history, visit.bad)?;
    let [before, after] = sides(history, visit)?;
    let reference = bad.reference.as_ref().ok_or(Unvisited::NoNight(bad.night))?;
    let is_it = |(config, digest): &&(&Config, Digest)| config.name == night.baseline && *digest == reference.config;
    let Some((written, _)) = today.iter().find(is_it) else { return Err(Unvisited::Reference(bad.night)) };
    let one_program = [&before.image, &after.image].into_iter().all(|image| *image == reference.image);
    let with = |config: &Config, name: String, image: &Option<String>| Config {
        name,
        revision: None,
        // Where all run one program, the sweep says which.
        image: if one_program { written.image.clone() } else { image.clone() },
        ..config.clone()
    };
    let mut configs = vec![with(written, night.baseline.clone(), &reference.image)];
    let arms = Arms::of(visit);
    for (side, name) in [(before, arms.before), (after, arms.after)] {
        let config = written_as(&today, history, written, &side.config);
        let config = config.ok_or_else(|| Unvisited::NoConfig(visit.subject.clone()))?;
        if (&side.image, &side.config) != (&reference.image, &reference.config) {
            configs.push(with(&config, name, &side.image));
        }
    }
    night.scenarios.retain(|scenario| {
        visit.series.iter().any(|asked| asked.scenario == scenario.name) || visit.failing.contains(&scenario.name)
    });
    let mut blocks = blocks(visit, bad).max(night.repetitions as usize);
    if let Some(search) = &visit.search {
        blocks = search.blocks;
        narrow(&mut night, visit);
    }
    // An experiment with more configs than a night has needs more blocks to be one.
    let fewest = n_min((configs.len() - 1) * night.objectives.len(), ALPHA);
    Ok(TuningExperimentSpec { configs, repetitions: blocks.max(fewest) as u32, ..night })
}

fn named(history: &History, night: Timestamp) -> Result<&Night, Unvisited> {
    history.get(night).ok_or(Unvisited::NoNight(night))
}

/// What a visit compares: the subject before a change and after it, or two of the candidates for it.
fn sides(history: &History, visit: &Visit) -> Result<[Sought; 2], Unvisited> {
    let Some(search) = &visit.search else {
        let side = |night| {
            let subject = named(history, night)?.subject(&visit.subject);
            subject.map(Sought::of).ok_or(Unvisited::NoNight(night))
        };
        return Ok([side(visit.good)?, side(visit.bad)?]);
    };
    let listed = history.candidates(visit).unwrap_or(&search.candidates);
    let side = |place: usize| listed.get(place).cloned().ok_or(Unvisited::NoCandidates);
    Ok([side(search.reference)?, side(search.candidate)?])
}

/// Leaves only the metric that a search goes by: each one more asks for more blocks.
fn narrow(night: &mut TuningExperimentSpec, visit: &Visit) {
    let is_asked = |own: &&JudgedMetric| visit.series.iter().any(|asked| asked.metric == own.metric);
    if let Some(own) = night.objectives.iter().chain(&night.guardrails).find(is_asked).cloned() {
        night.objectives = vec![own];
        night.guardrails = Vec::new();
    }
}

/// The configs of a night, each with the digest of what it sets.
pub(super) fn effective(night: &TuningExperimentSpec) -> Vec<(&Config, Digest)> {
    let planned = validate::validate(&night.baseline, night).experiment;
    let of = |config: &ConfigUnderTest| {
        let written = night.configs.iter().find(|written| written.name == config.name)?;
        Some((written, settings::digest(&config.engine).ok()?))
    };
    planned.iter().flat_map(|experiment| &experiment.configs).filter_map(of).collect()
}

/// A config that sets this over the reference: as it is written today, or as a night of the history says.
fn written_as(today: &[(&Config, Digest)], history: &History, reference: &Config, digest: &Digest) -> Option<Config> {
    let base = over(&EngineConfig::default(), reference);
    // Over another reference the same words have set something else.
    let has = |config: &&Config| settings::digest(&over(&base, config)).is_ok_and(|own| own == *digest);
    let written = today.iter().find(|(_, own)| own == digest).map(|(config, _)| (*config).clone());
    let kept = || {
        let subjects = history.nights().rev().flat_map(|night| &night.subjects);
        let kept = subjects.filter(|subject| subject.config == *digest).filter_map(|subject| subject.settings.as_ref());
        kept.into_iter().find(has).cloned()
    };
    written.or_else(kept)
}

/// Blocks of a visit, by the noise of a night.
fn blocks(visit: &Visit, night: &Night) -> usize {
    let of = |asked: &Asked| {
        let point = night.points.iter().find(|point| point.series == visit.series(asked))?;
        let sd = point.standard_error * f64::from(point.blocks).sqrt();
        Some(visit_blocks(sd, asked.margin, visit.alpha, visit.series.len()))
    };
    visit.series.iter().filter_map(of).max().unwrap_or(1)
}

/// Blocks of one visit, of which two find a change of the margin in one of so many series, for blocks of this standard deviation
/// ("Confirmation").
pub fn visit_blocks(sd: f64, margin: f64, alpha: f64, series: usize) -> usize {
    let (alpha, visits) = (alpha / LOOKS.len() as f64, LOOKS[0]);
    let fewest = n_min(series, alpha).div_ceil(visits);
    let Ok(normal) = Normal::new(0.0, 1.0) else { return fewest };
    let quantiles = normal.inverse_cdf(1.0 - alpha / series as f64) + normal.inverse_cdf(POWER);
    let needed = (quantiles * sd / (margin * (1.0 - SESSION))).powi(2) / EFFICIENCY + 2.0;
    ((needed / visits as f64).ceil() as usize).clamp(fewest, MOST_BLOCKS)
}

/// Evidence of a visit.
pub struct Evidence {
    pub visit: Visit,
    /// Runs of the scenarios in which it asks about failures.
    pub failures: Vec<Failures>,
    /// Reason why the visit measured nothing.
    pub nothing: Option<String>,
}

/// Evidence of the attempts at the experiment of a visit.
pub fn measured(visit: &Visit, plan: &Plan, attempts: &[Attempt]) -> Result<Evidence, Unplanned> {
    let places = Places::new(plan, attempts)?;
    let design = plan.experiment.design();
    let observed = Samples::of(&places, &design, design.max_blocks, true).observed;
    let arms = Arms::of(visit);
    let side =
        |search: &Search, config: &String| if *config == arms.before { search.reference } else { search.candidate };
    for config in [&arms.before, &arms.after] {
        if let Some(finding) = places.gated().configs.get(config).and_then(|findings| findings.first()) {
            let search = visit.search.as_ref();
            let search = search.map(|search| Search { unusable: Some(side(search, config)), ..search.clone() });
            let (visit, nothing) = (Visit { search, ..visit.clone() }, Some(finding.code.to_string()));
            return Ok(Evidence { visit, failures: Vec::new(), nothing });
        }
    }
    // The reference is no config of a design.
    let config = |arm: &String| design.configs.iter().position(|config| config == arm);
    let of = |asked: &Asked| {
        let scenario = design.scenarios.iter().position(|scenario| scenario.name == asked.scenario);
        let rule = design.metrics.iter().position(|rule| rule.name == asked.metric);
        let losses = scenario.zip(rule).map(|(scenario, rule)| {
            observed.losses((scenario, rule), [&arms.before, &arms.after].map(config), &design.metrics[rule])
        });
        Asked { losses: losses.unwrap_or_default(), ..asked.clone() }
    };
    let series: Vec<Asked> = visit.series.iter().map(of).collect();
    let ended = |scenario: &String| {
        let place = design.scenarios.iter().position(|own| own.name == *scenario)?;
        let [before, after] = [&arms.before, &arms.after].map(|arm| Counts::from(observed.ended(place, config(arm))));
        let own =
            Failures { subject: visit.subject.clone(), scenario: scenario.clone(), own: after, reference: before };
        (after.runs > 0).then_some(own)
    };
    let failures: Vec<Failures> = visit.failing.iter().filter_map(ended).collect();
    let is_empty = series.iter().all(|asked| asked.losses.is_empty()) && failures.is_empty();
    let nothing = is_empty.then(|| "nothing was measured".to_owned());
    Ok(Evidence { visit: Visit { series, ..visit.clone() }, failures, nothing })
}
