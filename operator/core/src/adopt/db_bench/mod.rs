//! A command line of `db_bench`, RocksDB's own benchmark, as an experiment.

mod benchmarks;
mod flags;
mod known;
mod options;
mod table;

use assay_protocol::Preload;

pub use benchmarks::BENCHMARKS;
use benchmarks::{Outcome, Work};
use flags::Flags;

use super::draft::{CANDIDATE, Draft, DraftScenario};
use crate::validate::nearest;

/// Flags about output and places. Assay measures and reports in its own way, in its own directories.
const NOT_NEEDED: [&str; 26] = [
    "build_info",
    "confidence_interval_only",
    "db",
    "dump_malloc_stats",
    "histogram",
    "ops_between_duration_checks",
    "perf_level",
    "print_malloc_stats",
    "progress_reports",
    "report_bg_io_stats",
    "report_file",
    "report_file_operations",
    "report_interval_seconds",
    "report_open_timing",
    "show_table_properties",
    "slow_usecs",
    "statistics",
    "statistics_string",
    "stats_history_buffer_size",
    "stats_interval",
    "stats_interval_seconds",
    "stats_level",
    "stats_per_interval",
    "stats_persist_period_sec",
    "thread_status_per_interval",
    "wal_dir",
];

/// Flags without a counterpart about which there is more to say.
const EXPLAINED: [(&str, &str); 8] = [
    ("cache_type", "the block cache is an LRU cache"),
    ("enable_numa", "trials are pinned to CPUs; see placement"),
    ("flagfile", "not read: write its flags into the command"),
    ("options_file", "use `assay init --from-options` with that file, and copy the scenarios from here"),
    ("read_random_exp_range", "use keyOrder: Zipfian"),
    ("row_cache_size", "an option string can't create a row cache"),
    ("transaction_db", "the workloads use no transactions"),
    ("use_plain_table", "only block-based tables"),
];

/// Names of scenarios and seeds as experiments have them.
const MOST_FAMILIES: u64 = 32;
const LARGEST_SEED: u64 = 9_007_199_254_740_991;

/// The experiment that a command line describes, as far as it can be one; else everything that is wrong with it.
pub fn from_command(name: &str, command: &str, cpus: u32) -> Result<Draft, Vec<String>> {
    let mut flags = Flags::parse(command).map_err(|problem| vec![problem])?;
    let benchmarks = flags.take("benchmarks").unwrap_or_else(|| {
        let problem = no_benchmarks(&mut flags);
        flags.refuse(problem);
        String::new()
    });
    let mut lost = Vec::new();
    let families = families(&mut flags, &mut lost);
    let engine = options::engine(&mut flags, &families);
    let seed = flags.number("seed", 0).unsigned_abs();
    let work = Work::of(&mut flags, &families);
    lost.extend(work.changed.iter().cloned());
    let kept = kept_by(&mut flags, &mut lost);
    let scenarios = scenarios(&benchmarks, &work, kept, &mut lost);
    if scenarios.is_empty() && !benchmarks.is_empty() {
        flags.refuse(format!("--benchmarks={benchmarks}: no benchmark becomes a scenario ({})", lost.join("; ")));
    }
    flags.refuse_rest();
    if !flags.problems().is_empty() {
        return Err(flags.problems().to_vec());
    }
    lost.extend(rest(&flags));
    if !engine.at_default.is_empty() {
        lost.push(format!("same as RocksDB's default: {}", engine.at_default.join(", ")));
    }
    Ok(Draft {
        name: name.to_owned(),
        head: vec![
            format!("Written by `assay init --from-db-bench` from: {}", one_line(command)),
            format!(
                "To do: say what `{CANDIDATE}` changes, then use `assay validate` and `assay plan` on this file. docs/db-bench.md \
                 says how flags and benchmarks become fields."
            ),
        ],
        seed: (1..=LARGEST_SEED).contains(&seed).then_some(seed),
        baseline: engine.baseline,
        baseline_notes: vec![format!(
            "What the flags set. In these, db_bench without flags is not as RocksDB without options: {}.",
            options::OWN_DEFAULTS.map(|(option, _)| option).join(", ")
        )],
        cache: engine.cache,
        write: engine.write,
        change: None,
        scenarios,
        lost,
        cpus,
    })
}

fn one_line(command: &str) -> String {
    command.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ")
}

