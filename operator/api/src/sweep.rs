use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Config, DefaultGuardrails, JudgedMetric, Matrix, Placement, QueriedMetric, Scenario, bounds};

/// A sweep measures every night what has changed against a pinned reference, and remembers all nights. Each night is one
/// experiment, in which the reference and all subjects run in the same blocks.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "assay.rocks",
    version = "v1alpha1",
    kind = "TuningSweep",
    plural = "tuningsweeps",
    shortname = "sweep",
    shortname = "sweeps",
    namespaced,
    derive = "PartialEq",
    doc = "A sweep measures every night what has changed against a pinned reference, and remembers all nights.",
    status = "TuningSweepStatus",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Level", type_ = "string", json_path = ".status.level"),
    printcolumn(name = "Nights", type_ = "integer", json_path = ".status.nightsMeasured"),
    printcolumn(name = "Last", type_ = "date", json_path = ".status.lastMeasuredTime"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextScheduleTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 49")
        .message("metadata.name must have at most 49 characters, because the minute of each night is added to it")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.subjects.all(s, s.name != self.reference.name)",
        "message": "a subject can't have the name of the reference",
        "fieldPath": ".subjects",
    },
    {
        "rule": "has(self.matrix) || self.subjects.size() >= 1",
        "message": "subjects needs something to measure against the reference, or a matrix",
        "fieldPath": ".subjects",
    },
    {
        "rule": "!has(self.experiment.guardrails) || self.experiment.guardrails.all(g, !self.experiment.objectives.exists(o, o.metric == g.metric))",
        "message": "a metric can't be both an objective and a guardrail",
        "fieldPath": ".experiment.guardrails",
    },
]))]
pub struct TuningSweepSpec {
    /// When nights begin: five fields as in cron, such as 17 1 * * *.
    #[schemars(length(min = 9, max = 128))]
    pub schedule: String,
    /// Time zone of the schedule, as named in the IANA database, such as Europe/Berlin.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
    /// True pauses the schedule. A running night finishes, and runNow still works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How late a night may begin. After that it is missed. If not set, until the next one is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 604_800))]
    pub starting_deadline_seconds: Option<u32>,
    /// What happens if a night still runs when the next one is due. Forbid: the next one is skipped. Replace: the running one is ended
    /// and has no result. Two at once would disturb each other.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Change it to any other text, and a night begins now, whatever the schedule says. The status repeats it as
    /// lastManualRun once the night has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"))]
    pub run_now: Option<String>,
    /// How many experiments of measured nights are kept. Their numbers stay in the history of the sweep.
    #[serde(default = "kept_measured")]
    #[schemars(range(min = 0, max = 100))]
    pub successful_history_limit: u32,
    /// How many experiments of nights without a result are kept.
    #[serde(default = "kept_failed")]
    #[schemars(range(min = 0, max = 100))]
    pub failed_history_limit: u32,
    /// A night in which nothing has changed since the last measured one is skipped. After so many days it is measured all the same, which
    /// shows that the machines still measure what they did.
    #[serde(default = "skip_days")]
    #[schemars(range(min = 1, max = 31))]
    pub max_skip_days: u32,
    /// What every night is compared with. It should name its image by digest. Another reference begins new series.
    pub reference: Config,
    /// What is measured against the reference. Each starts from the reference's options, so it lists only what it changes.
    /// With a matrix, there need be none.
    #[serde(default)]
    #[schemars(length(max = bounds::CONFIGS - 1), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub subjects: Vec<Config>,
    /// Further subjects: a config for each combination of values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// What runs each night.
    pub experiment: NightTemplate,
    /// When a change is suspected, and how often that may be wrong.
    #[serde(default)]
    pub detect: Detect,
    /// Confirmed changes for the worse that are taken as they are: the level after them is the one that counts. `assay accept` adds to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["change"]))]
    pub accept: Vec<Accept>,
    /// Versions among which the operator finds the one that brought a confirmed change for the worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bisect: Option<Bisect>,
    /// Where the operator reports confirmed changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
    /// What a night costs, for `assay sweep plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What happens if a night still runs when the next one is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    #[default]
    Forbid,
    Replace,
}

