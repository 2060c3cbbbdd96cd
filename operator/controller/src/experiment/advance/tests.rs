use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use assay_api::names::NODE_GATE;
use assay_api::{Placement, Provision};
use assay_core::attempt::{Attempt, Lost, LostReason};
use assay_core::cluster::claim_name;
use assay_core::decide::Places;
use assay_core::decide::fleet::Begun;
use assay_core::node::Needs;
use assay_core::plan::Plan;
use assay_core::validate;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::apply::Applied;
use super::decide::{Action, Decision, Outlook, decide, state, why_no_node};
use super::survey::{self, Gated, Held, Placeholder, Seen, Survey};
use crate::experiment::observe::{Observed, UnderWay};
use crate::experiment::settle::State;
use crate::nodes::Known;

const HOUR: Duration = Duration::from_hours(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

/// Six blocks of two trials each.
fn plan() -> Plan {
    let options = |size: u32| json!([{"match": ["*"], "options": {"write_buffer_size": size}}]);
    let spec = json!({
        "seed": 1, "baseline": "a", "repetitions": 6,
        "configs": [{"name": "a", "columnFamilies": options(1 << 26)}, {"name": "b", "columnFamilies": options(1 << 20)}],
        "scenarios": [{"name": "fill", "workload": {"keyValue": {"keys": 200_000, "valueBytes": {"fixed": 400},
            "roles": [{"name": "w", "steps": 400_000, "mix": {"put": 1}}]}}}],
        "objectives": [{"metric": "throughput", "margin": "5%"}],
    });
    let validation = validate::validate("e", &serde_json::from_value(spec).expect("a spec"));
    Plan::new(validation.experiment.unwrap_or_else(|| unreachable!("{:?}", validation.problems))).expect("a plan")
}

fn node(name: &str) -> Seen {
    let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}}});
    let known = Arc::new(Known::new(Arc::new(serde_json::from_value(node).expect("a node"))));
    Seen { known, silent: None, policy: None, holder: None, yielded: None, full: None }
}

/// What is surveyed of two nodes of which nobody wants anything.
fn survey(placement: &Placement) -> Survey<'_> {
    Survey {
        now: now(),
        needs: Needs::new(placement, Duration::from_mins(2)),
        is_suspended: false,
        busy: BTreeSet::new(),
        gated: BTreeMap::new(),
        stuck: BTreeMap::new(),
        placeholder: None,
        unprovided: None,
        begun: BTreeMap::new(),
        nodes: vec![node("n0"), node("n1")],
        held: Vec::new(),
        claims: BTreeSet::new(),
        refused: None,
    }
}

impl Survey<'_> {
    fn begin(&mut self, block: usize, node: &str, running: bool) {
        self.begun.insert(block, Begun { node: node.to_owned(), running, fresh: false });
        if running {
            self.busy.insert(node.to_owned());
        }
    }

    /// The pod of its first block is kept from being scheduled there.
    fn queue(&mut self, node: &str, gated: Gated) {
        self.begin(0, node, true);
        self.gated.insert(node.to_owned(), gated);
    }

    fn hold(&mut self, node: &str, is_owed: bool) {
        self.held.push(Held { node: node.to_owned(), is_owed, is_given: false });
    }

    fn is_given(&mut self, node: &str) {
        self.held.push(Held { node: node.to_owned(), is_owed: true, is_given: true });
    }
}

/// An attempt at the baseline's trial of a block that was lost so long ago.
fn lost(plan: &Plan, block: usize, attempt: u32, reason: LostReason, ago: Duration) -> Attempt {
    let slot = plan.blocks[block].slots.iter().position(|slot| slot.config == "a").expect("a baseline");
    let started_unix_ms = (now() - ago).as_millisecond() as u64;
    let trial = plan.blocks[block].trial(slot, attempt).expect("a trial");
    let plan = plan.digest.clone();
    Attempt::from(Lost { plan, trial, started_unix_ms, boot: None, reason, message: String::new() })
}

/// What ends a block for good: it was given up in its last pass.
fn given_up(plan: &Plan, block: usize) -> Attempt {
    lost(plan, block, 6, LostReason::GivenUp, Duration::ZERO)
}

fn claim(block: u32, pass: u32) -> String {
    claim_name("e", "fill", block, pass)
}

