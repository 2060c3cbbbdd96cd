//! Measures how often the judge errs, and how often it finds what is there, on simulated experiments of known truth.
//!
//! `cargo run --release -p assay-core --example calibrate -- [--experiments N] [--seed S] [--write] [NAME...]`: the rows and curves whose
//! names begin so, all unless told. A row has 300 experiments, and 1,000 where 300 lie within two standard errors of a bound. Most go through
//! the real planner and the real judge with all of its gates, looks and early stops; a curve along many numbers of blocks hands its runs to
//! the verdict engine alone. What was found is kept in target/calibrate for as long as the program stays the same, so an interrupted
//! run continues where it was. With `--write` the tables go into docs/statistics.md. It fails if a bound is missed by more than two
//! standard errors.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../tests/simulated/mod.rs"]
mod simulated;

use std::{env, fs, path::PathBuf, process::ExitCode, time::Instant};

use assay_core::stats::wilson;
use assay_protocol::Digest;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use simulated::{
    Setting,
    rows::{
        self, Bound, Question, Row, Share,
        curves::{self, Curve, Shown},
    },
};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/calibrate");
const BEGIN: &str = "<!-- calibrate: begin -->";
const END: &str = "<!-- calibrate: end -->";

/// Experiments of a row, and of one that lies near a bound.
const FEW: usize = 300;
const MANY: usize = 1000;

struct Asked {
    /// Instead of as many as it takes.
    experiments: Option<usize>,
    seed: u64,
    write: bool,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let Some(asked) = asked(env::args().skip(1)) else {
        eprintln!("usage: calibrate [--experiments N] [--seed S] [--write] [NAME...]");
        return ExitCode::from(2);
    };
    let is_wanted = |name: &str| asked.names.is_empty() || asked.names.iter().any(|own| name.starts_with(own));
    let rows: Vec<Row> = rows::all().into_iter().filter(|row| is_wanted(&row.name)).collect();
    let curves: Vec<Curve> = curves::all().into_iter().filter(|curve| is_wanted(&curve.name)).collect();
    let (start, all) = (Instant::now(), rows.len() + curves.len());
    let lab = Lab::new(&asked);
    let (mut missed, mut row_lines, mut curve_lines) = (Vec::new(), Vec::new(), Vec::new());
    let mut done = 0;
    let mut progress = || {
        done += 1;
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        eprintln!("  {done} of {all}, {minutes:.1} min, about {:.1} more", minutes / done as f64 * (all - done) as f64);
    };
    for row in &rows {
        let mut shares = Vec::new();
        for line in lab.row(row) {
            println!("{}", line.text);
            shares.push(line.share);
            missed.extend(line.missed);
        }
        row_lines.push(format!("| {} | {} |", row.what, shares.join("; ")));
        progress();
    }
    for curve in &curves {
        let line = lab.curve(curve);
        println!("{}", line.text);
        curve_lines.push(line.share);
        missed.extend(line.missed);
        progress();
    }
    if asked.write {
        write(&row_lines, &curve_lines);
    }
    for bound in &missed {
        println!("MISSED: {bound}");
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn asked(mut args: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked = Asked { experiments: None, seed: 1, write: false, names: Vec::new() };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--experiments" => asked.experiments = Some(args.next()?.parse().ok().filter(|&count: &usize| count > 0)?),
            "--seed" => asked.seed = args.next()?.parse().ok()?,
            "--write" => asked.write = true,
            flag if flag.starts_with('-') => return None,
            _ => asked.names.push(arg),
        }
    }
    let all: Vec<String> = rows::all().into_iter().map(|row| row.name).collect();
    let all: Vec<String> = all.into_iter().chain(curves::all().into_iter().map(|curve| curve.name)).collect();
    let is_known = |name: &String| all.iter().any(|own| own.starts_with(name.as_str()));
    asked.names.iter().all(is_known).then_some(asked)
}

/// One answered question: as text, as a line of the docs, and with its missed bounds.
struct Line {
    text: String,
    share: String,
    missed: Vec<String>,
}

/// A share in percent with its standard error.
#[derive(Clone, Copy)]
struct Percent {
    share: f64,
    error: f64,
}

impl Percent {
    /// Configs of one experiment are not independent, so experiments are what is counted.
    fn of((hits, tries): Share, experiments: usize) -> Self {
        let share = hits as f64 / tries as f64;
        Self { share: 100.0 * share, error: 100.0 * (share * (1.0 - share) / experiments as f64).sqrt() }
    }

