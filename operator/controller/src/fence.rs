//! What the experiments of a namespace may ask for, as the chart's `fences` say. Policies refuse the rest when it is created. What was
//! stored before is for the operator to refuse, and so is what policies can't count.

use std::collections::BTreeMap;

use assay_api::{TuningExperiment, TuningExperimentSpec};
use assay_core::validate::{FieldPath, Problem, matrix};
use kube::ResourceExt as _;
use serde::Deserialize;

/// Kueue's.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
const PRIORITY_LABEL: &str = "kueue.x-k8s.io/priority-class";

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Fence {
    /// Empty: it holds for all that no other one names.
    namespaces: Vec<String>,
    node_selector: BTreeMap<String, String>,
    tolerations: Option<Vec<String>>,
    images: Option<Vec<String>>,
    host_paths: Option<Vec<String>>,
    storage_classes: Option<Vec<String>>,
    queues: Option<Vec<String>>,
    priority_classes: Option<Vec<String>>,
    custom_metrics: Option<bool>,
    /// How many nodes the experiments of each of its namespaces hold at once.
    pub max_nodes: Option<usize>,
    max_block_duration_seconds: Option<u32>,
}

/// Those that hold for a namespace.
pub fn of<'a>(fences: &'a [Fence], namespace: &str) -> impl Iterator<Item = &'a Fence> {
    let names = move |fence: &Fence| fence.namespaces.iter().any(|named| named == namespace);
    let is_named = fences.iter().any(names);
    fences.iter().filter(move |fence| if is_named { names(fence) } else { fence.namespaces.is_empty() })
}

/// By whole parts, which one of these characters separates.
pub fn begins_with(text: &str, allowed: &str, separators: &[char]) -> bool {
    let rest = text.strip_prefix(allowed.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(separators))
}

fn is_one_of(text: &str, allowed: &[String]) -> bool {
    allowed.iter().any(|allowed| allowed == text)
}

/// For people, who read what is left if nothing is allowed.
fn named(allowed: &[String], nothing: &str) -> String {
    if allowed.is_empty() { nothing.to_owned() } else { allowed.join(", ") }
}

impl Fence {
    /// What an experiment asks for and may not have, in the words of the chart's policies.
    pub fn problems(&self, experiment: &TuningExperiment) -> Vec<Problem> {
        let mut problems = self.of_placement(&experiment.spec);
        let mut refuse = |path: FieldPath, message: String| problems.push(Problem::error(path, message));
        let path = |keys: &str| FieldPath::root().keys(keys);
        for (label, allowed) in [(QUEUE_LABEL, &self.queues), (PRIORITY_LABEL, &self.priority_classes)] {
            let Some(allowed) = allowed else { continue };
            if !is_one_of(experiment.labels().get(label).map_or("", String::as_str), allowed) {
                let message = format!("experiments of this namespace need {label}: {}", allowed.join(" or "));
                refuse(path("metadata.labels"), message);
            }
        }
        for (field, image) in matrix::images(&experiment.spec) {
            let Some(allowed) = &self.images else { continue };
            if !allowed.iter().any(|allowed| begins_with(image, allowed, &['/', ':', '@'])) {
                let allowed = named(allowed, "nothing: remove the image");
                let message = format!("images of this namespace begin with {allowed}");
                refuse(field, message);
            }
        }
        if self.custom_metrics == Some(false) && !experiment.spec.metrics.is_empty() {
            let message = "experiments of this namespace may not query Prometheus: remove the metrics";
            refuse(path("spec.metrics"), message.to_owned());
        }
        let most = self.max_block_duration_seconds.unwrap_or(u32::MAX);
        if experiment.spec.max_block_duration_seconds > most {
            let message = format!("experiments of this namespace may use at most {most}");
            refuse(path("spec.maxBlockDurationSeconds"), message);
        }
        problems
    }

