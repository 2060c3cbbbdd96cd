//! Checks error rates and power against their published figures, on simulated experiments of known truth.
//!
//! `cargo run --release -p assay-core --example calibrate -- [EXPERIMENTS [SEED]]`, 2000 and 1 unless given. Every experiment
//! goes through the real planner and the real judgement, with looks and early stops. It fails if a bound is missed.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../tests/simulated/mod.rs"]
mod simulated;

use std::{env, process::ExitCode, time::Instant};

use assay_core::verdict::Verdict;
use simulated::{
    Ended, Setting,
    naive::{means_win, uncorrected_win},
    rates::wilson,
};

const BLOCKS: usize = 30;

/// The most experiments without any effect that may have a Win; the fewest gains of 10 % that must be found; the most runs that
/// may be used, of those without early stops.
const MOST_FALSE_WINS: f64 = 0.05;
const FEWEST_FOUND: f64 = 0.95;
const MOST_RUNS: f64 = 0.70;

/// A row of the published table.
struct Published {
    what: &'static str,
    configs: usize,
    cv: f64,
    false_win: &'static str,
    false_reject: &'static str,
    neutral: &'static str,
    runs: &'static str,
    /// Effects in percent, the verdict they deserve, and how often it was given, in percent.
    found: &'static [(i32, Verdict, &'static str)],
    /// What the configs of one experiment with effects do, in percent: copies of this list until all have one.
    mix: &'static [i32],
}

const TABLE: [Published; 3] = [
    Published {
        what: "18 configs, CV 8 %, 4 baseline runs",
        configs: 18,
        cv: 0.08,
        false_win: "0.8-3.0",
        false_reject: "0.5-1.3",
        neutral: "55",
        runs: "56-62",
        found: &[
            (3, Verdict::Win, "32"),
            (5, Verdict::Win, "81"),
            (10, Verdict::Win, "99.9"),
            (-5, Verdict::Reject, "25"),
            (-10, Verdict::Reject, "91"),
        ],
        mix: &[0, 3, 0, -3, 0, 5, -5, 10, -10],
    },
    Published {
        what: "3 configs, CV 8 %, 2 baseline runs",
        configs: 3,
        cv: 0.08,
        false_win: "1.7-3.2",
        false_reject: "0.7-2.2",
        neutral: "45",
        runs: "49-64",
        found: &[
            (5, Verdict::Win, "91"),
            (10, Verdict::Win, "100"),
            (-5, Verdict::Reject, "46"),
            (-10, Verdict::Reject, "97.5"),
        ],
        mix: &[5, -5, 10, -10],
    },
    Published {
        what: "1 config, CV 5 %, 1 baseline run",
        configs: 1,
        cv: 0.05,
        false_win: "2.2",
        false_reject: "4.7",
        neutral: "61",
        runs: "44-57",
        found: &[(5, Verdict::Win, "94"), (10, Verdict::Win, "100")],
        mix: &[5, 10],
    },
];

