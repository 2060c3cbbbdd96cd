//! Runs that did other work than the baseline's.

use std::collections::BTreeMap;

use super::{Gated, drop_runs, finding};
use crate::gates::Code;
use crate::gates::same_work::REPEATED;
use crate::import::comparison::Comparison;
use crate::import::data::{Name, RunKey};
use crate::stats::median;

const SAME_WORK: &str =
    "Runs that did different work are not comparable. Repeat them with the same operations on the same data.";

/// Whether all runs say what they did; those that did something else than the baseline in their block do not count.
pub(super) fn check(comparison: &Comparison<'_>, scenario: Name, gated: &mut Gated) -> bool {
    // A failed run may have stopped half-way.
    let works = |arm: Name| -> Vec<(RunKey, Option<Name>)> {
        let ended = comparison.runs(scenario, arm).filter(|(_, run)| !run.ending.has_failed());
        ended.map(|(key, run)| (*key, run.work)).collect()
    };
    let text = |work: Option<Name>| work.map(|work| comparison.text(work));
    let mut by_block: BTreeMap<Option<Name>, Vec<&str>> = BTreeMap::new();
    for (key, work) in works(comparison.baseline) {
        by_block.entry(key.block).or_default().extend(text(work));
    }
    let references: BTreeMap<Option<Name>, String> =
        by_block.into_iter().filter_map(|(block, works)| Some((block, typical(&works)?))).collect();
    let place = comparison.text(scenario);
    let (mut known, mut unknown) = (0, 0);
    for arm in comparison.arms() {
        let runs = works(arm);
        let mut differing = Vec::new();
        for &(key, work) in &runs {
            match (text(work), references.get(&key.block)) {
                (Some(work), Some(reference)) => {
                    known += 1;
                    if !same(work, reference, comparison.policy.work_tolerance()) {
                        differing.push((key, work, reference));
                    }
                }
                _ => unknown += 1,
            }
        }
        let Some((first, work, reference)) = differing.first() else { continue };
        let message = format!(
            "{} of {} runs of {} in {place} did different work than the baseline: {work} instead of {reference} at {}",
            differing.len(),
            runs.len(),
            comparison.text(arm),
            comparison.data.at(comparison.data.runs[first].place)
        );
        let found = finding(Code::WorkMismatch, message, SAME_WORK);
        let keys: Vec<RunKey> = differing.iter().map(|(key, ..)| *key).collect();
        drop_runs(comparison, scenario, arm, &keys, found, keys.len() >= REPEATED, gated);
    }
    if known > 0 && unknown > 0 {
        gated.notes.push(format!("The work of {unknown} runs in {place} can't be compared with the baseline's."));
    }
    known > 0 && unknown == 0
}

/// The median of numbers, or the most frequent of texts.
fn typical(works: &[&str]) -> Option<String> {
    let numbers: Vec<f64> = works.iter().filter_map(|work| work.parse().ok()).filter(|x: &f64| x.is_finite()).collect();
    if numbers.len() == works.len()
        && let Some(middle) = median(&numbers)
    {
        return Some(middle.to_string());
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for work in works {
        *counts.entry(work).or_default() += 1;
    }
    // The first of the most frequent, so that the order of rows does not matter.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(work, _)| work.to_owned())
}

/// Whether two runs did the same: numbers within the tolerance, or lists like `keys=5 found=3` wherever both say something.
fn same(work: &str, reference: &str, tolerance: f64) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let close = |a: &str, b: &str| match (number(a), number(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= tolerance * b.abs(),
        _ => a == b,
    };
    let parts =
        |text| -> Option<BTreeMap<_, _>> { str::split_whitespace(text).map(|word| word.split_once('=')).collect() };
    match (parts(work), parts(reference)) {
        (Some(work), Some(reference)) => {
            work.iter().all(|(key, value)| reference.get(key).is_none_or(|other| close(value, other)))
        }
        _ => close(work, reference),
    }
}
