//! Experiments whose truth is known: the real planner, made-up runs in the planned order, the real judgement with all of its gates.

pub mod naive;
pub mod rows;
mod runs;
pub mod world;

use std::{ops::Range, thread};

use assay_core::{
    attempt::{Attempt, LostReason, Moment},
    decide::{Action, Place, Places, Said},
    experiment::Experiment,
    judge::{self, Standings},
    plan::Plan,
    validate::validate_document,
    verdict::{self, Intervals, MetricSamples, Observed, Status, Verdict},
};
use assay_protocol::{Digest, TrialId};
use runs::{Also, Cause, Template, measured};
use serde_json::json;
use world::{Behaviour, Disturbance, Machines, Noise, Run, World};

/// Steps of a run.
pub const STEPS: f64 = 100_000.0;

/// Tries of a run, and passes over a block, that an executor makes.
const TRIES: u32 = 3;
const PASSES: u32 = 3;

const MINUTE_MS: u64 = 60_000;

/// The evidence of CPU time that others took is true within this share of it.
const KNOWN_WITHIN: f64 = 0.2;

/// How much of the judge an experiment goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// All gates, look by look. The executor knows which attempts do not count.
    Gates,
    /// All gates, after every attempt: the next one is what [`Places::next`] answers.
    Decide,
    /// Neither plan nor gates: the runs are the samples of [`verdict::judge`].
    Verdict,
    /// As `Verdict`, with runs of the first config and the baseline alone. The others have their share of the error all the same.
    VerdictOfFirst,
}

/// A kind of experiment.
#[derive(Clone, Debug)]
pub struct Setting {
    pub scenarios: usize,
    pub blocks: usize,
    pub metric: &'static str,
    pub margin: &'static str,
    pub at_least: Option<&'static str>,
    /// A guardrail with its margin.
    pub guardrail: Option<(&'static str, &'static str)>,
    /// Whether the default guardrails apply.
    pub default_guardrails: bool,
    /// Whether the workload only reads.
    pub reads: bool,
    pub environment: &'static str,
    pub stop_on: &'static str,
    /// As the API has it where nothing is said.
    pub futility: Option<&'static str>,
    pub through: Through,
    /// One for each config beside the baseline.
    pub configs: Vec<Behaviour>,
    pub world: World,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            scenarios: 1,
            blocks: 30,
            metric: "throughput",
            margin: "5%",
            at_least: None,
            guardrail: None,
            default_guardrails: false,
            reads: false,
            environment: "Dedicated",
            stop_on: "Overall",
            futility: None,
            through: Through::Gates,
            configs: vec![Behaviour::default()],
            world: World::default(),
        }
    }
}

/// One experiment as it ended.
pub struct Ended {
    pub standings: Standings,
    /// By scenario, the baseline's throughputs and each config's.
    pub values: Vec<(Vec<f64>, Vec<Vec<f64>>)>,
    /// Stalled runs per config.
    pub stalls: Vec<usize>,
    /// Blocks until the decision, per config.
    pub blocks: Vec<usize>,
}

impl Ended {
    pub fn verdict(&self, config: usize) -> Verdict {
        self.standings.overall[config].outcome.verdict
    }

    pub fn any(&self, verdict: Verdict) -> bool {
        (0..self.standings.overall.len()).any(|config| self.verdict(config) == verdict)
    }

    pub fn count(&self, verdict: Verdict) -> usize {
        (0..self.standings.overall.len()).filter(|&config| self.verdict(config) == verdict).count()
    }

    /// Whether a config would be a Win by the first version of the rules: better over all scenarios, and proven worse in none. Of one metric.
    pub fn won_before(&self, config: usize) -> bool {
        let status = |found: &verdict::Conclusion| found.metrics[0].status;
        let cells = self.standings.cells.iter().skip(config).step_by(self.standings.overall.len());
        status(&self.standings.overall[config]) == Status::Better && cells.map(status).all(|s| s != Status::Worse)
    }
}

