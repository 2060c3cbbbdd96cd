use super::{Estimate, INCOMPLETE, number};
use crate::gates::Finding;
use crate::stats::{Interval, Scale};
use crate::verdict::{Purpose, Status, Verdict};

/// What a verdict is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub config: &'a str,
    pub baseline: &'a str,
    /// Fewest blocks that can prove a gain.
    pub fewest_blocks: usize,
}

/// A verdict in words that need no knowledge of statistics. Where there is no answer, they say what would give one.
pub(crate) fn sentence(
    about: About<'_>,
    verdict: Verdict,
    reason: &str,
    estimates: &[Estimate],
    findings: &[Finding],
) -> String {
    let About { config, baseline, .. } = about;
    let required = || estimates.iter().filter(|e| e.purpose != Purpose::Info);
    let with = |status: Status| list(required().filter(|e| e.status == Some(status)).map(ranged));
    let objectives = || estimates.iter().filter(|e| e.purpose == Purpose::Objective);
    let guardrails = || estimates.iter().filter(|e| e.purpose == Purpose::Guardrail);
    let (kind, detail) = reason.split_once(':').unwrap_or((reason, ""));
    match (verdict, kind) {
        (Verdict::Win, _) => {
            let safe = list(guardrails().map(|e| format!("{} does not get {} worse", e.metric, margin(e))));
            let safe =
                if guardrails().next().is_some() { format!(" It is proven that {safe}.") } else { String::new() };
            format!("{config} is better than {baseline}: {}.{safe}", with(Status::Better))
        }
        (Verdict::Neutral, _) => {
            // The 95 % interval may stick out a little: the claim is one-sided, at 5 %.
            let inside = |e: &Estimate| {
                let limit = e.scale.margin(e.margin);
                let within = |end: Option<f64>| end.is_some_and(|end| end.abs() <= limit);
                e.interval95.is_some_and(|interval| within(interval.low) && within(interval.high))
            };
            let inside = list(objectives().map(|e| {
                let words = if inside(e) { "inside" } else { "but proven to be within" };
                format!("{}, {words} the margin of {}", ranged(e), margin(e))
            }));
            format!("{baseline} is kept: with {config} {inside}.")
        }
        (Verdict::Reject, "Unstable") => format!(
            "{config} fails more often than {baseline}: its runs ended in errors, out of memory or past their deadline."
        ),
        (Verdict::Reject, "Harm") => format!("{config} is worse than {baseline}: {}.", with(Status::Worse)),
        (Verdict::Reject, _) => {
            format!(
                "{config} is {reason}, and over all scenarios it does not win, so {baseline} is kept: {}.",
                effects(objectives())
            )
        }
        (Verdict::Tradeoff, _) if reason.starts_with("worse in") => {
            format!("{config} is better over all scenarios together, but {reason}: decide which of them matters.")
        }
        (Verdict::Tradeoff, _) => format!(
            "{config} is better in one way and worse in another: {}, but {}. Decide which matters.",
            with(Status::Better),
            with(Status::Worse)
        ),
        (Verdict::Inconclusive, INCOMPLETE) => format!(
            "Not all planned runs of {config} are there. So far, as an estimate and not as a verdict: {}.",
            effects(objectives())
        ),
        (Verdict::Inconclusive, "TooFewBlocks") => {
            let counted = objectives().map(|e| e.blocks).min().unwrap_or(0);
            let needed = objectives().filter_map(|e| e.blocks_for_margin).max();
            let needed = needed.map_or(about.fewest_blocks, |n| about.fewest_blocks.max(n as usize));
            format!(
                "Too few blocks to prove anything about {config}: {counted} count, and {} is the least. So far: {}. To decide, \
                 plan {needed} repetitions.",
                about.fewest_blocks,
                effects(objectives())
            )
        }
        (Verdict::Inconclusive, "NoGain") => format!(
            "{config} is not worth it, but not proven harmless: that it is {} better is excluded, and {}. {baseline} is kept; to \
             know whether it does harm, {}.",
            list(objectives().map(margin)),
            effects(objectives()),
            cure(objectives())
        ),
        (Verdict::Inconclusive, "GuardrailUnresolved") => {
            let open = || guardrails().chain(objectives()).filter(|e| detail.split(',').any(|name| name == e.metric));
            let gains = objectives().any(|e| e.status == Some(Status::Better));
            format!(
                "{config} {} ({}), but that nothing else gets worse is not proven: {}. To decide, {}.",
                if gains { "may be worth it" } else { "makes no difference where it should" },
                effects(objectives()),
                list(open().map(|e| format!("{}, and {} worse is not excluded", ranged(e), margin(e)))),
                cure(open())
            )
        }
        (Verdict::Inconclusive, _) => format!(
            "The runs do not tell whether {config} helps: {}. To decide, {}.",
            effects(objectives()),
            cure(objectives())
        ),
        (Verdict::Invalid, _) => match findings.first() {
            Some(finding) => format!(
                "{config} can't be judged ({reason}): {}. {}",
                finding.message.trim_end_matches('.'),
                finding.what_to_do
            ),
            None => format!("{config} can't be judged: {reason}."),
        },
    }
}

