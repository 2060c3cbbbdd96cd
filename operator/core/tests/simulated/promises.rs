//! Designs drawn at random, what a plan promises of them, and how often simulated experiments keep it.

use assay_core::{
    plan::power::{Power, spreads},
    stats::{Adjust, Direction, Scale, default_m0, plan_looks},
    verdict::{
        Design, Intervals, LookPlan, MetricRule, MetricSamples, Observed, Purpose, Scenario, StopOn, Verdict, judge,
    },
};
use rand_chacha::{
    ChaCha20Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

/// How far apart blocks are, beside what runs scatter: it cancels in each of them.
const BETWEEN: f64 = 0.1;
/// Correlation of the guardrail's noise with the objective's.
const SHARED: f64 = 0.7;

/// A promise of 80 %, and how often it was kept.
#[derive(Debug)]
pub struct Kept {
    pub what: String,
    pub hits: usize,
    pub experiments: usize,
}

/// The largest designs that are drawn.
pub struct Limits {
    pub configs: usize,
    pub scenarios: usize,
    pub blocks: usize,
    /// Standard deviation of a run.
    pub noise: f64,
}

struct Draw(ChaCha20Rng);

impl Draw {
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn within(&mut self, low: usize, high: usize) -> usize {
        low + ((high - low + 1) as f64 * self.uniform()) as usize
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Draws a design and one promise about it. `None` where it promises nothing.
pub fn promise(seed: u64, most: &Limits, experiments: usize, threads: usize) -> Option<Kept> {
    let mut draw = Draw(ChaCha20Rng::seed_from_u64(seed));
    let (configs, scenarios) = (draw.within(1, most.configs), draw.within(1, most.scenarios));
    let blocks = draw.within(6, most.blocks);
    let noise = 0.02 + (most.noise - 0.02) * draw.uniform();
    let rule = |name: &str, purpose| MetricRule::new(name, Direction::Higher, purpose, 0.05, Scale::Log);
    let mut metrics = vec![rule("throughput", Purpose::Objective)];
    if draw.uniform() < 0.5 {
        metrics.push(rule("drained_throughput", Purpose::Guardrail));
    }
    let has_looks = draw.uniform() < 0.7;
    let looks = plan_looks(blocks, configs);
    let design = Design {
        metrics,
        scenarios: (0..scenarios).map(|n| Scenario { name: format!("scenario-{n}"), weight: 1.0 }).collect(),
        configs: (0..configs).map(|n| format!("config-{n}")).collect(),
        m0: default_m0(configs),
        max_blocks: blocks,
        looks: (has_looks && looks.len() > 1).then_some(LookPlan {
            blocks: looks,
            stop_on: StopOn::Overall,
            futility: draw.uniform() < 0.3,
        }),
        cells_adjust: Adjust::Holm,
    };
    let power = Power::new(&design, &spreads(&design, &vec![noise; scenarios]), threads)?;
    let margin = 1.05_f64.ln();
    let (what, design, effect, wanted) = match draw.within(0, 4) {
        0 => {
            let gain = power.gain().found()?;
            (format!("gains from {gain:.3}"), design, gain.ln_1p(), Verdict::Win)
        }
        1 => {
            let loss = power.loss().found()?;
            let effect = if loss > 0.05 { (-loss).ln_1p() } else { -margin };
            (format!("losses from {loss:.3}"), design, effect, Verdict::Reject)
        }
        2 => {
            let blocks = power.blocks_for_neutral()?;
            (format!("{blocks} blocks for Neutral"), design.repeated(blocks), 0.0, Verdict::Neutral)
        }
        3 => {
            let blocks = power.blocks_for_win()?;
            (format!("{blocks} blocks for Win"), design.repeated(blocks), margin, Verdict::Win)
        }
        _ => {
            let blocks = power.blocks_for_reject()?;
            (format!("{blocks} blocks for Reject"), design.repeated(blocks), -margin, Verdict::Reject)
        }
    };
    let mut is_kept = || {
        let observed = experiment(&design, noise, effect, &mut draw);
        judge(&design, &observed, Intervals::None).unwrap().overall[0].conclusion.outcome.verdict == wanted
    };
    let hits = (0..experiments).filter(|_| is_kept()).count();
    let asked =
        design.looks.as_ref().map_or_else(|| "one look".to_owned(), |looks| format!("looks {:?}", looks.blocks));
    let what = format!(
        "{what}: {configs} configs, {scenarios} scenarios, {} blocks, {asked}, noise {:.1} %, {} metrics",
        design.max_blocks,
        100.0 * noise,
        design.metrics.len()
    );
    Some(Kept { what, hits, experiments })
}

/// All configs have runs; the first has the effect on the objective, and the others are as the baseline.
fn experiment(design: &Design, noise: f64, effect: f64, draw: &mut Draw) -> Observed {
    let sample = || MetricSamples {
        baseline: vec![Vec::new(); design.max_blocks],
        configs: vec![vec![None; design.max_blocks]; design.configs.len()],
    };
    let mut samples = vec![vec![sample(); design.metrics.len()]; design.scenarios.len()];
    for rows in &mut samples {
        for block in 0..design.max_blocks {
            let level = BETWEEN * draw.normal();
            for run in 0..design.m0 + design.configs.len() {
                let objective = draw.normal();
                for (metric, row) in rows.iter_mut().enumerate() {
                    let own = if metric == 0 {
                        objective
                    } else {
                        SHARED * objective + (1.0 - SHARED * SHARED).sqrt() * draw.normal()
                    };
                    let moved = if metric == 0 && run == design.m0 { effect } else { 0.0 };
                    let value = Some((level + moved + noise * own).exp());
                    match run.checked_sub(design.m0) {
                        Some(config) => row.configs[config][block] = value,
                        None => row.baseline[block].push(value),
                    }
                }
            }
        }
    }
    Observed { samples, ended: true, ..Observed::default() }
}
