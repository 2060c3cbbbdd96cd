//! The nights of a sweep on this machine, without a cluster: what is due is decided as an operator decides it, by the same rules.
//!
//! Each call does what is due and ends. Whatever ends it before, the next one takes up the night that had begun.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use assay_api::{TuningExperimentSpec, TuningSweepSpec};
use assay_core::experiment::{ConfigUnderTest, Experiment};
use assay_core::report::MachineFacts;
use assay_core::sweep::child::{Child, ChildState};
use assay_core::sweep::confirm::{self, Visit};
use assay_core::sweep::detect::Watch;
use assay_core::sweep::next::{Observed, Remembered, Rules, Step, Tonight, Unmeasured, next};
use assay_core::sweep::night::{self, Ended};
use assay_core::sweep::{Night, Outcome as Came, Schedule, Trigger, Unscheduled};
use assay_core::validate::{API_VERSION, KIND, validate_document};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{elsewhere, execute, images};
use crate::bench::{BenchArg, BenchDigests, Benches};
use crate::file::{Wanted, check};
use crate::folder::{Active, Begun, InUse, Nights, Outcome, kept_sweep, room};
use crate::print;
use crate::text::plural;

/// A program by its digest, where a night in a cluster has an image.
const PROGRAM: &str = "assay-bench@";

/// Why a night that had begun is no more.
const BENCH_CHANGED: &str = "BenchChanged";

/// What somebody wants of a sweep.
pub struct Asked<'a> {
    pub file: &'a Path,
    pub dir: &'a Path,
    pub bench: &'a [BenchArg],
    /// A night at once, whatever the schedule says.
    pub now: bool,
    pub wait_for_quiet: Option<Duration>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It measured a night, or no night was to be measured.
    Done,
    /// It ran a night, and that measured nothing.
    Unmeasured,
    Interrupted,
}

/// A sweep that can run here.
struct Sweep {
    /// What declares it.
    file: String,
    name: String,
    spec: TuningSweepSpec,
    schedule: Schedule,
    benches: Benches,
    digests: BenchDigests,
    watch: Watch,
    wait_for_quiet: Option<Duration>,
}

/// Runs what is due.
pub fn run(asked: &Asked<'_>) -> anyhow::Result<End> {
    let start = Timestamp::now();
    let sweep = Sweep::read(asked, start)?;
    // Cron calls within the minute of a night, and the first call is to find that one.
    let since = start.checked_sub(SignedDuration::from_secs(start.as_second().rem_euclid(60) + 1))?;
    let begun = Begun {
        sweep: sweep.name.clone(),
        schedule: sweep.spec.schedule.clone(),
        time_zone: sweep.spec.time_zone.clone(),
        since,
        margins: sweep.watch.margins.clone(),
        alarm: sweep.watch.alarm,
    };
    let earlier = kept_sweep(asked.dir)?;
    let mut nights = match Nights::open(asked.dir, &begun) {
        // What becomes due while the other one runs is done by it.
        Err(error) if !asked.now && earlier.as_ref().is_some_and(|own| own.sweep == sweep.name) => {
            let InUse { dir, holder, .. } = error.downcast()?;
            print::note(format_args!(
                "assay: nothing to do: {dir} is in use by {holder}, which also does what becomes due"
            ));
            return Ok(End::Done);
        }
        nights => nights?,
    };
    sweep.say_unknown(&nights);
    if let Some(earlier) = &earlier {
        sweep.say_withdrawn(&nights, earlier);
    }
    // A night that is in the history has come to its end, and only its file is left.
    let unfinished = |nights: &Nights| -> anyhow::Result<Option<Active>> {
        Ok(nights.active()?.filter(|active| nights.history.get(active.night).is_none()))
    };
    let given_up = unfinished(&nights)?.and_then(|active| sweep.given_up(&active));
    let has_given_up = given_up.is_some();
    // It was due, and its own minute has an entry.
    let again = given_up.as_ref().is_some_and(|gap| gap.reason.as_deref() == Some(BENCH_CHANGED));
    if let Some(gap) = given_up {
        sweep.record(&mut nights, gap)?;
    }
    // A night that was asked for and interrupted is the one that is asked for again.
    let before = unfinished(&nights)?;
    let is_wanted = asked.now || again && sweep.spec.suspend != Some(true);
    let token = is_wanted.then(|| before.and_then(|active| active.run_now).unwrap_or_else(|| night::token(start)));
    let measured = |nights: &Nights| nights.history.nights().filter(|night| night.outcome == Came::Measured).count();
    let before = measured(&nights);
    let end = sweep.take_steps(&mut nights, token.as_deref().or(sweep.spec.run_now.as_deref()))?;
    // Whoever looks at the exit code alone hears of it, unless another night was measured instead.
    let is_bare = has_given_up && end == End::Done && measured(&nights) == before;
    Ok(if is_bare { End::Unmeasured } else { end })
}

