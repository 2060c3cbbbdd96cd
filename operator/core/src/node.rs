//! Which nodes may run an experiment's trials, and why the others may not.

use std::time::Duration;

use assay_api::{NodeToleration, Placement, TolerationOperator};
use assay_protocol::Digest;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::decide::fleet::NodeState;
use crate::quantity;

/// Memory of a trial where the experiment says nothing.
pub const DEFAULT_MEMORY: &str = "2Gi";
/// What a bench may write beside its data: its record, and the database with which it checks options.
pub const TEMPORARY_BYTES: u64 = 1 << 30;
/// What its log may take on the node's disk.
const LOG_BYTES: u64 = 1 << 28;

/// The CPU manager policy that gives pods CPUs of their own.
pub const STATIC: &str = "static";

/// Seconds that a node may be silent where nobody says otherwise.
pub const PATIENCE_SECONDS: u32 = 120;

/// What a trial's pod needs of a node.
pub struct Needs<'a> {
    pub placement: &'a Placement,
    pub memory_bytes: u64,
    /// On the disk of the kubelet.
    pub disk_bytes: u64,
    /// How long a node may be silent before its trial is lost.
    pub patience: Duration,
}

impl<'a> Needs<'a> {
    pub fn new(placement: &'a Placement, patience: Duration) -> Self {
        let memory = placement.memory.as_ref().map_or(DEFAULT_MEMORY, |memory| &memory.0);
        let memory_bytes = quantity::bytes(memory).unwrap_or_default();
        Self { placement, memory_bytes, disk_bytes: disk_bytes(data_bytes(placement).unwrap_or_default()), patience }
    }
}

/// The data that a trial may keep on the kubelet's disk, where the experiment says so.
pub fn data_bytes(placement: &Placement) -> Option<u64> {
    quantity::bytes(&placement.storage.as_ref()?.empty_dir.as_ref()?.size_limit.as_ref()?.0).ok()
}

/// What a trial's pod needs of the kubelet's disk, with so many bytes of data there.
pub fn disk_bytes(data: u64) -> u64 {
    data.saturating_add(TEMPORARY_BYTES + LOG_BYTES)
}

/// Why a node is of no use whose kubelet has this policy, where it is known.
pub fn policy_problem(policy: Option<&str>) -> Option<String> {
    let policy = policy.filter(|&policy| policy != STATIC)?;
    Some(format!("has a kubelet with cpuManagerPolicy {policy}, not {STATIC}: pods get no exclusive CPUs there"))
}

/// What a node has for pods, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Whole CPUs.
    pub cpus: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// On the disk of the kubelet.
    pub disk_bytes: Option<u64>,
}

impl Room {
    pub fn of(node: &Node) -> Self {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let quantity =
            |resource: &str| allocatable.and_then(|all| all.get(resource)).map(|quantity| quantity.0.as_str());
        let bytes = |resource: &str| quantity(resource).and_then(|bytes| quantity::bytes(bytes).ok());
        Self {
            cpus: quantity("cpu").and_then(whole_cpus),
            memory_bytes: bytes("memory"),
            disk_bytes: bytes("ephemeral-storage"),
        }
    }
}

/// Whether trials may run on a node that has been silent for so long, with the reason where they may not.
pub fn judge(node: &Node, room: &Room, needs: &Needs<'_>, silent: Option<Duration>) -> (NodeState, Option<String>) {
    if let Some(why) = unfit(node, room, needs) {
        return (NodeState::Gone, Some(why));
    }
    match silent {
        // A node on which a block has begun is waited for.
        None => untolerated(node, needs)
            .next()
            .map_or((NodeState::Usable, None), |taint| (NodeState::Busy, Some(format!("has the taint {}", taint.key)))),
        Some(silent) if silent < needs.patience => (NodeState::Busy, Some("is not ready".to_owned())),
        // In whole minutes: a message that is another one each second would be written each second.
        Some(silent) => {
            let minutes = (silent.as_secs() / 60).min(24 * 60);
            (NodeState::Gone, Some(format!("has not been ready for {minutes} min")))
        }
    }
}

/// Since when a node has not been ready, by whoever's clock said so; `None` where it is, and nothing inside where nobody says.
pub fn silent_since(node: &Node) -> Option<Option<&Time>> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    if ready.is_some_and(|ready| ready.status == "True") {
        return None;
    }
    Some(ready.and_then(|ready| ready.last_transition_time.as_ref()))
}

