//! What the cluster says about the pod of a trial. A run without a cluster has none, and nothing is held against it.

use assay_protocol::PodEvidence;

use crate::gates::view::View;
use crate::gates::{Code, Findings, Gate};

/// The only quality of service class whose CPUs the kubelet can set apart.
const GUARANTEED: &str = "Guaranteed";

/// The operator asks for whole CPUs and for nothing beside the bench, whether or not the experiment requires exclusive
/// CPUs. So a pod that is different has been changed by somebody, and the trial was not what was planned.
pub(super) fn disturbances(pod: &PodEvidence) -> Vec<(Code, String)> {
    let mut found = Vec::new();
    if let Some(class) = pod.qos_class.as_deref().filter(|&class| class != GUARANTEED) {
        let message = format!("the pod's quality of service class is {class}, not {GUARANTEED}");
        found.push((Code::NotGuaranteed, message));
    }
    if !pod.foreign_containers.is_empty() {
        let message = format!("the pod had containers besides the bench: {}", pod.foreign_containers.join(", "));
        found.push((Code::ForeignContainer, message));
    }
    if let Some(events) = pod.throttle_events.filter(|&events| events > 0) {
        found.push((Code::Overheated, format!("heat throttled a CPU of the trial {events} times")));
    }
    found
}

/// Runs that may find pages of earlier ones in the node's page cache, beside runs that can't. The bench looks after its own files,
/// so it is no fault of a run, but nobody shall have to guess.
pub(super) fn mixed_page_caches(view: &View<'_>, findings: &mut Findings) {
    let pods = view.completed().iter().filter_map(|&trial| view.summary(trial).pod.as_ref());
    let dropped: Vec<Option<bool>> = pods.map(|pod| pod.page_cache_dropped).collect();
    let count = |state: Option<bool>| dropped.iter().filter(|&&dropped| dropped == state).count();
    let (yes, no, unknown) = (count(Some(true)), count(Some(false)), count(None));
    if yes > 0 && no + unknown > 0 {
        let text = format!(
            "Suspect: the node's page cache was dropped before {yes} runs, kept before {no} and unknown for {unknown}. \
             Look for a node without an agent, or check the agents' logs."
        );
        findings.note(Gate::Isolated, None, text);
    }
}

pub(super) fn is_unknown(pod: &PodEvidence) -> bool {
    pod.qos_class.is_none()
}

#[cfg(test)]
mod tests {
    use assay_protocol::PodEvidence;

    use crate::gates::testing::{codes, experiment, gated_with, gated_with_all};
    use crate::gates::{Code, Label, TrialState};

    fn pod(class: Option<&str>, foreign: &[&str]) -> PodEvidence {
        PodEvidence {
            node: Some("worker-1".to_owned()),
            qos_class: class.map(str::to_owned),
            foreign_containers: foreign.iter().map(ToString::to_string).collect(),
            ..PodEvidence::default()
        }
    }

    fn with(strict: bool, pod: &PodEvidence) -> TrialState {
        let mut experiment = experiment();
        experiment.require_exclusive_cpus = strict;
        gated_with(&experiment, 1, |summary| summary.pod = Some(pod.clone())).trials[1].clone()
    }

    #[test]
    fn a_changed_pod_invalidates_in_either_mode() {
        for strict in [false, true] {
            assert_eq!(codes(&with(strict, &pod(Some("Guaranteed"), &[]))), []);
            assert_eq!(codes(&with(strict, &pod(Some("Burstable"), &[]))), [Code::NotGuaranteed]);
            let injected = with(strict, &pod(Some("Guaranteed"), &["istio-proxy", "agent"]));
            assert_eq!(codes(&injected), [Code::ForeignContainer]);
            let TrialState::Invalid(findings) = injected else { panic!("it is valid") };
            assert_eq!(findings[0].message, "the pod had containers besides the bench: istio-proxy, agent");
        }
    }

    #[test]
    fn heat_invalidates_in_either_mode() {
        for strict in [false, true] {
            let hot = |events| PodEvidence { throttle_events: events, ..pod(Some("Guaranteed"), &[]) };
            assert_eq!(codes(&with(strict, &hot(None))), [], "without an agent nobody can tell");
            assert_eq!(codes(&with(strict, &hot(Some(0)))), []);
            assert_eq!(codes(&with(strict, &hot(Some(1)))), [Code::Overheated]);
        }
    }

    #[test]
    fn runs_with_and_without_a_page_cache_are_not_mixed_silently() {
        let noted = |state: fn(u32, &str) -> Option<bool>| {
            let gated = gated_with_all(&experiment(), |summary| {
                let page_cache_dropped = state(summary.trial.block, &summary.trial.config);
                summary.pod = Some(PodEvidence { page_cache_dropped, ..pod(Some("Guaranteed"), &[]) });
            });
            assert!(gated.trials.iter().all(|trial| *trial == TrialState::Valid));
            gated.notes.into_iter().map(|note| note.text).collect::<Vec<_>>()
        };
        assert!(noted(|_, _| Some(true)).is_empty());
        assert!(noted(|_, _| Some(false)).is_empty());
        assert!(noted(|_, _| None).is_empty());
        let arms = noted(|_, config| Some(config == "base"));
        assert!(arms[0].contains("dropped before 8 runs, kept before 8 and unknown for 0"), "{arms:?}");
        let blocks = noted(|block, _| (block > 0).then_some(true));
        assert!(blocks[0].contains("dropped before 14 runs, kept before 0 and unknown for 2"), "{blocks:?}");
    }

    #[test]
    fn an_unknown_class_is_not_clean() {
        let unknown = pod(None, &[]);
        assert_eq!(codes(&with(true, &unknown)), [Code::EvidenceUnknown]);
        assert_eq!(codes(&with(false, &unknown)), []);
        let gated = gated_with_all(&experiment(), |summary| summary.pod = Some(unknown.clone()));
        let label = &gated.labels[&Label::NotIsolated];
        assert!(label.ends_with("runs: quality of service class."), "{label}");
    }
}
