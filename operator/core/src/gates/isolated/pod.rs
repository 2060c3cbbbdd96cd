//! What the cluster says about the pod of a trial. A run without a cluster has none, and nothing is held against it.

use assay_record::PodEvidence;

use crate::gates::Code;

/// The only quality of service class whose CPUs the kubelet can set apart.
const GUARANTEED: &str = "Guaranteed";

/// The operator asks for whole CPUs and for nothing beside the bench, whether or not the experiment requires exclusive
/// CPUs. So a pod that is different has been changed by somebody, and the trial was not what was planned.
pub(super) fn disturbances(pod: &PodEvidence) -> Vec<(Code, String)> {
    let mut found = Vec::new();
    if let Some(class) = pod.qos_class.as_deref().filter(|&class| class != GUARANTEED) {
        let message = format!("the pod's quality of service class is {class}, {GUARANTEED} was asked for");
        found.push((Code::NotGuaranteed, message));
    }
    if !pod.foreign_containers.is_empty() {
        let message = format!("beside the bench the pod had containers: {}", pod.foreign_containers.join(", "));
        found.push((Code::ForeignContainer, message));
    }
    found
}

pub(super) fn is_unknown(pod: &PodEvidence) -> bool {
    pod.qos_class.is_none()
}

#[cfg(test)]
mod tests {
    use assay_record::PodEvidence;

    use crate::gates::testing::{codes, experiment, gated_with, gated_with_all};
    use crate::gates::{Code, Label, TrialState};

    fn pod(class: Option<&str>, foreign: &[&str]) -> PodEvidence {
        PodEvidence {
            node: Some("worker-1".to_owned()),
            qos_class: class.map(str::to_owned),
            foreign_containers: foreign.iter().map(ToString::to_string).collect(),
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
            assert_eq!(findings[0].message, "beside the bench the pod had containers: istio-proxy, agent");
        }
    }

    #[test]
    fn an_unknown_class_is_not_clean() {
        let unknown = pod(None, &[]);
        assert_eq!(codes(&with(true, &unknown)), [Code::EvidenceUnknown]);
        assert_eq!(codes(&with(false, &unknown)), []);
        let gated = gated_with_all(&experiment(), |summary| summary.pod = Some(unknown.clone()));
        let label = &gated.labels[&Label::NotIsolated];
        assert!(label.ends_with("Unknown: quality of service class."), "{label}");
    }
}