impl Sweep {
    fn read(asked: &Asked<'_>, now: Timestamp) -> anyhow::Result<Self> {
        let mut checked = check(asked.file, Wanted::Sweep, asked.bench, |_| Some(room(asked.dir)));
        print::err(&checked);
        let (Some(spec), Some(experiment), Some(document), Some(benches)) =
            (checked.sweep.take(), checked.experiment.take(), checked.document.take(), checked.benches.take())
        else {
            bail!("{} was not run: fix the {} above", checked.file(), plural(checked.errors(), "error"));
        };
        if let Some(night) = &checked.spec {
            elsewhere::refuse(night)?;
            if let Some(note) = elsewhere::note(night) {
                print::note(format_args!("{}: {note}", checked.file()));
            }
        }
        if spec.bisect.is_some() {
            let note = "spec.bisect is for sweeps on a cluster: on one machine, `assay bisect` finds a culprit";
            print::note(format_args!("{}: {note}", checked.file()));
        }
        images(&experiment, &benches)?;
        let schedule = Schedule::parse(&spec.schedule, &spec.time_zone, now)
            .map_err(|(Unscheduled::Schedule(why) | Unscheduled::Zone(why))| anyhow!("{}: {why}", checked.file()))?;
        let name = document.value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let digests = benches.digests()?;
        let watch = Watch { bisect: None, ..Watch::of(&spec, &experiment, now) };
        Ok(Self {
            file: checked.file().to_string(),
            name,
            spec,
            schedule,
            benches,
            digests,
            watch,
            wait_for_quiet: asked.wait_for_quiet,
        })
    }

    /// Does what is next until there is nothing left to do.
    fn take_steps(&self, nights: &mut Nights, run_now: Option<&str>) -> anyhow::Result<End> {
        let (mut end, mut ended) = (End::Done, None::<Outcome>);
        loop {
            let active = nights.active()?;
            match self.next(nights, active.as_ref(), ended.is_some(), run_now)? {
                Step::Collect(_) => {
                    let (Some(active), Some(outcome)) = (&active, ended.take()) else { continue };
                    let night = self.measured(active, &outcome, nights);
                    let night = night.map_err(|error| failed(nights, active.clone(), error))?;
                    if night.outcome == Came::Gap {
                        end = End::Unmeasured;
                    } else if night.visit.is_none() {
                        self.keep_programs(nights)?;
                    }
                    self.record(nights, night)?;
                    nights.end()?;
                    nights.prune(self.spec.successful_history_limit, self.spec.failed_history_limit)?;
                }
                Step::Record(unmeasured) => self.record(nights, unmeasured.night(&self.name))?,
                Step::End(_) => nights.end()?,
                Step::Begin { night, trigger, run_now } => {
                    self.say_news(nights)?;
                    nights.begin(&Active {
                        night,
                        trigger,
                        run_now,
                        document: self.document(night, &night::experiment(&self.spec)),
                        benches: self.digests.clone(),
                        visit: None,
                        failure: None,
                    })?;
                }
                Step::Resolve(..) | Step::Wait(_) if active.is_some() => {
                    let Some(active) = active else { continue };
                    match self.run_night(nights, active)? {
                        None => return Ok(End::Interrupted),
                        outcome => ended = outcome,
                    }
                }
                Step::Confirm(minute, visit) => self.confirm(nights, minute, *visit)?,
                Step::Taken(minute) => {
                    print::note("assay: this minute has a night already; waiting for the next one");
                    let wait = minute.duration_since(Timestamp::now());
                    std::thread::sleep(Duration::try_from(wait).unwrap_or_default());
                }
                Step::Resolve(..) | Step::Wait(_) => {
                    self.say_next()?;
                    return Ok(end);
                }
            }
        }
    }