fn decided(plan: &Plan, change: impl FnOnce(&Plan, &mut Vec<Attempt>, &mut Survey<'_>)) -> Decision {
    let (placement, mut attempts) = (Placement::default(), Vec::new());
    let mut survey = survey(&placement);
    change(plan, &mut attempts, &mut survey);
    decide(&Places::new(plan, &attempts).expect("attempts of this plan"), &survey)
}

fn words(decision: &Decision) -> Vec<String> {
    let claims: BTreeMap<String, String> =
        (0..6).flat_map(|block| (0..4).map(move |pass| (claim(block, pass), format!("{block}/{pass}")))).collect();
    let words = |action: &Action| match action {
        Action::RemoveClaim(name) => format!("remove {}", claims[name]),
        Action::Yield(node) => format!("yield {node}"),
        Action::Hold(node) => format!("hold {node}"),
        Action::Release(node) => format!("release {node}"),
        Action::Open(node) => format!("open {node}"),
        Action::Provision => "ask for a node".to_owned(),
        Action::Unprovision => "ask no more".to_owned(),
        Action::Run { node, block, trial, .. } => format!("run {block}.{} on {node}", trial.attempt),
        Action::GiveUp { node, block, trial } => format!("give up {block}.{} on {node}", trial.attempt),
    };
    let waits = decision.waits_for.iter().map(|node| format!("wait for {node}"));
    waits.chain(decision.actions.iter().map(words)).collect()
}

/// Why nothing can be run, in a word; `Open` where something can.
fn outlook(outlook: &Outlook) -> &str {
    match outlook {
        Outlook::Finished => "finished",
        Outlook::Suspended => "suspended",
        Outlook::Open { refused: Some(why), .. } => why,
        Outlook::Open { no_node: Some((reason, _)), .. } => reason,
        Outlook::Open { .. } => "open",
    }
}

#[test]
fn a_wait_says_why_and_until_when() {
    let decision = decided(&plan(), |plan, attempts, _| {
        attempts.extend((0..6).map(|block| lost(plan, block, 0, LostReason::Crashed, seconds(10))));
    });
    let Outlook::Open { no_node: Some((_, message)), .. } = decision.outlook else { panic!("{:?}", decision.outlook) };
    assert_eq!(
        message,
        "none of 6 attempts was valid so far (Crashed 6 times): the next one begins after 2027-01-15T08:00:50Z"
    );
}

type Change = fn(&Plan, &mut Vec<Attempt>, &mut Survey<'_>);

#[test]
fn what_is_to_be_done_follows_from_what_is_there() {
    let never = Duration::MAX;
    let table: &[(&str, Change, &[&str], &str, Duration)] = &[
        ("all nodes are free", |_, _, _| {}, &["run 0.0 on n0", "run 1.0 on n1"], "open", never),
        ("there are no nodes", |_, _, survey| survey.nodes.clear(), &[], "WaitingForNode", never),
        (
            "a node is held by another",
            |_, _, survey| survey.nodes[0].holder = Some("b/other".into()),
            &["wait for n0", "run 0.0 on n1"],
            "open",
            seconds(30),
        ),
        (
            "a node is held by another, and nothing else is to be begun",
            |_, _, survey| {
                survey.nodes[0].holder = Some("b/other".into());
                (0..6).for_each(|block| survey.begin(block, "n1", true));
            },
            &["hold n1"],
            "open",
            never,
        ),
        (
            "others hold the node of a block, and one that is of no use",
            |_, _, survey| {
                survey.nodes.iter_mut().for_each(|seen| seen.holder = Some("b/other".into()));
                survey.begin(0, "n0", false);
                (1..6).for_each(|block| survey.begin(block, "n2", true));
            },
            &["wait for n0", "hold n2"],
            "NodeHeld",
            seconds(30),
        ),
        (
            "a node is held by another, and nothing may be begun",
            |_, _, survey| {
                survey.nodes[0].holder = Some("b/other".into());
                survey.is_suspended = true;
            },
            &[],
            "suspended",
            never,
        ),
        (
            "a node was given back, and others want it yet",
            |_, _, survey| survey.nodes[0].yielded = Some(seconds(2)),
            &["wait for n0", "run 0.0 on n1"],
            "open",
            seconds(2) + Duration::from_millis(1),
        ),
        (
            "a node is held and the other silent, but perhaps not lost",
            |_, _, survey| {
                survey.nodes[0].holder = Some("b/other".into());
                survey.nodes[1].silent = Some(seconds(100));
            },
            &["wait for n0"],
            "NodeHeld",
            seconds(21),
        ),
        (
            "a node is lost from the very moment on that it may be silent for no longer",
            |_, _, survey| survey.nodes[0].silent = Some(seconds(120)),
            &["run 0.0 on n1"],
            "open",
            never,
        ),
        (
            "one is lost, and the other's kubelet keeps no CPUs apart",
            |_, _, survey| {
                survey.nodes[0].silent = Some(HOUR);
                survey.nodes[1].policy = Some("none".to_owned());
                // Of what is no use, nobody has to know who has it.
                survey.nodes[1].holder = Some("b/other".into());
            },
            &[],
            "WaitingForNode",
            never,
        ),
        (
            "a node had no room",
            |_, _, survey| survey.nodes[0].full = Some((seconds(60), "Insufficient cpu".to_owned())),
            &["run 0.0 on n1"],
            "open",
            seconds(60) + Duration::from_millis(1),
        ),
        (
            "no node had room, and others have it anyway",
            |_, _, survey| {
                for node in &mut survey.nodes {
                    node.full = Some((seconds(60), "Insufficient cpu".to_owned()));
                    node.holder = Some("b/other".into());
                }
            },
            &[],
            "WaitingForNode",
            seconds(60) + Duration::from_millis(1),
        ),
        (
            "a block is under way",
            |_, _, survey| survey.begin(0, "n0", true),
            &["hold n0", "run 1.0 on n1"],
            "open",
            never,
        ),
        (
            "its pod has just got in a queue",
            |_, _, survey| survey.queue("n0", Gated::Queue(seconds(29))),
            &["hold n0", "run 1.0 on n1"],
            "open",
            seconds(1) + Duration::from_millis(1),
        ),
        (
            "its pod stands in a queue",
            |_, _, survey| survey.queue("n0", Gated::Queue(seconds(30))),
            &["release n0", "run 1.0 on n1"],
            "open",
            never,
        ),
        (
            "its queue has let it go",
            |_, _, survey| survey.queue("n0", Gated::Node),
            &["open n0", "run 1.0 on n1"],
            "open",
            never,
        ),
        (
            "suspended while pods stand in a queue",
            |_, _, survey| {
                survey.queue("n0", Gated::Queue(seconds(1)));
                survey.begin(1, "n1", true);
                survey.gated.insert("n1".to_owned(), Gated::Node);
                survey.is_suspended = true;
            },
            &["release n0", "release n1"],
            "suspended",
            never,
        ),
        (
            "a block has begun, and its node is wanted by others",
            |plan, attempts, survey| {
                survey.begin(0, "n1", false);
                survey.hold("n1", true);
                attempts.push(lost(plan, 0, 0, LostReason::Deleted, seconds(60)));
            },
            &["run 0.0 on n1", "run 1.0 on n0"],
            "open",
            never,
        ),
        (
            "no attempt was valid, and the next one is not due yet",
            |plan, attempts, survey| {
                survey.begin(0, "n0", false);
                survey.hold("n0", false);
                survey.begin(1, "n1", true);
                attempts.extend((0..6).map(|block| lost(plan, block, 0, LostReason::Crashed, seconds(10))));
            },
            &["hold n1", "release n0"],
            "NothingValid",
            seconds(50) + Duration::from_millis(1),
        ),
        (
            "no attempt was valid, and the next one is due",
            |plan, attempts, survey| {
                survey.begin(0, "n0", false);
                attempts.extend((0..6).map(|block| lost(plan, block, 0, LostReason::Crashed, seconds(60))));
            },
            &["run 0.0 on n0", "run 1.0 on n1"],
            "open",
            never,
        ),
        (
            "suspended while no attempt was valid",
            |plan, attempts, survey| {
                survey.hold("n0", false);
                survey.is_suspended = true;
                attempts.extend((0..6).map(|block| lost(plan, block, 0, LostReason::Crashed, seconds(10))));
            },
            &["release n0"],
            "suspended",
            never,
        ),
        (
            "a block is too old to be gone on with",
            |plan, attempts, survey| {
                survey.begin(0, "n1", false);
                attempts.push(lost(plan, 0, 0, LostReason::Deleted, HOUR * 24));
            },
            &["run 0.3 on n1", "run 1.0 on n0"],
            "open",
            never,
        ),
        (
            "the same in its last pass",
            |plan, attempts, survey| {
                survey.begin(0, "n1", false);
                attempts.push(lost(plan, 0, 6, LostReason::Deleted, HOUR * 24));
            },
            &["give up 0.6 on n1", "run 1.0 on n0"],
            "open",
            never,
        ),
        (
            "the node of a block is gone",
            |plan, attempts, survey| {
                survey.begin(0, "n9", false);
                attempts.push(lost(plan, 0, 0, LostReason::NodeLost, seconds(60)));
            },
            &["run 0.3 on n0", "run 1.0 on n1"],
            "open",
            never,
        ),
        (
            "the node of a block is silent",
            |plan, attempts, survey| {
                survey.begin(0, "n0", false);
                attempts.push(lost(plan, 0, 0, LostReason::Deleted, seconds(60)));
                survey.nodes[0].silent = Some(seconds(20));
            },
            &["run 1.0 on n1"],
            "open",
            seconds(101),
        ),
        (
            "a block has ended on a node that others want",
            |plan, attempts, survey| {
                survey.begin(0, "n0", false);
                survey.begin(1, "n1", true);
                survey.hold("n0", true);
                survey.hold("n1", true);
                attempts.push(given_up(plan, 0));
            },
            &["wait for n0", "yield n0", "hold n1"],
            "open",
            seconds(3),
        ),
        (
            "a block has ended on a node that others want who hold no fewer",
            |plan, attempts, survey| {
                survey.begin(0, "n0", false);
                survey.begin(1, "n1", true);
                survey.hold("n0", false);
                survey.hold("n1", true);
                attempts.push(given_up(plan, 0));
            },
            &["hold n1", "run 2.0 on n0"],
            "open",
            never,
        ),
        (
            "the last block has begun, and the rest is of no use",
            |_, _, survey| {
                (0..6).for_each(|block| survey.begin(block, "n1", true));
                survey.hold("n0", false);
            },
            &["hold n1", "yield n0"],
            "open",
            seconds(3),
        ),
        (
            "the last block may begin on a node that it holds, and on one that is free",
            |_, _, survey| {
                (1..6).for_each(|block| survey.begin(block, "n2", true));
                survey.hold("n1", false);
            },
            &["hold n2", "run 0.0 on n1"],
            "open",
            never,
        ),
        (
            "a node was handed over",
            |_, _, survey| survey.is_given("n0"),
            &["run 0.0 on n0", "run 1.0 on n1"],
            "open",
            never,
        ),
        (
            "a node was handed over and is of no use",
            |_, _, survey| {
                (0..6).for_each(|block| survey.begin(block, "n1", true));
                survey.is_given("n0");
            },
            &["hold n1", "yield n0"],
            "open",
            seconds(3),
        ),
        (
            "a node was handed over, and nothing may be begun",
            |_, _, survey| {
                survey.refused = Some(("quota".to_owned(), seconds(4)));
                survey.is_given("n0");
            },
            &["yield n0"],
            "quota",
            seconds(3),
        ),
        (
            "a node was handed over when everything had ended",
            |plan, attempts, survey| {
                attempts.extend((0..6).map(|block| given_up(plan, block)));
                survey.is_given("n0");
            },
            &["yield n0"],
            "finished",
            seconds(3),
        ),
        (
            "a block has ended on a node that nobody else wants",
            |plan, attempts, survey| {
                survey.begin(0, "n0", false);
                survey.hold("n0", false);
                attempts.push(given_up(plan, 0));
            },
            &["run 1.0 on n0", "run 2.0 on n1"],
            "open",
            never,
        ),
        (
            "volumes of a block that has ended, of one in its second pass, and of one that is under way",
            |plan, attempts, survey| {
                survey.begin(0, "n0", false);
                survey.begin(1, "n0", false);
                survey.begin(2, "n1", true);
                attempts.extend([given_up(plan, 0), lost(plan, 1, 3, LostReason::Deleted, seconds(60))]);
                survey.claims = [(0, 2), (1, 0), (1, 1), (1, 2), (2, 0)].map(|(block, pass)| claim(block, pass)).into();
            },
            &["remove 0/2", "remove 1/0", "hold n1", "run 1.3 on n0"],
            "open",
            never,
        ),
        (
            "the API server has just refused an object",
            |_, _, survey| {
                survey.begin(0, "n0", true);
                survey.refused = Some(("a quota".to_owned(), seconds(4)));
            },
            &["hold n0"],
            "a quota",
            seconds(4) + Duration::from_millis(1),
        ),
        (
            "suspended in the middle of a block",
            |_, _, survey| {
                survey.is_suspended = true;
                survey.begin(0, "n0", true);
                survey.begin(1, "n1", false);
                survey.hold("n0", false);
                survey.hold("n1", false);
            },
            &["hold n0", "release n1"],
            "suspended",
            never,
        ),
        (
            "everything has ended",
            |plan, attempts, survey| {
                attempts.extend((0..6).map(|block| given_up(plan, block)));
                survey.begin(5, "n0", false);
                survey.hold("n0", false);
                survey.claims.insert(claim(5, 2));
                // There is nothing left to suspend, and nothing to be refused.
                survey.is_suspended = true;
                survey.refused = Some(("a quota".to_owned(), seconds(4)));
            },
            &["remove 5/2", "yield n0"],
            "finished",
            seconds(3),
        ),
        (
            "everything has ended but the last pod",
            |plan, attempts, survey| {
                attempts.extend((0..6).map(|block| given_up(plan, block)));
                survey.begin(5, "n0", true);
                survey.hold("n0", true);
                survey.claims.insert(claim(5, 2));
            },
            &["hold n0"],
            "open",
            never,
        ),
    ];
    let plan = plan();
    for (case, change, actions, expected, wake) in table {
        let decision = decided(&plan, change);
        assert_eq!(words(&decision), *actions, "{case}");
        assert_eq!((outlook(&decision.outlook), decision.wake), (*expected, *wake), "{case}");
    }
}

#[test]
fn nodes_go_to_those_who_hold_fewer() {
    for (fewest, own, expected) in [
        (&[Some(0)][..], 1, &[true][..]),
        (&[None], 1, &[false]),
        (&[Some(1)], 2, &[true]),
        (&[Some(2)], 2, &[false]),
        (&[Some(3)], 2, &[false]),
        // Its Leases have run out.
        (&[Some(0)], 0, &[false]),
        // Not all of them at once, or the others would give them back.
        (&[Some(1), Some(1), Some(1)], 3, &[true, false, false]),
        (&[None, Some(0), Some(4), Some(0)], 4, &[false, true, false, true]),
    ] {
        assert_eq!(survey::owed(fewest, own), expected, "{fewest:?} {own}");
    }
}

#[test]
fn blocks_and_pods_are_bound_to_the_nodes_that_they_wait_for() {
    let bound = |change: Change| -> Vec<String> { decided(&plan(), change).bound_to.into_iter().collect() };
    assert_eq!(bound(|_, _, survey| survey.begin(0, "n0", false)), ["n0"]);
    assert_eq!(bound(|_, _, survey| survey.queue("n0", Gated::Node)), ["n0"]);
    assert_eq!(bound(|_, _, survey| survey.queue("n0", Gated::Queue(Duration::ZERO))), [""; 0], "it may not run yet");
    assert_eq!(bound(|_, _, survey| survey.begin(0, "n0", true)), [""; 0], "it runs");
    let planned = |_: &Plan, _: &mut Vec<Attempt>, survey: &mut Survey<'_>| {
        survey.begun.insert(0, Begun { node: "n0".to_owned(), running: false, fresh: true });
    };
    assert_eq!(bound(planned), [""; 0], "any other one would do");
    let over = |plan: &Plan, attempts: &mut Vec<Attempt>, survey: &mut Survey<'_>| {
        survey.begin(0, "n0", false);
        attempts.push(given_up(plan, 0));
    };
    assert_eq!(bound(over), [""; 0], "it is over");
}

