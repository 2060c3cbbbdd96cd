//! The experiments of a cluster, as people read them.

use std::fmt::Write as _;

use assay_api::{TuningExperiment, TuningTrial};

use super::client::{Cluster, readable};
use super::words::{age, conditions, finished, is_over, seconds_left, under_way, waits_for};
use crate::machine::unix_ms;
use crate::screen::left;
use crate::text::table;

/// All that there is to say about one experiment.
pub async fn of(cluster: &Cluster, name: &str) -> anyhow::Result<String> {
    let experiment = cluster.experiment(name).await?;
    Ok(detail(&experiment, &readable(cluster.trials_of(&experiment).await?), unix_ms()))
}

/// A table of all experiments.
pub async fn overview(cluster: &Cluster, everywhere: bool) -> anyhow::Result<String> {
    let found = cluster.all_experiments(everywhere).await?;
    if found.is_empty() {
        let place = if everywhere { "the cluster".to_owned() } else { format!("namespace {}", cluster.namespace) };
        return Ok(format!("No experiments in {place}: start one with `assay run --cluster FILE`.\n"));
    }
    Ok(list(&readable(found), everywhere, unix_ms()))
}

fn list(experiments: &[TuningExperiment], everywhere: bool, now_ms: u64) -> String {
    let row = |namespace: &str, cells: [&str; 7]| -> Vec<String> {
        let namespace = everywhere.then(|| namespace.to_owned());
        namespace.into_iter().chain(cells.map(ToOwned::to_owned)).collect()
    };
    let mut rows = vec![row("namespace", ["name", "verdict", "trials", "invalid", "finished", "age", "waiting"])];
    for experiment in experiments {
        let metadata = &experiment.metadata;
        let status = experiment.status.clone().unwrap_or_default();
        rows.push(row(
            metadata.namespace.as_deref().unwrap_or_default(),
            [
                metadata.name.as_deref().unwrap_or_default(),
                status.verdict.as_deref().unwrap_or_default(),
                status.trials.as_deref().unwrap_or_default(),
                &status.progress.map_or(String::new(), |progress| progress.attempts_invalid.to_string()),
                finished(experiment).map_or("", |end| &end.reason),
                &age(metadata.creation_timestamp.as_ref(), now_ms),
                &waits_for(experiment).unwrap_or_default(),
            ],
        ));
    }
    table(&rows)
}

/// Everything that the cluster says about one experiment.
fn detail(experiment: &TuningExperiment, trials: &[TuningTrial], now_ms: u64) -> String {
    let metadata = &experiment.metadata;
    let (name, namespace) = (metadata.name.as_deref().unwrap_or_default(), metadata.namespace.as_deref());
    let status = experiment.status.clone().unwrap_or_default();
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "{name} in namespace {}, {} old: {}",
        namespace.unwrap_or_default(),
        age(metadata.creation_timestamp.as_ref(), now_ms),
        status.verdict.as_deref().unwrap_or("no verdict yet")
    );
    if let Some(waits_for) = waits_for(experiment) {
        let _ = writeln!(out, "Waiting: {waits_for}.");
    }
    out.push_str(&counts(experiment, now_ms));
    let rows = conditions(experiment).iter().map(|condition| {
        let since = age(Some(&condition.last_transition_time), now_ms);
        vec![
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            since,
            condition.message.clone(),
        ]
    });
    section(&mut out, "Conditions", rows);
    let running = trials.iter().filter(|trial| !is_over(trial));
    let rows = running.map(|trial| {
        let since = age(trial.metadata.creation_timestamp.as_ref(), now_ms);
        vec![under_way(trial), trial.spec.node.clone(), since, trial.metadata.name.clone().unwrap_or_default()]
    });
    section(&mut out, "Running trials", rows);
    let findings = |findings: &[assay_api::FindingStatus]| -> Vec<String> {
        findings.iter().map(|found| format!("{}: {}. {}", found.code, found.message, found.what_to_do)).collect()
    };
    let verdicts = status.verdicts.iter().flat_map(|verdict| {
        let mut lines = vec![format!("{}: {} ({})", verdict.config, verdict.verdict, verdict.reason)];
        lines.push(format!("  {} Next: {}.", verdict.sentence, verdict.recommendation));
        lines.extend(verdict.not_judged.iter().map(|text| format!("  Not judged: {text}.")));
        lines.extend(findings(&verdict.findings).into_iter().map(|line| format!("  {line}")));
        lines
    });
    section(&mut out, "Verdicts", verdicts.map(|line| vec![line]));
    section(&mut out, "Findings", findings(&status.findings).into_iter().map(|line| vec![line]));
    let labels = status.labels.iter().map(|label| vec![format!("{}: {}", label.label, label.text)]);
    section(&mut out, "Labels", labels);
    if status.plan.is_some() {
        let _ = writeln!(out, "\nFor the full report with plots: `assay report {name}`.");
    }
    out
}

fn counts(experiment: &TuningExperiment, now_ms: u64) -> String {
    let mut out = String::new();
    let status = experiment.status.clone().unwrap_or_default();
    if let (Some(progress), Some(plan)) = (&status.progress, &status.plan) {
        let _ = writeln!(
            out,
            "{} of {} trials valid, {} not needed, {} of {} blocks done; {} attempts: {} invalid, {} failed, {} lost",
            progress.trials_valid,
            progress.trials_planned,
            progress.trials_freed,
            progress.blocks_done,
            plan.blocks,
            progress.attempts,
            progress.attempts_invalid,
            progress.attempts_failed,
            progress.attempts_lost,
        );
        if finished(experiment).is_none() {
            let _ = writeln!(out, "{}", left(seconds_left(experiment, now_ms)));
        }
    }
    if let Some(plan) = &status.plan {
        let _ = writeln!(out, "plan {}, seed {}, made by {}", plan.digest, plan.seed, plan.produced_by);
    }
    out
}

fn section(out: &mut String, title: &str, rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    for line in table(&rows).lines() {
        let _ = writeln!(out, "  {line}");
    }
}

#[cfg(test)]
mod tests;