    fn next(
        &self,
        nights: &Nights,
        active: Option<&Active>,
        has_ended: bool,
        run_now: Option<&str>,
    ) -> anyhow::Result<Step> {
        let state = if has_ended { ChildState::Finished } else { ChildState::Running };
        let child = |active: &Active| {
            let child = Child {
                trigger: active.trigger,
                run_now: active.run_now.clone(),
                visit: active.visit.clone(),
                state: state.clone(),
            };
            (active.night, child)
        };
        let tonight = pinned(night::experiment(&self.spec), &self.digests);
        Ok(next(&Observed {
            now: Timestamp::now(),
            rules: Rules {
                schedule: &self.schedule,
                suspended: self.spec.suspend == Some(true),
                deadline: self.spec.starting_deadline_seconds.map(|seconds| SignedDuration::from_secs(seconds.into())),
                replace: self.spec.concurrency_policy == assay_api::ConcurrencyPolicy::Replace,
                run_now,
                max_skip: SignedDuration::from_hours(24 * i64::from(self.spec.max_skip_days)),
                accept: &self.spec.accept,
            },
            since: nights.begun.since,
            last_scheduled: None,
            last_manual: None,
            children: &active.map(child).into_iter().collect::<BTreeMap<_, _>>(),
            lost: None,
            remembered: &Remembered::of(&nights.history, &self.watch),
            tonight: Tonight::Known(night::key(&tonight.0, tonight.1.as_deref())?),
        }))
    }

    /// The entry of a night that had begun and can't go on.
    fn given_up(&self, active: &Active) -> Option<Night> {
        let gap = |reason: &str, message: &str| {
            let unmeasured = Unmeasured {
                night: active.night,
                trigger: active.trigger,
                run_now: active.run_now.clone(),
                visit: active.visit.clone(),
                accepted: None,
                outcome: Came::Gap,
                reason: reason.to_owned(),
                message: message.to_owned(),
            };
            Night { experiment: Some(night::name(&self.name, active.night)), ..unmeasured.night(&self.name) }
        };
        // A visit has programs of its own.
        if active.visit.is_none() && active.benches != self.digests {
            let message = "it was interrupted, and its trials can't continue with another build of the bench";
            return Some(gap(BENCH_CHANGED, message));
        }
        let is_followed = self.schedule.last_until(Timestamp::now()).is_some_and(|due| due > active.night);
        active.failure.as_deref().filter(|_| is_followed).map(|failure| gap("Failed", failure))
    }

