//! Trials as objects of a cluster: what they are called, and the attempts that they tell of.

mod attempts;

use std::fmt::Write as _;

use assay_api::{AttemptStatus, FindingStatus, PageCacheState, TuningTrialSpec, bounds};
use assay_protocol::{Digest, PodEvidence, Summary, TrialId};

use crate::attempt::{Attempt, Lost, LostReason};
use crate::decide::Fate;
use crate::plan::Plan;
use crate::status::{finding, shorten};
pub use attempts::{Attempts, Told, Unfit, attempts};

/// The longest part of a name that is kept of each thing that it is made of.
const PART: usize = 13;

/// What the names of pods begin with. Where somebody wants to get into a pod, a policy sees only the name: nobody may make or enter
/// others of such a name.
pub const POD_PREFIX: &str = "assay-trial-";

/// How much of a digest is at the end of a name.
const DIGEST: usize = 8;

/// The longest part of a trial's name that is kept in its pod's, besides the digest at its end.
const POD_PART: usize = 39;

/// The name of a trial's object. Whatever was cut off is in the digest, so two trials never share one.
pub fn trial_name(experiment: &str, trial: &TrialId) -> String {
    let TrialId { scenario, block, config, replicate, .. } = trial;
    let whole = format!("{experiment}/{scenario}/{block}/{config}/{replicate}");
    unique(&[experiment, scenario, config, &format!("b{block}"), &format!("r{replicate}")], &whole)
}

/// The name of the pod of an attempt, and of the `ConfigMap` with its record.
pub fn pod_name(trial: &str, attempt: u32) -> String {
    let (name, end) = trial.split_at(trial.len().saturating_sub("-".len() + DIGEST));
    let name = name.get(..POD_PART).unwrap_or(name).trim_end_matches('-');
    format!("{POD_PREFIX}{name}{end}-a{attempt}")
}

/// The name of the pod that checks the options of a config.
pub fn check_name(experiment: &str, config: &str, question: usize) -> String {
    let whole = format!("{experiment}/{config}/{question}");
    format!("{POD_PREFIX}{}", unique(&[experiment, "check", config, &question.to_string()], &whole))
}

/// The name of the pod that waits for a node.
pub fn placeholder_name(experiment: &str) -> String {
    format!("{POD_PREFIX}{}", unique(&[experiment, "node"], &format!("{experiment}/node")))
}

/// The name of the pod that looks up the image of a config of a sweep.
pub fn resolve_name(sweep: &str, config: &str, image: &str) -> String {
    format!("{POD_PREFIX}{}", unique(&[sweep, "image", config], &format!("{sweep}/image/{config}/{image}")))
}

/// The name of the claim for the volume of a block in one of its passes: each pass may be on another node.
pub fn claim_name(experiment: &str, scenario: &str, block: u32, pass: u32) -> String {
    let whole = format!("{experiment}/{scenario}/{block}/{pass}");
    unique(&[experiment, scenario, &format!("b{block}"), &format!("p{pass}")], &whole)
}

/// At most 63 characters, as a host name is: the parts, shortened, and a digest of them all.
fn unique(parts: &[&str], whole: &str) -> String {
    let mut name = String::new();
    for part in parts {
        let _ = write!(name, "{}-", part.get(..PART).unwrap_or(part).trim_end_matches('-'));
    }
    name.push_str(&Digest::of(whole.as_bytes()).as_str()[..DIGEST]);
    name
}

/// The trial that an object stands for, in one of its attempts.
pub fn trial_id(spec: &TuningTrialSpec, attempt: u32) -> TrialId {
    TrialId {
        scenario: spec.scenario.clone(),
        block: spec.block,
        config: spec.config.clone(),
        replicate: spec.replicate,
        order: spec.order,
        attempt,
    }
}

/// The spec of a trial's object, on a node.
pub fn spec(plan: &Plan, trial: &TrialId, seed: u64, node: &str) -> TuningTrialSpec {
    TuningTrialSpec {
        experiment: plan.experiment.name.clone(),
        plan: plan.digest.to_string(),
        scenario: trial.scenario.clone(),
        block: trial.block,
        config: trial.config.clone(),
        replicate: trial.replicate,
        order: trial.order,
        seed,
        node: node.to_owned(),
    }
}

/// A metric's value as a status has it, in the room that there is for a number.
pub fn number(value: f64) -> String {
    let plain = value.to_string();
    if plain.len() <= bounds::NUMBER { plain } else { format!("{value:e}") }
}

