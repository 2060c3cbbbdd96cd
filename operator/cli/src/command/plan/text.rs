//! A plan for people; long parts are folded.

use std::fmt::Write as _;

use assay_core::adopt::{BUNDLED, Scope};
use assay_core::experiment::{ConfigUnderTest, Environment, Experiment};
use assay_core::plan::power::{self, MOST_BLOCKS, Power, Smallest, Truth};
use assay_core::plan::{Block, Plan, assumed, assumed_seconds, formats};
use assay_core::quantity;
use assay_core::report::human_change;
use assay_core::stats::Scale;
use assay_core::validate::matrix::Expansion;
use assay_core::validate::{disk, display_percent};
use assay_core::verdict::{Families, LookPlan, MetricRule, Purpose, StopOn};

use crate::machine;
use crate::screen::Steps;
use crate::text::plural;

/// Blocks that are shown before and after the fold.
const SHOWN_FIRST: usize = 6;
const SHOWN_LAST: usize = 2;

/// A config that changes nothing.
const SAME: &str = "no changes: an A/A comparison";

/// What this machine has.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    pub cpus: u32,
    pub memory_bytes: Option<u64>,
}

/// `matrix`: where configs come from. `noise`: what is known of it.
pub fn text(plan: &Plan, matrix: &Expansion, keeps_datasets: bool, noise: &Noise, here: Here) -> String {
    let experiment = &plan.experiment;
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "{}: {} x {} x {} = {}\nplan {}, seed {}\n",
        experiment.name,
        plural(experiment.scenarios.len(), "scenario"),
        plural(experiment.repetitions as usize, "block"),
        plural(slots(experiment), "run"),
        plural(experiment.trials() as usize, "trial"),
        plan.digest,
        experiment.seed,
    );
    configs(experiment, matrix, &mut out);
    metrics(experiment, &mut out);
    let machines = match experiment.environment {
        Environment::Dedicated => "dedicated: disturbed runs do not count",
        Environment::Shared => "shared: disturbed runs count; the disturbance is recorded and widens intervals",
    };
    let _ = writeln!(out, "machines   {machines}");
    fits(experiment, here, &mut out);
    scenarios(experiment, &mut out);
    room(experiment, &mut out);
    datasets(experiment, keeps_datasets, &mut out);
    decides(experiment, &mut out);
    looks(experiment, &mut out);
    finds(experiment, noise, MEASURE, &mut out);
    let _ = writeln!(
        out,
        "time       about {} (estimate; measured once trials run)",
        duration(assumed_seconds(experiment))
    );
    blocks(plan, &mut out);
    out
}

pub fn slots(experiment: &Experiment) -> usize {
    experiment.configs.len() - 1 + experiment.baseline_replicates as usize
}

fn configs(experiment: &Experiment, matrix: &Expansion, out: &mut String) {
    let (written, of_matrix) = experiment.configs.split_at(matrix.written());
    let baseline = experiment.baseline_config().map_or("", |config| config.name.as_str());
    let runs = plural(experiment.baseline_replicates as usize, "run");
    let _ = writeln!(out, "baseline   {baseline} ({runs} per block)");
    for config in written.iter().filter(|config| config.name != baseline) {
        let _ = writeln!(out, "config     {}", config.name);
        changes(config, out);
    }
    combinations(of_matrix, matrix, out);
}

/// The configs of a matrix, a line each.
pub fn combinations(configs: &[ConfigUnderTest], matrix: &Expansion, out: &mut String) {
    if matrix.is_there() {
        let _ = writeln!(out, "matrix     {}", matrix.summary());
    }
    for config in configs {
        let changes: Vec<String> = config.changes.iter().map(|change| human_change(&with_default(change))).collect();
        let changes = if changes.is_empty() { SAME.to_owned() } else { changes.join("; ") };
        let _ = writeln!(out, "             {}: {changes}", config.name);
    }
}

/// What a config changes, below its name.
pub fn changes(config: &ConfigUnderTest, out: &mut String) {
    for change in &config.changes {
        let _ = writeln!(out, "             {}", human_change(&with_default(change)));
    }
    if config.changes.is_empty() {
        let _ = writeln!(out, "             {SAME}");
    }
}

