use super::{Estimate, INCOMPLETE, number};
use crate::gates::Finding;
use crate::stats::Scale;
use crate::verdict::{Role, Status, Verdict};

/// A verdict in words that need no knowledge of statistics.
pub(crate) fn sentence(
    config: &str,
    verdict: Verdict,
    reason: &str,
    estimates: &[Estimate],
    findings: &[Finding],
) -> String {
    let with = |status: Status| -> Vec<String> {
        estimates.iter().filter(|e| e.role != Role::Info && e.status == Some(status)).map(measured).collect()
    };
    let primary = || -> String {
        let primaries: Vec<String> = estimates.iter().filter(|e| e.role == Role::Primary).map(measured).collect();
        list(&primaries)
    };
    let (kind, detail) = reason.split_once(':').unwrap_or((reason, ""));
    match (verdict, kind) {
        (Verdict::Win, _) => format!(
            "{config} is better than the baseline: {}. Nothing that must not get worse does so by its margin or more.",
            list(&with(Status::Better))
        ),
        (Verdict::Neutral, _) => {
            let margins: Vec<String> = estimates
                .iter()
                .filter(|e| e.role == Role::Primary)
                .map(|e| format!("{} changes by less than {}", e.metric, number::margin(e.scale, e.margin)))
                .collect();
            format!("{config} makes no difference that matters: {}.", list(&margins))
        }
        (Verdict::Reject, "Unstable") => {
            format!(
                "{config} fails more often than the baseline: runs ended in errors, out of memory or past their deadline."
            )
        }
        (Verdict::Reject, "Harm") => format!("{config} is worse than the baseline: {}.", list(&with(Status::Worse))),
        (Verdict::Reject, _) => format!("{config} is {reason}, and not better enough overall to make up for it."),
        (Verdict::Tradeoff, _) if reason.starts_with("worse in") => {
            format!("{config} is better over all scenarios together, but {reason}: decide which of them matters.")
        }
        (Verdict::Tradeoff, _) => format!(
            "{config} is better in one way and worse in another: better {}; worse {}. Decide which matters.",
            list(&with(Status::Better)),
            list(&with(Status::Worse))
        ),
        (Verdict::Inconclusive, INCOMPLETE) => {
            format!(
                "Not all planned runs of {config} are there. So far, as an estimate and not as a verdict: {}.",
                primary()
            )
        }
        (Verdict::Inconclusive, "TooFewBlocks") => {
            format!("Too few blocks count to prove anything about {config}: {}. Run more repetitions.", primary())
        }
        (Verdict::Inconclusive, "NoGain") => format!(
            "{config} does not improve things by the margin, but whether it does harm is not shown: {}.",
            primary()
        ),
        (Verdict::Inconclusive, "GuardrailUnresolved") => format!(
            "{config} may be worth it, but that {detail} does not get worse is not proven: {}. Run more or longer trials.",
            primary()
        ),
        (Verdict::Inconclusive, _) => {
            let detectable: Vec<String> = estimates
                .iter()
                .filter(|e| e.role == Role::Primary)
                .filter_map(|e| e.detectable_percent.map(|percent| format!("{percent:.1} % of {}", e.metric)))
                .collect();
            let precision = if detectable.is_empty() {
                String::new()
            } else {
                format!(" At this noise the experiment usually finds effects from {} on.", list(&detectable))
            };
            format!("The runs don't tell whether {config} helps: {}.{precision}", primary())
        }
        (Verdict::Invalid, _) => match findings.first() {
            Some(finding) => {
                format!(
                    "{config} can't be judged ({reason}): {}. {}",
                    finding.message.trim_end_matches('.'),
                    finding.what_to_do
                )
            }
            None => format!("{config} can't be judged: {reason}."),
        },
    }
}

/// One effect with its interval.
fn measured(estimate: &Estimate) -> String {
    let name = &estimate.metric;
    if estimate.estimate.is_none() {
        return format!("{name} unknown");
    }
    let unit = if estimate.scale == Scale::Linear { " in absolute terms" } else { "" };
    format!("{name} {}{unit} (95 % interval {})", number::estimate(estimate), number::interval(estimate))
}

fn list(parts: &[String]) -> String {
    match parts {
        [] => "nothing measured".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