    fn document(&self, night: Timestamp, spec: &TuningExperimentSpec) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": night::name(&self.name, night)},
            "spec": spec,
        })
    }

    /// Begins a visit, or says why it can't be made.
    fn confirm(&self, nights: &mut Nights, minute: Timestamp, visit: Visit) -> anyhow::Result<()> {
        let change = visit.change();
        let spec = match confirm::experiment(&self.spec, &nights.history, &visit) {
            Ok(spec) => spec,
            Err(why) => return self.lost(nights, minute, visit, &why.to_string()),
        };
        let missing = spec.configs.iter().find_map(|config| {
            let program = nights.program(config.image.as_deref().and_then(program)?);
            (!program.is_file()).then(|| format!("the program of {} is not kept: {}", config.name, program.display()))
        });
        if let Some(missing) = missing {
            return self.lost(nights, minute, visit, &missing);
        }
        print::note(format_args!("assay: visit {} to confirm {change}", visit.number));
        nights.begin(&Active {
            night: minute,
            trigger: Trigger::Confirmation,
            run_now: None,
            document: self.document(minute, &spec),
            benches: self.digests.clone(),
            visit: Some(visit),
            failure: None,
        })
    }

    /// The entry of a visit whose versions can't run any more.
    fn lost(&self, nights: &mut Nights, minute: Timestamp, visit: Visit, why: &str) -> anyhow::Result<()> {
        let lost = Unmeasured {
            night: minute,
            trigger: Trigger::Confirmation,
            run_now: None,
            visit: Some(visit),
            accepted: None,
            outcome: Came::Gap,
            reason: "VersionLost".to_owned(),
            message: why.to_owned(),
        };
        self.record(nights, lost.night(&self.name))
    }

    /// Keeps what tells nights apart, since the next build may replace it.
    fn keep_programs(&self, nights: &Nights) -> anyhow::Result<()> {
        if self.benches.by_config.is_empty() {
            return Ok(());
        }
        let digest = |config: &String| self.digests.by_config.get(config).cloned();
        let own = self.benches.by_config.iter();
        let own = own.filter_map(|(config, path)| Some((digest(config)?, path.as_path())));
        let default = (self.digests.default.clone(), self.benches.default.as_path());
        nights.keep_programs(&own.chain([default]).collect::<Vec<_>>())
    }

    /// The programs of a visit: those that nights ran, which were kept.
    fn programs(&self, nights: &Nights, experiment: &Experiment) -> anyhow::Result<Benches> {
        let reference = &self.spec.reference.name;
        let of = |config: &ConfigUnderTest| {
            let image = config.image.as_ref()?;
            let kept = program(image).map(|digest| nights.program(digest));
            Some((config.name.clone(), kept.unwrap_or_else(|| self.benches.of(reference).to_owned())))
        };
        let by_config: BTreeMap<String, PathBuf> = experiment.configs.iter().filter_map(of).collect();
        for program in by_config.values() {
            ensure!(program.is_file(), "{} is missing: restore it", program.display());
        }
        Ok(Benches { default: self.benches.default.clone(), by_config })
    }

    /// Runs a night to its end; `None` after Ctrl-C.
    fn run_night(&self, nights: &Nights, active: Active) -> anyhow::Result<Option<Outcome>> {
        let dir = nights.night_dir(active.night);
        print::note(format_args!("assay: {} runs in {}", night::name(&self.name, active.night), dir.display()));
        if active.visit.is_none() && active.document != self.document(active.night, &night::experiment(&self.spec)) {
            print::note(format_args!(
                "assay: {} has changed since this night began; the night continues as it began. To drop it, remove {}",
                self.file,
                nights.active_path().display()
            ));
        }
        let source = serde_yaml::to_string(&active.document)?;
        let ran = experiment(&active).and_then(|experiment| {
            let benches =
                if active.visit.is_some() { self.programs(nights, &experiment)? } else { self.benches.clone() };
            let next_due = self.schedule.next_after(active.night);
            execute(experiment, source.as_bytes(), &benches, Some(&dir), self.wait_for_quiet, next_due)
        });
        ran.map_err(|error| failed(nights, active, error))
    }

    /// The entry of a night that has ended.
    fn measured(&self, active: &Active, outcome: &Outcome, nights: &Nights) -> anyhow::Result<Night> {
        let spec: TuningExperimentSpec = serde_json::from_value(active.document["spec"].clone())?;
        let (spec, bench) = pinned(spec, &active.benches);
        let machines = outcome.report.setup.iter().flat_map(|setup| &setup.machines);
        let kind = |machine: &MachineFacts| night::machine(machine.cpu_model.as_deref(), machine.disk_model.as_deref());
        let ended = Ended {
            sweep: &self.name,
            night: active.night,
            trigger: active.trigger,
            run_now: active.run_now.clone(),
            visit: active.visit.as_ref(),
            experiment: &outcome.plan.experiment.name,
            spec: &spec,
            machines: machines.filter_map(kind).collect(),
            bench: bench.as_deref(),
        };
        Ok(ended.entry(&outcome.plan, &outcome.attempts, &nights.history)?)
    }

    fn record(&self, nights: &mut Nights, night: Night) -> anyhow::Result<()> {
        let name = night::name(&self.name, night.night);
        let what = match night.outcome {
            Came::Measured => format!("measured, {} series", night.points.len()),
            Came::Skipped => "skipped".to_owned(),
            Came::Gap => "not measured".to_owned(),
            Came::Visited => "measured for a confirmation".to_owned(),
            Came::Accepted => "accepted".to_owned(),
        };
        let why = night
            .reason
            .as_ref()
            .map_or(String::new(), |reason| format!(": {reason}: {}", night.message.as_deref().unwrap_or_default()));
        let is_news = matches!(night.outcome, Came::Measured | Came::Visited);
        nights.add(night)?;
        print::out(format_args!("{name}: {what}{why}\n"))?;
        for open in is_news.then(|| nights.history.open(&self.watch)).into_iter().flatten() {
            print::out(format_args!("{open}\n"))?;
        }
        Ok(())
    }

    /// Tells of a night that begins what of earlier ones it can't be compared with.
    fn say_news(&self, nights: &Nights) -> anyhow::Result<()> {
        let (tonight, bench) = pinned(night::experiment(&self.spec), &self.digests);
        let reference = tonight.configs.iter().find(|config| config.name == tonight.baseline);
        let image = reference.and_then(|config| config.image.clone()).or(bench);
        for line in nights.history.foreseen(&tonight, image.as_deref())? {
            print::note(format_args!("assay: {line}"));
        }
        Ok(())
    }

    /// Tells of suspicions that are none any more, not for the nights but for what the sweep declares now.
    fn say_withdrawn(&self, nights: &Nights, earlier: &Begun) {
        let (before, now) = (nights.history.open(&earlier.watch()), nights.history.watched(&self.watch));
        let open: Vec<String> =
            now.iter().filter(|own| own.suspicion.is_some()).map(|own| format!("{}: ", own.name())).collect();
        let suspected = before.iter().filter(|line| line.contains(": suspected "));
        for line in suspected.filter(|line| !open.iter().any(|name| line.starts_with(name))) {
            print::note(format_args!(
                "assay: no longer suspected, because schedule, detect or the number of series has changed: {line}"
            ));
        }
    }

    /// Tells of changes that are to be accepted and are none.
    fn say_unknown(&self, nights: &Nights) {
        let known = Remembered::of(&nights.history, &self.watch).changes;
        for (index, accept) in self.spec.accept.iter().enumerate() {
            if !known.contains_key(&accept.change) {
                print::note(format_args!(
                    "assay: spec.accept[{index}].change: {} is no confirmed change of this history",
                    accept.change
                ));
            }
        }
    }

    fn say_next(&self) -> anyhow::Result<()> {
        if self.spec.suspend == Some(true) {
            return print::out(
                "suspended: no night is due until spec.suspend is removed; --now measures one at once\n",
            );
        }
        let Some(next) = self.schedule.next_after(Timestamp::now()) else { return Ok(()) };
        let next = self.schedule.local(next).strftime("%a %Y-%m-%d %H:%M %Z");
        print::out(format_args!("next night: {next}; --now measures one at once\n"))
    }
}

