//! What became of every attempt.

use std::collections::BTreeMap;

use crate::attempt::Attempt;
use crate::decide::{Fate, Place, Places};
use crate::gates;
use crate::report::{Progress, TrialFate, TrialReport};
use crate::verdict::Design;

pub(super) fn progress(places: &Places<'_>) -> Progress {
    let mut progress = Progress {
        complete: places.is_complete(),
        blocks_planned: places.blocks().len(),
        blocks_done: places.blocks().iter().filter(|block| block.is_closed() && !block.is_freed()).count(),
        trials_planned: places.plan().blocks.iter().map(|block| block.slots.len()).sum(),
        attempts: places.attempts().len(),
        freed: places.blocks().iter().flat_map(|b| &b.places).filter(|place| **place == Place::Freed).count(),
        ..Progress::default()
    };
    for attempt in 0..places.attempts().len() {
        match places.fate(attempt) {
            Fate::Used => progress.trials_valid += 1,
            Fate::Invalid(_) => progress.invalid += 1,
            Fate::Failed => progress.failed += 1,
            Fate::Lost(_) => progress.lost += 1,
            Fate::Held(_) | Fate::BlockInterrupted | Fate::Superseded => {}
        }
    }
    progress
}

/// Every attempt in the order of the plan.
pub(super) fn trials(places: &Places<'_>, design: &Design) -> Vec<TrialReport> {
    let position: BTreeMap<(&str, u32), usize> = places
        .plan()
        .blocks
        .iter()
        .enumerate()
        .map(|(position, block)| ((block.scenario.as_str(), block.number), position))
        .collect();
    let mut order: Vec<usize> = (0..places.attempts().len()).collect();
    order.sort_by_key(|&attempt| {
        let id = places.attempts()[attempt].trial();
        (position.get(&(id.scenario.as_str(), id.block)), id.attempt, id.order)
    });
    order.into_iter().map(|attempt| trial(places, design, attempt)).collect()
}

fn trial(places: &Places<'_>, design: &Design, index: usize) -> TrialReport {
    let attempt = &places.attempts()[index];
    let fate = places.fate(index);
    let (state, findings) = match &fate {
        Fate::Used => (TrialFate::Valid, Vec::new()),
        Fate::Held(finding) => (TrialFate::Held, vec![(*finding).clone()]),
        Fate::Failed => (TrialFate::Failed, places.summary(index).and_then(gates::wrong_answers).into_iter().collect()),
        Fate::Invalid(findings) => (TrialFate::Invalid, findings.to_vec()),
        Fate::Lost(_) => (TrialFate::Lost, Vec::new()),
        Fate::BlockInterrupted => (TrialFate::BlockInterrupted, Vec::new()),
        Fate::Superseded => (TrialFate::Superseded, Vec::new()),
    };
    match attempt {
        Attempt::Finished(summary) => TrialReport {
            trial: summary.trial.clone(),
            state,
            findings,
            message: match fate {
                Fate::BlockInterrupted => Some("the block was interrupted and ran again as a whole".to_owned()),
                _ => summary.failure.as_ref().map(|failure| format!("{:?}: {}", failure.kind, failure.message)),
            },
            node: summary.pod.as_ref().and_then(|pod| pod.node.clone()),
            started_unix_ms: summary.started_unix_ms,
            window_seconds: Some(summary.window_seconds),
            record: Some(summary.record.clone()),
            metrics: design
                .metrics
                .iter()
                .filter_map(|rule| summary.metrics.get(&rule.name).map(|value| (rule.name.clone(), *value)))
                .collect(),
        },
        Attempt::Lost(lost) => TrialReport {
            trial: lost.trial.clone(),
            state,
            findings,
            message: Some(format!("{:?}: {}", lost.reason, lost.message)),
            node: None,
            started_unix_ms: lost.started_unix_ms,
            window_seconds: None,
            record: None,
            metrics: BTreeMap::new(),
        },
    }
}
