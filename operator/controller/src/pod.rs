//! The objects that run a trial: its pod, the volume of its block, and the pod that checks options before the first block.

use std::collections::BTreeMap;

use assay_api::names::{
    ATTEMPT_LABEL, CONTAINER, DATA_VOLUME, EXPERIMENT_LABEL, INPUT_ANNOTATION, MANAGED_BY, MANAGED_LABEL,
    NIGHT_ANNOTATION, NODE_GATE, QUEUE_LABELS, ROLE_CHECK, ROLE_LABEL, ROLE_PLACEHOLDER, ROLE_RESOLVE, ROLE_TRIAL,
    SWEEP_LABEL, TEMPORARY_VOLUME, TRIAL_LABEL,
};
use assay_api::{
    NodeToleration, Placement, Storage, TolerationOperator, TuningExperiment, TuningSweep, TuningTrial, TuningTrialSpec,
};
use assay_core::attempt::pass;
use assay_core::cluster;
use assay_core::node::{self, DEFAULT_MEMORY, TEMPORARY_BYTES};
use assay_core::validate::{disk, matrix};
use assay_protocol::Digest;
use assay_protocol::invocation::{self, in_pod};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};

use crate::args::{Args, PullPolicy};

/// Seconds that a check of options may run: it opens an empty database and ends.
pub const CHECK_SECONDS: u32 = 600;
/// Seconds that a pod may wait on the node that it has brought, until that can run trials.
const PLACEHOLDER_SECONDS: u32 = 900;

/// What all pods of an experiment have in common.
pub struct Template<'a> {
    pub experiment: &'a TuningExperiment,
    pub args: &'a Args,
}