/// The experiment of a night, which was sound when it began.
fn experiment(active: &Active) -> anyhow::Result<Experiment> {
    let validation = validate_document(&active.document);
    let problem = validation.problems.iter().find(|problem| problem.is_error()).map(ToString::to_string);
    let experiment = validation.experiment;
    experiment.with_context(|| format!("can't run the night of {}: {}", active.night, problem.unwrap_or_default()))
}

/// Keeps why a night could not go on, for its entry should it be given up.
fn failed(nights: &Nights, active: Active, error: anyhow::Error) -> anyhow::Error {
    // Best effort: what matters is the first error.
    let _ = nights.begin(&Active { failure: Some(format!("{error:#}")), ..active });
    error
}

/// The digest of a program that stands for an image.
fn program(image: &str) -> Option<&str> {
    image.strip_prefix(PROGRAM)
}

/// The experiment of a night with its programs instead of images, and the program of configs that name none.
fn pinned(spec: TuningExperimentSpec, benches: &BenchDigests) -> (TuningExperimentSpec, Option<String>) {
    let image = |digest| format!("{PROGRAM}{digest}");
    let images = benches.by_config.iter().map(|(config, digest)| (config.clone(), image(digest))).collect();
    // What no config runs makes no night another one.
    let is_used = spec.configs.iter().any(|config| config.image.is_none());
    let default = is_used.then(|| image(&benches.default));
    (night::pinned(spec, &images), default)
}