impl Setting {
    /// The experiment as a user would declare it.
    pub fn experiment(&self) -> Experiment {
        let configs: Vec<_> = (0..=self.configs.len())
            .map(|n| json!({"name": format!("config-{n}"), "dbOptions": {"max_background_jobs": 4 * (n + 1)}}))
            .collect();
        let mix = if self.reads { json!({"get": 1}) } else { json!({"put": 1}) };
        let role = json!({"name": "primary", "steps": STEPS as u64, "mix": mix});
        let workload = json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100}, "roles": [role]}});
        let scenarios: Vec<_> =
            (0..self.scenarios).map(|n| json!({"name": format!("scenario-{n}"), "workload": workload})).collect();
        let mut objective = json!({"metric": self.metric, "margin": self.margin});
        if let Some(least) = self.at_least {
            objective["atLeast"] = json!(least);
        }
        let guardrails = self.guardrail.map(|(metric, margin)| json!({"metric": metric, "margin": margin}));
        let default_guardrails = if self.default_guardrails { "Keep" } else { "Remove" };
        let mut document = json!({
            "apiVersion": "assay.rocks/v1alpha1",
            "kind": "TuningExperiment",
            "metadata": {"name": "calibration"},
            "spec": {
                "baseline": "config-0", "configs": configs, "scenarios": scenarios, "repetitions": self.blocks,
                "objectives": [objective], "guardrails": guardrails.as_slice(), "defaultGuardrails": default_guardrails,
                "placement": {"environment": self.environment},
                "stopOn": self.stop_on,
            },
        });
        if let Some(futility) = self.futility {
            document["spec"]["futility"] = json!(futility);
        }
        let validation = validate_document(&document);
        validation.experiment.unwrap_or_else(|| panic!("{:?}", validation.problems))
    }

    /// Runs the experiments of these numbers, which are added to the seed, on all cores, and hands what `read` makes of each back in their order.
    pub fn run<T: Send>(&self, numbers: Range<usize>, seed: u64, read: impl Fn(&Ended) -> T + Sync) -> Vec<T> {
        let experiment = self.experiment();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut read_all: Vec<(usize, T)> = thread::scope(|scope| {
            let work = |thread: usize| {
                let (experiment, read, numbers) = (&experiment, &read, &numbers);
                scope.spawn(move || {
                    let own = numbers.clone().skip(thread).step_by(threads);
                    own.map(|i| (i, read(&self.simulate(experiment, seed + i as u64)))).collect::<Vec<_>>()
                })
            };
            let handles: Vec<_> = (0..threads).map(work).collect();
            handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
        });
        read_all.sort_by_key(|(i, _)| *i);
        read_all.into_iter().map(|(_, read)| read).collect()
    }

    /// One experiment, from its first run to its verdict.
    pub fn simulate(&self, template: &Experiment, seed: u64) -> Ended {
        match self.through {
            Through::Gates => self.look_by_look(template, seed),
            Through::Decide => self.step_by_step(template, seed),
            Through::Verdict => self.samples_alone(template, seed, self.configs.len()),
            Through::VerdictOfFirst => self.samples_alone(template, seed, 1),
        }
    }

    /// Plans and measures, look by look, as an executor does: what does not count is tried again, and a config that was decided is not
    /// run any more.
    fn look_by_look(&self, template: &Experiment, seed: u64) -> Ended {
        let plan = Plan::new(Experiment { seed, ..template.clone() }).unwrap();
        let design = plan.experiment.design();
        let mut looks = design.looks.as_ref().map_or_else(Vec::new, |looks| looks.blocks.clone());
        if looks.last() != Some(&self.blocks) {
            looks.push(self.blocks);
        }
        let mut lab = Lab::new(self, &plan, seed);
        let mut first = 0;
        for look in looks {
            let due: Vec<(usize, Vec<usize>)> = {
                let places = Places::new(&plan, &lab.attempts).unwrap();
                let numbered = plan.blocks.iter().enumerate().zip(places.blocks());
                numbered
                    .filter(|((_, block), _)| (first..look).contains(&(block.number as usize)))
                    .map(|((position, _), state)| {
                        let wanted = |slot: &usize| state.places[*slot] != Place::Freed;
                        (position, (0..state.places.len()).filter(wanted).collect())
                    })
                    .collect()
            };
            for (position, slots) in due {
                lab.block(position, &slots);
            }
            first = look;
        }
        lab.ended()
    }

    /// Measures what the judge asks for, attempt by attempt.
    fn step_by_step(&self, template: &Experiment, seed: u64) -> Ended {
        let plan = Plan::new(Experiment { seed, ..template.clone() }).unwrap();
        let mut lab = Lab::new(self, &plan, seed);
        let mut said = Said::default();
        let boot = Digest::of(b"boot");
        loop {
            let now = Moment { unix_ms: lab.clock_unix_ms, boot: Some(&boot) };
            let action = Places::again(&plan, &lab.attempts, &mut said).unwrap().next(now);
            match action {
                Action::Run { block, slot, trial } => {
                    let share = slot as f64 / plan.blocks[block].slots.len() as f64;
                    lab.attempt(trial, block, share, self.world.disturbed.0);
                }
                Action::GiveUp { trial, .. } => {
                    let given_up = lab.template.lost(trial, lab.clock_unix_ms, LostReason::GivenUp);
                    lab.attempts.push(given_up);
                }
                // The executor pauses, and whatever disturbs the machine may be over afterwards.
                Action::Wait(wait) => lab.clock_unix_ms = wait.until_unix_ms,
                Action::Finished => return lab.ended(),
            }
        }
    }

    /// Makes the samples of so many configs block by block, so that those of the same seed are the same in a longer experiment.
    fn samples_alone(&self, template: &Experiment, seed: u64, configs: usize) -> Ended {
        assert!(self.world.drift == 0.0, "runs of a block have no order here");
        let design = template.design();
        let mut noise = Noise::new(seed);
        let mut machines = Machines::new(&self.world, &mut noise);
        let none = MetricSamples {
            baseline: vec![vec![None; design.m0]; self.blocks],
            configs: (0..design.configs.len())
                .map(|config| vec![None; if config < configs { self.blocks } else { 0 }])
                .collect(),
        };
        let mut samples = vec![vec![none; design.metrics.len()]; self.scenarios];
        let mut values = vec![(Vec::new(), vec![Vec::new(); self.configs.len()]); self.scenarios];
        let mut stalled = vec![Vec::new(); self.configs.len()];
        for block in 0..self.blocks {
            for scenario in 0..self.scenarios {
                for replicate in 0..design.m0 {
                    let run = machines.run(None, scenario, block, 0.0, &mut noise);
                    values[scenario].0.push(run.throughput);
                    for (rule, samples) in design.metrics.iter().zip(&mut samples[scenario]) {
                        samples.baseline[block][replicate] = self.value(&rule.name, &run, None);
                    }
                }
                for (config, own) in self.configs.iter().enumerate().take(configs) {
                    let run = machines.run(Some(own), scenario, block, 0.0, &mut noise);
                    values[scenario].1[config].push(run.throughput);
                    if run.stalled {
                        stalled[config].push(block);
                    }
                    for (rule, samples) in design.metrics.iter().zip(&mut samples[scenario]) {
                        samples.configs[config][block] = self.value(&rule.name, &run, Some(own));
                    }
                }
            }
        }
        let observed = Observed { samples, ended: true, ..Observed::default() };
        let judgement = verdict::judge(&design, &observed, Intervals::None).unwrap();
        let blocks: Vec<usize> =
            judgement.overall.iter().map(|found| found.stopped_at.unwrap_or(self.blocks)).collect();
        let seen = |(stalled, last): (&Vec<usize>, &usize)| stalled.iter().filter(|block| *block < last).count();
        let stalls = stalled.iter().zip(&blocks).map(seen).collect();
        let standings = Standings {
            overall: judgement.overall.into_iter().map(|found| found.conclusion).take(configs).collect(),
            cells: judgement.cells.into_iter().map(|found| found.conclusion).collect(),
        };
        Ended { standings, values, stalls, blocks }
    }

    fn value(&self, metric: &str, run: &Run, own: Option<&Behaviour>) -> Option<f64> {
        measured(self, run, own, false).into_iter().find_map(|(name, value)| (name == metric).then_some(value))
    }
}