impl Template<'_> {
    fn placement(&self) -> &Placement {
        &self.experiment.spec.placement
    }

    /// The labels that say which queue its pods wait in.
    fn queue(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.experiment.labels().iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(|(name, _)| name.starts_with(QUEUE_LABELS))
    }

    /// Whether pods wait in a queue. They get their nodes when it lets them go.
    pub fn is_queued(&self) -> bool {
        self.queue().next().is_some()
    }

    /// The image that a config runs.
    pub fn image(&self, config: &str) -> &str {
        let own = matrix::image(&self.experiment.spec, config);
        let plan = self.experiment.status.as_ref().and_then(|status| status.plan.as_ref());
        // Trials of two builds can't be compared, so an upgrade changes nothing for experiments that have begun.
        let planned = plan.and_then(|plan| plan.bench_image.as_deref());
        own.or(planned).unwrap_or(&self.args.bench_image)
    }

    /// The pod of an attempt.
    pub fn trial(&self, trial: &TuningTrial, attempt: u32, input: &str) -> Result<Pod, serde_json::Error> {
        let spec = &trial.spec;
        let name = cluster::pod_name(&trial.name_any(), attempt);
        let (data, most) = self.data_bytes(&spec.scenario);
        let arguments = json!(in_pod::run(&self.directory()));
        let seconds = self.experiment.spec.max_block_duration_seconds;
        let mut pod = self.pod(&name, ROLE_TRIAL, (&spec.config, seconds), &arguments, input);
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
        container["resources"] = json!({"requests": self.resources(data), "limits": self.resources(most)});
        container["ports"] = json!([{"name": "metrics", "containerPort": in_pod::METRICS_PORT}]);
        push(&mut container["volumeMounts"], json!({"name": DATA_VOLUME, "mountPath": in_pod::DATA_DIR}));
        push(&mut pod["spec"]["volumes"], self.data(spec, pass(attempt)));
        if self.is_queued() {
            pod["spec"]["schedulingGates"] = json!([{"name": NODE_GATE}]);
        }
        serde_json::from_value(pod)
    }

    /// The pod that opens a database with the options of a config.
    pub fn check(&self, name: &str, config: &str, input: &str) -> Result<Pod, serde_json::Error> {
        let mut pod = self.pod(name, ROLE_CHECK, (config, CHECK_SECONDS), &json!(in_pod::options()), input);
        pod["metadata"]["ownerReferences"] = json!([owner(self.experiment)]);
        // Short as it is, it is better run where no trial is measured.
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": trials_on_a_node()},
        ]}});
        pod["spec"]["containers"][0]["resources"] = json!({
            "requests": {"cpu": "10m", "memory": "256Mi", "ephemeral-storage": ephemeral(0)},
            "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": ephemeral(0)},
        });
        serde_json::from_value(pod)
    }

    /// The pod that asks for a node: as large as a trial's, and as choosy.
    pub fn placeholder(&self, name: &str) -> Result<Pod, serde_json::Error> {
        // Of no config: it runs the bench of the installation.
        let mut pod = self.pod(name, ROLE_PLACEHOLDER, ("", PLACEHOLDER_SECONDS), &json!([invocation::WAIT]), "");
        pod["metadata"]["ownerReferences"] = json!([owner(self.experiment)]);
        pod["spec"]["affinity"] =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [trials_on_a_node()]}});
        let resources = self.resources(node::data_bytes(self.placement()).unwrap_or_default());
        pod["spec"]["containers"][0]["resources"] = json!({"requests": resources, "limits": resources});
        serde_json::from_value(pod)
    }

    /// The pod that pulls the image of a config, so that its node says which digest that is tonight. What it runs does not matter.
    pub fn resolve(
        &self,
        name: &str,
        config: &str,
        sweep: &TuningSweep,
        night: Timestamp,
    ) -> Result<Pod, serde_json::Error> {
        let mut pod = self.pod(name, ROLE_RESOLVE, (config, CHECK_SECONDS), &json!([invocation::VERSION]), "");
        let metadata = &mut pod["metadata"];
        metadata["ownerReferences"] = json!([owner(sweep)]);
        metadata["labels"] =
            json!({SWEEP_LABEL: sweep.name_any(), ROLE_LABEL: ROLE_RESOLVE, MANAGED_LABEL: MANAGED_BY});
        metadata["annotations"][NIGHT_ANNOTATION] = night.to_string().into();
        let container = &mut pod["spec"]["containers"][0];
        // A tag may have moved. Where nothing is pulled, it can't.
        let policy = if self.args.image_pull_policy == PullPolicy::Never { "Never" } else { "Always" };
        container["imagePullPolicy"] = policy.into();
        container["resources"] = json!({
            "requests": {"cpu": "10m", "memory": "64Mi", "ephemeral-storage": ephemeral(0)},
            "limits": {"cpu": "1", "memory": "64Mi", "ephemeral-storage": ephemeral(0)},
        });
        serde_json::from_value(pod)
    }

    /// A pod that runs a config for so many seconds at most.
    fn pod(&self, name: &str, role: &str, (config, seconds): (&str, u32), arguments: &Value, input: &str) -> Value {
        let tolerations: Vec<Value> = self
            .placement()
            .tolerations
            .iter()
            .map(|toleration| match toleration.operator {
                // The API server refuses a value.
                TolerationOperator::Exists => json!(NodeToleration { value: None, ..toleration.clone() }),
                TolerationOperator::Equal => json!(toleration),
            })
            .collect();
        let mut labels: BTreeMap<&str, &str> = self.queue().collect();
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
                // A bench that hangs, or an image that is none, gives its node back.
                "activeDeadlineSeconds": seconds,
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
                    "env": [{"name": in_pod::INPUT_DIGEST, "value": Digest::of(input.as_bytes())}],
                    "securityContext": {
                        "readOnlyRootFilesystem": true,
                        "allowPrivilegeEscalation": false,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "input", "mountPath": in_pod::INPUT_DIR, "readOnly": true},
                        {"name": TEMPORARY_VOLUME, "mountPath": in_pod::TEMPORARY_DIR},
                    ],
                }],
                "volumes": [
                    {"name": "input", "downwardAPI": {"items": [{
                        "path": in_pod::INPUT_FILE,
                        "fieldRef": {"fieldPath": format!("metadata.annotations['{INPUT_ANNOTATION}']")},
                    }]}},
                    {"name": TEMPORARY_VOLUME, "emptyDir": {"sizeLimit": TEMPORARY_BYTES.to_string()}},
                ],
            },
        })
    }

    /// What a trial's pod with so many bytes of data needs. Whole CPUs, and requests equal to limits: only so a static CPU manager gives
    /// the pod CPUs of its own.
    fn resources(&self, data: u64) -> Value {
        let memory = self.placement().memory.as_ref().map_or(DEFAULT_MEMORY, |memory| &memory.0);
        json!({"cpu": self.placement().cpus.to_string(), "memory": memory, "ephemeral-storage": ephemeral(data)})
    }

    /// Bytes of data that a trial of a scenario asks of the kubelet's disk, and the most that it may have there.
    fn data_bytes(&self, scenario: &str) -> (u64, u64) {
        let storage = self.placement().storage.as_ref();
        if storage.is_some_and(|storage| storage.empty_dir.is_none()) {
            return (0, 0);
        }
        if let Some(stated) = node::data_bytes(self.placement()) {
            return (stated, stated);
        }
        let scenario = self.experiment.spec.scenarios.iter().find(|known| known.name == scenario);
        // Its dataset, and beside it what its directory may hold before the bench ends it.
        (0, scenario.map_or(0, |scenario| disk::limit(&scenario.workload).saturating_mul(2)))
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
                json!({"name": DATA_VOLUME, "persistentVolumeClaim": {"claimName": claim}})
            }
            Some(Storage { host_path: Some(host), .. }) => {
                // The kubelet would make it for root only.
                json!({"name": DATA_VOLUME, "hostPath": {"path": host.path, "type": "Directory"}})
            }
            _ => {
                json!({"name": DATA_VOLUME, "emptyDir": {"sizeLimit": self.data_bytes(&trial.scenario).1.to_string()}})
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

/// Whether an object belongs to this very owner, and not to one that had its name.
pub fn is_owned(object: &impl Resource, owner: &impl Resource) -> bool {
    object.owner_references().iter().any(|known| Some(&known.uid) == owner.meta().uid.as_ref())
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

/// What a pod with so many bytes of data may take of the kubelet's disk.
fn ephemeral(data: u64) -> String {
    node::disk_bytes(data).to_string()
}

fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

/// The node that the pod of a trial is for.
pub fn target(pod: &Pod) -> Option<&str> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let field = terms.first()?.match_fields.as_ref()?.first()?;
    field.values.as_ref()?.first().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn args(more: &[&str]) -> Args {
        Args::parse_from([&["assay-operator", "--bench-image", "bench:own"], more].concat())
    }

    fn experiment(placement: &Value, plan: &Value) -> TuningExperiment {
        let experiment = json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment",
            "metadata": {"name": "e", "namespace": "ns", "uid": "u1",
                "labels": {"kueue.x-k8s.io/queue-name": "lab", "team": "storage"}},
            "spec": {"baseline": "a", "configs": [{"name": "a"}, {"name": "b", "image": "bench:b"}], "scenarios": [],
                "matrix": {"axes": [{"name": "build", "values": [{"image": "bench:c"}, {"name": "own"}]}]}, "repetitions": 1, "objectives": [], "placement": placement},
            "status": {"plan": plan},
        });
        serde_json::from_value(experiment).expect("an experiment")
    }

    fn trial() -> TuningTrial {
        let trial = json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial",
            "metadata": {"name": "t", "namespace": "ns", "uid": "u2"},
            "spec": {"experiment": "e", "plan": "p", "scenario": "s", "block": 5, "config": "b", "replicate": 0,
                "order": 0, "seed": 0, "node": "n0"},
        });
        serde_json::from_value(trial).expect("a trial")
    }

    /// The pod of the trial's fifth attempt, which is in the second pass of its block.
    fn trial_pod(placement: &Value, more: &[&str]) -> Value {
        let (experiment, args) = (experiment(placement, &Value::Null), args(more));
        json!(Template { experiment: &experiment, args: &args }.trial(&trial(), 4, "input").expect("a pod"))
    }

    #[test]
    fn the_pod_of_a_trial_has_its_node_and_its_cpus_for_itself() {
        let placement = json!({
            "cpus": 3, "memory": "4Gi", "nodeSelector": {"disk": "nvme"},
            "tolerations": [
                {"key": "bench", "value": "yes"},
                {"key": "lab", "operator": "Exists", "value": "unseen", "effect": "NoSchedule"},
            ],
            "storage": {"hostPath": {"path": "/mnt/nvme"}},
        });
        let resources = json!({"cpu": "3", "memory": "4Gi", "ephemeral-storage": "1342177280"});
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "assay-trial-t-a4",
                "labels": {
                    "kueue.x-k8s.io/queue-name": "lab", "assay.rocks/experiment": "e", "assay.rocks/role": "trial",
                    "assay.rocks/trial": "t", "assay.rocks/attempt": "4", "app.kubernetes.io/managed-by": "assay",
                },
                "annotations": {
                    "assay.rocks/input": "input", "sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled",
                    "karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                },
                "ownerReferences": [{"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial", "name": "t",
                    "uid": "u2", "controller": true}],
            },
            "spec": {
                "schedulingGates": [{"name": "assay.rocks/node"}],
                "restartPolicy": "Never",
                "activeDeadlineSeconds": 14_400,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "terminationGracePeriodSeconds": 5,
                "nodeSelector": {"disk": "nvme"},
                "tolerations": [
                    {"key": "bench", "operator": "Equal", "value": "yes"},
                    {"key": "lab", "operator": "Exists", "effect": "NoSchedule"},
                ],
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"}},
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]},
                    ]}},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {},
                        "labelSelector": {"matchLabels":
                            {"assay.rocks/role": "trial", "app.kubernetes.io/managed-by": "assay"}},
                    }]},
                },
                "containers": [{
                    "name": "bench", "image": "bench:b", "imagePullPolicy": "IfNotPresent",
                    "args": in_pod::run("/data/ns/e"),
                    "env": [{"name": "ASSAY_INPUT_DIGEST", "value": Digest::of(b"input")}],
                    "securityContext": {"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                        "capabilities": {"drop": ["ALL"]}},
                    "resources": {"requests": resources, "limits": resources},
                    "ports": [{"name": "metrics", "containerPort": in_pod::METRICS_PORT}],
                    "volumeMounts": [
                        {"name": "input", "mountPath": in_pod::INPUT_DIR, "readOnly": true},
                        {"name": "tmp", "mountPath": "/tmp"}, {"name": "data", "mountPath": "/data"},
                    ],
                }],
                "volumes": [
                    {"name": "input", "downwardAPI": {"items": [{"path": "input.json",
                        "fieldRef": {"fieldPath": "metadata.annotations['assay.rocks/input']"}}]}},
                    {"name": "tmp", "emptyDir": {"sizeLimit": "1073741824"}},
                    {"name": "data", "hostPath": {"path": "/mnt/nvme", "type": "Directory"}},
                ],
            },
        });
        assert_eq!(trial_pod(&placement, &[]), expected);
    }

    /// It differs from a trial's where it may be, in what it may use, and in what it does: no data, no metrics.
    #[test]
    fn the_pod_that_checks_options_is_small_and_keeps_away_from_trials() {
        let (experiment, args) = (experiment(&json!({"storage": {"emptyDir": {}}}), &Value::Null), args(&[]));
        let template = Template { experiment: &experiment, args: &args };
        let check = json!(template.check("check", "b", "question").expect("a pod"));
        let trial = trial_pod(&json!({}), &[]);
        let meta = &check["metadata"];
        assert_eq!((&meta["name"], &meta["annotations"]["assay.rocks/input"]), (&json!("check"), &json!("question")));
        let labels = json!({"kueue.x-k8s.io/queue-name": "lab", "assay.rocks/experiment": "e",
            "assay.rocks/role": "check", "app.kubernetes.io/managed-by": "assay"});
        assert_eq!(meta["labels"], labels);
        let owner = json!({"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment", "name": "e", "uid": "u1",
            "controller": true});
        assert_eq!(meta["ownerReferences"], json!([owner]));

        let mut expected = trial["spec"].clone();
        expected["activeDeadlineSeconds"] = 600.into();
        // It holds no node.
        expected.as_object_mut().expect("a spec").remove("schedulingGates");
        expected["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm":
                trial["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0],
        }]}});
        let container = expected["containers"][0].as_object_mut().expect("a container");
        container.remove("ports");
        container["args"] = json!(in_pod::options());
        container["env"][0]["value"] = json!(Digest::of(b"question"));
        container["resources"] = json!({
            "requests": {"cpu": "10m", "memory": "256Mi", "ephemeral-storage": "1342177280"},
            "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "1342177280"},
        });
        container["volumeMounts"].as_array_mut().expect("mounts").pop();
        expected["volumes"].as_array_mut().expect("volumes").pop();
        assert_eq!(check["spec"], expected);
    }

    /// An autoscaler goes by what it asks for, and can't go by the name of a node.
    #[test]
    fn the_pod_that_brings_a_node_is_as_large_as_a_trial() {
        let placement = json!({"cpus": 3, "memory": "4Gi", "nodeSelector": {"disk": "nvme"},
            "storage": {"emptyDir": {"sizeLimit": "9Gi"}}});
        let (experiment, args) = (experiment(&placement, &Value::Null), args(&[]));
        let brings = json!(Template { experiment: &experiment, args: &args }.placeholder("p").expect("a pod"));
        let trial = trial_pod(&placement, &[]);
        assert_eq!(brings["metadata"]["labels"]["assay.rocks/role"], "placeholder");
        assert_eq!(brings["metadata"]["ownerReferences"][0]["uid"], "u1");
        let (spec, container) = (&brings["spec"], &brings["spec"]["containers"][0]);
        assert_eq!((&container["image"], &container["args"]), (&json!("bench:own"), &json!(["wait"])));
        assert_eq!(container["resources"], trial["spec"]["containers"][0]["resources"]);
        assert_eq!(spec["nodeSelector"], trial["spec"]["nodeSelector"]);
        assert_eq!(spec["affinity"]["podAntiAffinity"], trial["spec"]["affinity"]["podAntiAffinity"]);
        assert_eq!(spec["affinity"].get("nodeAffinity"), None);
        assert_eq!((&spec["activeDeadlineSeconds"], spec.get("schedulingGates")), (&json!(900), None));
    }

    #[test]
    fn only_pods_in_a_queue_wait_for_their_node_behind_a_gate() {
        let mut experiment = experiment(&json!({}), &Value::Null);
        experiment.metadata.labels = Some([("team".to_owned(), "storage".to_owned())].into());
        let pod = Template { experiment: &experiment, args: &args(&[]) }.trial(&trial(), 4, "input").expect("a pod");
        assert_eq!(pod.spec.expect("a spec").scheduling_gates, None);
    }

    #[test]
    fn databases_are_where_the_experiment_says() {
        // A claim of the pass that the attempt is in.
        let claim = json!({"claimName": cluster::claim_name("e", "s", 5, 1)});
        for (storage, volume, directory) in [
            (json!({"emptyDir": {"sizeLimit": "9Gi"}}), json!({"emptyDir": {"sizeLimit": "9663676416"}}), "/data"),
            (json!({"persistentVolumeClaim": {"size": "9Gi"}}), json!({"persistentVolumeClaim": claim}), "/data"),
            // There no experiment finds the data of another.
            (
                json!({"hostPath": {"path": "/mnt"}}),
                json!({"hostPath": {"path": "/mnt", "type": "Directory"}}),
                "/data/ns/e",
            ),
        ] {
            let pod = trial_pod(&json!({"storage": storage}), &[]);
            let mut expected = volume;
            expected["name"] = "data".into();
            assert_eq!(pod["spec"]["volumes"][2], expected, "{storage}");
            assert_eq!(pod["spec"]["containers"][0]["args"][3], directory, "{storage}");
        }
    }

    #[test]
    fn a_trial_without_wishes_gets_a_cpu_and_the_usual_memory() {
        let resources = trial_pod(&json!({}), &[])["spec"]["containers"][0]["resources"].take();
        for side in ["requests", "limits"] {
            assert_eq!((&resources[side]["cpu"], &resources[side]["memory"]), (&json!("1"), &json!(DEFAULT_MEMORY)));
        }
    }

    /// A bench that fills its node's disk would have the pods of others evicted.
    #[test]
    fn a_pod_may_take_so_much_of_its_nodes_own_disk_and_no_more() {
        let beside: u64 = (1 << 30) + (256 << 20);
        let workload = json!({"keyValue": {"keys": 1000, "valueBytes": {"fixed": 1000}, "roles": []}});
        let scenario = json!({"name": "s", "workload": workload});
        let most = 2 * disk::limit(&serde_json::from_value(workload).expect("a workload"));
        for (storage, asked, limit) in [
            (json!({"hostPath": {"path": "/mnt"}}), 0, 0),
            (json!({"persistentVolumeClaim": {"size": "9Gi"}}), 0, 0),
            (json!({"emptyDir": {"sizeLimit": "9Gi"}}), 9 << 30, 9 << 30),
            (json!({"emptyDir": {}}), 0, most),
            (Value::Null, 0, most),
        ] {
            let mut experiment = experiment(&json!({"storage": storage}), &Value::Null);
            experiment.spec.scenarios = vec![serde_json::from_value(scenario.clone()).expect("a scenario")];
            let template = Template { experiment: &experiment, args: &args(&[]) };
            let pod = json!(template.trial(&trial(), 4, "input").expect("a pod"));
            let resources = &pod["spec"]["containers"][0]["resources"];
            let of = |side: &str| resources[side]["ephemeral-storage"].clone();
            let expected = [asked, limit].map(|data| json!((data + beside).to_string()));
            assert_eq!([of("requests"), of("limits")], expected, "{storage}");
            let size = pod["spec"]["volumes"][2]["emptyDir"].get("sizeLimit").cloned();
            assert_eq!(size, (limit > 0).then(|| json!(limit.to_string())), "{storage}");
        }
    }

    #[test]
    fn a_volume_is_claimed_only_where_an_experiment_asks_for_one() {
        let claim = |storage: Value| {
            let (experiment, args) = (experiment(&json!({"storage": storage}), &Value::Null), args(&[]));
            let claim = Template { experiment: &experiment, args: &args }.claim("claim")?;
            Some(json!(claim.expect("a claim")))
        };
        let expected = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "claim",
                "labels": {"assay.rocks/experiment": "e", "app.kubernetes.io/managed-by": "assay"},
                "ownerReferences": [{"apiVersion": "assay.rocks/v1alpha1", "kind": "TuningExperiment", "name": "e",
                    "uid": "u1", "controller": true}],
            },
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                "resources": {"requests": {"storage": "9Gi"}}},
        });
        let wanted = json!({"persistentVolumeClaim": {"size": "9Gi", "storageClassName": "fast"}});
        assert_eq!(claim(wanted), Some(expected));
        // The cluster's own class is the one that nobody names.
        let plain = claim(json!({"persistentVolumeClaim": {"size": "9Gi"}})).expect("a claim");
        assert_eq!(plain["spec"].get("storageClassName"), None);
        for storage in [Value::Null, json!({"emptyDir": {}}), json!({"hostPath": {"path": "/mnt"}})] {
            assert_eq!(claim(storage.clone()), None, "{storage}");
        }
    }

    #[test]
    fn a_config_runs_its_own_image_or_that_of_the_plan_or_that_of_the_operator() {
        let planned = |image: Value| json!({"digest": "d", "seed": 1, "blocks": 1, "trials": 1, "producedBy": "assay", "benchImage": image});
        let args = args(&[]);
        for (plan, of_a) in [
            (Value::Null, "bench:own"),
            (planned(Value::Null), "bench:own"),
            (planned(json!("bench:planned")), "bench:planned"),
        ] {
            let experiment = experiment(&json!({}), &plan);
            let template = Template { experiment: &experiment, args: &args };
            assert_eq!((template.image("a"), template.image("b")), (of_a, "bench:b"), "{plan}");
            assert_eq!((template.image("build-own"), template.image("build-bench-c")), (of_a, "bench:c"), "{plan}");
        }
    }

    #[test]
    fn images_are_pulled_as_the_operator_was_told() {
        for policy in ["Always", "IfNotPresent", "Never"] {
            let pod = trial_pod(&json!({}), &["--image-pull-policy", policy]);
            assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], policy);
        }
    }

    /// A tag may have moved since its image was pulled.
    #[test]
    fn a_tag_is_looked_up_where_images_are_pulled() {
        let sweep = json!({
            "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningSweep", "metadata": {"name": "s", "uid": "u3"},
            "spec": {"schedule": "17 1 * * *", "reference": {"name": "a"}, "subjects": [],
                "experiment": {"scenarios": [], "repetitions": 1, "objectives": []}},
        });
        let sweep: TuningSweep = serde_json::from_value(sweep).expect("a sweep");
        let night = "2026-11-26T01:17:00Z".parse().expect("a time");
        for (policy, expected) in [("IfNotPresent", "Always"), ("Always", "Always"), ("Never", "Never")] {
            let (experiment, args) = (experiment(&json!({}), &Value::Null), args(&["--image-pull-policy", policy]));
            let template = Template { experiment: &experiment, args: &args };
            let pod = json!(template.resolve("p", "b", &sweep, night).expect("a pod"));
            let container = &pod["spec"]["containers"][0];
            assert_eq!((&container["image"], &container["imagePullPolicy"]), (&json!("bench:b"), &json!(expected)));
            assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u3");
        }
    }
}