/// A change from or to an option's default, with the default. Plans don't have it: it is that of one version.
fn with_default(change: &str) -> String {
    const DEFAULT: &str = "RocksDB's default";
    let default = change.split_once(": ").and_then(|(option, _)| {
        let (scope, name) = BUNDLED.find(option)?;
        let defaults = if scope == Scope::Db { &BUNDLED.db } else { &BUNDLED.family };
        defaults.get(&name).filter(|value| !value.is_empty() && !value.starts_with('{')).map(|value| (option, value))
    });
    let Some((option, value)) = default else { return change.to_owned() };
    let size = human_change(&format!("{option}: {value}"));
    let value = size.split_once(": ").map_or(value.as_str(), |(_, size)| size);
    change.replacen(DEFAULT, &format!("{DEFAULT} ({value})"), 1)
}

pub fn metrics(experiment: &Experiment, out: &mut String) {
    for rule in &experiment.metrics {
        let purpose = if rule.purpose == Purpose::Objective { "objective " } else { "guardrail " };
        let least = rule.at_least.map_or(String::new(), |least| format!(", at least {}", display_percent(least)));
        let per_scenario = if experiment.scenarios.len() > 1 {
            format!(", {} in a single scenario", display_percent(rule.margin_per_scenario()))
        } else {
            String::new()
        };
        let _ = writeln!(out, "{purpose} {}, margin {}{per_scenario}{least}", rule.name, display_percent(rule.margin));
    }
}

pub fn scenarios(experiment: &Experiment, out: &mut String) {
    for scenario in &experiment.scenarios {
        let formats = formats(experiment, scenario);
        let need = disk::need(&scenario.workload);
        let steps = scenario.workload.primary_role().map_or(0, |role| role.steps);
        let time = assumed(scenario, experiment.cpus);
        let data = match (need.dataset_bytes, formats) {
            (0, _) => "starts empty".to_owned(),
            (bytes, 1) => format!("dataset of {}", quantity::display(bytes)),
            (bytes, formats) => format!("dataset of {} in {formats} formats", quantity::display(bytes)),
        };
        let _ = writeln!(
            out,
            "scenario   {}: {}, {data}, about {} of disk, about {} per trial",
            scenario.name,
            plural(steps as usize, "step"),
            quantity::display(need.total(formats)),
            duration(time.trial_seconds),
        );
        let block = time.trial_seconds * slots(experiment) as f64;
        if block > experiment.max_block_duration_seconds as f64 {
            let most = duration(experiment.max_block_duration_seconds as f64);
            let _ = writeln!(
                out,
                "             a block takes about {}, longer than maxBlockDurationSeconds ({most})",
                duration(block)
            );
        }
    }
}

/// What this machine lacks; a cluster may have it.
fn fits(experiment: &Experiment, here: Here, out: &mut String) {
    if experiment.cpus > here.cpus {
        let _ = writeln!(
            out,
            "             this one has {}, and trials need {}: they run on a cluster only",
            plural(here.cpus as usize, "CPU"),
            experiment.cpus
        );
    }
    let caches = experiment.configs.iter().filter_map(|config| Some((config, config.engine.block_cache?.bytes)));
    for (config, bytes) in caches {
        if let Some(memory) = here.memory_bytes.filter(|&memory| bytes >= memory) {
            let _ = writeln!(
                out,
                "             this one has {} of memory, and the block cache of {} takes {}",
                quantity::display(memory),
                config.name,
                quantity::display(bytes)
            );
        }
    }
}

/// What has to be free where trials run.
pub fn room(experiment: &Experiment, out: &mut String) {
    let room = disk::room(experiment);
    let _ = writeln!(
        out,
        "disk       {} must be free: {} for datasets, {} per trial; killed above that",
        quantity::display(room.total()),
        quantity::display(room.datasets_bytes),
        quantity::display(room.trial_bytes),
    );
}

/// How often datasets are prepared, which can take longer than trials.
fn datasets(experiment: &Experiment, keeps: bool, out: &mut String) {
    if experiment.scenarios.iter().any(|scenario| disk::need(&scenario.workload).dataset_bytes > 0) {
        let on_a_cluster =
            if keeps { "once per block" } else { "for every trial, because placement.storage is an emptyDir" };
        let _ = writeln!(out, "datasets   prepared once; on a cluster {on_a_cluster}");
    }
}