/// What an attempt's status says, as the rules read it.
pub fn attempt(spec: &TuningTrialSpec, status: &AttemptStatus) -> Result<Attempt, String> {
    if let Some(json) = &status.summary {
        let mut summary = Summary::from_json(json.as_bytes()).map_err(|error| error.to_string())?;
        observe(&mut summary, status)?;
        return Ok(Attempt::Finished(summary.into()));
    }
    let word = status.reason.as_deref().unwrap_or_default();
    let reason = LostReason::from_word(word).ok_or_else(|| format!("unknown reason {word:?}"))?;
    Ok(Attempt::from(Lost {
        plan: digest(&spec.plan)?,
        trial: trial_id(spec, status.attempt),
        started_unix_ms: started(status).unwrap_or_default(),
        boot: status.boot.as_deref().map(digest).transpose()?,
        reason,
        message: status.message.clone().unwrap_or_default(),
    }))
}

/// When the pod was made, by the API server's clock: those of nodes may be far off. Objects have whole seconds, and who has
/// just made one must see what those see who read it.
fn started(status: &AttemptStatus) -> Option<u64> {
    status.start_time.as_ref().map(|time| time.0.as_second().max(0) as u64 * 1000)
}

/// Adds what the cluster knows to what the bench wrote.
fn observe(summary: &mut Summary, status: &AttemptStatus) -> Result<(), String> {
    summary.started_unix_ms = started(status).unwrap_or(summary.started_unix_ms);
    let Some(evidence) = &status.evidence else { return Ok(()) };
    for (name, value) in &evidence.metrics {
        let value: f64 = value.parse().map_err(|_| format!("{name} is not a number: {value:?}"))?;
        summary.metrics.insert(name.clone(), value);
    }
    summary.pod = Some(PodEvidence {
        node: status.node.clone(),
        qos_class: evidence.qos_class.clone(),
        foreign_containers: evidence.foreign_containers.clone(),
        page_cache_dropped: evidence.page_cache.map(|state| state == PageCacheState::Dropped),
        throttle_events: evidence.throttle_events,
    });
    Ok(())
}

