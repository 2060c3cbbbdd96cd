//! Runs against the baseline of their block, and in the order in which they ran.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::svg::{Axis, Chart, Mark, Svg, Ticks};
use super::text::{charts, folded, with_words};
use super::{badge, class, escape, number};
use crate::report::{CellReport, Report, TrialFate, TrialReport, unit};
use crate::stats::{Scale, median};
use crate::verdict::{MetricRule, Purpose};

/// Configs that one chart can tell apart.
pub(super) const TOGETHER: usize = 4;
/// Charts up to which all are shown without being asked for.
const OPEN_CHARTS: usize = 24;

pub(super) const STYLES: [(&str, Mark); TOGETHER] =
    [("s0", Mark::Dot), ("s1", Mark::Triangle), ("s2", Mark::Square), ("s3", Mark::Diamond)];
pub(super) const BASELINE: (&str, Mark) = ("b", Mark::Ring);

/// The valid runs of a scenario by block.
#[derive(Default)]
struct Block<'a> {
    baseline: Vec<f64>,
    configs: BTreeMap<&'a str, f64>,
}

pub fn blocks(report: &Report) -> String {
    let Some(rule) = objective(report) else { return empty() };
    let words = format!(
        "<p class=\"how\">Each dot is one run of the config: its {} relative to the median of the baseline's runs in \
         the same block. Up is better. Rings are the baseline's own runs. The line is the estimate, the band the \
         margin.</p>\n",
        escape(&rule.name)
    );
    let mut all = Vec::new();
    for scenario in &report.design.scenarios {
        let blocks = by_block(report, scenario, rule);
        let cells: Vec<&CellReport> = report.cells.iter().filter(|cell| cell.scenario == *scenario).collect();
        // One axis for all configs of a scenario, so that they can be compared.
        let margin = number::shown(rule.scale, rule.scale.margin(rule.margin));
        let mut seen = vec![-margin, margin];
        for block in blocks.values() {
            let Some(middle) = median(&block.baseline) else { continue };
            seen.extend(
                block.configs.values().chain(&block.baseline).map(|value| number::shown(rule.scale, value - middle)),
            );
        }
        for cell in cells {
            all.push((caption(report, cell), paired(rule, cell, &blocks, &seen)));
        }
    }
    if all.is_empty() {
        words + &empty()
    } else if all.len() <= OPEN_CHARTS {
        with_words(&words, &all)
    } else {
        words + &folded(&format!("{} charts", all.len()), &charts(&all))
    }
}

fn empty() -> String {
    "<p class=\"empty\">No valid trials yet.</p>\n".to_owned()
}

fn caption(report: &Report, cell: &CellReport) -> String {
    let scenario =
        if report.design.scenarios.len() > 1 { format!(" in {}", escape(&cell.scenario)) } else { String::new() };
    format!("<strong>{}</strong>{scenario} {}", escape(&cell.config), badge(cell.ruling.verdict))
}

fn paired(rule: &MetricRule, cell: &CellReport, blocks: &BTreeMap<u32, Block<'_>>, seen: &[f64]) -> String {
    // People count from 1, ids from 0.
    let place = |number: &u32| f64::from(*number + 1);
    let last = blocks.keys().next_back().map_or(1.0, place);
    let x = Axis::over([1.0, last].into_iter(), 5).whole().cut(0.5, last + 0.5);
    let (mut own, mut baseline) = (Vec::new(), Vec::new());
    for (number, block) in blocks {
        let Some(middle) = median(&block.baseline) else { continue };
        if block.baseline.len() > 1 {
            baseline
                .extend(block.baseline.iter().map(|value| (place(number), number::shown(rule.scale, value - middle))));
        }
        if let Some(value) = block.configs.get(cell.config.as_str()) {
            own.push((place(number), number::shown(rule.scale, value - middle)));
        }
    }
    if own.is_empty() {
        return "<p class=\"empty\">No run of it counts.</p>".to_owned();
    }
    let better = own.iter().filter(|(_, effect)| *effect > 0.0).count();
    let title = format!("{} of {} in {} by block", rule.name, cell.config, cell.scenario);
    let description =
        format!("{better} of {} runs are better than the median of the baseline in their block.", own.len());
    let y = Ticks::new(Axis::over(seen.iter().copied(), 4), |axis, tick| match rule.scale {
        Scale::Log => axis.signed_percent(tick),
        Scale::Linear => axis.label(tick),
    });
    let x = Ticks::new(x, Axis::label);
    let mut chart = Chart::new(&title, &description, x, "block", y);
    let margin = number::shown(rule.scale, rule.scale.margin(rule.margin));
    chart.band("band", -margin, margin);
    chart.level("zero", 0.0);
    let estimate = cell.ruling.estimates.iter().find(|e| e.metric == rule.name).and_then(|e| e.estimate);
    let accent = class(cell.ruling.verdict);
    if let Some(effect) = estimate {
        chart.level(&format!("level {accent}"), number::shown(rule.scale, effect));
    }
    chart.marks("m b", Mark::Ring, baseline.into_iter());
    chart.marks(&format!("m v {accent}"), Mark::Dot, own.into_iter());
    chart.finish()
}

