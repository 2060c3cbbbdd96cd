//! Measures how often sweeps suspect a change that is none, and how soon one that is, on simulated nights of known truth.
//!
//! `cargo run --release -p assay-core --example simulate_nights -- [--years N] [--write]`. What a row has found is kept in
//! target/simulate-nights for as long as the program stays the same, so an interrupted run goes on where it was. With `--write` the table
//! goes into docs/statistics.md. It fails if a promise is missed.

#![allow(clippy::unwrap_used)]

#[path = "../tests/confirmations/mod.rs"]
mod confirmations;
#[path = "../tests/nights/mod.rs"]
mod nights;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Instant,
};

use assay_core::sweep::detect::Decision;
use assay_protocol::Digest;
use confirmations::{ALPHA, LOSSES, SESSIONS, confirmed};
use nights::{ALARM, CHANGES, Rule, SERIES, WORLDS, World, YEAR, delay, false_alarms};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/simulate-nights");
/// The names of tables in the docs.
const NIGHTS: &str = "simulate-nights";
const CONFIRMATIONS: &str = "simulate-confirmations";
/// Simulated confirmations of each row and change.
const CONFIRMED: u64 = 20_000;
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
    let confirmed: Vec<String> = SESSIONS
        .iter()
        .map(|session| {
            let (line, share) = confirmations(*session);
            println!("{line}");
            // Visits that differ by more than a sixth of the margin are beyond what is promised.
            if session.0 <= 0.5 && share > ALPHA {
                missed.push("confirmations");
            }
            line
        })
        .collect();
    if is_written {
        let head = format!(
            "| nights | rule | a year, of {years} | 1.5 % | 3 % | 5 % | 0.2 % a night |\n|---|---|--:|--:|--:|--:|--:|\n"
        );
        write(NIGHTS, &(head + &lines.join("\n")));
        let head = "| visits differ by | noise | nothing | 1.5 % | 3 % | 5 % | visits (nothing/3 %) |\n|--:|---|--:|--:|--:|--:|--:|\n";
        write(CONFIRMATIONS, &(head.to_owned() + &confirmed.join("\n")));
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

/// A row of confirmations: how many of each loss are confirmed. Besides, the share of those of nothing.
fn confirmations(session: (f64, Option<usize>)) -> (String, f64) {
    let of = |loss: f64| -> (f64, f64) {
        let all = everywhere(CONFIRMED, |seed| confirmed(session, loss, seed));
        let found = all.iter().filter(|(decision, _)| *decision == Decision::Confirmed).count();
        let visits: usize = all.iter().map(|(_, visits)| visits).sum();
        (found as f64 / CONFIRMED as f64, visits as f64 / CONFIRMED as f64)
    };
    let rows = LOSSES.map(of);
    let noise = session.1.map_or("normal".to_owned(), |freedom| format!("of t, {freedom} degrees of freedom"));
    let found: Vec<String> = rows.iter().map(|(found, _)| format!("{:.1} %", 100.0 * found)).collect();
    let line = format!("| {} % | {noise} | {} | {:.1}/{:.1} |", session.0, found.join(" | "), rows[0].1, rows[2].1);
    (line, rows[0].0)
}

/// Puts a table where the docs have it.
fn write(name: &str, table: &str) {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let docs = fs::read_to_string(DOCS).unwrap();
    let (head, rest) = docs.split_once(&begin).unwrap();
    let (_, tail) = rest.split_once(&end).unwrap();
    fs::write(DOCS, format!("{head}{begin}\n\n{table}\n\n{end}{tail}")).unwrap();
}
