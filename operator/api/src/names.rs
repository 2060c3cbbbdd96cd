//! The words that objects of a cluster carry: labels, annotations and condition types. Each is written here and
//! nowhere else.

/// Name of the experiment, on everything that is made for it.
pub const EXPERIMENT_LABEL: &str = "assay.rocks/experiment";
/// Name of the `TuningTrial`, on pods and records.
pub const TRIAL_LABEL: &str = "assay.rocks/trial";
/// Number of the attempt, on pods and records.
pub const ATTEMPT_LABEL: &str = "assay.rocks/attempt";
/// What a pod is for: [`ROLE_TRIAL`], [`ROLE_CHECK`], [`ROLE_PLACEHOLDER`] or [`ROLE_RESOLVE`].
pub const ROLE_LABEL: &str = "assay.rocks/role";
pub const ROLE_TRIAL: &str = "trial";
pub const ROLE_CHECK: &str = "check";
pub const ROLE_PLACEHOLDER: &str = "placeholder";
pub const ROLE_RESOLVE: &str = "resolve";
/// Name of the sweep, on its nights, its history and the pods that look up its images.
pub const SWEEP_LABEL: &str = "assay.rocks/sweep";
/// Name of the bisection, on the experiments of its visits.
pub const BISECT_LABEL: &str = "assay.rocks/bisect";
/// On the experiment of a visit: the candidate that can't be measured, and why.
pub const UNMEASURED_ANNOTATION: &str = "assay.rocks/unmeasured";
/// On a node: what kind of machine it is. Nights on another kind are not compared.
pub const KIND_LABEL: &str = "assay.rocks/kind";

/// On the experiment of a night, and on the pods that look up images for it: its scheduled minute.
pub const NIGHT_ANNOTATION: &str = "assay.rocks/night";
/// On the experiment of a night: why it was begun.
pub const TRIGGER_ANNOTATION: &str = "assay.rocks/trigger";
/// On the experiment of a visit: what it asks, as JSON.
pub const VISIT_ANNOTATION: &str = "assay.rocks/visit";
/// On the experiment of a night: the value of `runNow` that it was begun for.
pub const RUN_NOW_ANNOTATION: &str = "assay.rocks/run-now";

/// On a Secret: that the operator may sign messages of sweeps with its keys.
pub const WEBHOOK_LABEL: &str = "assay.rocks/webhook";

/// The `TrialSpec`, or the question about options, that a pod reads from its own annotations.
pub const INPUT_ANNOTATION: &str = "assay.rocks/input";
/// Parts that a record lost to fit into a `ConfigMap`.
pub const DROPPED_ANNOTATION: &str = "assay.rocks/dropped";
/// The namespace, name and uid of the experiment that a node's Lease is held for.
pub const HOLDER_ANNOTATION: &str = "assay.rocks/holder";
/// On a node's Lease: what the operator asks of the agent there.
pub const ASK_ANNOTATION: &str = "assay.rocks/ask";
/// On an agent's Lease: its answer.
pub const ANSWER_ANNOTATION: &str = "assay.rocks/answer";

/// What names of Leases that say who has a node begin with, before the node's name.
pub const NODE_LEASE_PREFIX: &str = "assay-node-";
/// What names of Leases begin with that agents answer in, before the name of their node.
pub const AGENT_LEASE_PREFIX: &str = "assay-agent-";

/// Who looks after an object, and that it is us.
pub const MANAGED_LABEL: &str = "app.kubernetes.io/managed-by";
pub const MANAGED_BY: &str = "assay";

/// What labels of an experiment begin with that its pods have, too: they say which queue pods wait in.
pub const QUEUE_LABELS: &str = "kueue.x-k8s.io/";

/// The scheduling gate of a pod in a queue that has not got its node yet.
pub const NODE_GATE: &str = "assay.rocks/node";

/// The key of a record in its `ConfigMap`.
pub const RECORD_KEY: &str = "record.json.gz";

/// The container of a pod.
pub const CONTAINER: &str = "bench";
/// The volumes of a pod that its container fills: the databases of a trial, and temporary files.
pub const DATA_VOLUME: &str = "data";
pub const TEMPORARY_VOLUME: &str = "tmp";

/// Types of conditions.
pub const ACCEPTED: &str = "Accepted";
pub const PROGRESSING: &str = "Progressing";
pub const SUSPENDED: &str = "Suspended";
pub const FINISHED: &str = "Finished";
/// Those that kstatus reads, by which Flux and `helm --wait` know how long to wait.
pub const READY: &str = "Ready";
pub const STALLED: &str = "Stalled";
/// No night of a sweep was measured for too long.
pub const STALE: &str = "Stale";
/// Whether a change for the worse is confirmed, and neither accepted nor over.
pub const REGRESSED: &str = "Regressed";

/// The field manager of everything that the operator writes.
pub const MANAGER: &str = "assay-operator";
/// That of what the operator says of an object that it can't read.
pub const UNREADABLE_MANAGER: &str = "assay-operator-unreadable";
/// That of an agent's.
pub const AGENT_MANAGER: &str = "assay-agent";
