//! A report as the status of an experiment: everything that decides, within the bounds of an object.

use std::collections::BTreeMap;

use assay_api::{
    CellVerdict, ConfigVerdict, EstimateStatus, FindingStatus, LabelStatus, ProgressStatus, TuningExperimentStatus,
    bounds,
};
use assay_protocol::Digest;

use crate::gates::Finding;
use crate::report::{ConfigReport, Estimate, NotJudged, Report};
use crate::stats::Scale;

/// Verdict, progress and everything else of a status that follows from a report. Conditions and plan are left empty.
pub fn of(report: &Report) -> Result<TuningExperimentStatus, serde_json::Error> {
    let progress = &report.progress;
    let wanted = progress.trials_planned - progress.freed;
    Ok(TuningExperimentStatus {
        verdict: Some(in_a_few_words(report)),
        trials: Some(format!("{}/{wanted}", progress.trials_valid)),
        progress: Some(ProgressStatus {
            blocks_done: progress.blocks_done as u32,
            trials_planned: progress.trials_planned as u32,
            trials_valid: progress.trials_valid as u32,
            trials_freed: progress.freed as u32,
            attempts: progress.attempts as u32,
            attempts_invalid: progress.invalid as u32,
            attempts_failed: progress.failed as u32,
            attempts_lost: progress.lost as u32,
            estimated_completion_time: None,
        }),
        verdicts: report.configs.iter().map(|own| config(report, own)).collect(),
        cells: report.cells.iter().map(cell).collect(),
        findings: report.invalid.iter().take(bounds::EXPERIMENT_FINDINGS).map(finding).collect(),
        labels: report
            .labels
            .iter()
            .map(|label| LabelStatus {
                label: format!("{:?}", label.label),
                text: shorten(&label.text, bounds::MESSAGE),
            })
            .collect(),
        report_digest: progress.complete.then(|| report_digest(report)).transpose()?,
        ..TuningExperimentStatus::default()
    })
}

/// The digest of the report's JSON, without what only full records can tell, and without advice, which comes later.
pub fn report_digest(report: &Report) -> Result<String, serde_json::Error> {
    Ok(Digest::of(report.without_records().without_advice().json()?.as_bytes()).to_string())
}

/// `Win`, or how many of each where there are several configs.
fn in_a_few_words(report: &Report) -> String {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for config in &report.configs {
        *counts.entry(format!("{:?}", config.ruling.verdict)).or_default() += 1;
    }
    match (counts.len(), report.configs.len()) {
        (1, 1) => counts.into_keys().collect(),
        _ => counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect::<Vec<_>>().join(", "),
    }
}

fn config(report: &Report, of: &ConfigReport) -> ConfigVerdict {
    let ruling = &of.ruling;
    ConfigVerdict {
        config: of.config.clone(),
        verdict: format!("{:?}", ruling.verdict),
        reason: shorten(&ruling.reason, bounds::REASON),
        sentence: shorten(&ruling.sentence, bounds::MESSAGE),
        recommendation: shorten(&ruling.recommendation, bounds::ADVICE),
        runs: of.runs,
        failed: of.failed,
        labels: ruling.labels.iter().map(|label| format!("{label:?}")).collect(),
        estimates: ruling.estimates.iter().map(estimate).collect(),
        findings: of.findings.iter().take(bounds::FINDINGS).map(finding).collect(),
        not_judged: not_judged(report, &of.config),
    }
}

/// What nobody judged, the worst over all scenarios: what a cluster has of it, which is no full records.
fn not_judged(report: &Report, config: &str) -> Vec<String> {
    let own = report.not_judged.iter().filter(|found| found.config == config && !found.from_records);
    let one = report.design.scenarios.len() == 1;
    let text =
        |found: &NotJudged| if one { found.brief() } else { format!("in {}: {}", found.scenario, found.brief()) };
    let worst = NotJudged::worst(own).into_iter().take(bounds::NOT_JUDGED);
    worst.map(|found| shorten(&text(found), bounds::NOT_JUDGED_TEXT)).collect()
}

fn cell(of: &crate::report::CellReport) -> CellVerdict {
    CellVerdict {
        scenario: of.scenario.clone(),
        config: of.config.clone(),
        verdict: format!("{:?}", of.ruling.verdict),
        reason: shorten(&of.ruling.reason, bounds::CELL_REASON),
        estimate: of.ruling.estimates.first().and_then(|estimate| {
            let (low, high) = interval(estimate);
            let percent = percent(estimate.scale, estimate.estimate?);
            Some(match low.zip(high) {
                Some((low, high)) => format!("{percent:+.1} [{low:+.1}, {high:+.1}]"),
                None => format!("{percent:+.1}"),
            })
        }),
        failed: of.failed,
    }
}