/// What runs each night: an experiment without its configs, which are the reference and the subjects. All repetitions run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NightTemplate {
    /// Seed for the order of trials and for the workloads. Another seed begins new series.
    #[serde(default)]
    // 2^53 - 1: exact in every reader of JSON.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub seed: u64,
    /// The workloads. A scenario whose workload changes begins new series.
    #[schemars(length(min = 1, max = bounds::SCENARIOS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub scenarios: Vec<Scenario>,
    /// Number of blocks per scenario. In each block, every subject runs once, next to the reference.
    #[schemars(range(min = 1, max = 1000))]
    pub repetitions: u32,
    /// The metrics that should improve. Each has a series for every subject and scenario.
    #[schemars(length(min = 1, max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["metric"]))]
    pub objectives: Vec<JudgedMetric>,
    /// The metrics that must not get worse by more than their margin. Each has a series, too.
    #[serde(default)]
    #[schemars(length(max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["metric"]))]
    pub guardrails: Vec<JudgedMetric>,
    /// Keep adds the guardrails `drained_throughput` and `throughput`, as in an experiment.
    #[serde(default)]
    pub default_guardrails: DefaultGuardrails,
    /// Metrics that are queried from a Prometheus server over the measured window of each trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::METRICS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub metrics: Vec<QueriedMetric>,
    /// What a trial needs from its machine.
    #[serde(default)]
    pub placement: Placement,
    /// How long pods without a record are kept for inspection after the night ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub failed_pod_retention_seconds: Option<u32>,
    /// A block that takes longer than this is run again as a whole.
    #[serde(default = "crate::experiment::default_block_duration")]
    #[schemars(range(min = 60, max = 604_800))]
    pub max_block_duration_seconds: u32,
}

/// When a change is suspected, and how often that may be wrong. Who can confirm more finds changes sooner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Detect {
    /// The smallest change that matters, such as 3%: visits are long enough to prove it, and a smaller one that they prove raises no alert.
    /// When a change is suspected does not depend on it. If not set, the margin of each metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?%$"))]
    pub margin: Option<String>,
    /// At most so many false alerts a year are expected, over all series, as a decimal number such as 0.5. If not set, 1, or a tenth of
    /// confirmationsPerYear where that is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub false_alerts_per_year: Option<String>,
    /// At most so many nights a year may raise suspicions that are confirmed by fresh trials. With more, changes are suspected sooner, until
    /// it is a hundredth of series times nights a year.
    #[serde(default = "confirmations")]
    #[schemars(range(min = 1, max = 1000))]
    pub confirmations_per_year: u32,
    /// Seconds from the beginning of one visit to that of the next: what a machine has at one time is not to decide.
    #[serde(default = "visit_gap")]
    #[schemars(range(min = 60, max = 604_800))]
    pub visit_gap_seconds: u32,
}

impl Default for Detect {
    fn default() -> Self {
        Self {
            margin: None,
            false_alerts_per_year: None,
            confirmations_per_year: confirmations(),
            visit_gap_seconds: visit_gap(),
        }
    }
}

/// A change that is taken as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Accept {
    /// Its name, as `assay sweep status` shows it.
    #[schemars(length(min = 1, max = 128))]
    pub change: String,
    /// Why it is taken as it is, for the history.
    #[schemars(length(min = 1, max = 512))]
    pub reason: String,
    /// Nights from then on are compared with the level before the change again. If not set, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
}

/// Where the operator looks for what brought a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bisect {
    /// All versions in order, from old to new; those between the last good one and the first bad one are measured.
    /// `assay sweep candidates` adds to it.
    #[schemars(length(min = 1, max = bounds::CANDIDATES), extend("x-kubernetes-list-type" = "atomic"))]
    pub candidates: Vec<Candidate>,
}

/// A version that subjects ran, or could have run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Candidate {
    /// The image of the bench that is this version.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// The commit or version that the image was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_./+]*[A-Za-z0-9])?$"))]
    pub revision: Option<String>,
    /// The subject that it is a version of. If not set, of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub subject: Option<String>,
    /// How likely it is to be the culprit, compared with one of weight 1.
    #[serde(default = "weight")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
}

fn weight() -> u32 {
    1
}

/// Where the operator reports confirmed changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notify {
    /// An endpoint that gets a signed message when a change is confirmed for the worse, and when that is accepted or over.
    pub webhook: Webhook,
}

/// An endpoint for signed messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Webhook {
    /// Where messages are posted to. The operator must be allowed to send there: sweeps.webhooks.allowedHosts of its chart.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https?://[!-~]+$"))]
    pub url: String,
    /// The Secret with the key that messages are signed with. It needs the label assay.rocks/webhook: "true".
    pub secret_ref: SecretRef,
}

