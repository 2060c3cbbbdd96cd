//! Measures how often sweeps suspect a change that is none, and how soon one that is, on simulated nights of known truth.
//!
//! `cargo run --release -p assay-core --example simulate_nights -- [--years N] [--write]`. What a row has found is kept in
//! target/simulate-nights for as long as the program stays the same, so an interrupted run goes on where it was. With `--write` the table
//! goes into docs/statistics.md. It fails if a promise is missed.

#![allow(clippy::unwrap_used)]

#[path = "../tests/confirmations/mod.rs"]
mod confirmations;
#[path = "../tests/fates/mod.rs"]
mod fates;
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
use confirmations::{ALPHA, Confirmed, LOSSES, SESSIONS, confirmed};
use fates::{corrupted, false_alerts, recovered, restless, slid};
use nights::{ALARM, CHANGES, Rule, SERIES, WORLDS, World, YEAR, delay, false_alarms};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/simulate-nights");
/// The names of tables in the docs.
const NIGHTS: &str = "simulate-nights";
const CONFIRMATIONS: &str = "simulate-confirmations";
const FATES: &str = "simulate-fates";
/// Sweeps of one series, for each row of what becomes of changes; and of false alerts, of 50 series each.
const SWEEPS: u64 = 400;
const FALSE_YEARS: u64 = 4;
/// Years of one series whose visits differ.
const RESTLESS_YEARS: u64 = 100;
/// Simulated confirmations of each row and change.
const CONFIRMED: u64 = 20_000;
/// Series of which the delay is measured.
const DELAYS: u64 = 1000;

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (mut years, mut is_written) = (400, false);
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
        let is_promised = world.correlation == 0.0 && world.grown.is_none();
        if matches!(rule, Rule::Evidence(_)) && is_promised && row.false_alarms > promised {
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
    let fates = fates(&kept);
    for Fate { what, shown, before, is_met } in &fates {
        println!("| {what} | {before} | {shown} |");
        if !is_met {
            missed.push(what.as_str());
        }
    }
    if is_written {
        let lines: Vec<String> =
            fates.iter().map(|own| format!("| {} | {} | {} |", own.what, own.before, own.shown)).collect();
        write(FATES, &("| of simulated sweeps | before | now |\n|---|--:|--:|\n".to_owned() + &lines.join("\n")));
        let head = format!(
            "| nights | rule | a year, of {years} | 1.5 % | 3 % | 5 % | 0.2 % a night |\n|---|---|--:|--:|--:|--:|--:|\n"
        );
        write(NIGHTS, &(head + &lines.join("\n")));
        let head = "| visits differ by | noise | nothing | 1 % | 1.5 % | 3 % | 5 % | visits (nothing/3 %) | bound false |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|\n";
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
    let of = |loss: f64| -> (f64, f64, f64) {
        let all = everywhere(CONFIRMED, |seed| confirmed(session, loss, seed));
        let found: Vec<&Confirmed> = all.iter().filter(|own| own.is_confirmed()).collect();
        let wrong = found.iter().filter(|own| own.bound.is_some_and(|bound| bound > loss)).count();
        let visits: usize = all.iter().map(|own| own.visits).sum();
        let share = |part: usize, all: usize| part as f64 / all.max(1) as f64;
        (share(found.len(), all.len()), share(visits, all.len()), share(wrong, found.len()))
    };
    let rows = LOSSES.map(of);
    let noise = session.1.map_or("normal".to_owned(), |freedom| format!("of t, {freedom} degrees of freedom"));
    let found: Vec<String> = rows.iter().map(|(found, ..)| format!("{:.1} %", 100.0 * found)).collect();
    let wrong: Vec<String> = rows[1..].iter().map(|(.., wrong)| format!("{:.1}", 100.0 * wrong)).collect();
    let (found, wrong) = (found.join(" | "), wrong.join("/"));
    let line = format!("| {} % | {noise} | {found} | {:.1}/{:.1} | {wrong} % |", session.0, rows[0].1, rows[3].1);
    (line, rows[0].0)
}

/// A row of what becomes of changes.
struct Fate {
    what: String,
    /// By the rules before failures were a series and recovery needed proof.
    before: String,
    shown: String,
    is_met: bool,
}

fn fates(kept: &Path) -> Vec<Fate> {
    let world = WORLDS[1];
    let known = |name: &str, of: &dyn Fn() -> Vec<f64>| -> Vec<f64> {
        let file = kept.join(format!("{name}.json"));
        let known = fs::read(&file).ok().and_then(|json| serde_json::from_slice(&json).ok());
        known.unwrap_or_else(|| {
            let found = of();
            fs::write(file, serde_json::to_vec(&found).unwrap()).unwrap();
            eprintln!("  {name}");
            found
        })
    };
    let percent = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
    let mut rows = Vec::new();
    for (what, loss, before, most) in [
        ("a loss of one margin closed as recovered within 120 nights, at most 5 %", 3.0, "80 %", 5.0),
        ("a loss of 1.2 margins, likewise", 3.6, "19 %", 5.0),
    ] {
        let found = known(&format!("lost-{loss}"), &|| {
            let all = everywhere(SWEEPS, |seed| recovered(world, loss, None, 120, seed));
            let alerts = all.iter().flatten();
            vec![percent(alerts.clone().filter(|closed| **closed).count(), alerts.count())]
        });
        rows.push(Fate {
            what: what.to_owned(),
            before: before.to_owned(),
            shown: format!("{:.1} %", found[0]),
            is_met: found[0] <= most,
        });
    }
    let found = known("gone", &|| {
        let all = everywhere(SWEEPS, |seed| recovered(world, 4.0, Some(10), 20, seed));
        let alerts = all.iter().flatten();
        vec![percent(alerts.clone().filter(|closed| **closed).count(), alerts.count())]
    });
    let what = "a loss of 4 % that is gone closed within 20 nights, at least 80 %";
    rows.push(Fate {
        what: what.to_owned(),
        before: String::new(),
        shown: format!("{:.1} %", found[0]),
        is_met: found[0] >= 80.0,
    });
    for (what, by, before) in [
        ("0.05 % lost each night: an alert before 6 % are, at least 90 %", 0.05, "36 % at any time"),
        ("0.1 % each night", 0.1, "half of 83 % by 6.0 %"),
        ("0.2 % each night", 0.2, "half by 5.4 %, nine of ten by 11 %"),
    ] {
        let found = known(&format!("slide-{by}"), &|| {
            everywhere(SWEEPS, |seed| slid(world, by, seed)).into_iter().map(|lost| lost.unwrap_or(99.0)).collect()
        });
        let share = percent(found.iter().filter(|lost| **lost < 6.0).count(), found.len());
        let mut found = found;
        found.sort_by(f64::total_cmp);
        let shown = format!("{share:.1} %; half by {:.1} %", found[found.len() / 2]);
        rows.push(Fate { what: what.to_owned(), before: before.to_owned(), shown, is_met: share >= 90.0 });
    }
    let found = known("corrupted", &|| {
        let all = everywhere(SWEEPS, |seed| corrupted(world, seed));
        let share = |of: &dyn Fn(&(bool, bool)) -> bool| percent(all.iter().filter(|own| of(own)).count(), all.len());
        vec![share(&|own| own.0), share(&|own| own.1)]
    });
    let what = "6 of 12 runs damage data: raised that night, and still open 30 nights later";
    let shown = format!("{:.0} %, {:.0} %", found[0], found[1]);
    rows.push(Fate { what: what.to_owned(), before: "0 %, 0 %".to_owned(), shown, is_met: found == [100.0, 100.0] });
    for (session, before) in [(1.0, "0.9"), (1.5, "2.5"), (2.0, "4.8"), (3.0, "8.5")] {
        let found = known(&format!("restless-{session}"), &|| {
            let all = everywhere(RESTLESS_YEARS, |seed| restless(world, session, seed));
            let confirmations: usize = all.iter().map(|own| own.0).sum();
            let alerts: usize = all.iter().map(|own| own.1).sum();
            let found = all.iter().filter(|own| own.2).count();
            vec![50.0 * alerts as f64 / confirmations as f64, percent(found, all.len())]
        });
        let what = format!(
            "visits differ by {session} %: false alerts of 50 confirmations; a loss of 5 % raises one within 30 nights"
        );
        let shown = format!("{:.2}; {:.0} %", found[0], found[1]);
        rows.push(Fate { what, before: before.to_owned(), shown, is_met: found[0] <= 1.0 });
    }
    for (what, world, before) in [
        ("false alerts a year of 50 series, 1 % of runs failing alike, at most 1", WORLDS[0], ""),
        ("with a night effect of 1 %, correlated by 0.5", WORLDS[8], ""),
    ] {
        let found = known(&format!("false-{}", world.name), &|| {
            let all = everywhere(FALSE_YEARS * SERIES as u64, |seed| false_alerts(world, seed));
            vec![all.iter().sum::<usize>() as f64 / FALSE_YEARS as f64]
        });
        rows.push(Fate {
            what: what.to_owned(),
            before: before.to_owned(),
            shown: format!("{:.2}", found[0]),
            is_met: found[0] <= 1.0,
        });
    }
    rows
}

/// Puts a table where the docs have it.
fn write(name: &str, table: &str) {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let docs = fs::read_to_string(DOCS).unwrap();
    let (head, rest) = docs.split_once(&begin).unwrap();
    let (_, tail) = rest.split_once(&end).unwrap();
    fs::write(DOCS, format!("{head}{begin}\n\n{table}\n\n{end}{tail}")).unwrap();
}