/// How long a node has not been ready, for who sees it only now.
pub fn silent_for(node: &Node, now: Timestamp) -> Option<Duration> {
    let age = |since: &Time| Duration::try_from(now.duration_since(since.0)).unwrap_or_default();
    silent_since(node).map(|since| since.map_or(Duration::MAX, age))
}

/// Digest of a node's boot id, as records have it.
pub fn boot(node: &Node) -> Option<Digest> {
    let id = &node.status.as_ref()?.node_info.as_ref()?.boot_id;
    (!id.is_empty()).then(|| Digest::of(id.trim().as_bytes()))
}

fn unfit(node: &Node, room: &Room, needs: &Needs<'_>) -> Option<String> {
    let labels = node.metadata.labels.as_ref();
    let has = |key: &str, value: &String| labels.and_then(|labels| labels.get(key)) == Some(value);
    let missing = needs.placement.node_selector.iter().find(|(key, value)| !has(key, value));
    if let Some((key, value)) = missing {
        return Some(format!("lacks the label {key}={value}"));
    }
    if node.metadata.deletion_timestamp.is_some() {
        return Some("is being removed".to_owned());
    }
    let spec = node.spec.as_ref();
    if spec.and_then(|spec| spec.unschedulable) == Some(true) {
        return Some("is cordoned".to_owned());
    }
    if let Some(taint) = untolerated(node, needs).find(|taint| !passes(taint)) {
        return Some(format!("has the taint {}, which is not in placement.tolerations", taint.key));
    }
    if let Some(cpus) = room.cpus.filter(|&cpus| cpus < u64::from(needs.placement.cpus)) {
        return Some(format!("has {cpus} whole CPUs for pods, {} needed", needs.placement.cpus));
    }
    if let Some(memory) = room.memory_bytes.filter(|&memory| memory < needs.memory_bytes) {
        return Some(format!("has {} MiB for pods, {} needed", memory >> 20, needs.memory_bytes >> 20));
    }
    let needed = needs.disk_bytes >> 20;
    room.disk_bytes
        .filter(|&disk| disk < needs.disk_bytes)
        .map(|disk| format!("has {} MiB of ephemeral storage for pods, {needed} needed", disk >> 20))
}

fn untolerated<'a>(node: &'a Node, needs: &'a Needs<'_>) -> impl Iterator<Item = &'a Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().filter(|taint| !tolerated(taint, &needs.placement.tolerations))
}

/// Whole CPUs of a quantity such as 3900m.
fn whole_cpus(quantity: &str) -> Option<u64> {
    match quantity.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<u64>().ok().map(|thousandths| thousandths / 1000),
        None => quantity.parse().ok(),
    }
}

/// What the node controller adds to silent nodes, which their silence tells, and to those that are cordoned.
const TOLD: [&str; 3] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable"];
/// What it adds while a node runs short of something: a trial on its disk may bring that about by itself.
const PASSING: [&str; 4] = [
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
];

fn passes(taint: &Taint) -> bool {
    PASSING.contains(&taint.key.as_str())
}

