use super::{Estimate, INCOMPLETE, NeededBlocks, Ruling, number};
use crate::gates::{Finding, Label};
use crate::stats::{Interval, Scale};
use crate::verdict::{Family, Purpose, Runs, Status, Verdict};

/// What a verdict is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub config: &'a str,
    pub baseline: &'a str,
    /// The claims that share the error, and so the fewest blocks that can prove one.
    pub family: Family,
    pub failures: Failures,
    /// What would decide it, where that was asked.
    pub needed: Option<NeededBlocks>,
}

/// How runs of a config ended, and those of the baseline in the same blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Failures {
    pub own: Runs,
    pub baseline: Runs,
}

impl Failures {
    /// Over scenarios.
    pub fn of(scenarios: impl Iterator<Item = (Runs, Runs)>) -> Self {
        scenarios.fold(Self::default(), |all, (own, baseline)| Self {
            own: all.own.plus(own),
            baseline: all.baseline.plus(baseline),
        })
    }

    /// How many runs of each arm failed.
    pub(crate) fn words(&self, about: &About<'_>) -> String {
        let Self { own, baseline } = self;
        let damaged = if own.damaged > 0 { format!(" ({} with damaged data)", own.damaged) } else { String::new() };
        format!(
            "{} of {} runs of {} failed{damaged}, against {} of {} of {}",
            own.failed,
            own.ended(),
            about.config,
            baseline.failed,
            baseline.ended(),
            about.baseline
        )
    }
}

/// A verdict in words that need no knowledge of statistics, with every failure of the config.
pub(crate) fn sentence(
    about: About<'_>,
    verdict: Verdict,
    reason: &str,
    estimates: &[Estimate],
    findings: &[Finding],
) -> String {
    let sentence = said(about, verdict, reason, estimates, findings);
    let told = matches!(reason, "Unstable" | "Failures");
    let Failures { own, baseline } = about.failures;
    if (own.failed == 0 && baseline.failed == 0) || told {
        return sentence;
    }
    format!("{sentence} Of the runs that ended, {}.", about.failures.words(&about))
}

