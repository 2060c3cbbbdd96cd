//! What only runs on a cluster have: names of nodes, and metrics that somebody else measured.

use assay_protocol::PodEvidence;

use super::*;
use crate::experiment::Query;

/// Runs of a cluster: even blocks on one node, odd ones on another of the same type.
fn on_two_nodes(summary: &mut Summary) {
    let node = if summary.trial.block.is_multiple_of(2) { "worker-a" } else { "worker-b" };
    summary.pod = Some(PodEvidence {
        node: Some(node.to_owned()),
        qos_class: Some("Guaranteed".to_owned()),
        ..PodEvidence::default()
    });
}

#[test]
fn nodes_go_by_their_names() {
    let experiment = experiment();
    let report = judged(
        &experiment,
        &attempts(&experiment, |s| {
            faster(1.2)(s);
            on_two_nodes(s);
        }),
    );
    assert_eq!(report.configs[0].ruling.verdict, Verdict::Win);
    let seen: Vec<(&str, usize)> =
        report.configs[0].by_node.iter().map(|estimate| (estimate.node.as_str(), estimate.blocks)).collect();
    assert_eq!(seen, [("worker-a", 4), ("worker-b", 4)]);
    // Without one of two nodes four blocks are left, too few for a claim.
    let hangs_on = &report.configs[0].fragile;
    assert!(hangs_on.contains(&"node worker-a".to_owned()), "{hangs_on:?}");
    for trial in &report.trials {
        let node = if trial.trial.block.is_multiple_of(2) { "worker-a" } else { "worker-b" };
        assert_eq!(trial.node.as_deref(), Some(node));
    }
}

/// An operator adds what has just ended behind all others.
#[test]
fn in_whatever_order_attempts_come_a_report_is_the_same() {
    let experiment = larger();
    let mut all = attempts(&experiment, |s| {
        faster(1.2)(s);
        on_two_nodes(s);
    });
    let first = judged(&experiment, &all);
    assert_eq!(first.configs[0].by_node[0].node, "worker-a");
    for _ in 0..all.len() {
        all.rotate_left(1);
        assert!(judged(&experiment, &all) == first, "{:?} comes first", all[0].trial());
    }
    all.reverse();
    assert!(judged(&experiment, &all) == first, "the last one comes first");
}

#[test]
fn machines_without_a_name_are_numbered() {
    let experiment = experiment();
    let report = judged(
        &experiment,
        &attempts(&experiment, |s| s.parity.machine = assay_protocol::Digest::of(&[(s.trial.block % 2) as u8])),
    );
    let seen: Vec<&str> = report.configs[0].by_node.iter().map(|estimate| estimate.node.as_str()).collect();
    assert_eq!(seen, ["machine 1", "machine 2"]);
    assert!(report.trials.iter().all(|trial| trial.node.is_none()));
}

/// An objective that a Prometheus server is asked for.
fn asking() -> Experiment {
    let mut experiment = experiment();
    experiment.metrics.push(rule("node_reads", Direction::Lower, Purpose::Objective));
    let query = "increase(node_disk_read_bytes_total[$window])".to_owned();
    experiment.queries.push(Query { name: "node_reads".to_owned(), query, better: Direction::Lower });
    experiment
}

/// Half of the reads with the candidate.
fn with_reads(summary: &mut Summary) {
    let factor = if summary.trial.config == "candidate" { 0.5 } else { 1.0 };
    summary.metrics.insert("node_reads".to_owned(), factor * (1e6 + f64::from(summary.trial.block)));
}

#[test]
fn queried_metrics_are_judged() {
    let experiment = asking();
    let report = judged(&experiment, &attempts(&experiment, with_reads));
    let ruling = &report.configs[0].ruling;
    assert_eq!((ruling.verdict, ruling.reason.as_str()), (Verdict::Win, "Better:node_reads"));
    assert!(report.trials.iter().all(|trial| trial.metrics.contains_key("node_reads")));
    assert!(markdown(&report).contains("node_reads") && terminal(&report, WIDTH).contains("node_reads"));
}

#[test]
fn a_trial_without_a_queried_metric_counts_for_the_others() {
    let experiment = asking();
    let lacking = attempts(&experiment, |s| {
        with_reads(s);
        if s.trial.config == "candidate" && s.trial.block == 2 {
            s.metrics.remove("node_reads");
        }
    });
    let report = judged(&experiment, &lacking);
    assert_eq!((report.progress.invalid, report.progress.trials_valid), (0, 16));
    let blocks: Vec<usize> = report.configs[0].ruling.estimates.iter().map(|estimate| estimate.blocks).collect();
    assert_eq!(blocks, [8, 7]);
    let text = "node_reads was not measured in some runs of fill; these runs don't count for it.";
    assert!(report.notes.iter().any(|note| note.text == text), "{:?}", report.notes);
}