    fn of_placement(&self, spec: &TuningExperimentSpec) -> Vec<Problem> {
        let (mut problems, placement) = (Vec::new(), &spec.placement);
        let mut refuse = |keys: &str, message: String| {
            problems.push(Problem::error(FieldPath::root().keys("spec.placement").keys(keys), message));
        };
        for (key, value) in &self.node_selector {
            if placement.node_selector.get(key) != Some(value) {
                refuse("nodeSelector", format!("experiments of this namespace need {key}: {value}"));
            }
        }
        if let Some(allowed) = &self.tolerations
            && !placement.tolerations.iter().all(|toleration| is_one_of(&toleration.key, allowed))
        {
            let allowed = named(allowed, "no taint");
            refuse("tolerations", format!("experiments of this namespace may tolerate {allowed}"));
        }
        let storage = placement.storage.as_ref();
        if let Some(allowed) = &self.storage_classes
            && let Some(claim) = storage.and_then(|storage| storage.persistent_volume_claim.as_ref())
            && !is_one_of(claim.storage_class_name.as_deref().unwrap_or_default(), allowed)
        {
            let allowed = named(allowed, "no volumes");
            let field = "storage.persistentVolumeClaim.storageClassName";
            refuse(field, format!("experiments of this namespace may use {allowed}"));
        }
        if let Some(allowed) = &self.host_paths
            && let Some(host) = storage.and_then(|storage| storage.host_path.as_ref())
            && !allowed.iter().any(|allowed| begins_with(&host.path, allowed, &['/']))
        {
            let allowed = named(allowed, "no hostPath");
            refuse("storage.hostPath.path", format!("experiments of this namespace may use {allowed}"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fence(fence: &Value) -> Fence {
        serde_json::from_value(fence.clone()).unwrap_or_else(|error| unreachable!("{error}"))
    }

    #[test]
    fn a_namespace_has_the_fence_that_names_it_or_that_of_all_others() {
        let fences =
            [json!({"namespaces": ["a", "b"], "queues": ["1"]}), json!({"queues": ["2"]}), json!({"queues": ["3"]})];
        let fences = fences.each_ref().map(fence);
        let queues =
            |namespace| of(&fences, namespace).filter_map(|fence| fence.queues.clone()).flatten().collect::<Vec<_>>();
        assert_eq!(queues("a"), ["1"]);
        assert_eq!(queues("b"), ["1"]);
        assert_eq!(queues("ab"), ["2", "3"]);
        let misspelt = serde_json::from_value::<Fence>(json!({"queue": ["1"]}));
        assert!(misspelt.is_err(), "what is misspelt would fence nothing");
    }

    /// The chart's policies are asked the same on a cluster.
    #[test]
    fn a_stored_experiment_keeps_to_the_fence_of_its_namespace() {
        let table: Value = serde_json::from_str(include_str!("../../../charts/assay/tests/fences.json"))
            .unwrap_or_else(|error| unreachable!("{error}"));
        let own = fence(&table["fence"]);
        for case in table["cases"].as_array().into_iter().flatten() {
            let mut object = table["experiment"].clone();
            match case["at"].as_str().and_then(|at| object.pointer_mut(at)) {
                Some(place) => *place = case["value"].clone(),
                None => unreachable!("{case}"),
            }
            let experiment = serde_json::from_value(object).unwrap_or_else(|error| unreachable!("{case}: {error}"));
            let found: Vec<String> = own.problems(&experiment).iter().map(ToString::to_string).collect();
            let refused = case["refused"].as_str();
            assert_eq!(found.len(), usize::from(refused.is_some()), "{case}: {found:?}");
            assert!(found.iter().all(|found| found.contains(refused.unwrap_or_default())), "{case}: {found:?}");
            assert!(Fence::default().problems(&experiment).is_empty(), "{case}: no fence has no rules");
        }
        assert_eq!(table["cases"].as_array().map_or(0, Vec::len), 22);
    }
}