/// The machines that an experiment runs on, and what came of it.
struct Lab<'a> {
    setting: &'a Setting,
    plan: &'a Plan,
    template: Template,
    noise: Noise,
    machines: Machines,
    /// By config and scenario: blocks in which it fails.
    failing: Vec<Vec<Vec<usize>>>,
    /// Blocks whose latencies exceed the histogram, by config and scenario.
    saturated: Vec<Vec<Vec<usize>>>,
    attempts: Vec<Attempt>,
    clock_unix_ms: u64,
    weather: Weather,
    values: Vec<(Vec<f64>, Vec<Vec<f64>>)>,
    stalls: Vec<usize>,
    blocks: Vec<usize>,
}

/// Stretches of time in which everything is disturbed.
struct Weather {
    is_disturbed: bool,
    until_unix_ms: u64,
}

/// Outcome of an attempt.
enum Came {
    Counts,
    Failed,
    Lost,
    /// It does not count, because of the machine or not.
    Repeat {
        disturbed: bool,
    },
}

/// What became of a place.
enum Try {
    Counts,
    Failed,
    Empty,
}

impl<'a> Lab<'a> {
    fn new(setting: &'a Setting, plan: &'a Plan, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let machines = Machines::new(&setting.world, &mut noise);
        let mut chosen = |count: fn(&Behaviour) -> usize| -> Vec<Vec<Vec<usize>>> {
            let mut blocks = |config: &Behaviour| {
                let mut left: Vec<usize> = (0..setting.blocks).collect();
                (0..count(config)).map(|_| left.swap_remove(noise.below(left.len()))).collect()
            };
            let of = |config| (0..setting.scenarios).map(|_| blocks(config)).collect();
            setting.configs.iter().map(of).collect()
        };
        let (failing, saturated) = (chosen(|config| config.fails), chosen(|config| config.saturates));
        let start = 1_700_000_000_000;
        let weather = Weather { is_disturbed: noise.hits(setting.world.stretches.0), until_unix_ms: start };
        let mut lab = Self {
            setting,
            plan,
            template: Template::new(&plan.digest),
            noise,
            machines,
            failing,
            saturated,
            attempts: Vec::new(),
            clock_unix_ms: start,
            weather,
            values: vec![(Vec::new(), vec![Vec::new(); setting.configs.len()]); setting.scenarios],
            stalls: vec![0; setting.configs.len()],
            blocks: vec![0; setting.configs.len()],
        };
        lab.weather.until_unix_ms += lab.spell();
        lab
    }

