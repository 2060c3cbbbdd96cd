//! Measures how often the judge errs, and how often it finds what is there, on simulated experiments of known truth.
//!
//! `cargo run --release -p assay-core --example calibrate -- [--experiments N] [--seed S] [--write] [ROW...]`: the rows whose names
//! begin so, all unless told. Every experiment goes through the real planner and the real judge with all of its gates, looks and early
//! stops. What a row has found is kept in target/calibrate for as long as the program stays the same, so an interrupted run goes on where it
//! was. With `--write` the table goes into docs/statistics.md. It fails if a bound is missed by more than two standard errors.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../tests/simulated/mod.rs"]
mod simulated;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use assay_protocol::Digest;
use simulated::{
    rates::wilson,
    rows::{self, Bound, Row},
};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/calibrate");
const BEGIN: &str = "<!-- calibrate: begin -->";
const END: &str = "<!-- calibrate: end -->";

struct Asked {
    experiments: Option<usize>,
    seed: u64,
    write: bool,
    rows: Vec<String>,
}

fn main() -> ExitCode {
    let Some(asked) = asked(env::args().skip(1)) else {
        eprintln!("usage: calibrate [--experiments N] [--seed S] [--write] [ROW...]");
        return ExitCode::from(2);
    };
    let rows: Vec<Row> = rows::all()
        .into_iter()
        .filter(|row| asked.rows.is_empty() || asked.rows.iter().any(|name| row.name.starts_with(name)))
        .collect();
    let kept = PathBuf::from(KEPT).join(program());
    fs::create_dir_all(&kept).unwrap();
    let (start, mut missed, mut lines) = (Instant::now(), Vec::new(), Vec::new());
    for (done, row) in rows.iter().enumerate() {
        let count = asked.experiments.unwrap_or(row.experiments);
        let answers = answers(row, count, asked.seed, &kept);
        for (question, (text, line, is_met)) in row.questions.iter().zip(shown(row, count, &answers)) {
            println!("{text}");
            lines.push(line);
            if !is_met {
                missed.push(format!("{}: {}", row.name, question.what));
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let left = seconds / (done + 1) as f64 * (rows.len() - done - 1) as f64;
        eprintln!("  {} of {} rows, {:.0} min, about {:.0} more", done + 1, rows.len(), seconds / 60.0, left / 60.0);
    }
    if asked.write {
        write(&lines);
    }
    for bound in &missed {
        println!("MISSED: {bound}");
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn asked(mut args: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked = Asked { experiments: None, seed: 1, write: false, rows: Vec::new() };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--experiments" => asked.experiments = Some(args.next()?.parse().ok().filter(|&count: &usize| count > 0)?),
            "--seed" => asked.seed = args.next()?.parse().ok()?,
            "--write" => asked.write = true,
            flag if flag.starts_with('-') => return None,
            _ => asked.rows.push(arg),
        }
    }
    let is_known = |name: &String| rows::all().iter().any(|row| row.name.starts_with(name.as_str()));
    asked.rows.iter().all(is_known).then_some(asked)
}

/// What this program is: another judge gives other answers.
fn program() -> String {
    let program = fs::read(env::current_exe().unwrap()).unwrap();
    Digest::of(&program).to_string()
}

/// Hits and tries, one for each question.
fn answers(row: &Row, count: usize, seed: u64, kept: &Path) -> Vec<(usize, usize)> {
    let file = kept.join(format!("{}-{count}-{seed}.json", row.name));
    if let Some(known) = fs::read(&file).ok().and_then(|json| serde_json::from_slice(&json).ok()) {
        return known;
    }
    let seen = row.setting.run(count, seed << 32, |ended| {
        row.questions.iter().map(|question| (question.read)(ended)).collect::<Vec<_>>()
    });
    let mut sums = vec![(0, 0); row.questions.len()];
    for answers in seen {
        for (sum, answer) in sums.iter_mut().zip(answers) {
            *sum = (sum.0 + answer.0, sum.1 + answer.1);
        }
    }
    fs::write(&file, serde_json::to_vec(&sums).unwrap()).unwrap();
    sums
}

/// Each answer for people, as a line of the table, and whether its bound is met.
fn shown(row: &Row, count: usize, answers: &[(usize, usize)]) -> Vec<(String, String, bool)> {
    let mut shown = Vec::new();
    let mut before: Option<f64> = None;
    for (number, (question, &(hits, tries))) in row.questions.iter().zip(answers).enumerate() {
        let percent = 100.0 * hits as f64 / tries as f64;
        // Configs of one experiment are not independent, so experiments are what is counted.
        let error = 100.0 * (percent / 100.0 * (1.0 - percent / 100.0) / count as f64).sqrt();
        let limit = match question.bound {
            Bound::None => None,
            // What must not happen has no standard error.
            Bound::AtMost(0.0) => Some((0.0, hits == 0, "never".to_owned())),
            Bound::AtMost(limit) => Some((limit, percent - 2.0 * error <= limit, format!("at most {limit}"))),
            Bound::AtLeast(limit) => Some((limit, percent + 2.0 * error >= limit, format!("at least {limit}"))),
            Bound::Above(points) => before.map(|before| {
                let limit = before + points;
                // A gain may not be smaller, an error not larger.
                let is_met = if points < 0.0 { percent + 2.0 * error >= limit } else { percent - 2.0 * error <= limit };
                let words = if points < 0.0 { "at least" } else { "at most" };
                (limit, is_met, format!("{words} {limit:.1}"))
            }),
        };
        let is_met = limit.as_ref().is_none_or(|(_, is_met, _)| *is_met);
        let bound = limit.map_or(String::new(), |(.., words)| words);
        let (low, high) = wilson(hits, tries);
        let text = format!(
            "{:<24} {:<26} {percent:6.1} % (se {error:.1}) [{:5.1}, {:5.1}]  {bound:<14} before {}",
            row.name,
            question.what,
            100.0 * low,
            100.0 * high,
            if question.before.is_empty() { "-" } else { question.before }
        );
        let what = if number == 0 { row.what.as_str() } else { "" };
        let line =
            format!("| {what} | {} | {percent:.1} ({error:.1}) | {bound} | {} |", question.what, question.before);
        shown.push((text, line, is_met));
        before = Some(percent);
    }
    shown
}

/// Puts the table where the docs have it.
fn write(lines: &[String]) {
    let docs = fs::read_to_string(DOCS).unwrap();
    let (head, rest) = docs.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let table = format!(
        "| experiments | share of | % (standard error) | bound | before |\n|---|---|--:|--:|--:|\n{}",
        lines.join("\n")
    );
    fs::write(DOCS, format!("{head}{BEGIN}\n\n{table}\n\n{END}{tail}")).unwrap();
}
