//! Measures how often sweeps suspect a change that is none, and how soon one that is, on simulated nights of known truth.
//!
//! `cargo run --release -p assay-core --example simulate_nights -- [--years N] [--write]`. What a row has found is kept in
//! target/simulate-nights for as long as the program stays the same, so an interrupted run goes on where it was. With `--write` the table
//! goes into docs/statistics.md. It fails if a promise is missed.

#![allow(clippy::unwrap_used)]

#[path = "../tests/nights/mod.rs"]
mod nights;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Instant,
};

use assay_protocol::Digest;
use nights::{ALARM, CHANGES, Rule, SERIES, WORLDS, World, YEAR, delay, false_alarms};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/simulate-nights");
const BEGIN: &str = "<!-- simulate-nights: begin -->";
const END: &str = "<!-- simulate-nights: end -->";
/// Series of which the delay is measured.
const DELAYS: u64 = 1000;

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (mut years, mut is_written) = (1000, false);
    while let Some(arg) = args.next() {
        match (arg.as_str(), arg == "--years") {
            ("--write", _) => is_written = true,
            (_, true) => years = args.next().and_then(|years| years.parse().ok()).unwrap_or(years),
            _ => {
                eprintln!("usage: simulate_nights [--years N] [--write]");
                return ExitCode::from(2);
            }
        }
    }
    let program = Digest::of(&fs::read(env::current_exe().unwrap()).unwrap()).to_string();
    let kept = PathBuf::from(KEPT).join(program);
    fs::create_dir_all(&kept).unwrap();
    let rules = [
        ("Assay", Rule::Evidence(ALARM)),
        ("3 % off an accepted night", Rule::Threshold(3.0)),
        ("5 % off an accepted night", Rule::Threshold(5.0)),
    ];
    let rows: Vec<(World, &str, Rule)> = WORLDS
        .iter()
        .flat_map(|world| rules.map(|(name, rule)| (*world, name, rule)))
        // Of what people do, one row says enough.
        .filter(|(world, _, rule)| matches!(rule, Rule::Evidence(_)) || world.name == WORLDS[0].name)
        .collect();
    let (start, mut lines, mut missed) = (Instant::now(), Vec::new(), Vec::new());
    for (number, (world, name, rule)) in rows.iter().enumerate() {
        let row = row(*world, *rule, years, &kept.join(format!("{number}-{years}.json")));
        let delays: Vec<String> = row.delays.iter().map(|delays| shown(delays)).collect();
        let line = format!("| {} | {name} | {:.1} | {} |", world.name, row.false_alarms, delays.join(" | "));
        println!("{line}");
        lines.push(line);
        let promised = (SERIES * YEAR) as f64 / ALARM;
        if matches!(rule, Rule::Evidence(_)) && world.correlation == 0.0 && row.false_alarms > promised {
            missed.push(world.name);
        }
        eprintln!("  {} of {} rows, {:.0} s", number + 1, rows.len(), start.elapsed().as_secs_f64());
    }
    if is_written {
        write(&lines, years);
    }
    for name in &missed {
        println!("MISSED: {name}");
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Row {
    /// A year, of all series.
    false_alarms: f64,
    /// In order, by change.
    delays: Vec<Vec<Option<usize>>>,
}

fn row(world: World, rule: Rule, years: u64, file: &Path) -> Row {
    let known = fs::read(file).ok().and_then(|json| serde_json::from_slice(&json).ok());
    let (alarms, delays): (usize, Vec<Vec<Option<usize>>>) = known.unwrap_or_else(|| {
        let alarms = everywhere(years * SERIES as u64, |seed| false_alarms(world, rule, seed)).into_iter().sum();
        let delays = CHANGES.map(|change| {
            let mut delays = everywhere(DELAYS, |seed| delay(world, rule, change, seed));
            // What is never found comes last.
            delays.sort_unstable_by_key(|delay| delay.unwrap_or(usize::MAX));
            delays
        });
        let found = (alarms, delays.to_vec());
        fs::write(file, serde_json::to_vec(&found).unwrap()).unwrap();
        found
    });
    Row { false_alarms: alarms as f64 / years as f64, delays }
}

/// The answers for all seeds, by all CPUs.
fn everywhere<T: Send>(count: u64, answer: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let workers = thread::available_parallelism().map_or(1, usize::from) as u64;
    let answer = &answer;
    thread::scope(|scope| {
        let part = |worker| scope.spawn(move || (worker..count).step_by(workers as usize).map(answer).collect());
        let parts: Vec<thread::ScopedJoinHandle<'_, Vec<T>>> = (0..workers).map(part).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

/// Half of the changes are found by then, and nine of ten.
fn shown(delays: &[Option<usize>]) -> String {
    let at = |share: usize| delays[delays.len() * share / 100].map_or("never".to_owned(), |nights| nights.to_string());
    format!("{}/{}", at(50), at(90))
}

/// Puts the table where the docs have it.
fn write(lines: &[String], years: u64) {
    let docs = fs::read_to_string(DOCS).unwrap();
    let (head, rest) = docs.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let table = format!(
        "| nights | rule | a year, of {years} | 1.5 % | 3 % | 5 % | 0.2 % a night |\n|---|---|--:|--:|--:|--:|--:|\n{}",
        lines.join("\n")
    );
    fs::write(DOCS, format!("{head}{BEGIN}\n\n{table}\n\n{END}{tail}")).unwrap();
}
