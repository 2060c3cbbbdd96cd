//! A policy to begin with, made of what the data names.

use std::fmt::Write as _;

use super::collect::Found;
use super::columns::Meaning;
use super::policy::{JudgedMetric, MOST_METRICS, Policy};
use crate::stats::Direction;

/// Metrics and configs that comments name.
const NAMED: usize = 40;
/// What people call the one that they had before.
const USUAL: [&str; 9] = ["baseline", "base", "default", "control", "main", "master", "old", "before", "stock"];
/// Marks what nobody has said.
const GUESS: &str = "guess: check it";

/// A policy file, with a comment wherever it guesses. What `policy` declares is taken as it is.
pub fn draft(policy: &Policy, found: &Found) -> String {
    let mut out =
        "# Written by assay judge --write-policy. Check every guess. docs/judge.md explains all fields.\n".to_owned();
    baseline(&mut out, policy, found);
    columns(&mut out, policy, found);
    let open: Vec<&str> = found.metrics.iter().map(String::as_str).filter(|name| !is_declared(policy, name)).collect();
    let objective = if policy.objectives.is_empty() { objective(&open) } else { None };
    out.push_str("\n# The metrics to improve. The margin is the smallest change that matters to you.\nobjectives:\n");
    for judged in &policy.objectives {
        declared(&mut out, judged);
    }
    if let Some(name) = objective {
        let guessed = guess(name);
        let why = if guessed.is_some() { GUESS } else { "guess, perhaps lower: check it" };
        metric(&mut out, &judged(name, guessed.unwrap_or(Direction::Higher)), why);
    }
    guardrails(&mut out, policy, &open, objective);
    out
}

fn baseline(out: &mut String, policy: &Policy, found: &Found) {
    out.push_str("\n# The config that all others are compared with.\n");
    if let Some(baseline) = &policy.baseline {
        let _ = writeln!(out, "baseline: {}", scalar(baseline));
        return;
    }
    let usual = USUAL.iter().find_map(|usual| found.configs.iter().find(|name| name.eq_ignore_ascii_case(usual)));
    let Some(baseline) = usual.or(found.configs.first()) else { return };
    let others: Vec<String> =
        found.configs.iter().filter(|name| *name != baseline).take(NAMED).map(|name| scalar(name)).collect();
    let _ = writeln!(out, "baseline: {}  # {GUESS}; others: {}", scalar(baseline), others.join(", "));
}

fn columns(out: &mut String, policy: &Policy, found: &Found) {
    let named: Vec<(Meaning, &str)> = policy.columns.named().collect();
    if !named.is_empty() {
        out.push_str("\n# Columns that have other names than their roles.\ncolumns:\n");
    }
    for (meaning, column) in named {
        let _ = writeln!(out, "  {}: {}", meaning.name(), scalar(column));
    }
    if !policy.ignore_columns.is_empty() {
        let ignored: Vec<String> = policy.ignore_columns.iter().map(|column| scalar(column)).collect();
        let _ = writeln!(out, "ignoreColumns: [{}]", ignored.join(", "));
    }
    if !found.has_blocks {
        out.push_str(
            "\n# No column says which runs are a block, so the report can only advise. If one does, name it:\n\
             # columns: {block: NAME}\n",
        );
    }
}

fn is_declared(policy: &Policy, name: &str) -> bool {
    policy.objectives.iter().chain(&policy.guardrails).any(|judged| judged.metric == name)
}

/// What is most likely to be wanted: a rate, else a time, else whatever there is.
fn objective<'a>(open: &[&'a str]) -> Option<&'a str> {
    let first = |wanted: &dyn Fn(&str) -> bool| open.iter().copied().find(|name| wanted(name));
    first(&|name| guess(name) == Some(Direction::Higher))
        .or_else(|| first(&|name| guess(name).is_some()))
        .or(first(&|_| true))
}

