//! Metrics that are not judged: how far they moved is said, as advice.

use std::collections::BTreeMap;

use crate::import::columns;
use crate::import::data::Sample;
use crate::import::policy::Policy;
use crate::stats::median;

/// More names than this are not of metrics.
const MOST: usize = 128;
/// Values that are kept, and moves that are said of a metric.
const MOST_VALUES: usize = 1_000_000;
const MOST_SAID: usize = 4;

/// Session, scenario and config.
type Arm = (String, String, String);

#[derive(Debug, Default)]
pub struct Others {
    metrics: BTreeMap<String, BTreeMap<Arm, Vec<f64>>>,
    values: usize,
}

impl Others {
    pub fn add(&mut self, sample: &Sample) {
        if self.metrics.len() >= MOST && !self.metrics.contains_key(&sample.metric) {
            return;
        }
        let arms = self.metrics.entry(sample.metric.clone()).or_default();
        let has_ended = columns::ending(sample.failed.as_deref().unwrap_or_default()).is_some_and(|e| !e.has_failed());
        let value = sample.value.parse::<f64>().ok().filter(|value| value.is_finite() && has_ended);
        if let Some(value) = value.filter(|_| self.values < MOST_VALUES) {
            self.values += 1;
            let arm = (sample.session.clone(), sample.scenario.clone(), sample.config.clone());
            arms.entry(arm).or_default().push(value);
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.keys().map(String::as_str)
    }

    /// All of them, with what the medians of each config differ by from its baseline's.
    pub fn note(&self, policy: &Policy) -> Option<String> {
        let said: Vec<String> = self.metrics.iter().map(|(metric, arms)| moved(metric, arms, policy)).collect();
        let advice = if said.iter().any(|said| said.contains('%')) { " Medians; no test." } else { "" };
        (!said.is_empty()).then(|| format!("Not judged, because not declared: {}.{advice}", said.join(", ")))
    }
}

fn moved(metric: &str, arms: &BTreeMap<Arm, Vec<f64>>, policy: &Policy) -> String {
    let scenarios = arms.keys().map(|(session, scenario, _)| (session, scenario));
    let several = scenarios.clone().any(|other| Some(other) != scenarios.clone().next());
    let mut moves = Vec::new();
    for ((session, scenario, config), values) in arms {
        let baseline = policy.baseline_of(Some(session));
        let theirs = baseline
            .filter(|name| name != config)
            .and_then(|name| arms.get(&(session.clone(), scenario.clone(), name.to_owned())));
        let medians = theirs.and_then(|theirs| median(theirs)).zip(median(values));
        let Some((theirs, own)) = medians.filter(|(theirs, own)| *theirs > 0.0 && *own >= 0.0) else { continue };
        let place = match (several, session.is_empty()) {
            (false, _) => String::new(),
            (true, true) => format!(" in {scenario}"),
            (true, false) => format!(" in {scenario} of {session}"),
        };
        let percent = 100.0 * (own / theirs - 1.0);
        let side = if percent < 0.0 { "lower" } else { "higher" };
        moves.push((percent.abs(), format!("{config} {:.1} % {side}{place}", percent.abs())));
    }
    if moves.is_empty() {
        return metric.to_owned();
    }
    // The largest first: others are left out where there are many.
    moves.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more = if moves.len() > MOST_SAID { ", ..." } else { "" };
    let said: Vec<String> = moves.into_iter().take(MOST_SAID).map(|(_, said)| said).collect();
    format!("{metric} ({}{more})", said.join(", "))
}