#[test]
fn a_node_is_asked_for_while_there_is_none_and_no_longer() {
    type Prepare = fn(&mut Survey<'_>);
    type Case = (&'static str, Option<Placeholder>, Prepare, &'static [&'static str], &'static str);
    let asked = |has_ended| Some(Placeholder { has_ended, waits_for: None });
    let waits = || Some(Placeholder { has_ended: false, waits_for: Some("Unschedulable: no room".to_owned()) });
    let pool = |survey: &mut Survey<'_>| {
        for node in &mut survey.nodes {
            node.policy = Some("none".to_owned());
        }
    };
    let table: &[Case] = &[
        ("there are no nodes", None, |survey| survey.nodes.clear(), &["ask for a node"], "Provisioning"),
        ("none fits", None, pool, &["ask for a node"], "Provisioning"),
        ("it was asked for", waits(), pool, &[], "Provisioning"),
        ("what was brought does not fit", asked(true), pool, &["ask no more"], "Provisioning"),
        (
            "that was a moment ago",
            None,
            |survey| {
                survey.nodes.clear();
                survey.unprovided = Some(seconds(60));
            },
            &[],
            "Provisioning",
        ),
        ("one is there", asked(false), |_| {}, &["ask no more", "run 0.0 on n0", "run 1.0 on n1"], "open"),
        (
            "nodes are there, and others have them",
            None,
            |survey| {
                for node in &mut survey.nodes {
                    node.holder = Some("b/other".into());
                }
            },
            &["wait for n0", "wait for n1"],
            "NodeHeld",
        ),
        (
            "suspended",
            asked(false),
            |survey| {
                survey.nodes.clear();
                survey.is_suspended = true;
            },
            &["ask no more"],
            "suspended",
        ),
        (
            "an object was refused",
            None,
            |survey| {
                survey.nodes.clear();
                survey.refused = Some(("a quota".to_owned(), seconds(4)));
            },
            &[],
            "a quota",
        ),
    ];
    let plan = plan();
    for provision in [Some(Provision::WhenNeeded), Some(Provision::Never), None] {
        let placement = Placement { provision, ..Placement::default() };
        for (case, placeholder, prepare, actions, expected) in table {
            let mut survey = survey(&placement);
            survey.placeholder = placeholder
                .as_ref()
                .map(|known| Placeholder { has_ended: known.has_ended, waits_for: known.waits_for.clone() });
            prepare(&mut survey);
            let decision = decide(&Places::new(&plan, &[]).expect("no attempts"), &survey);
            let words = words(&decision);
            if provision == Some(Provision::WhenNeeded) {
                assert_eq!((words, outlook(&decision.outlook)), (strings(actions), *expected), "{case}");
                assert!(survey.unprovided.is_none_or(|left| decision.wake > left), "{case}: asked when that is over");
            } else {
                assert!(!words.contains(&"ask for a node".to_owned()), "{case}: nobody wants one");
                assert_eq!(words.contains(&"ask no more".to_owned()), placeholder.is_some(), "{case}");
            }
        }
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// The pod of an attempt that is known for so many seconds, whatever the API server's clock says.
fn pod(name: &str, seconds: u64, spec: &Value, status: &Value) -> UnderWay {
    let created = if seconds.is_multiple_of(2) { "1970-01-01T00:00:00Z" } else { "2100-01-01T00:00:00Z" };
    let metadata = json!({"name": name, "creationTimestamp": created});
    let trial = json!({
        "apiVersion": "assay.rocks/v1alpha1", "kind": "TuningTrial", "metadata": {"name": "t"},
        "spec": {"experiment": "e", "plan": "p", "scenario": "s", "block": 0, "config": "c", "replicate": 0,
            "order": 0, "seed": 0, "node": "n0"},
    });
    UnderWay {
        trial: Arc::new(serde_json::from_value(trial).expect("a trial")),
        attempt: 0,
        pod: Arc::new(
            serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).expect("a pod"),
        ),
        known_for: Duration::from_secs(seconds),
        has_vanished: false,
        is_dismissed: false,
    }
}

/// Two leaders may each have made a pod of one block, for the same node or for another one than its trial says by now.
#[test]
fn no_pod_is_let_run_beside_another_one_of_its_experiment() {
    let free = |name: &str, spec: Value| pod(name, 0, &spec, &json!({"phase": "Pending"}));
    let for_node = |node: &str| {
        let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        json!({"containers": [], "affinity": {"nodeAffinity": affinity}})
    };
    let waits = || free("waits", json!({"containers": [], "schedulingGates": [{"name": NODE_GATE}]}));
    let nodes = |under_way: Vec<UnderWay>| -> Vec<String> {
        let observed = Observed { trials: BTreeMap::new(), under_way, leftover: Vec::new() };
        survey::gated(&observed).into_keys().collect()
    };
    assert_eq!(nodes(vec![waits()]), ["n0"]);
    assert_eq!(nodes(vec![waits(), free("runs", for_node("n1"))]), ["n0"], "though the trial of that says n0, too");
    for under_way in
        [vec![waits(), free("runs", for_node("n0"))], vec![free("runs", json!({"containers": []})), waits()]]
    {
        assert_eq!(nodes(under_way), [""; 0]);
    }
    let gone = UnderWay { has_vanished: true, ..free("gone", for_node("n0")) };
    assert_eq!(nodes(vec![waits(), gone]), ["n0"]);
}

fn unscheduled(name: &str, seconds: u64) -> UnderWay {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"});
    pod(name, seconds, &json!({"containers": []}), &json!({"phase": "Pending", "conditions": [condition]}))
}

fn gated(name: &str, gate: &str) -> UnderWay {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"});
    let gates = json!({"containers": [], "schedulingGates": [{"name": gate}]});
    pod(name, 0, &gates, &json!({"phase": "Pending", "conditions": [condition]}))
}

fn runs(name: &str) -> UnderWay {
    pod(name, 100, &json!({"containers": []}), &json!({"phase": "Running"}))
}

#[test]
fn how_an_experiment_stands_follows_from_what_was_done() {
    let open = || Outlook::Open { refused: None, no_node: None };
    let refused = || Outlook::Open { refused: Some("before".to_owned()), no_node: None };
    let no_node = || Outlook::Open { refused: None, no_node: Some(("NodeHeld", "held".to_owned())) };
    let begun =
        |nodes: &[&str]| Applied { begun: nodes.iter().map(ToString::to_string).collect(), ..Applied::default() };
    let held = |nodes: &[&str]| Applied { held: Some("n0 is held by a/b".to_owned()), ..begun(nodes) };
    let limited = |nodes: &[&str]| Applied { limited: Some("as many".to_owned()), ..begun(nodes) };
    let not_made = |nodes: &[&str]| Applied { refused: Some("a quota".to_owned()), ..begun(nodes) };
    let waiting = |reason, message: &str| State::Waiting { reason, message: message.to_owned() };
    let running = |nodes: &[&str]| State::Running { nodes: nodes.iter().map(ToString::to_string).collect() };
    let never = Duration::MAX;
    let table = [
        (Outlook::Finished, vec![], begun(&[]), vec![], State::Finished, never),
        (Outlook::Suspended, vec!["n0", "n1"], begun(&[]), vec![], State::Suspended { running: 2 }, never),
        (open(), vec!["n1"], begun(&["n0"]), vec![], running(&["n0", "n1"]), never),
        // A node is there, and its lease was not to be had.
        (open(), vec![], held(&[]), vec![], waiting("NodeHeld", "n0 is held by a/b"), never),
        (open(), vec!["n1"], held(&[]), vec![runs("p")], running(&["n1"]), never),
        (open(), vec![], held(&["n1"]), vec![], running(&["n1"]), never),
        (no_node(), vec![], begun(&[]), vec![], waiting("NodeHeld", "held"), never),
        (no_node(), vec!["n0"], begun(&[]), vec![runs("p")], running(&["n0"]), never),
        (refused(), vec![], begun(&[]), vec![], waiting("PodRefused", "before"), never),
        (refused(), vec!["n0"], begun(&[]), vec![runs("p")], running(&["n0"]), never),
        (open(), vec![], not_made(&[]), vec![], waiting("PodRefused", "a quota"), never),
        (no_node(), vec![], not_made(&[]), vec![], waiting("PodRefused", "a quota"), never),
        (open(), vec![], not_made(&["n1"]), vec![], running(&["n1"]), never),
        // Its namespace has as many nodes as it may have.
        (open(), vec![], limited(&[]), vec![], waiting("NodeLimit", "as many"), seconds(30)),
        (no_node(), vec![], limited(&[]), vec![], waiting("NodeLimit", "as many"), seconds(30)),
        (refused(), vec![], limited(&[]), vec![], waiting("PodRefused", "before"), seconds(30)),
        (open(), vec!["n0"], limited(&[]), vec![runs("p")], running(&["n0"]), seconds(30)),
        (open(), vec![], limited(&["n1"]), vec![], running(&["n1"]), seconds(30)),
        (
            open(),
            vec!["n0"],
            limited(&[]),
            vec![gated("p", "assay.rocks/node")],
            waiting("NodeLimit", "as many"),
            seconds(30),
        ),
        // Pods that wait, all of them.
        (open(), vec!["n0"], begun(&[]), vec![gated("p", "queue")], waiting("Queued", "p: SchedulingGated: "), never),
        (
            open(),
            vec!["n0", "n1"],
            begun(&[]),
            vec![gated("p", "queue"), unscheduled("q", 11)],
            waiting("PodPending", "q: Unschedulable: no room"),
            never,
        ),
        (
            refused(),
            vec!["n0"],
            begun(&[]),
            vec![gated("p", "queue")],
            waiting("Queued", "p: SchedulingGated: "),
            never,
        ),
        // Its queue has let it go, and its node is another one's.
        (
            open(),
            vec!["n0"],
            begun(&[]),
            vec![gated("p", NODE_GATE)],
            waiting("NodeHeld", "n0 is held by another experiment"),
            never,
        ),
        (open(), vec!["n0"], begun(&["n0"]), vec![gated("p", NODE_GATE)], running(&["n0"]), never),
        // Others do not wait, or need not for long.
        (open(), vec!["n0", "n1"], begun(&[]), vec![gated("p", "queue"), runs("q")], running(&["n0", "n1"]), never),
        (open(), vec!["n0"], begun(&["n1"]), vec![gated("p", "queue")], running(&["n0", "n1"]), never),
        (open(), vec!["n0"], begun(&[]), vec![unscheduled("p", 4)], running(&["n0"]), seconds(7)),
        (
            open(),
            vec!["n0"],
            begun(&[]),
            vec![unscheduled("p", 10)],
            waiting("PodPending", "p: Unschedulable: no room"),
            never,
        ),
    ];
    for (number, (outlook, busy, applied, under_way, expected, wake)) in table.into_iter().enumerate() {
        let placement = Placement::default();
        let mut survey = survey(&placement);
        survey.busy = busy.into_iter().map(ToOwned::to_owned).collect();
        assert_eq!(state(outlook, &survey, applied, &under_way), (expected, wake), "line {number}");
    }
}

#[test]
fn pods_that_do_not_go_are_named_once_nothing_else_runs() {
    let stands = |busy: &[&str], begun: &[&str]| {
        let placement = Placement::default();
        let mut survey = survey(&placement);
        survey.busy = busy.iter().map(ToString::to_string).collect();
        survey.stuck.insert("n0".to_owned(), "p".to_owned());
        let applied = Applied { begun: begun.iter().map(ToString::to_string).collect(), ..Applied::default() };
        state(Outlook::Open { refused: None, no_node: None }, &survey, applied, &[]).0
    };
    let State::Waiting { reason, message } = stands(&["n0"], &[]) else { panic!("it waits") };
    assert_eq!((reason, message.as_str()), ("PodTerminating", "p was deleted and does not go: see n0"));
    let running = |nodes: &[&str]| State::Running { nodes: nodes.iter().map(ToString::to_string).collect() };
    assert_eq!(stands(&["n0", "n1"], &[]), running(&["n0", "n1"]));
    assert_eq!(stands(&["n0"], &["n1"]), running(&["n0", "n1"]));
}

#[test]
fn nodes_that_can_not_be_used_are_named_with_the_reason() {
    let decision = decided(&plan(), |_, _, survey| {
        survey.nodes[0].policy = Some("none".to_owned());
        survey.nodes[1].holder = Some("b/other".into());
    });
    let Outlook::Open { no_node: Some((reason, message)), .. } = decision.outlook else { unreachable!() };
    assert_eq!(reason, "NodeHeld");
    assert!(message.starts_with("n1 is held by b/other; n0 has a kubelet with cpuManagerPolicy none"), "{message}");
}

#[test]
fn nodes_that_will_be_free_again_are_named_before_others() {
    let small = |count| (0..count).map(|node| format!("n{node} is too small")).collect();
    let held = || vec!["z is held by b/other".to_owned()];
    assert_eq!(why_no_node(held(), small(1)), "z is held by b/other; n0 is too small");
    let why = why_no_node(held(), small(9));
    assert!(
        why.starts_with("z is held by b/other; n0 ") && why.ends_with("n6 is too small; and 2 more nodes"),
        "{why}"
    );
    assert!(!why_no_node(held(), small(7)).contains("more nodes"));
    assert!(why_no_node(Vec::new(), Vec::new()).contains("no node"));
}