/// What to do about a command without benchmarks.
fn no_benchmarks(flags: &mut Flags) -> String {
    let near = nearest("benchmarks", flags.rest().map(|(name, _)| name)).map(str::to_owned);
    match near.and_then(|near| Some((flags.take(&near)?, near))) {
        Some((value, near)) => format!("--{near}={value}: did you mean --benchmarks={value}?"),
        None => {
            "--benchmarks is missing: name the benchmarks, such as --benchmarks=fillrandom,readrandom (db_bench would \
                 run all)"
                .to_owned()
        }
    }
}

/// The flag with which `db_bench` keeps the database that is there.
fn kept_by(flags: &mut Flags, lost: &mut Vec<String>) -> Option<&'static str> {
    let mut kept = None;
    for (flag, why) in [
        ("readonly", "databases are opened for writing, and every dataset is filled anew"),
        ("use_existing_db", "every dataset is filled anew"),
    ] {
        if flags.switch(flag, false) {
            lost.push(format!("--{flag}: {why}"));
            kept = Some(flag);
        }
    }
    kept
}

/// The column families, under the names that `db_bench` gives them.
fn families(flags: &mut Flags, lost: &mut Vec<String>) -> Vec<String> {
    let given = flags.number("num_column_families", 1);
    let wanted = u64::try_from(given).unwrap_or_default().max(1);
    if wanted > MOST_FAMILIES {
        lost.push(format!("--num_column_families={given}: {MOST_FAMILIES} are the most"));
    }
    let name = |number: u64| match number {
        0 => "default".to_owned(),
        number => format!("column_family_name_{number:06}"),
    };
    (0..wanted.min(MOST_FAMILIES)).map(name).collect()
}

/// One scenario for each benchmark that has a counterpart, and that `db_bench` runs: `kept` is the flag that makes it skip those that
/// want a new database.
fn scenarios(benchmarks: &str, work: &Work, kept: Option<&str>, lost: &mut Vec<String>) -> Vec<DraftScenario> {
    let mut scenarios: Vec<DraftScenario> = Vec::new();
    let mut filled = Preload::Shuffled;
    let mut not_needed = Vec::new();
    for benchmark in benchmarks.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        // `readrandom[X3-W1]` repeats and warms up.
        let (name, repeats) = benchmark.split_once('[').map_or((benchmark, ""), |(name, rest)| (name, rest));
        let name = name.to_ascii_lowercase();
        if !repeats.is_empty() {
            lost.push(format!("{benchmark}: repetitions and warmupSteps take the place of [{repeats}"));
        }
        match work.scenario(&name, filled) {
            Outcome::Scenario(scenario) => {
                let is_fresh = scenario.workload.preload == Preload::Empty;
                if let Some(flag) = kept.filter(|_| is_fresh) {
                    lost.push(format!(
                        "{benchmark}: db_bench skips it with --{flag}; remove that flag to have a scenario"
                    ));
                    continue;
                }
                if is_fresh {
                    filled =
                        if name == "fillseq" || name == "fillbatch" { Preload::Sequential } else { Preload::Shuffled };
                }
                let before = scenarios.iter().filter(|other| other.name.split('-').next() == Some(&name)).count();
                if scenarios.iter().any(|other| other.workload == scenario.workload && other.notes == scenario.notes) {
                    lost.push(format!("{benchmark}: the same once more; blocks repeat each scenario"));
                } else if before == 0 {
                    scenarios.push(*scenario);
                } else {
                    scenarios.push(DraftScenario { name: format!("{name}-{}", before + 1), ..*scenario });
                }
            }
            Outcome::NotNeeded => not_needed.push(name),
            Outcome::Missing(why) => lost.push(format!("{name}: {why}")),
        }
    }
    if !not_needed.is_empty() {
        not_needed.dedup();
        let names = not_needed.join(", ");
        lost.push(format!("not needed, as datasets are settled and records have the statistics: {names}"));
    }
    scenarios
}

/// The flags that nothing has asked for.
fn rest(flags: &Flags) -> Vec<String> {
    let mut not_needed = Vec::new();
    let mut lines = Vec::new();
    for (name, value) in flags.rest() {
        if NOT_NEEDED.contains(&name) {
            not_needed.push(format!("--{name}"));
        } else if let Some((_, why)) = EXPLAINED.iter().find(|(flag, _)| *flag == name) {
            lines.push(format!("--{name}={value}: {why}"));
        } else {
            lines.push(format!("--{name}={value}: no counterpart"));
        }
    }
    if !not_needed.is_empty() {
        lines.push(format!("not needed: {}", not_needed.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests;