/// Where there is no answer, the words say what would give one.
fn said(about: About<'_>, verdict: Verdict, reason: &str, estimates: &[Estimate], findings: &[Finding]) -> String {
    let About { config, baseline, .. } = about;
    let required = || estimates.iter().filter(|e| e.purpose != Purpose::Info);
    let with = |status: Status| list(required().filter(|e| e.status == Some(status)).map(ranged));
    let objectives = || estimates.iter().filter(|e| e.purpose == Purpose::Objective);
    let guardrails = || estimates.iter().filter(|e| e.purpose == Purpose::Guardrail);
    let gains = || objectives().any(|e| e.status == Some(Status::Better));
    let (kind, detail) = reason.split_once(':').unwrap_or((reason, ""));
    match (verdict, kind) {
        (Verdict::Win, _) => {
            let safe = list(guardrails().map(|e| format!("{} does not get {} worse", e.metric, margin(e))));
            let safe = if guardrails().next().is_some() { format!(" Proven: {safe}.") } else { String::new() };
            let open = Ruling::labels(verdict, estimates).contains(&Label::SizeOpen);
            let better = || objectives().filter(|e| e.status == Some(Status::Better));
            let size = if open {
                format!(", perhaps by less than the margin of {}", list(better().map(margin)))
            } else {
                String::new()
            };
            let proven = better().map(|e| {
                let least = e.at_least.map(|least| format!(" (at least {} is proven)", number::margin(e.scale, least)));
                let effect = ranged(e) + &least.unwrap_or_default();
                // Of the runs that ended: those that did not decide that they are worse.
                let is_against = about.failures.baseline.failed > 0 && e.estimate.is_some_and(|effect| effect < 0.0);
                if is_against { format!("{} counts failed runs as the worst, else {effect}", e.metric) } else { effect }
            });
            format!("{config} is better than {baseline}{size}: {}.{safe}", list(proven))
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
            format!("{config} makes no meaningful difference, so keep {baseline}: {inside}.")
        }
        (Verdict::Reject, "Unstable") => format!(
            "{config} fails more often than {baseline}: {}. Failed runs hit an error, ran out of memory, missed their \
             deadline or had wrong data.",
            about.failures.words(&about)
        ),
        (Verdict::Reject, "Harm") => format!("{config} is worse than {baseline}: {}.", with(Status::Worse)),
        (Verdict::Reject, _) => {
            format!("{config} is {reason} and does not win overall, so keep {baseline}: {}.", effects(objectives()))
        }
        (Verdict::Tradeoff, _) if reason.starts_with("worse in") => {
            format!("{config} is better overall, but {reason}. Decide which matters more.")
        }
        (Verdict::Tradeoff, "SlowTail") => format!(
            "{config} is better in its typical run ({}) but worse in total, because some runs are slow: {}. Decide \
             which matters more.",
            with(Status::Better),
            tails(detail, estimates)
        ),
        (Verdict::Tradeoff, _) => format!(
            "{config} is better in one way and worse in another: {}, but {}. Decide which matters more.",
            with(Status::Better),
            with(Status::Worse)
        ),
        (Verdict::Inconclusive, INCOMPLETE) => format!(
            "{config} has not finished its planned runs. Estimate so far, not a verdict: {}.",
            effects(objectives())
        ),
        (Verdict::Inconclusive, "Failures") => format!(
            "Do not adopt {config} yet: {}. That does not prove that it fails more often, but as many as could fail would \
             undo the result. Find out why runs fail. So far: {}.",
            about.failures.words(&about),
            effects(objectives())
        ),
        (Verdict::Inconclusive, "Attrition") => format!(
            "Do not adopt {config} yet: more of its first attempts left no measurement than of {baseline}'s in the same \
             blocks. That does not prove that the config is the cause, but as many as could be lost would undo the result. \
             Find out why. So far: {}.",
            effects(objectives())
        ),
        (Verdict::Inconclusive, "SlowTail") => format!(
            "{config} {} in its typical run ({}), but slow runs leave its total open: {}. Find out what makes them slow; \
             to decide, {}.",
            if gains() { "is better" } else { "makes no difference" },
            effects(objectives()),
            tails(detail, estimates),
            cure(&about, objectives())
        ),
        (Verdict::Inconclusive, "ScenarioUnresolved") => format!(
            "{config} {} overall ({}), but a loss is not ruled out in {}. To decide, {}.",
            if gains() { "is better" } else { "makes no difference" },
            effects(objectives()),
            list(detail.split(',').map(str::to_owned)),
            cure(&about, objectives())
        ),
        (Verdict::Inconclusive, "TooFewBlocks") => {
            let counted = objectives().map(|e| e.blocks).min().unwrap_or(0);
            let needed = about.needed.and_then(|needed| needed.win);
            let needed = needed.map_or(about.family.n_min, |n| about.family.n_min.max(n as usize));
            format!(
                "Too few blocks to prove anything about {config}: {counted} count, at least {} are needed. So far: {}. \
                 To decide, plan at least {needed} repetitions.",
                about.family.n_min,
                effects(objectives())
            )
        }
        (Verdict::Inconclusive, "LikelyHarm") => format!(
            "{config} is probably worse than {baseline}{}: {}. Keep {baseline}; for a proof, {}.",
            detail.split_once(" in ").map_or(String::new(), |(_, scenarios)| {
                format!(" in {}", list(scenarios.split(',').map(str::to_owned)))
            }),
            effects(required().filter(|e| {
                let metrics = detail.split_once(" in ").map_or(detail, |(metrics, _)| metrics);
                metrics.split(',').any(|name| name == e.metric)
            })),
            harmful(&about, objectives())
        ),
        (Verdict::Inconclusive, "NoGain") => format!(
            "{config} is not worth it, and whether it does harm is open: an improvement of {} or more is ruled out, \
             and {}. Keep {baseline}; to find out whether {config} does harm, {}.",
            list(objectives().map(margin)),
            effects(objectives()),
            harmful(&about, objectives())
        ),
        (Verdict::Inconclusive, "GuardrailUnresolved") => {
            let open = || guardrails().chain(objectives()).filter(|e| detail.split(',').any(|name| name == e.metric));
            format!(
                "{config} {} ({}), but harm is not ruled out: {}. To decide, {}.",
                if gains() { "may be worth it" } else { "makes no difference to its objectives" },
                effects(objectives()),
                list(open().map(|e| format!("{} ({} worse is possible)", ranged(e), margin(e)))),
                cure(&about, open())
            )
        }
        (Verdict::Inconclusive, _) => {
            let cure = cure(&about, objectives());
            let held = about.failures.own.failed > 0 && objectives().any(is_held_back);
            let ended = if held { "of those that ended, " } else { "" };
            format!("The runs do not show whether {config} helps: {ended}{}. To decide, {cure}.", effects(objectives()))
        }
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

/// What would show whether a config does harm.
fn harmful<'a>(about: &About<'_>, objectives: impl Iterator<Item = &'a Estimate> + Clone) -> String {
    let counted = objectives.clone().map(|e| e.blocks).min().unwrap_or(0);
    let fewest = about.family.n_min_harm();
    let Some(NeededBlocks { reject, neutral, .. }) = about.needed.filter(|_| counted >= fewest) else {
        return if counted < fewest {
            format!("plan {fewest} repetitions: fewer prove no harm, however large, and {counted} count here")
        } else {
            cure(about, objectives)
        };
    };
    match (reject, neutral) {
        (Some(reject), neutral) if reject as usize <= TOO_MANY * counted => {
            let loss = list(objectives.take(1).map(margin));
            let none = neutral.map_or(String::new(), |n| format!(", and {n} show that there is no difference"));
            format!(
                "plan a new experiment (`assay plan FILE --noise-from DIR`): with 80 % probability, {reject} \
                 repetitions show a loss of {loss} as a Reject{none}"
            )
        }
        _ => QUIETER.to_owned(),
    }
}

const QUIETER: &str = "make runs longer or use a quieter machine";

/// Beyond this many times the blocks, more of them are the wrong medicine.
const TOO_MANY: usize = 4;

/// What would decide metrics that are open.
fn cure<'a>(about: &About<'_>, open: impl Iterator<Item = &'a Estimate>) -> String {
    let open: Vec<&Estimate> = open.collect();
    if open.iter().any(|e| e.estimate.is_none() && !e.has_zeros) {
        return "find out why nothing was measured: see the notes and the trials that do not count".to_owned();
    }
    if about.failures.own.failed > 0 && open.iter().any(|e| is_held_back(e)) {
        return format!(
            "find out why runs of {} fail: a failed run counts as the worst result, and only that stands in the way",
            about.config
        );
    }
    let zeros = || open.iter().filter(|e| e.estimate.is_none()).map(|e| e.metric.clone());
    if zeros().next().is_some() {
        return format!("find out why {} is zero", list(zeros()));
    }
    if let Some(needed) = about.needed {
        return planned(needed, &open);
    }
    MORE.to_owned()
}