    /// How a bound looks, and how much better than it the share is.
    fn against(self, bound: Bound, before: Option<Self>, other: Option<Self>) -> Option<(String, Self)> {
        let room = |share: f64, other: Option<Self>| Self {
            share,
            error: other.map_or(self.error, |other| self.error.hypot(other.error)),
        };
        match bound {
            Bound::None => None,
            Bound::AtMost(limit) => Some((format!("at most {limit}"), room(limit - self.share, None))),
            Bound::AtLeast(limit) => Some((format!("at least {limit}"), room(self.share - limit, None))),
            Bound::Above(points) => {
                let limit = before?.share + points;
                // A gain may not be smaller, an error not larger.
                let (word, left) =
                    if points < 0.0 { ("least", self.share - limit) } else { ("most", limit - self.share) };
                Some((format!("at {word} {limit:.1}"), room(left, None)))
            }
            Bound::Near(_, points) => {
                let limit = other?.share - points;
                Some((format!("at least {limit:.1}"), room(self.share - limit, other)))
            }
            Bound::NoMore(_) => {
                let limit = other?.share;
                Some((format!("at most {limit:.1}"), room(limit - self.share, other)))
            }
        }
    }

    /// Whether more experiments could move the share to the other side of its bound.
    fn is_near(self) -> bool {
        self.share.abs() <= 2.0 * self.error
    }

    /// Distance to a bound. A share of 0 or 1 has no standard error.
    fn is_missed(self) -> bool {
        self.share < -2.0 * self.error
    }
}

/// Results of one cell of a curve, by experiment.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Seen {
    hits: Vec<bool>,
    /// Results with a single look at the end, if a target compares with it.
    alone: Vec<bool>,
    /// Blocks until it was decided.
    blocks: Vec<usize>,
}

impl Seen {
    fn percent(&self) -> Percent {
        Percent::of((count(&self.hits), self.hits.len()), self.hits.len())
    }

    fn mean_blocks(&self) -> f64 {
        self.blocks.iter().sum::<usize>() as f64 / self.blocks.len() as f64
    }
}

fn count(hits: &[bool]) -> usize {
    hits.iter().filter(|hit| **hit).count()
}

/// Points by which a share exceeds a multiple of another share of the same experiments, with its standard error.
fn difference(own: &[bool], other: &[bool], times: f64) -> Percent {
    let all: Vec<f64> = own.iter().zip(other).map(|(own, other)| number(*own) - times * number(*other)).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let variance = all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (all.len() - 1).max(1) as f64;
    Percent { share: 100.0 * mean, error: 100.0 * (variance / all.len() as f64).sqrt() }
}

fn number(hit: bool) -> f64 {
    if hit { 1.0 } else { 0.0 }
}

/// Answers that are known, from this run or an interrupted one.
struct Lab {
    experiments: Option<usize>,
    seed: u64,
    kept: PathBuf,
}

impl Lab {
    fn new(asked: &Asked) -> Self {
        let kept = PathBuf::from(KEPT).join(program());
        fs::create_dir_all(&kept).unwrap();
        Self { experiments: asked.experiments, seed: asked.seed, kept }
    }

    /// Reads a stored result, or computes and stores it.
    fn kept<T: Serialize + DeserializeOwned>(&self, name: &str, find: impl FnOnce() -> T) -> T {
        let file = self.kept.join(format!("{name}-{}.json", self.seed));
        if let Some(known) = fs::read(&file).ok().and_then(|json| serde_json::from_slice(&json).ok()) {
            return known;
        }
        let found = find();
        fs::write(&file, serde_json::to_vec(&found).unwrap()).unwrap();
        found
    }

    fn first(&self) -> usize {
        self.experiments.unwrap_or(FEW)
    }

    /// Hits and tries of the first `count` experiments, one pair per question.
    fn answers(&self, row: &Row, experiments: usize) -> Vec<Share> {
        self.kept(&format!("{}-{experiments}", row.name), || {
            let seen = row.setting.run(0..experiments, self.seed << 32, |ended| {
                row.questions.iter().map(|question| (question.read)(ended)).collect::<Vec<_>>()
            });
            let mut sums = vec![(0, 0); row.questions.len()];
            for answers in seen {
                for (sum, answer) in sums.iter_mut().zip(answers) {
                    *sum = (sum.0 + answer.0, sum.1 + answer.1);
                }
            }
            sums
        })
    }