fn digest(text: &str) -> Result<Digest, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// Writes down what became of an attempt.
pub fn tell(status: &mut AttemptStatus, attempt: &Attempt, fate: &Fate<'_>) {
    let (outcome, findings): (_, Vec<FindingStatus>) = match fate {
        Fate::Used => ("Valid", Vec::new()),
        Fate::Held(found) => ("Held", vec![finding(found)]),
        Fate::Failed => ("Failed", Vec::new()),
        Fate::Invalid(found) => ("Invalid", found.iter().take(bounds::FINDINGS).map(finding).collect()),
        Fate::Lost(_) => ("Lost", Vec::new()),
        Fate::BlockInterrupted => ("BlockInterrupted", Vec::new()),
        Fate::Superseded => ("Superseded", Vec::new()),
    };
    outcome.clone_into(&mut status.outcome);
    match attempt {
        Attempt::Lost(lost) => {
            status.reason = Some(format!("{:?}", lost.reason));
            status.message = Some(shorten(&lost.message, bounds::MESSAGE));
            status.boot = lost.boot.as_ref().map(ToString::to_string);
        }
        Attempt::Finished(summary) => match (&summary.failure, findings.first()) {
            (Some(failure), _) => {
                status.reason = Some(format!("{:?}", failure.kind));
                status.message = Some(shorten(&failure.message, bounds::MESSAGE));
            }
            (None, Some(first)) => {
                status.reason = Some(first.code.clone());
                status.message = Some(first.message.clone());
            }
            (None, None) => {}
        },
    }
    status.findings = findings;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use assay_api::{PodEvidenceStatus, Time};

    use super::*;
    use crate::decide::Places;
    use crate::gates::testing::{experiment, plan, summary};

    #[test]
    fn every_value_of_a_metric_has_room() {
        for value in [0.0, 12.5, 1e9, 1.110_223_024_625_156_5e-16, -1.797_693_134_862_315_7e308, f64::MIN_POSITIVE] {
            let text = number(value);
            assert!(text.len() <= bounds::NUMBER, "{text}");
            assert_eq!(text.parse(), Ok(value), "{text}");
        }
        assert_eq!(number(1234.5), "1234.5");
    }

    fn first(plan: &Plan) -> TrialId {
        plan.trials().next().unwrap_or_else(|| unreachable!())
    }

    fn status(attempt: u32) -> AttemptStatus {
        AttemptStatus {
            attempt,
            node: Some("n0".to_owned()),
            start_time: serde_json::from_value::<Time>("2026-01-02T03:04:05Z".into()).ok(),
            ..AttemptStatus::default()
        }
    }

    #[test]
    fn names_are_short_and_never_shared() {
        let plan = plan(&experiment());
        let mut trial = first(&plan);
        let long = "x".repeat(63);
        // The highest numbers that the API allows.
        let largest =
            TrialId { scenario: long.clone(), config: long.clone(), block: 999, replicate: 9, ..trial.clone() };
        let name = pod_name(&trial_name(&long, &largest), 8);
        assert!(name.len() <= 63, "{name} is no host name, and no label");
        let check = check_name(&long, &long, 99);
        assert!(check.len() <= 63, "{check} is no host name, and no label");
        for name in [&name, &check] {
            assert!(name.starts_with(POD_PREFIX), "{name} can be entered");
        }
        let other = TrialId { config: format!("{long}2"), ..largest.clone() };
        assert_ne!(pod_name(&trial_name(&long, &other), 8), name, "what was cut off is in the digest");
        let of = |experiment: &str, scenario: &str, config: &str| {
            trial_name(
                experiment,
                &TrialId { scenario: scenario.to_owned(), config: config.to_owned(), ..trial.clone() },
            )
        };
        assert_ne!(of("a", "b-c", "d"), of("a-b", "c", "d"));
        assert_ne!(of("a", "b", &format!("{long}1")), of("a", "b", &format!("{long}2")));
        let name = trial_name("quick", &trial);
        trial.attempt = 3;
        assert_eq!(trial_name("quick", &trial), name, "all attempts of a trial are in one object");
        assert_ne!(claim_name("a", "b", 1, 0), claim_name("a", "b", 11, 0));
        assert_ne!(claim_name("a", "b", 1, 0), claim_name("a", "b", 1, 1));
        assert_ne!(check_name("a", "b", 0), check_name("a", "b", 1));
    }

    #[test]
    fn what_was_told_is_read_again() {
        let plan = plan(&experiment());
        let trial = first(&plan);
        let summary = summary(&trial);
        let mut lost = Attempt::from(Lost {
            plan: plan.digest.clone(),
            trial: TrialId { attempt: 1, ..trial.clone() },
            started_unix_ms: 1_767_323_045_000,
            boot: Some(Digest::of(b"boot")),
            reason: LostReason::NodeLost,
            message: "its node was silent for 120 s".to_owned(),
        });
        let attempts = [Attempt::Finished(summary.clone().into()), lost.clone()];
        let places = Places::new(&plan, &attempts).unwrap_or_else(|error| unreachable!("{error}"));
        let spec = spec(&plan, &trial, 1, "n0");
        let mut told = status(1);
        tell(&mut told, &lost, &places.fate(1));
        assert_eq!((told.outcome.as_str(), told.reason.as_deref()), ("Lost", Some("NodeLost")));
        assert_eq!(attempt(&spec, &told).unwrap_or_else(|error| unreachable!("{error}")), lost);
        for reason in LostReason::ALL {
            if let Attempt::Lost(lost) = &mut lost {
                Arc::make_mut(lost).reason = reason;
            }
            tell(&mut told, &lost, &places.fate(1));
            assert_eq!(attempt(&spec, &told).unwrap_or_else(|error| unreachable!("{error}")), lost);
        }
        told.reason = Some("Bored".to_owned());
        assert!(attempt(&spec, &told).is_err());

        let mut told = status(0);
        told.summary = serde_json::to_string(&summary).ok();
        told.evidence = Some(PodEvidenceStatus {
            qos_class: Some("Guaranteed".to_owned()),
            foreign_containers: vec!["proxy".to_owned()],
            page_cache: Some(PageCacheState::Kept),
            throttle_events: Some(3),
            metrics: BTreeMap::from([("watts".to_owned(), "17.25".to_owned())]),
            ..PodEvidenceStatus::default()
        });
        let Ok(Attempt::Finished(read)) = attempt(&spec, &told) else { unreachable!() };
        assert_eq!(read.metrics["watts"], 17.25);
        assert_eq!(read.started_unix_ms, 1_767_323_045_000, "not by the node's clock");
        let pod = read.pod.clone().unwrap_or_default();
        assert_eq!((pod.node.as_deref(), pod.qos_class.as_deref()), (Some("n0"), Some("Guaranteed")));
        assert_eq!(pod.foreign_containers, ["proxy"]);
        assert_eq!((pod.page_cache_dropped, pod.throttle_events), (Some(false), Some(3)));
        told.summary = Some("{\"version\":1".to_owned());
        assert!(attempt(&spec, &told).is_err(), "half a summary is none");
    }
}
