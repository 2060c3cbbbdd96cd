//! The objects that run a trial: its pod, the volume of its block, and the pod that checks options before the first block.

use std::collections::BTreeMap;

use assay_api::names::{
    ATTEMPT_LABEL, CONTAINER, EXPERIMENT_LABEL, INPUT_ANNOTATION, MANAGED_BY, MANAGED_LABEL, QUEUE_LABELS, ROLE_CHECK,
    ROLE_LABEL, ROLE_TRIAL, TRIAL_LABEL,
};
use assay_api::{Placement, Storage, TolerationOperator, TuningExperiment, TuningTrial, TuningTrialSpec};
use assay_core::attempt::pass;
use assay_core::cluster;
use assay_core::node::DEFAULT_MEMORY;
use assay_protocol::invocation::{self, in_pod};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};

use crate::args::Args;

/// What all pods of an experiment have in common.
pub struct Template<'a> {
    pub experiment: &'a TuningExperiment,
    pub args: &'a Args,
}

impl Template<'_> {
    fn placement(&self) -> &Placement {
        &self.experiment.spec.placement
    }

    /// The image that a config runs.
    pub fn image(&self, config: &str) -> &str {
        let own = self.experiment.spec.configs.iter().find(|known| known.name == config);
        let plan = self.experiment.status.as_ref().and_then(|status| status.plan.as_ref());
        // Trials of two builds can't be compared, so an upgrade changes nothing for experiments that have begun.
        let planned = plan.and_then(|plan| plan.bench_image.as_deref());
        own.and_then(|config| config.image.as_deref()).or(planned).unwrap_or(&self.args.bench_image)
    }

    /// The pod of an attempt.
    pub fn trial(&self, trial: &TuningTrial, attempt: u32, input: &str) -> Result<Pod, serde_json::Error> {
        let spec = &trial.spec;
        let name = cluster::pod_name(&trial.name_any(), attempt);
        let memory = self.placement().memory.as_ref().map_or(DEFAULT_MEMORY, |memory| &memory.0);
        // Whole CPUs, and requests equal to limits: only so a static CPU manager gives the pod CPUs of its own.
        let resources = json!({"cpu": self.placement().cpus.to_string(), "memory": memory});
        let arguments = json!(in_pod::run(&self.directory()));
        let mut pod = self.pod(&name, ROLE_TRIAL, &spec.config, &arguments, input);
        pod["metadata"]["labels"][TRIAL_LABEL] = trial.name_any().into();
        pod["metadata"]["labels"][ATTEMPT_LABEL] = attempt.to_string().into();
        pod["metadata"]["ownerReferences"] = json!([owner(trial)]);
        // Through the scheduler, which knows what else is on the node. It keeps trials of all operators and namespaces apart even
        // where nobody renews a lease any more.
        pod["spec"]["affinity"] = json!({
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [spec.node]},
                ]}],
            }},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [trials_on_a_node()]},
        });
        let container = &mut pod["spec"]["containers"][0];
        container["resources"] = json!({"requests": resources, "limits": resources});
        container["ports"] = json!([{"name": "metrics", "containerPort": in_pod::METRICS_PORT}]);
        push(&mut container["volumeMounts"], json!({"name": "data", "mountPath": in_pod::DATA_DIR}));
        push(&mut pod["spec"]["volumes"], self.data(spec, pass(attempt)));
        serde_json::from_value(pod)
    }

    /// The pod that opens a database with the options of a config.
    pub fn check(&self, name: &str, config: &str, input: &str) -> Result<Pod, serde_json::Error> {
        let mut pod = self.pod(name, ROLE_CHECK, config, &json!(in_pod::options()), input);
        pod["metadata"]["ownerReferences"] = json!([owner(self.experiment)]);
        // Short as it is, it is better run where no trial is measured.
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": trials_on_a_node()},
        ]}});
        pod["spec"]["containers"][0]["resources"] = json!({
            "requests": {"cpu": "10m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "256Mi"},
        });
        serde_json::from_value(pod)
    }

    fn pod(&self, name: &str, role: &str, config: &str, arguments: &Value, input: &str) -> Value {
        let tolerations: Vec<Value> = self
            .placement()
            .tolerations
            .iter()
            .map(|toleration| match toleration.operator {
                TolerationOperator::Exists => json!({"key": toleration.key, "operator": "Exists"}),
                TolerationOperator::Equal => {
                    json!({"key": toleration.key, "operator": "Equal", "value": toleration.value})
                }
            })
            .collect();
        let queue = self.experiment.labels().iter().filter(|(name, _)| name.starts_with(QUEUE_LABELS));
        let mut labels: BTreeMap<&str, &str> = queue.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let experiment = self.experiment.name_any();
        labels.extend([(EXPERIMENT_LABEL, experiment.as_str()), (ROLE_LABEL, role), (MANAGED_LABEL, MANAGED_BY)]);
        json!({
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {
                    INPUT_ANNOTATION: input,
                    // A sidecar takes the pod's CPUs away, and an eviction the whole trial.
                    "sidecar.istio.io/inject": "false",
                    "linkerd.io/inject": "disabled",
                    "karpenter.sh/do-not-disrupt": "true",
                    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                },
            },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                // What a trial has not written down by itself when it is asked to end, nobody needs.
                "terminationGracePeriodSeconds": invocation::GRACE.as_secs(),
                "nodeSelector": self.placement().node_selector,
                "tolerations": tolerations,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": in_pod::USER,
                    "runAsGroup": in_pod::USER,
                    "fsGroup": in_pod::USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": CONTAINER,
                    "image": self.image(config),
                    "imagePullPolicy": format!("{:?}", self.args.image_pull_policy),
                    "args": arguments,
                    "securityContext": {
                        "readOnlyRootFilesystem": true,
                        "allowPrivilegeEscalation": false,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "input", "mountPath": in_pod::INPUT_DIR, "readOnly": true},
                        {"name": "tmp", "mountPath": in_pod::TEMPORARY_DIR},
                    ],
                }],
                "volumes": [
                    {"name": "input", "downwardAPI": {"items": [{
                        "path": in_pod::INPUT_FILE,
                        "fieldRef": {"fieldPath": format!("metadata.annotations['{INPUT_ANNOTATION}']")},
                    }]}},
                    {"name": "tmp", "emptyDir": {}},
                ],
            },
        })
    }

    /// The folder in the volume. On a host path no experiment finds the data of another.
    fn directory(&self) -> String {
        let storage = self.placement().storage.as_ref();
        if storage.is_some_and(|storage| storage.host_path.is_some()) {
            let namespace = self.experiment.namespace().unwrap_or_default();
            return format!("{}/{namespace}/{}", in_pod::DATA_DIR, self.experiment.name_any());
        }
        in_pod::DATA_DIR.to_owned()
    }

    /// Where the databases of a trial are.
    fn data(&self, trial: &TuningTrialSpec, pass: u32) -> Value {
        let storage = self.placement().storage.as_ref();
        match storage {
            Some(Storage { persistent_volume_claim: Some(_), .. }) => {
                let claim = cluster::claim_name(&trial.experiment, &trial.scenario, trial.block, pass);
                json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
            }
            Some(Storage { host_path: Some(host), .. }) => {
                // The kubelet would make it for root only.
                json!({"name": "data", "hostPath": {"path": host.path, "type": "Directory"}})
            }
            _ => {
                let limit = storage.and_then(|storage| storage.empty_dir.as_ref()?.size_limit.as_ref());
                json!({"name": "data", "emptyDir": limit.map_or_else(|| json!({}), |limit| json!({"sizeLimit": limit}))})
            }
        }
    }

    /// The claim for the volume of a block in one of its passes, where the experiment asks for one.
    pub fn claim(&self, name: &str) -> Option<Result<PersistentVolumeClaim, serde_json::Error>> {
        let wanted = self.placement().storage.as_ref()?.persistent_volume_claim.as_ref()?;
        Some(serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": {EXPERIMENT_LABEL: self.experiment.name_any(), MANAGED_LABEL: MANAGED_BY},
                "ownerReferences": [owner(self.experiment)],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": wanted.storage_class_name,
                "resources": {"requests": {"storage": wanted.size}},
            },
        })))
    }
}

/// Whoever owns an object takes it along when it goes. Without blocking: that would need a right to change finalizers.
pub fn owner<K: Resource<DynamicType = ()>>(of: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: of.meta().name.clone().unwrap_or_default(),
        uid: of.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// The term of an affinity for all trials on a node, of whatever experiment and namespace.
fn trials_on_a_node() -> Value {
    json!({
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {},
        "labelSelector": {"matchLabels": {ROLE_LABEL: ROLE_TRIAL, MANAGED_LABEL: MANAGED_BY}},
    })
}

fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}