/// What the design can prove at best, whatever is measured.
fn decides(experiment: &Experiment, out: &mut String) {
    let blocks = experiment.repetitions as usize;
    let Families { overall, cells } = experiment.design().families();
    for (name, family) in [("overall", overall), ("in each scenario", cells)] {
        let (gain, harm) = (family.n_min, family.n_min_harm());
        let can = if blocks >= gain { "can decide" } else { "can't decide" };
        // Harm is claimed of more than gains are, so it never needs fewer.
        let open = if blocks >= gain && blocks < harm { ", so no harm can be proven" } else { "" };
        let _ = writeln!(
            out,
            "{can:<10} {name}: a gain needs {} ({} at 5 %), harm {harm} ({}); {blocks} planned{open}",
            plural(gain, "block"),
            plural(family.better, "claim"),
            plural(family.worse, "claim"),
        );
    }
}

/// When a config can stop before the end.
fn looks(experiment: &Experiment, out: &mut String) {
    let Some(LookPlan { blocks, stop_on, futility }) = &experiment.looks else {
        let _ = writeln!(out, "looks      one, at the end");
        return;
    };
    let all: Vec<String> = blocks.iter().map(ToString::to_string).collect();
    let waits = match stop_on {
        StopOn::Overall => "its overall verdict is decided",
        StopOn::Cells => "its overall verdict and those of all scenarios are decided",
    };
    let futile = if *futility { ", or when a gain of the margin is ruled out" } else { "" };
    let first = blocks.first().copied().unwrap_or_default() as u64 * slots(experiment) as u64;
    let _ = writeln!(
        out,
        "looks      after {} blocks: a config stops when {waits}{futile}\n             {} to {} trials in total",
        all.join(", "),
        first * experiment.scenarios.len() as u64,
        experiment.trials(),
    );
}

/// What is known of the noise of runs.
pub enum Noise {
    Unknown,
    /// Standard deviation of one run as a fraction.
    Given(f64),
    /// From the records of an experiment: by scenario and metric.
    Measured(power::Spreads),
}

/// Noise of a run, as standard deviation over mean, that is shown where none is known: a quiet node, a usual one, a cloud VM.
const ASSUMED_NOISE: [f64; 3] = [0.02, 0.05, 0.1];

/// How the noise is known.
const MEASURE: &str =
    "measure the noise with `assay aa FILE`, and pass its folder or that of an earlier run with --noise-from DIR";

/// The effects that the whole design finds with 80 % probability, how many blocks would decide, and what looks save.
pub fn finds(experiment: &Experiment, noise: &Noise, measure: &str, out: &mut String) {
    let design = experiment.design();
    let even = |noise: f64| power::spreads(&design, &vec![noise; experiment.scenarios.len()]);
    let of_run = |noise: f64, source: &str| (format!("{} noise per run ({source})", percent(noise)), even(noise));
    let known = match noise {
        Noise::Unknown => ASSUMED_NOISE.iter().map(|&noise| of_run(noise, "assumed")).collect(),
        Noise::Given(noise) => vec![of_run(*noise, "given")],
        Noise::Measured(spreads) => vec![("the measured noise".to_owned(), spreads.clone())],
    };
    let threads = machine::cpus() as usize;
    let power = |spreads| Power::new(&design, spreads, threads);
    let steps = Steps::new("simulating the experiment");
    // Two of each noise, and three of a known one; then the blocks that a look saves.
    let (mut done, all) = (0, 2 * known.len() + 4);
    let mut next = || {
        steps.at(done, all);
        done += 1;
    };
    let rule = experiment.metrics.iter().find(|rule| rule.purpose == Purpose::Objective);
    for (what, spreads) in &known {
        let (Some(power), Some(rule)) = (power(spreads), rule) else {
            let _ = writeln!(out, "detects    nothing with {what}: one block shows no noise");
            continue;
        };
        next();
        let losses = match power.loss() {
            Smallest::From(loss) => format!("losses {}", from(rule, loss)),
            Smallest::Nothing { .. } => "no losses".to_owned(),
        };
        next();
        let gains = match power.gain() {
            Smallest::From(gain) => format!("gains {}", from(rule, gain)),
            Smallest::Nothing { held_back_by: Some(metric) } => {
                format!("no gains, as too few blocks show that {metric} stays within its margin")
            }
            Smallest::Nothing { held_back_by: None } => "no gains".to_owned(),
        };
        let _ = writeln!(out, "detects    with {what}: {losses}, {gains}");
    }
    // The middle one stands for noise that is neither measured nor guessed.
    let Some((what, power)) = known.get(known.len() / 2).and_then(|(what, spreads)| Some((what, power(spreads)?)))
    else {
        return;
    };
    if matches!(noise, Noise::Unknown) {
        saves(experiment, what, &power, &mut next, out);
        let _ = writeln!(out, "             {measure}; --noise PERCENT takes a guess");
        return;
    }
    let mut blocks = |found: &dyn Fn() -> Option<usize>| {
        next();
        found().map_or(format!("more than {MOST_BLOCKS}"), |blocks| blocks.to_string())
    };
    let _ = writeln!(
        out,
        "decides    with 80 % probability: Neutral takes {} repetitions if nothing changes, Win {} if the gain equals the \
         margin, Reject {} if the loss does",
        blocks(&|| power.blocks_for_neutral()),
        blocks(&|| power.blocks_for_win()),
        blocks(&|| power.blocks_for_reject()),
    );
    saves(experiment, what, &power, &mut next, out);
}