/// Fallback without simulated advice.
const MORE: &str = "run more repetitions, or longer runs on a quieter machine";

/// Whether the runs that ended would have proven what is open.
fn is_held_back(e: &Estimate) -> bool {
    let limit = match e.purpose {
        Purpose::Objective => 0.0,
        Purpose::Guardrail | Purpose::Info => -e.scale.margin(e.margin),
    };
    let low =
        e.interval95.and_then(|interval| interval.low).or(e.bounds.and_then(|bounds| number::one_sided(bounds).0));
    low.is_some_and(|low| low > limit)
}

/// More blocks of the same experiment would be a look that nobody has paid for, so what decides is another one.
fn planned(needed: NeededBlocks, open: &[&Estimate]) -> String {
    let blocks = open.iter().map(|e| e.blocks).max().unwrap_or(0);
    let gain = list(open.iter().filter(|e| e.purpose == Purpose::Objective).map(|e| margin(e)));
    let gain = if gain.ends_with('%') { format!("a gain of {gain}") } else { "a gain of the margin".to_owned() };
    match (needed.win, needed.neutral) {
        (Some(win), _) if win as usize > TOO_MANY * blocks => {
            format!("{QUIETER}: at this noise, {win} repetitions would show {gain} with 80 % probability")
        }
        (Some(win), Some(neutral)) if win.max(neutral) as usize <= blocks => format!(
            "plan a new experiment with more repetitions or another margin: the {blocks} blocks here would most likely show \
             {gain} or no difference, so the effect is probably in between"
        ),
        (Some(win), neutral) => {
            let none =
                neutral.map_or(String::new(), |neutral| format!(", and {neutral} show that there is no difference"));
            format!(
                "plan a new experiment (`assay plan FILE --noise-from DIR`): with 80 % probability, {win} repetitions \
                 show {gain} as a Win{none}"
            )
        }
        (None, _) => format!("{QUIETER}: at this noise, no practical number of repetitions would decide"),
    }
}