/// Whether pods of trials may be where this taint is.
fn tolerated(taint: &Taint, tolerations: &[NodeToleration]) -> bool {
    if taint.effect == "PreferNoSchedule" || TOLD.contains(&taint.key.as_str()) {
        return true;
    }
    tolerations.iter().any(|toleration| {
        toleration.key == taint.key
            && toleration.effect.is_none_or(|effect| effect.as_str() == taint.effect)
            && match toleration.operator {
                TolerationOperator::Exists => true,
                // To Kubernetes an empty value is none.
                TolerationOperator::Equal => {
                    toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
                }
            }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(change: impl FnOnce(&mut Value)) -> (NodeState, String) {
        let mut node = json!({
            "metadata": {"name": "n", "labels": {"disk": "nvme"}},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        });
        change(&mut node);
        let node: Node = serde_json::from_value(node).unwrap_or_else(|error| unreachable!("{error}"));
        let placement = Placement {
            cpus: 4,
            node_selector: [("disk".to_owned(), "nvme".to_owned())].into(),
            tolerations: vec![NodeToleration {
                key: "bench".to_owned(),
                operator: TolerationOperator::Exists,
                value: None,
                effect: None,
            }],
            ..Placement::default()
        };
        let needs = Needs {
            placement: &placement,
            memory_bytes: 1 << 33,
            disk_bytes: 1 << 31,
            patience: Duration::from_mins(1),
        };
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap_or_else(|error| unreachable!("{error}"));
        let (state, why) = judge(&node, &Room::of(&node), &needs, silent_for(&node, now));
        (state, why.unwrap_or_default())
    }

    #[test]
    fn nodes_are_chosen_by_what_trials_need() {
        let usable = (NodeState::Usable, String::new());
        assert_eq!(state(|_| ()), usable);
        let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule"}]);
        assert_eq!(state(|node| node["spec"]["taints"] = taint("bench")), usable);
        for (change, why) in [
            ((|node| node["metadata"]["labels"] = json!({})) as fn(&mut Value), "lacks the label disk=nvme"),
            (|node| node["spec"]["unschedulable"] = json!(true), "is cordoned"),
            (|node| node["status"]["allocatable"]["cpu"] = json!("3900m"), "has 3 whole CPUs for pods, 4 needed"),
            (|node| node["status"]["allocatable"]["memory"] = json!("7Gi"), "has 7168 MiB for pods, 8192 needed"),
            (
                |node| node["status"]["allocatable"]["ephemeral-storage"] = json!("1Gi"),
                "has 1024 MiB of ephemeral storage for pods, 2048 needed",
            ),
        ] {
            assert_eq!(state(change), (NodeState::Gone, why.to_owned()));
        }
        assert_eq!(state(|node| node["spec"]["taints"] = taint("other")).0, NodeState::Gone);
        for told in TOLD {
            assert_eq!(state(|node| node["spec"]["taints"] = taint(told)), usable, "{told}");
        }
    }

    #[test]
    fn a_toleration_fits_as_in_a_pod() {
        let fits = |toleration: Value, taint: Value| {
            let toleration: NodeToleration = serde_json::from_value(toleration).unwrap();
            tolerated(&serde_json::from_value(taint).unwrap(), &[toleration])
        };
        let taint = |value: &str| json!({"key": "bench", "value": value, "effect": "NoExecute"});
        for (toleration, value, expected) in [
            (json!({"key": "bench", "value": "a"}), "a", true),
            (json!({"key": "bench", "value": "a"}), "b", false),
            (json!({"key": "bench"}), "", true),
            (json!({"key": "bench", "value": ""}), "", true),
            (json!({"key": "bench"}), "a", false),
            (json!({"key": "bench", "operator": "Exists"}), "a", true),
            (json!({"key": "lab", "operator": "Exists"}), "a", false),
            (json!({"key": "bench", "operator": "Exists", "effect": "NoExecute"}), "a", true),
            (json!({"key": "bench", "operator": "Exists", "effect": "NoSchedule"}), "a", false),
        ] {
            assert_eq!(fits(toleration.clone(), taint(value)), expected, "{toleration} {value:?}");
        }
        assert!(fits(json!({"key": "bench", "value": ""}), json!({"key": "bench", "effect": "NoSchedule"})));
    }

    #[test]
    fn a_node_that_runs_short_of_something_is_waited_for() {
        let tainted = |keys: &[&str]| {
            let taints: Value = keys.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
            state(|node| node["spec"]["taints"] = taints)
        };
        for key in PASSING {
            assert_eq!(tainted(&[key]), (NodeState::Busy, format!("has the taint {key}")));
        }
        // What does not pass decides, and what nobody knows does not pass.
        let out_of_service = "node.kubernetes.io/out-of-service";
        for keys in [[PASSING[0], out_of_service], [out_of_service, PASSING[0]]] {
            let why = format!("has the taint {out_of_service}, which is not in placement.tolerations");
            assert_eq!(tainted(&keys), (NodeState::Gone, why));
        }
    }

    #[test]
    fn a_silent_node_is_waited_for_and_then_given_up() {
        let silent = |since: &str| {
            state(|node| {
                node["status"]["conditions"] =
                    json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]);
            })
            .0
        };
        assert_eq!(silent("2026-01-01T00:00:30Z"), NodeState::Busy);
        assert_eq!(silent("2026-01-01T00:00:00Z"), NodeState::Gone);
        assert_eq!(state(|node| node["status"]["conditions"] = json!([])).0, NodeState::Gone);
    }
}