/// A key of a Secret in the sweep's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"))]
    pub name: String,
    /// Key in it.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"))]
    pub key: String,
}

/// What machines cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cost {
    /// What a node costs in an hour, as a decimal number such as 1.85.
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub per_node_hour: String,
    /// The currency, such as USD.
    #[schemars(length(min = 3, max = 3), regex(pattern = "^[A-Z]{3}$"))]
    pub currency: String,
}

fn utc() -> String {
    "Etc/UTC".to_owned()
}

fn kept_measured() -> u32 {
    7
}

fn kept_failed() -> u32 {
    3
}

fn skip_days() -> u32 {
    7
}

fn visit_gap() -> u32 {
    6 * 3600
}

fn confirmations() -> u32 {
    50
}

/// State of a sweep. Only the operator writes it. The series are in `ConfigMaps` of their own: `assay sweep history` shows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TuningSweepStatus {
    /// Generation of the spec that this status describes; -1 if no operator has seen the sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, Ready, Suspended, Stale and Regressed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::condition::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// In a word: `Refused`, `Unreadable`, `HistoryUnreadable`, `Learning`, `Measuring`, `Suspended`, `Stale`, `Regressed` or `Watching`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub state: Option<String>,
    /// The worst level of all series against the reference, in percent, with its series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub level: Option<String>,
    /// The schedule and time zone that nights go by, and since when: what they would have asked for earlier is not caught up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub schedule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_since: Option<Time>,
    /// The night that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveNight>,
    /// The night or visit that was begun last. No other experiment of the sweep counts that the history does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<BegunNight>,
    /// The scheduled time of the last night that has begun or was decided otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When the next night is due. Absent while the schedule is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
    /// The time of the last night that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_measured_time: Option<Time>,
    /// When the sweep becomes stale unless a night is measured before. Absent while the schedule is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_after_time: Option<Time>,
    /// The last night that was skipped or has no result, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_skipped: Option<SkippedNight>,
    /// Nights without a measurement since the last measured one.
    #[serde(default)]
    pub consecutive_skips: u32,
    /// Nights in the history that were measured.
    #[serde(default)]
    pub nights_measured: u32,
    /// Series: subjects times scenarios times metrics.
    #[serde(default)]
    pub series: u32,
    /// The latest changes that are being confirmed, or were, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub changes: Vec<KnownChange>,
    /// The value of runNow for which a night has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub last_manual_run: Option<String>,
}

/// A night that runs, or a visit that confirms a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveNight {
    /// Its scheduled time.
    pub time: Time,
    /// Name of its experiment. Absent while its images are resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub experiment: Option<String>,
    /// The change that it is about, if it is no night.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub confirms: Option<String>,
}

/// A night or visit that was begun, or is about to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BegunNight {
    /// The minute that its experiment is named by.
    pub time: Time,
    /// SHA-256 of what its experiment is: the fixed part of its spec, and all that makes it a night or visit of the sweep. Absent if an
    /// earlier version has begun it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub digest: Option<String>,
}

/// A change of a subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnownChange {
    /// What spec.accept calls it.
    #[schemars(length(max = 128))]
    pub name: String,
    /// In a word: `Confirming`, `Regressed`, `SmallRegression`, `Improved`, `Refuted`, `Undecided`, `Accepted`, `Recovered` or
    /// `Ended`.
    #[schemars(length(max = 32))]
    pub stage: String,
    /// What it is and what is known of it.
    #[schemars(length(max = bounds::MESSAGE))]
    pub message: String,
    /// What is known of the version that brought it. Absent if that is not looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub culprit: Option<String>,
    /// The latest message about it to the webhook of the sweep. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notified: Option<Notified>,
}

/// A message to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notified {
    /// The stage that it reports.
    #[schemars(length(max = 32))]
    pub stage: String,
    /// When the stage was reached, which is part of the id of the message.
    pub time: Time,
    /// How often it was sent.
    #[serde(default)]
    pub tries: u32,
    /// When the endpoint took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_time: Option<Time>,
    /// When it is sent next. Absent once it is delivered, or after the last try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_time: Option<Time>,
    /// Why the last try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub error: Option<String>,
}

/// A night without a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkippedNight {
    /// Its scheduled time.
    pub time: Time,
    /// Why, in a word such as Unchanged.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// Why, in a sentence.
    #[schemars(length(max = bounds::MESSAGE))]
    pub message: String,
}
