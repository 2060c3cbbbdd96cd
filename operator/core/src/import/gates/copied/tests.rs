use std::f64::consts::TAU;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::json;

use super::*;
use crate::import::{Collector, Place, Policy};

/// Runs as rows: config, block and the values of one or two metrics.
type Row = (&'static str, u32, Vec<f64>);

/// The findings about runs of one scenario, as messages, and the configs that they are about.
fn found(rows: &[Row], deterministic: bool) -> Vec<(Option<String>, String)> {
    found_of(rows, "ops", deterministic)
}

fn found_of(rows: &[Row], objective: &str, deterministic: bool) -> Vec<(Option<String>, String)> {
    let policy = json!({
        "baseline": "a",
        "objectives": [{"metric": objective, "direction": "higher", "margin": "5%", "deterministic": deterministic}],
        "guardrails": [{"metric": "p99", "direction": "lower", "margin": "5%"}],
    });
    let policy = Policy::read(&policy).expect("the policy is valid");
    let rules = policy.rules();
    let mut to = Collector::new(&policy);
    let file = to.file("runs.csv");
    for (line, (config, block, values)) in rows.iter().enumerate() {
        let place = Place { file, line: line as u64 + 2 };
        let block = block.to_string();
        for (metric, value) in [objective, "p99"].into_iter().zip(values) {
            let value = value.to_string();
            let fields = [("config", *config), ("metric", metric), ("value", value.as_str())];
            // Block 0 is none.
            let block = [("block", block.as_str())].into_iter().filter(|(_, block)| *block != "0");
            to.row(place, fields.into_iter().chain(block));
        }
    }
    // Without a guardrail its absence is a problem of another kind, so the data is taken as it is.
    let data = to.into_data();
    let session = data.names.find("").expect("runs have no session");
    let comparison = Comparison::new(&data, &policy, &rules, session, "a").expect("runs can be compared");
    let mut gated = Gated::default();
    check(&comparison, comparison.scenarios[0], &mut gated);
    let cells = gated.cells.iter().flat_map(|((_, arm), findings)| findings.iter().map(move |finding| (arm, finding)));
    cells.map(|(arm, finding)| (arm.map(|arm| comparison.text(arm).to_owned()), finding.message.clone())).collect()
}

/// A source of noise.
struct Noise(ChaCha8Rng);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A value that varies by so much around a level.
    fn around(&mut self, level: f64, by: f64) -> f64 {
        let mut uniform = || (f64::from(self.0.next_u32()) + 1.0) / (f64::from(u32::MAX) + 2.0);
        level * (1.0 + by * (-2.0 * uniform().ln()).sqrt() * (TAU * uniform()).cos())
    }

    /// Blocks in which two configs ran, with so much noise.
    fn rows(&mut self, blocks: u32, by: f64, metrics: usize) -> Vec<Row> {
        let arms = [("a", 48_211.3, 153.77), ("b", 51_904.8, 149.25)];
        let rows = (1..=blocks).flat_map(|block| arms.map(|(config, ops, p99)| (config, block, ops, p99)));
        let rows: Vec<_> = rows.collect();
        let of = |noise: &mut Self, ops: f64, p99: f64| {
            let values = [round(noise.around(ops, by), 1), round(noise.around(p99, 3.0 * by), 3)];
            values[..metrics].to_vec()
        };
        rows.into_iter().map(|(config, block, ops, p99)| (config, block, of(self, ops, p99))).collect()
    }
}

fn round(value: f64, places: i32) -> f64 {
    let unit = 10.0_f64.powi(places);
    (value * unit).round() / unit
}

fn is_copied(rows: &[Row]) -> bool {
    !found(rows, false).is_empty()
}

#[test]
fn chances_are_those_of_the_books() {
    assert_eq!((choose(12, 2), choose(5, 0), choose(1, 2)), (66.0, 1.0, 0.0));
    assert_eq!(at_least(0, 3.0), 1.0);
    assert!((at_least(1, 0.1) - 0.095_16).abs() < 1e-5);
    assert!((at_least(3, 0.5) - 0.014_39).abs() < 1e-5);
    assert!(at_least(5, 1e6) > 0.99);
}

#[test]
fn metrics_that_rank_alike_are_one() {
    let rates = [812.3, 790.1, 805.5, 801.2, 799.9, 815.0];
    let latencies = rates.map(|rate| 1e6 / rate);
    assert!(alike(&ranks(&rates), &ranks(&latencies)));
    assert!(!alike(&ranks(&rates), &ranks(&[3.0, 5.0, 1.0, 2.0, 6.0, 4.0])));
}

/// What the documentation promises, on machines from very quiet to very noisy, with metrics that depend on each other and without, and
/// with values of five to fifteen digits.
#[test]
fn honest_runs_are_hardly_ever_taken_for_copies() {
    const TRIES: u64 = 150;
    let mut worst = Vec::new();
    for by in [0.001, 0.003, 0.01, 0.05] {
        for (kind, shape) in [("one", 1), ("two", 2), ("alike", 2), ("clock", 2), ("digits", 1)] {
            let copied = (0..TRIES).filter(|seed| {
                let mut rows = Noise::new(*seed).rows(12, by, shape);
                for (_, _, values) in &mut rows {
                    match kind {
                        // Latencies that follow from the rate.
                        "alike" => values[1] = 1e6 / values[0],
                        // Both from hundredths of seconds.
                        "clock" => {
                            let seconds = round(3e6 / values[0], 2);
                            *values = vec![3e6 / seconds, 1e3 * seconds];
                        }
                        // Five digits, the first of which is a one.
                        "digits" => values[0] = round(values[0] / 4.0, 0),
                        _ => {}
                    }
                }
                is_copied(&rows)
            });
            worst.push((copied.count(), by, kind));
        }
    }
    println!("copies of {TRIES}: {worst:?}");
    let all: usize = worst.iter().map(|(count, ..)| count).sum();
    assert!(all as f64 <= CHANCE * (worst.len() as u64 * TRIES) as f64, "{worst:?}");
    // One or two are allowed on average, and a few more by chance.
    assert!(worst.iter().all(|(count, ..)| *count <= 5), "{worst:?}");
}

