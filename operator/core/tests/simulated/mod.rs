//! Experiments whose truth is known: the real planner, made-up runs in the planned order, the real judgement with all of its gates.

pub mod naive;
pub mod rates;
pub mod rows;
mod runs;
pub mod world;

use std::thread;

use assay_core::{
    attempt::Attempt,
    decide::{Place, Places},
    experiment::Experiment,
    judge::{self, Standings},
    plan::Plan,
    validate::validate_document,
    verdict::{Status, Verdict},
};
use assay_protocol::TrialId;
use runs::Template;
use serde_json::json;
use world::{Behaviour, Machines, Noise, World};

/// Steps of a run.
pub const STEPS: f64 = 100_000.0;

/// Tries of a run, and passes over a block, that an executor makes.
const TRIES: u32 = 3;
const PASSES: u32 = 3;

const MINUTE_MS: u64 = 60_000;

/// A kind of experiment.
#[derive(Clone, Debug)]
pub struct Setting {
    pub scenarios: usize,
    pub blocks: usize,
    pub metric: &'static str,
    pub margin: &'static str,
    pub at_least: Option<&'static str>,
    /// What must not get worse, if anything, by the same margin.
    pub guardrail: Option<&'static str>,
    pub environment: &'static str,
    pub stop_on: &'static str,
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
            environment: "Dedicated",
            stop_on: "Overall",
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
    /// Of each config, whether any of its runs stalled.
    pub stalled: Vec<bool>,
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
        let status = |found: &assay_core::verdict::Conclusion| found.metrics[0].status;
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
        let role = json!({"name": "writer", "steps": STEPS as u64, "mix": {"put": 1}});
        let workload = json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100}, "roles": [role]}});
        let scenarios: Vec<_> =
            (0..self.scenarios).map(|n| json!({"name": format!("scenario-{n}"), "workload": workload})).collect();
        let mut objective = json!({"metric": self.metric, "margin": self.margin});
        if let Some(least) = self.at_least {
            objective["atLeast"] = json!(least);
        }
        let guardrails = self.guardrail.map(|metric| json!({"metric": metric, "margin": self.margin}));
        let document = json!({
            "apiVersion": "assay.rocks/v1alpha1",
            "kind": "TuningExperiment",
            "metadata": {"name": "calibration"},
            "spec": {
                "baseline": "config-0", "configs": configs, "scenarios": scenarios, "repetitions": self.blocks,
                "objectives": [objective], "guardrails": guardrails.as_slice(), "defaultGuardrails": "Remove", "placement": {"environment": self.environment},
                "stopOn": self.stop_on,
            },
        });
        let validation = validate_document(&document);
        validation.experiment.unwrap_or_else(|| panic!("{:?}", validation.problems))
    }

    /// Runs `count` experiments with seeds from `seed` on all cores, and hands what `read` makes of each back in their order.
    pub fn run<T: Send>(&self, count: usize, seed: u64, read: impl Fn(&Ended) -> T + Sync) -> Vec<T> {
        let experiment = self.experiment();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut read_all: Vec<(usize, T)> = thread::scope(|scope| {
            let work = |thread: usize| {
                let (experiment, read) = (&experiment, &read);
                scope.spawn(move || {
                    let own = (thread..count).step_by(threads);
                    own.map(|i| (i, read(&self.simulate(experiment, seed + i as u64)))).collect::<Vec<_>>()
                })
            };
            let handles: Vec<_> = (0..threads).map(work).collect();
            handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
        });
        read_all.sort_by_key(|(i, _)| *i);
        read_all.into_iter().map(|(_, read)| read).collect()
    }

    /// Plans and measures, look by look, as an executor does: what does not count is tried again, and a config that was decided is not
    /// run any more.
    pub fn simulate(&self, template: &Experiment, seed: u64) -> Ended {
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
    attempts: Vec<Attempt>,
    clock_unix_ms: u64,
    values: Vec<(Vec<f64>, Vec<Vec<f64>>)>,
    stalled: Vec<bool>,
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
        let failing = setting
            .configs
            .iter()
            .map(|config| {
                let mut blocks = || {
                    let mut left: Vec<usize> = (0..setting.blocks).collect();
                    (0..config.fails).map(|_| left.swap_remove(noise.below(left.len()))).collect()
                };
                (0..setting.scenarios).map(|_| blocks()).collect()
            })
            .collect();
        Self {
            setting,
            plan,
            template: Template::new(&plan.digest),
            noise,
            machines,
            failing,
            attempts: Vec::new(),
            clock_unix_ms: 1_700_000_000_000,
            values: vec![(Vec::new(), vec![Vec::new(); setting.configs.len()]); setting.scenarios],
            stalled: vec![false; setting.configs.len()],
        }
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
        let block = &self.plan.blocks[position];
        let config = block.slots[slot].config.strip_prefix("config-").unwrap().parse::<usize>().unwrap().checked_sub(1);
        let scenario = block.scenario.strip_prefix("scenario-").unwrap().parse::<usize>().unwrap();
        let behaviour = config.map(|config| self.setting.configs[config].clone());
        let number = block.number as usize;
        let (chance, sticky) = self.setting.world.disturbed;
        let mut before = false;
        for attempt in 0..TRIES {
            let id: TrialId = block.trial(slot, pass * TRIES + attempt).unwrap();
            let fails = config.is_some_and(|config| self.failing[config][scenario].contains(&number))
                || (self.setting.world.first_fails && share == 0.0);
            if fails || self.noise.hits(self.setting.world.failing) {
                self.attempts.push(self.template.failed(id, self.clock_unix_ms));
                return Try::Failed;
            }
            let mut run = self.machines.run(behaviour.as_ref(), scenario, position, share, &mut self.noise);
            let started = self.clock_unix_ms;
            self.clock_unix_ms += (self.setting.world.minutes * 1000.0 / run.throughput * MINUTE_MS as f64) as u64;
            let own = behaviour.as_ref().map_or(0.0, |behaviour| behaviour.lost);
            let too_slow = behaviour.as_ref().and_then(|own| own.loses_slow).is_some_and(|limit| run.luck < limit);
            let hidden = run.stalled && behaviour.as_ref().is_some_and(|own| own.stalls_invalid);
            if let Some(config) = config {
                self.stalled[config] |= run.stalled;
            }
            let disturbed = self.noise.hits(if before { sticky } else { chance });
            if disturbed && self.setting.world.disturbed_slow {
                run.throughput /= self.noise.slowness().exp();
            }
            before = too_slow || hidden || self.noise.hits(own) || disturbed;
            if before {
                self.attempts.push(self.template.disturbed(self.setting, id, run, behaviour.as_ref(), started));
                continue;
            }
            let zero = behaviour.as_ref().is_some_and(|behaviour| self.noise.hits(behaviour.zeros));
            self.attempts.push(self.template.ended(self.setting, id, run, behaviour.as_ref(), started, zero));
            match config {
                Some(config) => {
                    self.values[scenario].1[config].push(run.throughput);
                }
                None => self.values[scenario].0.push(run.throughput),
            }
            return Try::Counts;
        }
        Try::Empty
    }

    fn ended(self) -> Ended {
        let places = Places::new(self.plan, &self.attempts).unwrap();
        let standings = judge::standings(&places, &self.plan.experiment.design()).unwrap();
        Ended { standings, values: self.values, stalled: self.stalled }
    }
}