    /// Answer of another row to the same question in equally many experiments.
    fn other(&self, question: &Question, experiments: usize) -> Option<Percent> {
        let (Bound::Near(name, _) | Bound::NoMore(name)) = question.bound else { return None };
        let row = rows::all().into_iter().find(|row| row.name == name).unwrap();
        let number = row.questions.iter().position(|own| own.what == question.what).unwrap();
        Some(Percent::of(self.answers(&row, experiments)[number], experiments))
    }

    fn row(&self, row: &Row) -> Vec<Line> {
        let mut experiments = self.first();
        let mut lines = self.lines(row, experiments);
        if self.experiments.is_none() && lines.iter().any(|(_, is_near)| *is_near) {
            experiments = MANY;
            lines = self.lines(row, experiments);
        }
        lines.into_iter().map(|(line, _)| line).collect()
    }

    /// A line for each question, and whether its bound is near.
    fn lines(&self, row: &Row, experiments: usize) -> Vec<(Line, bool)> {
        let answers = self.answers(row, experiments);
        let mut lines = Vec::new();
        let mut before: Option<Percent> = None;
        for (question, &(hits, tries)) in row.questions.iter().zip(&answers) {
            let percent = Percent::of((hits, tries), experiments);
            let other = self.other(question, experiments);
            let against = percent.against(question.bound, before, other);
            let missed = against.as_ref().is_some_and(|(_, room)| room.is_missed());
            let is_near = against.as_ref().is_some_and(|(_, room)| room.is_near());
            let bound = against.map_or(String::new(), |(words, _)| words);
            let [low, high] = wilson(hits, tries);
            let rules_before = rows::before(&row.name, question.what);
            let Percent { share, error } = percent;
            let text = format!(
                "{:<24} {:<30} {share:6.1} % (se {error:.1}) [{:5.1}, {:5.1}]  {bound:<14} before {}{}",
                row.name,
                question.what,
                100.0 * low,
                100.0 * high,
                if rules_before.is_empty() { "-" } else { rules_before },
                if missed { "  MISSED" } else { "" }
            );
            let mut facts = vec![format!("{} **{share:.1}**", question.what)];
            facts.extend((!bound.is_empty()).then_some(bound));
            facts.extend((!rules_before.is_empty()).then(|| format!("before {rules_before}")));
            let missed = missed.then(|| format!("{}: {}", row.name, question.what)).into_iter().collect();
            lines.push((Line { text, share: facts.join(", "), missed }, is_near));
            before = Some(percent);
        }
        lines
    }

    fn seen(&self, curve: &Curve, cell: usize, experiments: usize) -> Seen {
        let known = &curve.cells[cell];
        self.kept(&format!("{}-{cell}-{experiments}", curve.name), || {
            let read = |setting: &Setting| -> (Vec<bool>, Vec<usize>) {
                let seen = setting.run(0..experiments, self.seed << 32, |ended| ((curve.read)(ended), ended.blocks[0]));
                seen.into_iter().unzip()
            };
            let (hits, blocks) = read(&known.setting);
            let never = || read(&Setting { stop_on: "Never", ..known.setting.clone() }).0;
            Seen { hits, alone: if curve.alone.is_some() { never() } else { Vec::new() }, blocks }
        })
    }

    fn curve(&self, curve: &Curve) -> Line {
        if let Shown::Power { blocks, used } = curve.shown {
            return self.power(curve, blocks, used);
        }
        let mut seen: Vec<Seen> = Vec::new();
        for cell in 0..curve.cells.len() {
            let mut own = self.seen(curve, cell, self.first());
            let last = seen.last().map(|last| last.hits[..own.hits.len().min(last.hits.len())].to_vec());
            let is_near = checks(curve, cell, &own, last.as_deref()).iter().any(|(room, _)| room.is_near());
            if is_near && self.experiments.is_none() {
                own = self.seen(curve, cell, MANY);
                // A step is compared in the same experiments.
                if let (Some(last), Some(_)) = (seen.last_mut(), curve.step) {
                    *last = self.seen(curve, cell - 1, MANY);
                }
            }
            seen.push(own);
        }
        let mut missed = Vec::new();
        for (cell, own) in seen.iter().enumerate() {
            let last = cell.checked_sub(1).map(|last| seen[last].hits.as_slice());
            let found = checks(curve, cell, own, last).into_iter().filter(|(room, _)| room.is_missed());
            missed.extend(found.map(|(room, what)| {
                let Percent { share, error } = room;
                format!("{} at {}: {what}, by {:.1} (se {error:.1})", curve.name, curve.cells[cell].at, -share)
            }));
        }
        let shares = curve.cells.iter().zip(&seen).map(|(cell, seen)| match curve.shown {
            Shown::Blocks => format!("{}: {:.1}", cell.at, seen.mean_blocks()),
            _ => format!("{}: {:.0}", cell.at, seen.percent().share),
        });
        line(curve, &shares.collect::<Vec<_>>().join(", "), &words(curve), missed)
    }

