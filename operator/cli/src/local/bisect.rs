//! A bisection on this machine: each visit is an experiment of its own, in a folder of its own.
//!
//! Whatever ends a call, the same one continues: what is next follows from the records of the visits.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use assay_core::bisect::{
    Answer, Arm, Bisection, Came, Candidate, Listed, Next, Observed, Probe, Purpose, Question, QuestionError, observed,
    plan,
};
use assay_core::experiment::{ConfigUnderTest, Experiment};
use assay_core::plan::Plan;
use assay_core::stats::Scale;
use assay_core::validate::{FieldPath, Problem};
use assay_core::verdict::MetricRule;
use assay_protocol::{Digest, OptionsQuestion};
use serde_json::{Value, json};

use super::session::SpecRefused;
use super::{How, run, stop_on_signals};
use crate::bench::{BenchArg, Benches};
use crate::file::{ListingFile, Wanted, check};
use crate::folder::{Visits, folder_of, room};
use crate::print;
use crate::text::plural;

/// Visits in a row of which nothing can be said, after which the machine is left alone.
const NOTHING: u32 = 3;

/// What somebody wants of a bisection.
pub struct Asked<'a> {
    pub good: &'a str,
    pub bad: &'a str,
    pub listing: &'a Path,
    pub out: Option<&'a Path>,
    /// The program that runs configs.
    pub bench: Option<&'a Path>,
    pub wait_for_quiet: Option<Duration>,
}

/// A bisection that has ended.
pub struct Found {
    /// From the good end to the bad end.
    pub candidates: Vec<Listed>,
    pub rule: MetricRule,
    pub scenario: String,
    pub bisection: Bisection,
    pub answer: Answer,
    /// Candidates that can't be measured, and why.
    pub avoided: BTreeMap<usize, String>,
    pub visits: Vec<(Probe, Came)>,
    pub dir: PathBuf,
    folder: Visits,
}

impl Found {
    /// Keeps the answer beside the visits.
    pub fn keep(&self, answer: &Value) -> anyhow::Result<()> {
        self.folder.keep_answer(answer)
    }
}

/// What can run here.
struct Searched {
    candidates: Vec<Listed>,
    arms: Vec<ConfigUnderTest>,
    /// The program of each candidate.
    benches: Vec<PathBuf>,
    template: Experiment,
    source: Vec<u8>,
    scenario: String,
    rule: MetricRule,
    question: Question,
}

/// Runs a bisection to its end; `None` after Ctrl-C.
pub fn bisect(asked: &Asked<'_>) -> anyhow::Result<Option<Found>> {
    let out = folder_of(&format!("bisect-{}-{}", asked.good, asked.bad), asked.out);
    let searched = Searched::read(asked, &out)?;
    let bisection = Bisection::new(searched.question.clone()).map_err(|error| match error {
        QuestionError::NoSuspect => anyhow!("{} and {} are the same program or config", asked.good, asked.bad),
        error => anyhow!("{}: {error}", asked.listing.display()),
    })?;
    let visits = Visits::open(&out, &searched.described()?)?;
    searched.run(bisection, visits, asked.wait_for_quiet, &stop_on_signals()?)
}

impl Searched {
    fn read(asked: &Asked<'_>, out: &Path) -> anyhow::Result<Self> {
        let file = ListingFile::read(asked.listing)?;
        let listing = &file.listing;
        let range =
            listing.between(asked.good, asked.bad).map_err(|why| anyhow!("{}: {why}", asked.listing.display()))?;
        let experiment = file.path(&listing.experiment);
        if !experiment.is_file() {
            let message = format!("there is no file {}: paths start at the folder of this file", experiment.display());
            file.check(&[Problem::error(FieldPath::root().key("experiment"), message)])?;
        }
        let programs = programs(&file, range.clone())?;
        let bench = programs.first().map(|(path, _)| path.as_path()).or(asked.bench);
        let bench: Vec<BenchArg> =
            bench.map(|path| BenchArg { config: None, path: path.to_owned() }).into_iter().collect();
        let mut checked = check(&experiment, Wanted::Either, &bench, |_| Some(room(out)));
        print::err(&checked);
        let (Some(template), Some(document), Some(default)) =
            (checked.experiment.take(), checked.document.take(), checked.benches.take())
        else {
            bail!("nothing was run: fix the {} of {} above", plural(checked.errors(), "error"), checked.file());
        };
        let (scenario, rule) = (scenario(&file, &template)?, metric(&file, &template)?);
        let candidates: Vec<Listed> = listing.candidates[range.clone()].to_vec();
        let (arms, digests, benches) = if programs.is_empty() {
            let (arms, digests) = configs(&file, range, &template)?;
            let benches = vec![default.default; arms.len()];
            (arms, digests, benches)
        } else {
            let arms = candidates.iter().zip(&programs).map(|(listed, (_, digest))| built(listed, digest, &template));
            let arms = arms.collect::<anyhow::Result<_>>()?;
            let (benches, digests) = programs.into_iter().unzip();
            (arms, digests, benches)
        };
        let weigh =
            |(listed, digest): (&Listed, &Digest)| Candidate { digest: digest.clone(), weight: listed.weight.into() };
        let question = Question {
            candidates: candidates.iter().zip(&digests).map(weigh).collect(),
            margin: rule.scale.margin(rule.margin),
            blocks: listing.blocks_per_visit,
            proof: listing.proof_blocks,
            budget: listing.budget_blocks,
        };
        Ok(Self { candidates, arms, benches, template, source: document.source, scenario, rule, question })
    }