/// Beyond this many times the blocks, more of them are the wrong medicine.
const TOO_MANY: usize = 4;

/// What would decide metrics that are open.
fn cure<'a>(open: impl Iterator<Item = &'a Estimate>) -> String {
    let open: Vec<&Estimate> = open.collect();
    if open.iter().any(|e| e.estimate.is_none()) {
        return "find out why nothing was measured: see the notes and the trials that do not count".to_owned();
    }
    // The metric that needs most.
    let worst = open.iter().filter_map(|e| e.blocks_for_margin.map(|n| (n as usize, e.blocks, *e)));
    let Some((needed, blocks, estimate)) = worst.max_by_key(|&(needed, ..)| needed) else {
        return "run more repetitions".to_owned();
    };
    let (margin, metric) = (margin(estimate), &estimate.metric);
    let found = estimate
        .detectable_percent
        .map_or(String::new(), |percent| format!(" (now {blocks}, which find effects from {percent:.1} % on)"));
    if needed <= blocks {
        return format!(
            "run {} repetitions: noise is low, but the effect on {metric} lies close to the margin of {margin}, so allow for many \
             or declare another margin in a new experiment",
            2 * blocks
        );
    }
    if needed > TOO_MANY * blocks {
        return format!(
            "make the runs longer or use a quieter machine: at this noise of {metric} an effect of {margin} needs about {needed} \
             repetitions{found}"
        );
    }
    format!(
        "run about {needed} repetitions{found}, or longer runs on a quieter machine: that finds {margin} of {metric} four times out of five"
    )
}

/// Metrics with their effects.
fn effects<'a>(estimates: impl Iterator<Item = &'a Estimate>) -> String {
    list(estimates.map(ranged))
}

/// One metric with the range that its effect lies in.
fn ranged(estimate: &Estimate) -> String {
    let name = &estimate.metric;
    match (estimate.estimate, estimate.interval95) {
        (None, _) => format!("{name} is unknown"),
        (Some(value), None | Some(Interval { low: None, high: None })) => {
            format!("{name} is about {} (not bounded yet)", sided(estimate.scale, value))
        }
        (_, Some(Interval { low: Some(low), high: None })) => {
            format!("{name} is at worst {}", sided(estimate.scale, low))
        }
        (_, Some(Interval { low: None, high: Some(high) })) => {
            format!("{name} is at best {}", sided(estimate.scale, high))
        }
        (_, Some(Interval { low: Some(low), high: Some(high) })) => {
            let (low, high) = (sided(estimate.scale, low), sided(estimate.scale, high));
            if low == high {
                return format!("{name} is {low}");
            }
            // The side is said once where both ends are on it; the smaller effect comes first.
            for side in [" better", " worse"] {
                if let (Some(a), Some(b)) = (low.strip_suffix(side), high.strip_suffix(side)) {
                    let (small, large) = if side == " worse" { (b, a) } else { (a, b) };
                    return format!("{name} is {} to {large}{side}", small.trim_end_matches(" %"));
                }
            }
            format!("{name} is between {low} and {high}")
        }
    }
}

/// An effect without its sign, and what the sign means: for latencies, too, positive is better.
fn sided(scale: Scale, value: f64) -> String {
    let signed = number::effect(scale, value);
    match signed.strip_prefix('-') {
        Some(size) => format!("{size} worse"),
        None if signed.trim_end_matches(" %").parse::<f64>() == Ok(0.0) => "the same".to_owned(),
        None => format!("{} better", signed.trim_start_matches('+')),
    }
}

fn margin(estimate: &Estimate) -> String {
    number::margin(estimate.scale, estimate.margin)
}

fn list(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    match parts.as_slice() {
        [] => "nothing was measured".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