fn guardrails(out: &mut String, policy: &Policy, open: &[&str], objective: Option<&str>) {
    let rest: Vec<&str> = open.iter().copied().filter(|name| Some(*name) != objective).collect();
    let room = MOST_METRICS.saturating_sub(policy.guardrails.len());
    let guarded: Vec<&str> = rest.iter().copied().filter(|name| is_guardrail(name)).take(room).collect();
    if !policy.guardrails.is_empty() || !guarded.is_empty() {
        out.push_str("\n# The metrics that must not get worse.\nguardrails:\n");
    }
    for judged in &policy.guardrails {
        declared(out, judged);
    }
    for name in &guarded {
        metric(out, &judged(name, Direction::Lower), GUESS);
    }
    let left: Vec<&str> = rest.into_iter().filter(|name| !guarded.contains(name)).take(NAMED).collect();
    if left.is_empty() {
        return;
    }
    out.push_str("\n# Not judged. Move what matters to the objectives or guardrails.\n");
    for name in left {
        let (direction, why) = guess(name).map_or((Direction::Higher, "or lower"), |direction| (direction, GUESS));
        out.push_str("# ");
        metric(out, &judged(name, direction), why);
    }
}

/// What was declared, with what its name says in addition.
fn declared(out: &mut String, judged: &JudgedMetric) {
    if judged.quantile || !names_quantile(&judged.metric) {
        return metric(out, judged, "");
    }
    metric(out, &JudgedMetric { quantile: true, ..judged.clone() }, "quantile is a guess: check it");
}

fn judged(name: &str, direction: Direction) -> JudgedMetric {
    JudgedMetric { quantile: names_quantile(name), ..JudgedMetric::new(name, direction, None) }
}

fn metric(out: &mut String, judged: &JudgedMetric, why: &str) {
    let direction = match judged.direction {
        Direction::Higher => "higher",
        Direction::Lower => "lower",
    };
    let quantile = if judged.quantile { ", quantile: true" } else { "" };
    let comment = if why.is_empty() { String::new() } else { format!("  # {why}") };
    let (name, margin) = (scalar(&judged.metric), &judged.margin);
    let _ = writeln!(out, "- {{metric: {name}, direction: {direction}, margin: {margin}{quantile}}}{comment}");
}

/// The parts of a name, `latencyP99` among them.
fn words(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut before = ' ';
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            spaced.push(' ');
        }
        spaced.push(c);
        before = c;
    }
    spaced.to_ascii_lowercase().split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned).collect()
}

fn names_quantile(name: &str) -> bool {
    words(name).iter().any(|word| is_quantile(word))
}

/// `p99`, `p999us`, `pct95`, `99th`, `median`.
fn is_quantile(word: &str) -> bool {
    const BEFORE: [&str; 5] = ["percentile", "pctl", "pct", "p", "q"];
    const AFTER: [&str; 5] = ["", "us", "ms", "ns", "s"];
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let numbered = BEFORE.iter().filter_map(|before| word.strip_prefix(before)).any(|rest| {
        let number = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        digits(number) && AFTER.contains(&&rest[number.len()..])
    });
    numbered || word == "median" || word.strip_suffix("th").is_some_and(|number| digits(number) && number.len() > 1)
}

const HARM: [&str; 12] = [
    "stall",
    "stalls",
    "miss",
    "misses",
    "error",
    "errors",
    "failures",
    "amp",
    "amplification",
    "rss",
    "mem",
    "memory",
];
const TIME: [&str; 15] = [
    "latency", "lat", "time", "duration", "elapsed", "micros", "millis", "seconds", "secs", "sec", "s", "ms", "us",
    "ns", "wall",
];
const RATE: [&str; 12] =
    ["ops", "throughput", "qps", "tps", "rps", "iops", "rate", "bandwidth", "speed", "hits", "hit", "mbps"];
const COST: [&str; 8] = ["bytes", "cpu", "space", "size", "disk", "kb", "mb", "gb"];

/// Which way is better, if the name says so.
fn guess(name: &str) -> Option<Direction> {
    let words = words(name);
    let any = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    let per_second = words.windows(2).any(|pair| pair[0] == "per" && pair[1].starts_with('s')) || name.ends_with("/s");
    if any(&HARM) {
        Some(Direction::Lower)
    } else if per_second {
        Some(Direction::Higher)
    } else if any(&TIME) || words.iter().any(|word| is_quantile(word)) {
        Some(Direction::Lower)
    } else if any(&RATE) {
        Some(Direction::Higher)
    } else {
        any(&COST).then_some(Direction::Lower)
    }
}