    /// What must be the same in each call. A search may get a larger budget.
    fn described(&self) -> anyhow::Result<Value> {
        let candidate = |(listed, candidate): (&Listed, &Candidate)| json!({"name": listed.name, "revision": listed.revision, "weight": listed.weight, "digest": candidate.digest});
        let Question { candidates, blocks, proof, .. } = &self.question;
        // Other programs would be other measurements, also where candidates are configs.
        let bench =
            std::fs::read(&self.benches[0]).with_context(|| format!("can't read {}", self.benches[0].display()))?;
        Ok(json!({
            "candidates": self.candidates.iter().zip(candidates).map(candidate).collect::<Vec<_>>(),
            "bench": Digest::of(&bench),
            "experiment": self.template.spec,
            "scenario": self.scenario,
            "metric": self.rule.name,
            "blocksPerVisit": blocks,
            "proofBlocks": proof,
        }))
    }

    fn run(
        self,
        mut bisection: Bisection,
        visits: Visits,
        wait_for_quiet: Option<Duration>,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Option<Found>> {
        let (mut made, mut avoided) = (Vec::new(), BTreeMap::new());
        let (mut number, mut nothing) = (0, 0);
        loop {
            let probe = match bisection.next() {
                Next::Visit(probe) => probe,
                Next::Answer(answer) => {
                    let Self { candidates, rule, scenario, .. } = self;
                    let dir = visits.dir().to_owned();
                    return Ok(Some(Found {
                        candidates,
                        rule,
                        scenario,
                        bisection,
                        answer,
                        avoided,
                        visits: made,
                        dir,
                        folder: visits,
                    }));
                }
            };
            number += 1;
            let which = |arm: Arm| if arm == Arm::Reference { probe.reference } else { probe.candidate };
            let before = self.done(&visits, number, &probe)?;
            let is_new = before.is_none();
            let now = if is_new { self.visit(&visits, number, &probe, wait_for_quiet, stop)? } else { before };
            let Some(now) = now else { return Ok(None) };
            let came = match now {
                Observed::Losses(losses) => Came::Measured(losses),
                Observed::Unusable(arm, why) => {
                    let which = which(arm);
                    let name = &self.candidates[which].name;
                    print::note(format_args!("assay: {name} can't be measured and is avoided: {why}"));
                    avoided.insert(which, why);
                    Came::Unusable(which)
                }
                Observed::Nothing(why) => {
                    nothing += u32::from(is_new);
                    if nothing >= NOTHING {
                        bail!(
                            "{NOTHING} visits in a row measured nothing ({why}): fix the cause and run the same command again; \
                             their folders are in {}",
                            visits.dir().join("visits").display()
                        );
                    }
                    print::note(format_args!("assay: visit {number} measured nothing and is repeated: {why}"));
                    continue;
                }
            };
            nothing = 0;
            bisection.add(&probe, came.clone());
            self.say(number, &probe, &came, &bisection);
            made.push((probe, came));
        }
    }

    fn plan(&self, number: usize, probe: &Probe) -> anyhow::Result<Plan> {
        let arms = [probe.reference, probe.candidate].map(|side| self.arms[side].clone());
        Ok(plan(&self.template, (&self.scenario, &self.rule.name), arms, probe.blocks, number)?)
    }

    /// What came of a visit that is done.
    fn done(&self, visits: &Visits, number: usize, probe: &Probe) -> anyhow::Result<Option<Observed>> {
        let plan = self.plan(number, probe)?;
        let attempts = visits.done(number, &plan)?;
        Ok(attempts.map(|attempts| observed(&plan, &attempts)).transpose()?)
    }

    /// Runs a visit; `None` after Ctrl-C.
    fn visit(
        &self,
        visits: &Visits,
        number: usize,
        probe: &Probe,
        wait_for_quiet: Option<Duration>,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Option<Observed>> {
        if stop.load(Ordering::SeqCst) {
            print::note("assay: interrupted; run the same command again to continue");
            return Ok(None);
        }
        let plan = self.plan(number, probe)?;
        let sides = [probe.reference, probe.candidate];
        for (side, arm) in sides.into_iter().zip([Arm::Reference, Arm::Candidate]) {
            if let Some(why) = self.refusal(side, &plan) {
                return Ok(Some(Observed::Unusable(arm, why)));
            }
        }
        let purpose = match probe.purpose {
            Purpose::Ends => "both ends",
            Purpose::Search => "search",
            Purpose::Verify => "proof",
            Purpose::Grid => "overview",
        };
        let names = sides.map(|side| self.arms[side].name.as_str());
        let blocks = plural(probe.blocks, "block");
        print::note(format_args!("assay: visit {number}, {purpose}: {} against {}, {blocks}", names[1], names[0]));
        let by_config = sides.iter().filter(|side| self.arms[**side].image.is_some());
        let by_config = by_config.map(|side| (self.arms[*side].name.clone(), self.benches[*side].clone())).collect();
        let benches = Benches { default: self.benches[probe.reference].clone(), by_config };
        let out = visits.visit(number);
        let how = How { source: &self.source, benches: &benches, out: &out, wait_for_quiet, stop, tells: false };
        match run(&plan, &how) {
            Ok(outcome) => Ok(outcome.map(|outcome| observed(&plan, &outcome.attempts)).transpose()?),
            Err(error) => match error.downcast_ref::<SpecRefused>() {
                // It is asked again after a restart, and refuses again.
                Some(refused) if refused.config == names[1] => {
                    Ok(Some(Observed::Unusable(Arm::Candidate, refused.to_string())))
                }
                Some(refused) => Ok(Some(Observed::Unusable(Arm::Reference, refused.to_string()))),
                None => Err(error),
            },
        }
    }

    /// Why the program of a candidate can't run it, if it says so when it is asked.
    fn refusal(&self, side: usize, plan: &Plan) -> Option<String> {
        let arm = &self.arms[side];
        arm.image.as_ref()?;
        let scenario = plan.experiment.scenarios.first()?;
        let question = OptionsQuestion {
            families: scenario.workload.kind().families().into_iter().map(ToOwned::to_owned).collect(),
            baseline: arm.engine.clone(),
            configs: [(arm.name.clone(), arm.engine.clone())].into(),
            page_cache: scenario.page_cache,
        };
        match (Benches { default: self.benches[side].clone(), by_config: BTreeMap::new() }).ask(&question) {
            Ok(answer) => answer.problems.first().map(|problem| problem.message.clone()),
            Err(error) => Some(format!("{error:#}")),
        }
    }

    fn say(&self, number: usize, probe: &Probe, came: &Came, bisection: &Bisection) {
        let Came::Measured(losses) = came else { return };
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        let names = [probe.reference, probe.candidate].map(|side| &self.candidates[side].name);
        let belief = if let Next::Visit(_) = bisection.next() { bisection.belief() } else { None };
        let suspect = belief.and_then(|belief| belief.likeliest(bisection.candidates()));
        let suspect = suspect.map_or(String::new(), |group| {
            let chance = 100.0 * group.probability;
            format!("; likeliest culprit {} ({chance:.0} %)", self.candidates[group.last].name)
        });
        let worse = worse(&self.rule, mean);
        print::note(format_args!("assay: visit {number}: {} is {worse} than {}{suspect}", names[1], names[0]));
        if probe.purpose == Purpose::Ends
            && let Some(expected) = bisection.expected_blocks()
        {
            let budget = bisection.budget();
            let expected = expected.max(1.0).min(budget as f64);
            print::note(format_args!("assay: the search takes about {expected:.0} blocks, {budget} at most"));
        }
    }
}

/// A loss in words: in percent, or in points where the metric is a share.
pub fn worse(rule: &MetricRule, loss: f64) -> String {
    let size = worse_percent(rule, loss);
    let unit = if rule.scale == Scale::Log { " %" } else { " points" };
    // What is rounded to nothing has no sign.
    let word = if size <= -0.05 { "better" } else { "worse" };
    format!("{:.1}{unit} {word}", size.abs())
}

/// A loss in percent, or in percentage points where the metric is a share.
pub fn worse_percent(rule: &MetricRule, loss: f64) -> f64 {
    100.0
        * match (rule.scale, rule.direction) {
            (Scale::Linear, _) => loss,
            (Scale::Log, assay_core::stats::Direction::Higher) => -(-loss).exp_m1(),
            (Scale::Log, assay_core::stats::Direction::Lower) => loss.exp_m1(),
        }
}

/// The programs of a range of candidates; none if they are configs.
fn programs(file: &ListingFile, range: RangeInclusive<usize>) -> anyhow::Result<Vec<(PathBuf, Digest)>> {
    let (mut programs, mut problems) = (Vec::new(), Vec::new());
    for index in range {
        let Some(bench) = &file.listing.candidates[index].bench else { continue };
        let path = file.path(bench);
        match std::fs::read(&path) {
            Ok(bytes) => programs.push((path, Digest::of(&bytes))),
            Err(error) => {
                let message = format!("can't read {}: {error}; paths start at the folder of this file", path.display());
                problems.push(Problem::error(ListingFile::field(index, "bench"), message));
            }
        }
    }
    file.check(&problems)?;
    Ok(programs)
}

/// The side of a visit that a program is: it runs the options of the experiment's baseline.
fn built(listed: &Listed, digest: &Digest, template: &Experiment) -> anyhow::Result<ConfigUnderTest> {
    let baseline = template.baseline_config().context("the experiment has no baseline")?;
    let image = format!("assay-bench@{digest}");
    let revision = listed.revision.as_ref().map_or(String::new(), |revision| format!(" ({revision})"));
    Ok(ConfigUnderTest {
        name: listed.name.clone(),
        engine: baseline.engine.clone(),
        changes: vec![format!("image: {image}{revision}")],
        image: Some(image),
    })
}

/// The sides of visits that configs are, with their digests.
fn configs(
    file: &ListingFile,
    range: RangeInclusive<usize>,
    template: &Experiment,
) -> anyhow::Result<(Vec<ConfigUnderTest>, Vec<Digest>)> {
    let (mut arms, mut digests, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for index in range {
        let listed = &file.listing.candidates[index];
        let Some(name) = &listed.config else { continue };
        let mut refuse = |message: String| problems.push(Problem::error(ListingFile::field(index, "config"), message));
        match template.config(name) {
            None => refuse(format!("the experiment has no config {name:?}")),
            Some(config) if config.image.is_some() => {
                refuse(format!("config {name:?} declares an image: list its program as bench instead"));
            }
            Some(config) => {
                digests.push(Digest::of_json(&config.engine)?);
                arms.push(ConfigUnderTest { name: listed.name.clone(), ..config.clone() });
            }
        }
    }
    file.check(&problems)?;
    Ok((arms, digests))
}

/// The scenario that is run.
fn scenario(file: &ListingFile, template: &Experiment) -> anyhow::Result<String> {
    let names: Vec<&str> = template.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
    let refuse = |path: FieldPath, message: String| file.check(&[Problem::error(path, message)]);
    let name = match (&file.listing.scenario, &names[..]) {
        (Some(name), _) => {
            if !names.contains(&name.as_str()) {
                let message = format!("the experiment has no scenario {name:?}; it has {}", names.join(", "));
                refuse(FieldPath::root().key("scenario"), message)?;
            }
            name.clone()
        }
        (None, [only]) => (*only).to_owned(),
        (None, _) => {
            let message = format!("scenario is required: the experiment has {}; name the one to run", names.join(", "));
            refuse(FieldPath::root(), message)?;
            String::new()
        }
    };
    if template.scenario(&name).is_some_and(|scenario| scenario.dataset_from.is_some()) {
        bail!("scenario {name} sets dataset.from, which a bisection can't: each candidate writes its own data");
    }
    Ok(name)
}

/// The metric that is searched.
fn metric(file: &ListingFile, template: &Experiment) -> anyhow::Result<MetricRule> {
    let names: Vec<&str> = template.measured().map(|rule| rule.name.as_str()).collect();
    let wanted = file.listing.metric.as_deref();
    let rule = template.measured().find(|rule| wanted.is_none_or(|name| rule.name == name));
    if rule.is_none() {
        let wanted = wanted.unwrap_or_default();
        let message = format!("the experiment judges no metric {wanted:?}; it judges {}", names.join(", "));
        file.check(&[Problem::error(FieldPath::root().key("metric"), message)])?;
    }
    rule.cloned().context("the experiment judges no metric")
}
