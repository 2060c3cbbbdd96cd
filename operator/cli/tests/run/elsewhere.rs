//! Experiment files that were written for a cluster.

use std::fs;

use crate::lab::{EXPERIMENT, Lab};

#[test]
fn metrics_of_a_prometheus_server_are_refused() {
    let lab = Lab::new();
    let query = "
  metrics: [{name: node_reads, query: 'increase(node_disk_read_bytes_total[$window])', better: Lower}]
";
    let experiment = EXPERIMENT.replace("guardrails: []", "guardrails: [{metric: node_reads}]");
    fs::write(lab.dir.path().join("experiment.yaml"), experiment + query).unwrap();
    lab.run("").refused(
        "spec.metrics needs a Prometheus server, which only a run on a cluster has: remove it, or use assay run \
         --cluster",
    );
    assert!(!lab.out().exists(), "nothing has begun");
}

#[test]
fn what_only_a_cluster_uses_is_named() {
    let lab = Lab::new();
    let placement =
        "placement: {cpus: 1, memory: 4Gi, nodeSelector: {disk: nvme}, storage: {emptyDir: {}}}\n  suspend: false";
    let experiment = EXPERIMENT.replace("placement: {cpus: 1}", placement);
    fs::write(lab.dir.path().join("experiment.yaml"), experiment).unwrap();
    let ran = lab.run("");
    ran.succeeded();
    let note = "experiment.yaml: note: placement.memory, placement.nodeSelector, placement.storage, suspend apply only on a cluster\n";
    assert!(ran.stderr().contains(note), "{}", ran.stderr());
    let plain = Lab::new();
    assert!(!plain.run("").stderr().contains("only on a cluster"));
}