/// What changes are paid with. A mean time is left out: it says what the rate says.
fn is_guardrail(name: &str) -> bool {
    let tail = |word: &String| is_quantile(word) || matches!(word.as_str(), "max" | "latency" | "space");
    guess(name) == Some(Direction::Lower) && words(name).iter().any(|word| tail(word) || HARM.contains(&word.as_str()))
}

/// A text as YAML has it, in quotes unless it can be nothing else.
fn scalar(text: &str) -> String {
    const OTHERS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/'))
        && !OTHERS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Flags, MetricFlag};

    fn found(configs: &[&str], metrics: &[&str]) -> Found {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Found { configs: names(configs), metrics: names(metrics), has_blocks: true }
    }

    #[test]
    fn names_suggest_a_direction() {
        let (higher, lower) = (Some(Direction::Higher), Some(Direction::Lower));
        for (name, expected) in [
            ("ops_per_sec", higher),
            ("throughput", higher),
            ("MB/s", higher),
            ("cache_hit_rate", higher),
            ("p99_us", lower),
            ("mean latency", lower),
            ("time", lower),
            ("micros_per_op", lower),
            ("miss_rate", lower),
            ("rss_bytes", lower),
            ("write-amp", lower),
            ("score", None),
            ("p", None),
        ] {
            assert_eq!(guess(name), expected, "{name}");
        }
    }

    #[test]
    fn names_of_quantiles_are_known() {
        for name in
            ["p99_us", "p50", "p999", "read_latency_p99.9", "latencyP99", "p99us", "p95-ms", "q99", "99th", "median_us"]
        {
            assert!(names_quantile(name), "{name}");
        }
        for name in ["p", "ops", "p2p_ms", "max_us", "pct", "lz4", "latency", "4th_run", "th"] {
            assert!(!names_quantile(name), "{name}");
        }
    }

    #[test]
    fn a_draft_guesses_and_says_so() {
        let text =
            draft(&Policy::default(), &found(&["new", "old"], &["micros_per_op", "ops_per_sec", "p99_us", "seed"]));
        assert_eq!(
            text,
            "# Written by assay judge --write-policy. Check every guess. docs/judge.md explains all fields.\n\n\
             # The config that all others are compared with.\n\
             baseline: old  # guess: check it; others: new\n\n\
             # The metrics to improve. The margin is the smallest change that matters to you.\n\
             objectives:\n\
             - {metric: ops_per_sec, direction: higher, margin: 5%}  # guess: check it\n\n\
             # The metrics that must not get worse.\n\
             guardrails:\n\
             - {metric: p99_us, direction: lower, margin: 5%, quantile: true}  # guess: check it\n\n\
             # Not judged. Move what matters to the objectives or guardrails.\n\
             # - {metric: micros_per_op, direction: lower, margin: 5%}  # guess: check it\n\
             # - {metric: seed, direction: higher, margin: 5%}  # or lower\n"
        );
    }

    #[test]
    fn what_was_said_is_taken() {
        let objectives: [MetricFlag; 1] = ["p99_us:lower:10%".parse().expect("a metric")];
        let columns = ["config=a variant".parse().expect("a column")];
        let ignored = ["host: #1".to_owned()];
        let flags = Flags {
            baseline: Some("no"),
            objectives: &objectives,
            columns: &columns,
            ignored: &ignored,
            ..Flags::default()
        };
        let policy = Policy::default().with(&flags).expect("a policy");
        let text = draft(&policy, &Found { has_blocks: false, ..found(&["no", "5"], &["p99_us", "ops"]) });
        assert!(text.contains("baseline: \"no\"\n"), "{text}");
        assert!(text.contains("columns:\n  config: \"a variant\"\nignoreColumns: [\"host: #1\"]\n"), "{text}");
        assert!(
            text.contains(
                "- {metric: p99_us, direction: lower, margin: 10%, quantile: true}  # quantile is a guess: check it\n"
            ),
            "{text}"
        );
        assert!(text.contains("# - {metric: ops, direction: higher, margin: 5%}  # guess: check it\n"), "{text}");
        assert!(text.contains("# columns: {block: NAME}\n") && !text.contains("guardrails:\n"), "{text}");
    }
}