#[test]
fn a_copied_block_is_found() {
    for metrics in [1, 2] {
        for blocks in [5, 12] {
            let mut rows = Noise::new(blocks.into()).rows(blocks, 0.01, metrics);
            assert!(!is_copied(&rows));
            let (copy, last) = (rows[..2].to_vec(), rows.len() - 2);
            for (row, from) in rows[last..].iter_mut().zip(copy) {
                row.2 = from.2;
            }
            let found = found(&rows, false);
            // The baseline's copies spoil everything.
            assert_eq!(found.iter().map(|(arm, _)| arm.as_deref()).collect::<Vec<_>>(), [None, Some("b")]);
            assert!(
                found[1]
                    .1
                    .starts_with(&format!("2 of {blocks} runs of b in workload equal another run in 5 digits of ops"))
            );
            assert!(
                found[1].1.contains(&format!("such as runs.csv:3 and runs.csv:{}: p", 2 * blocks + 1)),
                "{found:?}"
            );
        }
    }
}

#[test]
fn copies_with_noise_in_the_last_digits_are_found() {
    let mut rows = Noise::new(7).rows(8, 0.01, 2);
    for block in 0..2 {
        let from = rows[block].2.clone();
        rows[block + 8].2 = vec![from[0] + 0.01, from[1] + 0.000_01];
    }
    // Rounding to five digits may part two such values, but hardly all of them.
    assert!(is_copied(&rows));
}

#[test]
fn the_results_of_one_config_are_not_those_of_another() {
    let mut rows = Noise::new(3).rows(6, 0.01, 1);
    for block in 0..6 {
        rows[2 * block + 1].2 = rows[2 * block].2.clone();
    }
    assert!(is_copied(&rows));
    // One run in all blocks, and without blocks.
    let mut rows = Noise::new(4).rows(6, 0.01, 1);
    let one = rows[1].2.clone();
    rows.iter_mut().filter(|(config, ..)| *config == "b").for_each(|row| row.2 = one.clone());
    let of = |rows: &[Row]| -> Vec<Option<String>> { found(rows, false).into_iter().map(|(arm, _)| arm).collect() };
    assert_eq!(of(&rows), [Some("b".to_owned())]);
    for row in &mut rows {
        row.1 = 0;
    }
    assert_eq!(of(&rows), [Some("b".to_owned())]);
}

#[test]
fn one_run_needs_two_metrics() {
    let copied = |metrics: usize, alike: bool| {
        let mut rows = Noise::new(5).rows(12, 0.01, metrics);
        rows[23].2 = rows[3].2.clone();
        if alike {
            for row in &mut rows {
                row.2[1] = 1e7 / row.2[0];
            }
        }
        is_copied(&rows)
    };
    assert!(copied(2, false));
    assert!(!copied(1, false) && !copied(2, true));
}

#[test]
fn counts_are_no_copies() {
    // Few digits, the same in every run.
    let counts: Vec<Row> =
        (1..=12).flat_map(|block| [("a", block, vec![1200.0]), ("b", block, vec![1250.0])]).collect();
    assert!(!is_copied(&counts));
    let bytes: Vec<Row> =
        (1..=12).flat_map(|block| [("a", block, vec![1_073_741_824.0]), ("b", block, vec![1_073_700_111.0])]).collect();
    assert!(is_copied(&bytes) && found(&bytes, true).is_empty());
    // Beside a metric with noise they are no evidence, declared or not.
    let mut rows = Noise::new(6).rows(12, 0.01, 2);
    for row in &mut rows {
        row.2[0] = 1_073_741_824.0;
    }
    assert!(!is_copied(&rows));
    rows[23].2 = rows[3].2.clone();
    assert!(!is_copied(&rows));
}

/// A size that each config's runs agree in says nothing, and one that varies is as good as any other evidence.
#[test]
fn sizes_repeat_unless_they_vary() {
    let renamed = |rows: &[Row]| found_of(rows, "db_bytes", false);
    let fixed: Vec<Row> =
        (1..=12).flat_map(|block| [("a", block, vec![1_073_741_824.0]), ("b", block, vec![1_073_700_111.0])]).collect();
    assert!(is_copied(&fixed) && renamed(&fixed).is_empty());
    let mut varying = Noise::new(8).rows(12, 0.01, 1);
    assert!(renamed(&varying).is_empty());
    for block in 0..2 {
        varying[block + 22].2 = varying[block].2.clone();
    }
    assert_eq!(renamed(&varying).len(), 2);
    // Two runs have not shown that a size repeats.
    let few = [fixed[..4].to_vec(), varying[4..8].to_vec()].concat();
    assert!(!renamed(&few).is_empty());
}

#[test]
fn zeros_and_failures_are_no_copies() {
    let rows: Vec<Row> =
        (1..=12).flat_map(|block| [("a", block, vec![f64::from(block) * 1234.567]), ("b", block, vec![0.0])]).collect();
    assert!(!is_copied(&rows));
}
