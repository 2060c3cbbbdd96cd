//! A bisection on this machine: each visit is an experiment of its own, in a folder of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use assay_core::bisect::{Arm, Listed, Observed, observed, plan};
use assay_core::experiment::{ConfigUnderTest, Experiment};
use assay_core::plan::Plan;
use assay_core::validate::Problem;
use assay_protocol::{Digest, OptionsQuestion};
use serde_json::{Value, json};

use super::session::SpecRefused;
use super::{How, run, stop_on_signals};
use crate::bench::{BenchArg, Benches};
use crate::file::{Wanted, check};
use crate::folder::{Visits, folder_of, room};
use crate::print;
use crate::search::{Asked, Found, Search, Visit};
use crate::text::plural;

/// What somebody wants of a bisection here.
pub struct Here<'a> {
    pub good: &'a str,
    pub bad: &'a str,
    pub listing: &'a Path,
    pub out: Option<&'a Path>,
    /// The program that runs configs.
    pub bench: Option<&'a Path>,
    pub wait_for_quiet: Option<Duration>,
}

/// What can run here.
struct Searched {
    arms: Vec<ConfigUnderTest>,
    /// The program of each candidate.
    benches: Vec<PathBuf>,
    digests: Vec<Digest>,
    template: Experiment,
    source: Vec<u8>,
    wait_for_quiet: Option<Duration>,
}

/// Runs a bisection to its end; `None` after Ctrl-C.
pub fn bisect(here: &Here<'_>) -> anyhow::Result<Option<Found>> {
    let out = folder_of(&format!("bisect-{}-{}", here.good, here.bad), here.out);
    let asked = Asked::read(here.listing, here.good, here.bad)?;
    asked.refuse(
        "image",
        |listed| listed.image.is_some(),
        "images run on a cluster: pass --cluster, or list its program as bench",
    )?;
    let searched = Searched::read(&asked, here, &out)?;
    let search = asked.search(&searched.template, &searched.digests)?;
    let visits = Visits::open(&out, &searched.described(&asked, &search)?)?;
    searched.run(search, visits, &stop_on_signals()?)
}

impl Searched {
    fn read(asked: &Asked, here: &Here<'_>, out: &Path) -> anyhow::Result<Self> {
        let experiment = asked.experiment()?;
        let programs = programs(asked)?;
        let bench = programs.first().map(|(path, _)| path.as_path()).or(here.bench);
        let bench: Vec<BenchArg> =
            bench.map(|path| BenchArg { config: None, path: path.to_owned() }).into_iter().collect();
        let mut checked = check(&experiment, Wanted::Either, &bench, |_| Some(room(out)));
        print::err(&checked);
        let (Some(template), Some(document), Some(default)) =
            (checked.experiment.take(), checked.document.take(), checked.benches.take())
        else {
            bail!("nothing was run: fix the {} of {} above", plural(checked.errors(), "error"), checked.file());
        };
        let candidates = asked.candidates();
        let (arms, digests, benches) = if programs.is_empty() {
            let configs = asked.configs(&template)?;
            let (names, digests): (Vec<&str>, Vec<Digest>) = configs.into_iter().unzip();
            let arms = candidates.iter().zip(names).filter_map(|(listed, name)| {
                Some(ConfigUnderTest { name: listed.name.clone(), ..template.config(name)?.clone() })
            });
            (arms.collect(), digests, vec![default.default; candidates.len()])
        } else {
            let arms = candidates.iter().zip(&programs).map(|(listed, (_, digest))| built(listed, digest, &template));
            let arms = arms.collect::<anyhow::Result<_>>()?;
            let (benches, digests) = programs.into_iter().unzip();
            (arms, digests, benches)
        };
        Ok(Self { arms, benches, digests, template, source: document.source, wait_for_quiet: here.wait_for_quiet })
    }

