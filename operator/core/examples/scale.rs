//! Times the judgement of a large experiment: 64 configs x 32 scenarios x 30 blocks x 2 metrics, 4 baseline runs a block.
//!
//! `cargo run --release -p assay-core --example scale`

use std::time::Instant;

use assay_core::{
    stats::{Adjust, Direction, Scale},
    verdict::{
        Design, Intervals, JudgeError, LookPlan, MetricRule, MetricSamples, Observed, Purpose, Scenario, StopOn, judge,
    },
};

const CONFIGS: usize = 64;
const SCENARIOS: usize = 32;
const BLOCKS: usize = 30;
const M0: usize = 4;

/// Noise of about 8 % that is the same in every run of this program.
fn noise(state: &mut u64) -> f64 {
    let mut uniform = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as f64 / (1_u64 << 31) as f64
    };
    (0.16 * (uniform() + uniform() + uniform() - 1.5)).exp()
}

fn main() -> Result<(), JudgeError> {
    let metric = |name: &str, direction, purpose| MetricRule::new(name, direction, purpose, 0.05, Scale::Log);
    let fixed = Design {
        metrics: vec![
            metric("throughput", Direction::Higher, Purpose::Objective),
            metric("p99", Direction::Lower, Purpose::Guardrail),
        ],
        scenarios: (0..SCENARIOS).map(|s| Scenario { name: format!("scenario-{s}"), weight: 1.0 }).collect(),
        configs: (0..CONFIGS).map(|c| format!("config-{c}")).collect(),
        m0: M0,
        max_blocks: BLOCKS,
        looks: None,
        cells_adjust: Adjust::Holm,
    };
    let mut state = 42;
    let mut row = || MetricSamples {
        baseline: (0..BLOCKS).map(|_| (0..M0).map(|_| Some(noise(&mut state))).collect()).collect(),
        configs: (0..CONFIGS).map(|_| (0..BLOCKS).map(|_| Some(noise(&mut state))).collect()).collect(),
    };
    let samples = (0..SCENARIOS).map(|_| vec![row(), row()]).collect();
    // Each block begins elsewhere in the list of runs.
    let position = |run: usize, block: usize| Some(((run * 29 + block * 7) % (CONFIGS + M0)) as f64);
    let order = MetricSamples {
        baseline: (0..BLOCKS).map(|block| (0..M0).map(|run| position(run, block)).collect()).collect(),
        configs: (0..CONFIGS).map(|c| (0..BLOCKS).map(|block| position(M0 + c, block)).collect()).collect(),
    };
    let positions = vec![order; SCENARIOS];
    let observed = Observed { samples, positions, ended: true, ..Observed::default() };

    let looks = LookPlan { blocks: vec![12, 20, BLOCKS], stop_on: StopOn::Cells, futility: false };
    let sequential = Design { looks: Some(looks), ..fixed.clone() };
    for (what, design, intervals) in [
        ("verdicts, one look", &fixed, Intervals::None),
        ("verdicts, three looks, nobody stops early", &sequential, Intervals::None),
        ("verdicts and intervals of the overall estimates", &fixed, Intervals::Overall),
        ("verdicts and all intervals", &fixed, Intervals::All),
    ] {
        let start = Instant::now();
        let judgement = judge(design, &observed, intervals)?;
        println!("{:8.2} s  {what} ({} cells)", start.elapsed().as_secs_f64(), judgement.cells.len());
    }
    Ok(())
}