pub fn order(report: &Report) -> String {
    let Some(rule) = objective(report) else { return empty() };
    let how = format!(
        "<p class=\"how\">The {} of every run, in start order. A slope or a step is machine drift. It hits all configs \
         alike, because the order within blocks is random and runs are compared with their neighbours. Crosses do not \
         count.</p>\n",
        escape(&rule.name)
    );
    let configs: Vec<&str> = report.configs.iter().map(|config| config.config.as_str()).collect();
    let mut out = String::new();
    for group in configs.chunks(TOGETHER) {
        let mut all = Vec::new();
        for scenario in &report.design.scenarios {
            if let Some(svg) = ordered(report, rule, scenario, group) {
                let unit = unit::of(&rule.name).map_or(String::new(), |unit| format!(" <small>{unit}</small>"));
                all.push((format!("<strong>{}</strong>{unit}", escape(scenario)), svg));
            }
        }
        if all.is_empty() {
            return how + &empty();
        }
        let words = if out.is_empty() { how.as_str() } else { "" };
        let words = format!("{words}{}", legend(report, group, false));
        out.push_str(&grouped(&configs, group, &with_words(&words, &all)));
    }
    out
}

/// Where there are many configs, all but the first group are folded away.
pub(super) fn grouped(configs: &[&str], group: &[&str], body: &str) -> String {
    if configs.first() == group.first() { body.to_owned() } else { folded(&group.join(", "), body) }
}

fn ordered(report: &Report, rule: &MetricRule, scenario: &str, group: &[&str]) -> Option<String> {
    let mut trials: Vec<(&TrialReport, f64)> = report
        .trials
        .iter()
        .filter(|trial| trial.trial.scenario == scenario)
        .filter_map(|trial| Some((trial, *trial.metrics.get(&rule.name)?)))
        .collect();
    trials.sort_by_key(|(trial, _)| (trial.started_unix_ms, trial.trial.clone()));
    if trials.is_empty() {
        return None;
    }
    let y = Ticks::new(Axis::over(trials.iter().map(|(_, value)| *value), 4), Axis::label);
    let x = Axis::over([0.0, trials.len() as f64].into_iter(), 5).whole().cut(0.0, trials.len() as f64 + 1.0);
    let title = format!("{} in {scenario} in run order", rule.name);
    let description = format!("{} runs of {} and the baseline.", trials.len(), group.join(", "));
    let mut chart = Chart::new(&title, &description, Ticks::new(x, Axis::label), "run", y);
    let points = |name: &str, valid: bool| -> Vec<(f64, f64)> {
        let numbered = trials.iter().enumerate();
        let own =
            numbered.filter(|(_, (trial, _))| trial.trial.config == name && (trial.state == TrialFate::Valid) == valid);
        own.map(|(i, (_, value))| ((i + 1) as f64, *value)).collect()
    };
    let styles = std::iter::once((report.baseline.as_str(), BASELINE)).chain(group.iter().copied().zip(STYLES));
    for (name, (class, mark)) in styles {
        chart.marks(&format!("m {class}"), mark, points(name, true).into_iter());
        chart.marks(&format!("x {class}"), Mark::Cross, points(name, false).into_iter());
    }
    Some(chart.finish())
}

/// What the lines or marks of a chart stand for.
pub(super) fn legend(report: &Report, group: &[&str], lines: bool) -> String {
    let mut out = "<p class=\"legend\">".to_owned();
    let baseline = (report.baseline.as_str(), BASELINE, " (baseline)");
    let others = group.iter().zip(STYLES).map(|(name, style)| (*name, style, ""));
    for (name, (class, mark), what) in std::iter::once(baseline).chain(others) {
        let mut svg = Svg::sized(28.0, 12.0, name, "");
        if lines {
            svg.polyline(&format!("l {class}"), &[(0.0, 6.0), (28.0, 6.0)]);
        } else {
            svg.marks(&format!("m {class}"), mark, &[(14.0, 6.0)]);
        }
        let _ = write!(out, "<span>{} {}{what}</span> ", svg.finish(), escape(name));
    }
    out.push_str("</p>\n");
    out
}

/// The metric whose runs are plotted one by one.
fn objective(report: &Report) -> Option<&MetricRule> {
    let metrics = &report.design.metrics;
    metrics.iter().find(|rule| rule.purpose == Purpose::Objective).or_else(|| metrics.first())
}

/// Runs that count, on the metric's scale with more being better.
fn by_block<'a>(report: &'a Report, scenario: &str, rule: &MetricRule) -> BTreeMap<u32, Block<'a>> {
    let mut blocks: BTreeMap<u32, Block<'a>> = BTreeMap::new();
    for trial in report.trials.iter().filter(|t| t.trial.scenario == scenario && t.state == TrialFate::Valid) {
        let value = trial.metrics.get(&rule.name).and_then(|value| rule.scale.transform(rule.direction, *value).ok());
        let Some(value) = value else { continue };
        let block = blocks.entry(trial.trial.block).or_default();
        if trial.trial.config == report.baseline {
            block.baseline.push(value);
        } else {
            block.configs.insert(&trial.trial.config, value);
        }
    }
    blocks
}