    /// The fewest blocks that decide four of five, and how many of them are used on average.
    fn power(&self, curve: &Curve, most: usize, most_used: Option<f64>) -> Line {
        let bound = match most_used {
            Some(used) => format!("at most {most} ({used})"),
            None => format!("at most {most}"),
        };
        let experiments = self.experiments.unwrap_or(MANY);
        let cells = (0..curve.cells.len()).map(|cell| (cell, self.seen(curve, cell, experiments)));
        let Some((cell, seen)) = cells.into_iter().find(|(_, seen)| seen.percent().share >= 80.0) else {
            return line(curve, "none", &bound, vec![format!("{}: no number of blocks", curve.name)]);
        };
        let blocks = curve.cells[cell].setting.blocks;
        let used = seen.mean_blocks();
        let squares: f64 = seen.blocks.iter().map(|&one| (one as f64 - used).powi(2)).sum();
        let error = squares.sqrt() / seen.blocks.len() as f64;
        let mut missed = Vec::new();
        if blocks > most {
            missed.push(format!("{}: {blocks} blocks, at most {most}", curve.name));
        }
        if most_used.is_some_and(|most| used - 2.0 * error > most) {
            missed.push(format!("{}: {used:.1} blocks used on average (se {error:.1})", curve.name));
        }
        line(curve, &format!("{blocks} ({used:.1} used)"), &bound, missed)
    }
}

/// Everything that is asked of a cell: what is left to its limit, and what it is.
fn checks(curve: &Curve, cell: usize, own: &Seen, last: Option<&[bool]>) -> Vec<(Percent, &'static str)> {
    let mut checks = Vec::new();
    if let Some((_, room)) = own.percent().against(curve.cells[cell].bound, None, None) {
        checks.push((room, "the share"));
    }
    if let (Some(points), Some(last)) = (curve.step, last) {
        let step = difference(&own.hits, last, 1.0);
        checks.push((Percent { share: step.share + points, ..step }, "a step down"));
    }
    if let Some(share) = curve.alone {
        checks.push((difference(&own.hits, &own.alone, share / 100.0), "less than with one look"));
    }
    checks
}

/// Targets of the cells of a curve.
fn words(curve: &Curve) -> String {
    let mut words: Vec<String> = Vec::new();
    let bounds = curve.cells.iter().map(|cell| match cell.bound {
        Bound::AtMost(limit) => format!("at most {limit}"),
        Bound::AtLeast(limit) => format!("at least {limit}"),
        _ => String::new(),
    });
    let bounds: Vec<String> = bounds.collect();
    for (cell, bound) in bounds.iter().enumerate() {
        let is_new = cell.checked_sub(1).is_none_or(|last| bounds[last] != *bound);
        if is_new && !bound.is_empty() {
            words.push(if cell == 0 { bound.clone() } else { format!("{bound} from {}", curve.cells[cell].at) });
        }
    }
    words.extend(curve.step.map(|points| format!("steps lose at most {points}")));
    words.extend(curve.alone.map(|share| format!("{share} % of one look")));
    words.join(", ")
}

fn line(curve: &Curve, shares: &str, bound: &str, missed: Vec<String>) -> Line {
    let before = rows::before(&curve.name, "");
    let mark = if missed.is_empty() { "" } else { "  MISSED" };
    let text = format!("{:<24} {shares} | {bound} | before {before}{mark}", curve.name);
    Line { text, share: format!("| {} | {shares} | {bound} | {before} |", curve.what), missed }
}

/// Digest of this program: stored results are valid for one judge only.
fn program() -> String {
    let program = fs::read(env::current_exe().unwrap()).unwrap();
    Digest::of(&program).to_string()
}

/// Puts the tables where the docs have them.
fn write(rows: &[String], curves: &[String]) {
    let docs = fs::read_to_string(DOCS).unwrap();
    let (head, rest) = docs.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let rows = format!("| experiments | share in percent, its bound, and before |\n|---|---|\n{}", rows.join("\n"));
    let curves = format!(
        "| share in percent | by blocks, or scatter and blocks | bound | before |\n|---|---|---|---|\n{}",
        curves.join("\n")
    );
    fs::write(DOCS, format!("{head}{BEGIN}\n\n{rows}\n\n{curves}\n\n{END}{tail}")).unwrap();
}