fn main() -> ExitCode {
    let mut args = env::args().skip(1).map(|arg| arg.parse::<u64>());
    let (Ok(count), Ok(seed)) = (args.next().unwrap_or(Ok(2000)), args.next().unwrap_or(Ok(1))) else {
        eprintln!("usage: calibrate [EXPERIMENTS [SEED]]");
        return ExitCode::from(2);
    };
    let mut missed = Vec::new();
    for row in &TABLE {
        let start = Instant::now();
        println!("{}, 3 scenarios, {BLOCKS} blocks at most, margin 5 %", row.what);
        without_effects(row, count as usize, seed, &mut missed);
        with_effects(row, (count as usize).div_ceil(4), seed, &mut missed);
        eprintln!("  {:.0} s", start.elapsed().as_secs_f64());
    }
    for bound in &missed {
        println!("MISSED: {bound}");
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn setting(row: &Published, effects: impl Iterator<Item = i32>) -> Setting {
    let effects = effects.map(|percent| f64::from(percent) / 100.0).take(row.configs).collect();
    Setting { scenarios: 3, blocks: BLOCKS, cv: row.cv, effects }
}

fn without_effects(row: &Published, count: usize, seed: u64, missed: &mut Vec<String>) {
    let setting = setting(row, std::iter::repeat(0));
    let seen = setting.run(count, seed << 32, |ended| {
        let claims = [ended.any(Verdict::Win), ended.any(Verdict::Reject), uncorrected_win(ended), means_win(ended)];
        (claims, neutral(ended), ended.used)
    });
    let [wins, rejects, uncorrected, means] = [0, 1, 2, 3].map(|i| seen.iter().filter(|seen| seen.0[i]).count());
    let neutral = seen.iter().map(|seen| seen.1).sum::<usize>();
    shown("any false Win", wins, count, row.false_win);
    shown("any false Reject", rejects, count, row.false_reject);
    shown("  by uncorrected p", uncorrected, count, "-");
    shown("  by means of +5 %", means, count, "-");
    shown("Neutral at 0 %", neutral, count * row.configs, row.neutral);
    let used = mean(seen.iter().map(|seen| seen.2));
    println!("  {:<22} {:6.1} %                     published {}", "runs used, no effects", 100.0 * used, row.runs);
    if wins as f64 > MOST_FALSE_WINS * count as f64 {
        missed.push(format!("{}: {wins} of {count} experiments without effects have a Win", row.what));
    }
    if used > MOST_RUNS {
        missed.push(format!("{}: {:.1} % of the runs are used without effects", row.what, 100.0 * used));
    }
}

fn neutral(ended: &Ended) -> usize {
    (0..ended.judgement.overall.len()).filter(|&config| ended.verdict(config) == Verdict::Neutral).count()
}

/// Experiments with effects, the list of effects turned by one config in each.
fn with_effects(row: &Published, count: usize, seed: u64, missed: &mut Vec<String>) {
    let mut found: Vec<(i32, Verdict)> = Vec::new();
    let mut used = Vec::new();
    for turn in 0..row.mix.len() {
        let effects: Vec<i32> = row.mix.iter().copied().cycle().skip(turn).take(row.configs).collect();
        let seed = (seed << 32) + ((turn as u64 + 1) << 24);
        let seen = setting(row, effects.iter().copied()).run(count.div_ceil(row.mix.len()), seed, |ended| {
            let verdicts: Vec<(i32, Verdict)> =
                effects.iter().enumerate().map(|(config, &effect)| (effect, ended.verdict(config))).collect();
            (verdicts, ended.used)
        });
        for (verdicts, share) in seen {
            found.extend(verdicts);
            used.push(share);
        }
    }
    for &(effect, deserved, published) in row.found {
        let own = || found.iter().filter(|(other, _)| *other == effect);
        let hits = own().filter(|(_, verdict)| *verdict == deserved).count();
        shown(&format!("{deserved:?} at {effect:+} %"), hits, own().count(), published);
        if effect == 10 && (hits as f64) < FEWEST_FOUND * own().count() as f64 {
            missed.push(format!("{}: {hits} of {} gains of 10 % are found", row.what, own().count()));
        }
    }
    let wrong = found.iter().filter(|(effect, verdict)| match verdict {
        Verdict::Win => *effect < 0,
        Verdict::Reject => *effect > 0,
        _ => false,
    });
    shown("wrong direction", wrong.count(), found.iter().filter(|(effect, _)| *effect != 0).count(), "0");
    let used = mean(used.iter().copied());
    println!("  {:<22} {:6.1} %                     published {}", "runs used, effects", 100.0 * used, row.runs);
    if used > MOST_RUNS {
        missed.push(format!("{}: {:.1} % of the runs are used with effects", row.what, 100.0 * used));
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

fn shown(what: &str, hits: usize, trials: usize, published: &str) {
    let (low, high) = wilson(hits, trials);
    let share = 100.0 * hits as f64 / trials as f64;
    let of = format!("{hits}/{trials}");
    println!("  {what:<22} {share:6.1} % [{:5.1}, {:5.1}] {of:>12} published {published}", 100.0 * low, 100.0 * high);
}