    /// How long the weather stays as it is. It has no memory, so what is left of a stretch is as long as a new one.
    fn spell(&mut self) -> u64 {
        let (share, runs) = self.setting.world.stretches;
        let mean = if self.weather.is_disturbed { runs } else { runs * (1.0 / share - 1.0) };
        (mean * self.noise.exponential() * self.setting.world.minutes * MINUTE_MS as f64) as u64
    }

    fn is_disturbed(&mut self) -> bool {
        if self.setting.world.stretches.0 == 0.0 {
            return false;
        }
        while self.weather.until_unix_ms <= self.clock_unix_ms {
            self.weather.is_disturbed = !self.weather.is_disturbed;
            self.weather.until_unix_ms += self.spell().max(1);
        }
        self.weather.is_disturbed
    }

    /// Runs a block, again as a whole where a run of the baseline was lost.
    fn block(&mut self, position: usize, slots: &[usize]) {
        for pass in 0..PASSES {
            let mut lost = false;
            let until = self.clock_unix_ms + 1000 * self.plan.experiment.max_block_duration_seconds;
            for (place, &slot) in slots.iter().enumerate() {
                // A block that takes too long is run again; at last, what is open stays open.
                if self.clock_unix_ms > until {
                    lost = true;
                    break;
                }
                let share = place as f64 / slots.len() as f64;
                let is_baseline = self.plan.blocks[position].slots[slot].config == "config-0";
                let seen = self.place(position, slot, share, pass);
                lost |= is_baseline && matches!(seen, Try::Empty);
            }
            if !lost {
                return;
            }
        }
    }

    fn place(&mut self, position: usize, slot: usize, share: f64, pass: u32) -> Try {
        let (chance, sticky) = self.setting.world.disturbed;
        let mut before = false;
        for attempt in 0..TRIES {
            let id = self.plan.blocks[position].trial(slot, pass * TRIES + attempt).unwrap();
            match self.attempt(id, position, share, if before { sticky } else { chance }) {
                Came::Counts => return Try::Counts,
                Came::Failed => return Try::Failed,
                Came::Lost => before = false,
                Came::Repeat { disturbed } => before = disturbed,
            }
        }
        Try::Empty
    }

