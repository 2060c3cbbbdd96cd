//! Experiments whose truth is known: the real planner, made-up runs in the planned order, the real judgement.

pub mod naive;
mod noise;
pub mod rates;

use std::thread;

use assay_core::{
    experiment::Experiment,
    plan::Plan,
    stats::plan_looks,
    validate::validate_document,
    verdict::{self, Design, Intervals, Judgement, LookPlan, MetricSamples, Observed, StopOn, Verdict},
};
use noise::{Noise, World};
use serde_json::json;

/// A kind of experiment.
#[derive(Clone, Debug)]
pub struct Setting {
    pub scenarios: usize,
    pub blocks: usize,
    /// Spread of single runs.
    pub cv: f64,
    /// What each config really does to throughput: 0.05 is 5 % more.
    pub effects: Vec<f64>,
}

/// One experiment as it ended.
pub struct Ended {
    pub judgement: Judgement,
    pub observed: Observed,
    /// Runs of configs that were made, as a share of those of an experiment without early stops.
    pub used: f64,
}

impl Ended {
    pub fn verdict(&self, config: usize) -> Verdict {
        self.judgement.overall[config].conclusion.outcome.verdict
    }

    pub fn any(&self, verdict: Verdict) -> bool {
        (0..self.judgement.overall.len()).any(|config| self.verdict(config) == verdict)
    }
}

impl Setting {
    /// The experiment as a user would declare it.
    fn experiment(&self) -> Experiment {
        let configs: Vec<_> = (0..=self.effects.len())
            .map(|n| json!({"name": format!("config-{n}"), "dbOptions": {"max_background_jobs": n + 1}}))
            .collect();
        let role = json!({"name": "writer", "steps": 100_000, "mix": {"put": 1}});
        let workload = json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 100}, "roles": [role]}});
        let scenarios: Vec<_> =
            (0..self.scenarios).map(|n| json!({"name": format!("scenario-{n}"), "workload": workload})).collect();
        let document = json!({
            "apiVersion": "assay.rocks/v1alpha1",
            "kind": "TuningExperiment",
            "metadata": {"name": "calibration"},
            "spec": {
                "baseline": "config-0", "configs": configs, "scenarios": scenarios, "repetitions": self.blocks,
                "objectives": [{"metric": "throughput", "margin": "5%"}], "defaultGuardrails": "Remove",
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

    /// Plans and measures, look by look; a config that was stopped is not run again.
    fn simulate(&self, template: &Experiment, seed: u64) -> Ended {
        let plan = Plan::new(Experiment { seed, ..template.clone() }).unwrap();
        let design = self.design(&plan.experiment);
        let looks = design.looks.as_ref().map(|looks| looks.blocks.clone()).unwrap();
        let (k, mut noise) = (design.configs.len(), Noise::new(seed));
        let world = World::new(self.cv, &mut noise);
        let empty = MetricSamples { baseline: Vec::new(), configs: vec![Vec::new(); k] };
        let mut observed = Observed { samples: vec![vec![empty]; design.scenarios.len()], ..Observed::default() };
        let (mut stopped, mut first, mut used) = (vec![false; k], 0, 0);
        loop {
            let look = looks.iter().copied().find(|&look| look > first).unwrap();
            let due = plan.blocks.iter().enumerate();
            for (position, block) in due.filter(|(_, block)| (first..look).contains(&(block.number as usize))) {
                let scenario = design.scenarios.iter().position(|s| s.name == block.scenario).unwrap();
                let MetricSamples { baseline, configs } = &mut observed.samples[scenario][0];
                baseline.push(vec![None; design.m0]);
                let index = |name: &str| design.configs.iter().position(|config| config == name);
                let slots: Vec<_> = block.slots.iter().map(|slot| (index(&slot.config), slot.replicate)).collect();
                let due: Vec<_> = slots.into_iter().filter(|(config, _)| config.is_none_or(|c| !stopped[c])).collect();
                for (place, &(config, replicate)) in due.iter().enumerate() {
                    let effect = config.map_or(0.0, |c| self.effects[c]);
                    let value = world.throughput(effect, position, place as f64 / due.len() as f64, &mut noise);
                    match config {
                        Some(config) => {
                            configs[config].push(Some(value));
                            used += 1;
                        }
                        None => baseline.last_mut().unwrap()[replicate as usize] = Some(value),
                    }
                }
            }
            first = look;
            let judgement = verdict::judge(&design, &observed, Intervals::None).unwrap();
            for (stopped, found) in stopped.iter_mut().zip(&judgement.overall) {
                *stopped = found.stopped_at.is_some();
            }
            if stopped.iter().all(|&stopped| stopped) {
                let used = used as f64 / (k * design.scenarios.len() * design.max_blocks) as f64;
                return Ended { judgement, observed, used };
            }
        }
    }

    fn design(&self, experiment: &Experiment) -> Design {
        let design = experiment.design();
        let claims = design.families().overall.better;
        let blocks = plan_looks(self.blocks, claims);
        Design { looks: Some(LookPlan { blocks, stop_on: StopOn::Overall, futility: true }), ..design }
    }
}