fn estimate(of: &Estimate) -> EstimateStatus {
    let number = |value: Option<f64>| value.map(|value| format!("{value:.3}"));
    let (low, high) = interval(of);
    EstimateStatus {
        metric: of.metric.clone(),
        percent: number(of.estimate.map(|effect| percent(of.scale, effect))),
        mean_percent: number(of.mean.map(|effect| percent(of.scale, effect))),
        low_percent: number(low),
        high_percent: number(high),
        status: of.status.map(|status| format!("{status:?}")),
        blocks: of.blocks as u32,
    }
}

/// The ends of the interval in percent, where they are finite.
fn interval(of: &Estimate) -> (Option<f64>, Option<f64>) {
    let shown = |value: Option<f64>| value.map(|value| percent(of.scale, value));
    of.interval95.map_or((None, None), |interval| (shown(interval.low), shown(interval.high)))
}

/// In percent of the baseline, or in points where a difference is taken.
fn percent(scale: Scale, effect: f64) -> f64 {
    scale.percent(effect).unwrap_or(100.0 * effect)
}

pub(crate) fn finding(of: &Finding) -> FindingStatus {
    FindingStatus {
        code: of.code.to_string(),
        message: shorten(&of.message, bounds::MESSAGE),
        what_to_do: shorten(&of.what_to_do, bounds::ADVICE),
    }
}

/// At most this many characters, with dots where some are missing.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::{Attempt, Moment};
    use crate::decide::{Action, decide};
    use crate::gates::testing::{experiment, plan, scenario, summaries, summary};
    use crate::judge::judge;

    fn report(count: usize) -> Report {
        let plan = plan(&experiment());
        let mut attempts = Vec::new();
        let now = Moment { unix_ms: 1_700_000_000_000, boot: Some(&Digest::of(b"boot")) };
        while attempts.len() < count
            && let Ok(Action::Run { trial, .. }) = decide(&plan, &attempts, now)
        {
            attempts.push(Attempt::Finished(summary(&trial).into()));
        }
        judge(&plan, &attempts).unwrap_or_else(|error| unreachable!("{error}"))
    }

    #[test]
    fn a_status_says_what_the_report_says() {
        let report = report(usize::MAX);
        let status = of(&report).unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!(status.verdict, Some(format!("{:?}", report.configs[0].ruling.verdict)));
        assert_eq!(status.trials.as_deref(), Some("16/16"));
        assert_eq!(status.verdicts[0].sentence, report.configs[0].ruling.sentence);
        assert_eq!(status.cells.len(), report.cells.len());
        assert_eq!(status.report_digest, report_digest(&report).ok());
        let mut other = report.clone();
        other.seed += 1;
        assert_ne!(status.report_digest, report_digest(&other).ok());
    }

    #[test]
    fn an_unfinished_report_has_no_digest() {
        let status = of(&report(5)).unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!((status.verdict.as_deref(), status.trials.as_deref()), (Some("Inconclusive"), Some("5/16")));
        assert_eq!(status.report_digest, None);
    }

    #[test]
    fn a_status_has_the_worst_of_what_nobody_judged() {
        let mut experiment = experiment();
        experiment.scenarios.push(scenario("read"));
        let mut all = summaries(&experiment);
        for summary in &mut all {
            let factor = if summary.trial.config == "base" { 1.0 } else { 4.0 };
            let more = if summary.trial.scenario == "read" { factor } else { 1.0 };
            for (name, value) in [
                ("step_latency_p50", factor),
                ("step_latency_p99", factor * more),
                ("write_amplification", factor),
                ("rss_peak_bytes", factor),
                ("db_bytes", factor),
            ] {
                summary.metrics.insert(name.to_owned(), 1000.0 * value);
            }
        }
        let all: Vec<Attempt> = all.into_iter().map(|summary| Attempt::Finished(summary.into())).collect();
        let report = judge(&plan(&experiment), &all).unwrap_or_else(|error| unreachable!("{error}"));
        let status = of(&report).unwrap_or_else(|error| unreachable!("{error}"));
        let said = &status.verdicts[0].not_judged;
        assert_eq!(said.len(), bounds::NOT_JUDGED);
        assert_eq!(said[0], "in read: step_latency_p99 is 16 times worse");
        assert!(said[1..].iter().all(|text| text.ends_with("is 4.0 times worse")), "{said:?}");
    }

    #[test]
    fn long_texts_are_cut_by_characters() {
        assert_eq!(shorten("grün", 4), "grün");
        assert_eq!(shorten("größer", 5), "gr...");
    }
}