    /// What must be the same in each call. A search may get a larger budget.
    fn described(&self, asked: &Asked, search: &Search) -> anyhow::Result<Value> {
        let candidate = |(listed, digest): (&Listed, &Digest)| json!({"name": listed.name, "revision": listed.revision, "weight": listed.weight, "digest": digest});
        // Other programs would be other measurements, also where candidates are configs.
        let bench =
            std::fs::read(&self.benches[0]).with_context(|| format!("can't read {}", self.benches[0].display()))?;
        Ok(json!({
            "candidates": search.candidates.iter().zip(&self.digests).map(candidate).collect::<Vec<_>>(),
            "bench": Digest::of(&bench),
            "experiment": self.template.spec,
            "scenario": search.scenario,
            "metric": search.rule.name,
            "blocksPerVisit": asked.file.listing.blocks_per_visit,
            "proofBlocks": asked.file.listing.proof_blocks,
        }))
    }

    fn run(self, mut search: Search, visits: Visits, stop: &Arc<AtomicBool>) -> anyhow::Result<Option<Found>> {
        let place = visits.dir().join("visits").display().to_string();
        while let Some(visit) = search.visit() {
            let before = self.done(&search, &visits, &visit)?;
            let is_new = before.is_none();
            let now = if is_new { self.measure(&search, &visits, &visit, stop)? } else { before };
            let Some(now) = now else { return Ok(None) };
            search.add(&visit, now, is_new, &place)?;
        }
        search.found(place, Some(visits)).map(Some)
    }

    fn plan(&self, search: &Search, visit: &Visit) -> anyhow::Result<Plan> {
        let arms = visit.sides().map(|side| self.arms[side].clone());
        let what = (search.scenario.as_str(), search.rule.name.as_str());
        Ok(plan(&self.template, what, arms, visit.probe.blocks, visit.number)?)
    }

    /// What came of a visit that is done.
    fn done(&self, search: &Search, visits: &Visits, visit: &Visit) -> anyhow::Result<Option<Observed>> {
        let plan = self.plan(search, visit)?;
        let attempts = visits.done(visit.number, &plan)?;
        Ok(attempts.map(|attempts| observed(&plan, &attempts)).transpose()?)
    }

    /// Runs a visit; `None` after Ctrl-C.
    fn measure(
        &self,
        search: &Search,
        visits: &Visits,
        visit: &Visit,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Option<Observed>> {
        if stop.load(Ordering::SeqCst) {
            print::note("assay: interrupted; run the same command again to continue");
            return Ok(None);
        }
        let plan = self.plan(search, visit)?;
        let sides = visit.sides();
        for (side, arm) in sides.into_iter().zip([Arm::Reference, Arm::Candidate]) {
            if let Some(why) = self.refusal(side, &plan) {
                return Ok(Some(Observed::Unusable(arm, why)));
            }
        }
        search.begin(visit, visit.probe.blocks);
        let by_config = sides.iter().filter(|side| self.arms[**side].image.is_some());
        let by_config = by_config.map(|side| (self.arms[*side].name.clone(), self.benches[*side].clone())).collect();
        let benches = Benches { default: self.benches[visit.probe.reference].clone(), by_config };
        let out = visits.visit(visit.number);
        let wait_for_quiet = self.wait_for_quiet;
        let how = How {
            source: &self.source,
            benches: &benches,
            out: &out,
            wait_for_quiet,
            next_due: None,
            stop,
            tells: false,
        };
        match run(&plan, &how) {
            Ok(outcome) => Ok(outcome.map(|outcome| observed(&plan, &outcome.attempts)).transpose()?),
            Err(error) => match error.downcast_ref::<SpecRefused>() {
                // It is asked again after a restart, and refuses again.
                Some(refused) if refused.config == self.arms[visit.probe.candidate].name => {
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
}

/// The programs of the candidates; none if they are configs.
fn programs(asked: &Asked) -> anyhow::Result<Vec<(PathBuf, Digest)>> {
    let (mut programs, mut problems) = (Vec::new(), Vec::new());
    for (listed, field) in asked.fields("bench") {
        let Some(bench) = &listed.bench else { continue };
        let path = asked.file.path(bench);
        match std::fs::read(&path) {
            Ok(bytes) => programs.push((path, Digest::of(&bytes))),
            Err(error) => {
                let message = format!("can't read {}: {error}; paths start at the folder of this file", path.display());
                problems.push(Problem::error(field, message));
            }
        }
    }
    asked.file.check(&problems)?;
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
