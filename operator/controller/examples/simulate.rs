//! Looks for a seed in whose world the operator does not hold, or at one seed more closely.
//!
//! `make simulate SEEDS=10000`, or `make simulate SEED=7` for all that happens there, with the log of the operator. `BUG=NAME` plants one.
//! Seeds that were looked at are kept in target/simulate for as long as the program stays the same, so an interrupted run goes on where it
//! was. It fails if anything is wrong.

#![allow(clippy::unwrap_used)]

#[path = "../tests/simulated/mod.rs"]
mod simulated;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, thread};

use assay_protocol::Digest;
use simulated::{Bug, simulate};

/// Seeds that are kept together.
const CHUNK: u64 = 5;

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (mut seeds, mut seed, mut bug) = (1000, None, None);
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_default();
        let is_sound = match arg.as_str() {
            "--seeds" => value.parse().map(|count| seeds = count).is_ok(),
            "--seed" => value.parse().map(|one| seed = Some(one)).is_ok(),
            "--bug" => {
                bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == value);
                bug.is_some()
            }
            _ => false,
        };
        if !is_sound {
            eprintln!("usage: simulate [--seeds COUNT | --seed NUMBER] [--bug {:?}]", Bug::ALL);
            return ExitCode::from(2);
        }
    }
    let wrong = match seed {
        Some(seed) => {
            let outcome = simulate(seed, bug, true);
            println!("{}\n{} attempts", outcome.trace.join("\n"), outcome.attempts);
            outcome.wrong.into_iter().map(|wrong| (seed, wrong)).collect()
        }
        None => all(seeds, bug),
    };
    for (seed, wrong) in &wrong {
        println!("WRONG: seed {seed}: {wrong}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What is wrong in the worlds of so many seeds, by all CPUs.
fn all(seeds: u64, bug: Option<Bug>) -> Vec<(u64, String)> {
    let path = env::current_exe().unwrap();
    let program = Digest::of(&fs::read(&path).unwrap());
    // In the target folder, beside those of the profiles.
    let kept = path.ancestors().nth(3).unwrap().join(format!("simulate/{program}-{bug:?}"));
    fs::create_dir_all(&kept).unwrap();
    let (chunks, next) = (seeds.div_ceil(CHUNK), AtomicU64::new(0));
    let work = || {
        let mut found = Vec::new();
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            if chunk >= chunks {
                return found;
            }
            let file = kept.join(format!("{chunk}.json"));
            let known = fs::read(&file).ok().and_then(|json| serde_json::from_slice(&json).ok());
            let wrong: Vec<(u64, String)> = known.unwrap_or_else(|| {
                let seeds = chunk * CHUNK..(chunk + 1) * CHUNK;
                let wrong = seeds.filter_map(|seed| Some((seed, simulate(seed, bug, false).wrong?))).collect();
                fs::write(&file, serde_json::to_vec(&wrong).unwrap()).unwrap();
                wrong
            });
            for (seed, wrong) in &wrong {
                eprintln!("  seed {seed}: {wrong}");
            }
            eprintln!("  {} of {seeds} seeds", (chunk + 1) * CHUNK);
            found.extend(wrong);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(u64, String)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    found.sort_unstable();
    found.retain(|(seed, _)| *seed < seeds);
    found
}