    /// Runs a trial, which lies at this share of its block and is disturbed with this chance.
    fn attempt(&mut self, id: TrialId, position: usize, share: f64, disturbed: f64) -> Came {
        let (setting, world) = (self.setting, &self.setting.world);
        let config = id.config.strip_prefix("config-").unwrap().parse::<usize>().unwrap().checked_sub(1);
        let scenario = id.scenario.strip_prefix("scenario-").unwrap().parse::<usize>().unwrap();
        let own = config.map(|config| &setting.configs[config]);
        let number = id.block as usize;
        let started = self.clock_unix_ms;
        if let Some(config) = config {
            self.blocks[config] = self.blocks[config].max(number + 1);
        }
        let fails = config.is_some_and(|config| self.failing[config][scenario].contains(&number))
            || (world.first_fails && share == 0.0)
            || (config.is_none() && world.baseline_failing > 0.0 && self.noise.hits(world.baseline_failing));
        if fails || self.noise.hits(world.failing) {
            self.attempts.push(self.template.failed(id, started));
            return Came::Failed;
        }
        let mut run = self.machines.run(own, scenario, position, share, &mut self.noise);
        if world.cold > 0.0 && self.is_first_of_pass(&id) {
            run.throughput *= (-world.cold).exp();
            run.drained *= (-world.cold).exp();
        }
        let is_slow = |limit: Option<f64>| limit.is_some_and(|limit| run.luck < limit);
        let lost = match world.lost {
            _ if is_slow(own.and_then(|own| own.evicts_slow)) => Some(LostReason::Evicted),
            Some((chance, reason)) if self.noise.hits(chance) => Some(reason),
            _ => None,
        };
        if let Some(reason) = lost {
            self.clock_unix_ms += self.minutes(&run);
            self.attempts.push(self.template.lost(id, started, reason));
            return Came::Lost;
        }
        let too_slow = is_slow(own.and_then(|own| own.loses_slow));
        let hidden = run.stalled && own.is_some_and(|own| own.stalls_invalid);
        if let Some(config) = config {
            self.stalls[config] += usize::from(run.stalled);
        }
        let disturbed = if world.in_time { 1.0 - (1.0 - disturbed).powf(1000.0 / run.throughput) } else { disturbed };
        let disturbed = self.noise.hits(disturbed) || self.is_disturbed();
        let is_repeated = too_slow || hidden || self.noise.hits(own.map_or(0.0, |own| own.lost)) || disturbed;
        let mut also = Also { disturbed: is_repeated.then_some(Cause::Clock), ..Also::default() };
        if disturbed && world.disturbance != Disturbance::Still {
            let slowness = self.noise.slowness();
            if !own.is_some_and(|own| own.io_bound) {
                run.throughput /= slowness.exp();
                run.drained /= slowness.exp();
            }
            let known = 1.0 + KNOWN_WITHIN * (2.0 * self.noise.uniform() - 1.0);
            let cause = if self.noise.hits(0.5) { Cause::Steal } else { Cause::Foreign };
            if world.disturbance == Disturbance::Slow {
                run.taken = (1.0 - (-slowness).exp()) * known;
                also.disturbed = Some(cause);
            }
        }
        self.clock_unix_ms += self.minutes(&run);
        also.waits = self.noise.hits(own.map_or(world.baseline_waits, |own| own.waits));
        also.saturated = config.is_some_and(|config| self.saturated[config][scenario].contains(&number));
        also.zero = own.is_some_and(|own| self.noise.hits(own.zeros));
        self.attempts.push(self.template.ended(setting, id, run, own, started, also));
        if is_repeated {
            return Came::Repeat { disturbed };
        }
        match config {
            Some(config) => self.values[scenario].1[config].push(run.throughput),
            None => self.values[scenario].0.push(run.throughput),
        }
        Came::Counts
    }

    fn is_first_of_pass(&self, id: &TrialId) -> bool {
        let of_pass = |seen: &TrialId| {
            (&seen.scenario, seen.block, seen.attempt / TRIES) == (&id.scenario, id.block, id.attempt / TRIES)
        };
        !self.attempts.iter().any(|attempt| of_pass(attempt.trial()))
    }

    fn minutes(&self, run: &Run) -> u64 {
        (self.setting.world.minutes * 1000.0 / run.throughput * MINUTE_MS as f64) as u64
    }

    fn ended(self) -> Ended {
        let places = Places::new(self.plan, &self.attempts).unwrap();
        let standings = judge::standings(&places, &self.plan.experiment.design()).unwrap();
        Ended { standings, values: self.values, stalls: self.stalls, blocks: self.blocks }
    }
}