/// What slow runs do: in these scenarios, or in sum where there is only one.
fn tails(detail: &str, estimates: &[Estimate]) -> String {
    let (metrics, scenarios) = detail.split_once(" in ").unwrap_or((detail, ""));
    let named = || estimates.iter().filter(|e| metrics.split(',').any(|name| name == e.metric));
    if scenarios.is_empty() {
        list(named().filter_map(summed))
    } else {
        format!("seen in {}", list(scenarios.split(',').map(str::to_owned)))
    }
}

/// What the runs of a metric add up to.
fn summed(estimate: &Estimate) -> Option<String> {
    let mean = estimate.mean?;
    Some(format!("{} over all runs is {}", estimate.metric, sided(estimate.scale, mean)))
}

/// Metrics with their effects.
fn effects<'a>(estimates: impl Iterator<Item = &'a Estimate>) -> String {
    list(estimates.map(ranged))
}

/// One metric with the range that its effect lies in.
fn ranged(estimate: &Estimate) -> String {
    let name = &estimate.metric;
    match (estimate.estimate, estimate.interval95) {
        (None, _) if estimate.has_zeros => format!("{name} is zero in some runs, so its effect has no size"),
        (None, _) => format!("{name} is unknown"),
        (Some(value), None) => format!("{name} is about {} (no interval)", sided(estimate.scale, value)),
        (Some(value), Some(Interval { low: None, high: None })) => bounded(estimate, value),
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

/// The same where the blocks are too few for an interval.
fn bounded(estimate: &Estimate, value: f64) -> String {
    let Estimate { metric: name, scale, bounds, .. } = estimate;
    let side = |value: f64| sided(*scale, value);
    match bounds.map(number::one_sided) {
        // What rounds to no effect has no side, so it is no least one.
        Some((Some(low), None)) if side(low).ends_with("better") => format!("{name} is at least {}", side(low)),
        Some((None, Some(high))) if side(high).ends_with("worse") => format!("{name} is at least {}", side(high)),
        Some((Some(low), Some(high))) => format!("{name} is at worst {} and at best {}", side(low), side(high)),
        Some((Some(low), None)) => format!("{name} is at worst {}", side(low)),
        Some((None, Some(high))) => format!("{name} is at best {}", side(high)),
        Some((None, None)) | None => format!("{name} is about {} (too few blocks for a bound)", side(value)),
    }
}

/// An effect without its sign, and what the sign means: for latencies, too, positive is better.
pub(crate) fn sided(scale: Scale, value: f64) -> String {
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