/// An effect from which on others are found.
fn from(rule: &MetricRule, effect: f64) -> String {
    let shown = match rule.scale {
        Scale::Log => percent(effect),
        Scale::Linear => format!("{effect:.4}"),
    };
    if effect > rule.margin { format!("from {shown}") } else { format!("from the margin ({shown}) on") }
}

/// Machine time that `futility: Continue` costs, or `Stop` saves.
fn saves(experiment: &Experiment, what: &str, power: &Power, next: &mut impl FnMut(), out: &mut String) {
    let Some(LookPlan { futility, .. }) = &experiment.looks else { return };
    let Some(rule) = experiment.metrics.iter().find(|rule| rule.purpose == Purpose::Objective) else { return };
    let run: f64 = experiment.scenarios.iter().map(|scenario| assumed(scenario, experiment.cpus).trial_seconds).sum();
    let mut of = |truth: Truth| {
        next();
        let [continues, stops] = [false, true].map(|futility| power.blocks_used(truth, futility));
        let time = if continues - stops < 0.05 { "0 s".to_owned() } else { duration(run * (continues - stops)) };
        let (own, other) = if *futility { (stops, continues) } else { (continues, stops) };
        format!("{time} ({own:.1} blocks on average instead of {other:.1})")
    };
    let (equal, worse) = (of(Truth::Same), of(Truth::Loss { effect: rule.scale.margin(rule.margin) }));
    let does = if *futility { "`futility: Stop` saves" } else { "`futility: Continue` costs" };
    let _ = writeln!(
        out,
        "             with {what}, {does} {equal} for a config that changes nothing, and {worse} for one that loses the \
         margin"
    );
}

fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

fn blocks(plan: &Plan, out: &mut String) {
    let _ = writeln!(out, "\nblocks in run order, trials from left to right");
    let fold = plan.blocks.len() > SHOWN_FIRST + SHOWN_LAST + 1;
    let hidden = if fold { SHOWN_FIRST..plan.blocks.len() - SHOWN_LAST } else { 0..0 };
    let width = plan.experiment.scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or_default();
    for (index, block) in plan.blocks.iter().enumerate() {
        if index == hidden.start && !hidden.is_empty() {
            let _ = writeln!(out, "  ... {} not shown; --output json shows all", plural(hidden.len(), "block"));
        }
        if !hidden.contains(&index) {
            let _ = writeln!(out, "  {:<width$} {:>3}  {}", block.scenario, block.number + 1, order(plan, block));
        }
    }
}

fn order(plan: &Plan, block: &Block) -> String {
    let replicated = plan.experiment.baseline_replicates > 1;
    let baseline = plan.experiment.baseline_config().map(|config| config.name.as_str());
    let names = block.slots.iter().map(|slot| {
        if replicated && Some(slot.config.as_str()) == baseline {
            format!("{}/{}", slot.config, slot.replicate + 1)
        } else {
            slot.config.clone()
        }
    });
    names.collect::<Vec<_>>().join(" ")
}

/// Seconds for people: two units at most.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round().max(1.0) as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => format!("{} min {} s", seconds / 60, seconds % 60),
        600..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_for_people() {
        let table = [
            (0.2, "1 s"),
            (59.0, "59 s"),
            (61.0, "1 min 1 s"),
            (1000.0, "16 min"),
            (7300.0, "2 h 1 min"),
            (180_000.0, "2 d 2 h"),
        ];
        for (seconds, text) in table {
            assert_eq!(duration(seconds), text);
        }
    }
}
