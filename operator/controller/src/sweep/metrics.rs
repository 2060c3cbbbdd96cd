//! What sweeps have to show Prometheus, read from their status and from what is known of their history when somebody asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use assay_api::{KnownChange, TuningSweep, TuningSweepStatus};
use assay_core::sweep::confirm::{Change, Stage, is_noisy};
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::controller::Context;
use super::memory::Known;
use super::status::Stalled;

pub struct Findings(pub Arc<Context>);

impl fmt::Debug for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Findings")
    }
}

type Labels = Vec<(&'static str, String)>;

/// Values of series by the name of their metric.
#[derive(Default)]
struct Found(BTreeMap<&'static str, Vec<(Labels, f64)>>);

const HELP: [(&str, &str); 11] = [
    ("sweep_state", "1 for the state of the sweep"),
    ("sweep_last_measured_timestamp", "The last night that was measured, since 1970"),
    ("sweep_stale_after_timestamp", "When the sweep becomes stale unless a night is measured before, since 1970"),
    ("sweep_nights_measured", "Nights in the history that were measured"),
    (
        "sweep_level_percent",
        "Level of a series against the reference, in percent or percentage points; positive is better",
    ),
    ("sweep_regression_confirmed", "1 for each change for the worse that is confirmed, and neither accepted nor over"),
    ("sweep_suspects", "Series that are suspected to have moved"),
    ("sweep_changes", "Changes in the history, by stage"),
    ("sweep_reference_broken", "1 if all series have moved while no subject changed"),
    (
        "sweep_confirmations_spent_timestamp",
        "Time at which the confirmations of a year were used up, since 1970; nothing can be confirmed since",
    ),
    ("sweep_noisy", "1 if more than half of the latest six confirmations were refuted"),
];

impl Found {
    fn add(&mut self, name: &'static str, labels: Labels, value: f64) {
        self.0.entry(name).or_default().push((labels, value));
    }

    /// A sweep by its status. `known` is what was read from its history, which a new leader has not read yet.
    fn sweep(&mut self, sweep: &TuningSweep, known: Option<&Known>, is_unreadable: bool) {
        let own = || labels(&sweep.metadata);
        let with = |more: Labels| own().into_iter().chain(more).collect();
        let Some(status) = &sweep.status else { return };
        let state = if is_unreadable { Some(Stalled::Unreadable.words().1) } else { status.state.as_deref() };
        if let Some(state) = state {
            self.add("sweep_state", with(vec![("state", state.to_owned())]), 1.0);
        }
        for (name, time) in [
            ("sweep_last_measured_timestamp", &status.last_measured_time),
            ("sweep_stale_after_timestamp", &status.stale_after_time),
        ] {
            if let Some(time) = time {
                self.add(name, own(), time.0.as_second() as f64);
            }
        }
        self.add("sweep_nights_measured", own(), f64::from(status.nights_measured));
        let mut stages: BTreeMap<String, usize> = BTreeMap::new();
        for (name, subject, stage) in changes(status, known) {
            if stage == Stage::Regressed.to_string() {
                self.add("sweep_regression_confirmed", with(vec![("change", name), ("subject", subject)]), 1.0);
            }
            *stages.entry(stage).or_default() += 1;
        }
        for (stage, count) in stages {
            self.add("sweep_changes", with(vec![("stage", stage)]), count as f64);
        }
        let Some(known) = known else { return };
        let flag = |is_set: bool| f64::from(u8::from(is_set));
        self.add("sweep_suspects", own(), known.suspects as f64);
        self.add("sweep_reference_broken", own(), flag(known.is_reference_broken));
        if let Some(since) = known.spent_since {
            self.add("sweep_confirmations_spent_timestamp", own(), since.as_second() as f64);
        }
        self.add("sweep_noisy", own(), flag(is_noisy(&known.changes)));
        for standing in known.standings.iter().filter(|standing| !standing.is_learning) {
            let series = &standing.series;
            let more: Labels = vec![
                ("subject", series.subject.clone()),
                ("scenario", series.scenario.clone()),
                ("metric", series.metric.clone()),
            ];
            self.add("sweep_level_percent", with(more), standing.percent);
        }
    }
}

fn labels(of: &ObjectMeta) -> Labels {
    vec![("namespace", of.namespace.clone().unwrap_or_default()), ("sweep", of.name.clone().unwrap_or_default())]
}

/// Changes with their subject and stage: those of the history, or of the status where it has not been read.
fn changes(status: &TuningSweepStatus, known: Option<&Known>) -> Vec<(String, String, String)> {
    let of_known = |change: &Change| (change.name.clone(), change.subject.clone(), change.stage.to_string());
    let of_status =
        |change: &KnownChange| (change.name.clone(), subject(&change.name).to_owned(), change.stage.clone());
    match known {
        Some(known) => known.changes.iter().map(of_known).collect(),
        None => status.changes.iter().map(of_status).collect(),
    }
}

/// The subject of a change, before the day and the minute in its name.
fn subject(change: &str) -> &str {
    change.rsplitn(3, '-').last().unwrap_or(change)
}

impl Collector for Findings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let context = &self.0;
        let sweeps: Vec<_> = context.sweeps.iter().flat_map(Store::state).collect();
        context.memories.prune(&sweeps);
        let mut found = Found::default();
        // Unreadable sweeps that are in no store have no known status.
        let mut unreadable: BTreeMap<String, ObjectMeta> = BTreeMap::new();
        for object in context.unreadable() {
            unreadable.insert(object.metadata.uid.clone().unwrap_or_default(), object.metadata);
        }
        for sweep in &sweeps {
            let known = context.memories.of(sweep).lock().known.clone();
            let is_unreadable = unreadable.remove(&sweep.uid().unwrap_or_default()).is_some();
            found.sweep(sweep, known.as_ref(), is_unreadable);
        }
        for meta in unreadable.values() {
            let state = ("state", Stalled::Unreadable.words().1.to_owned());
            found.add("sweep_state", labels(meta).into_iter().chain([state]).collect(), 1.0);
        }
        for (name, help) in HELP {
            let Some(series) = found.0.remove(name) else { continue };
            let unit = name.ends_with("_timestamp").then_some(&Unit::Seconds);
            let mut descriptor = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for (labels, value) in series {
                ConstGauge::new(value).encode(descriptor.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sweep(status: &Value) -> TuningSweep {
        let workload = json!({"keyValue": {"keys": 10, "valueBytes": {"fixed": 10}, "roles": []}});
        let spec = json!({
            "metadata": {"name": "nightly", "namespace": "a", "uid": "u"},
            "spec": {
                "schedule": "17 1 * * *",
                "reference": {"name": "v1"},
                "experiment": {
                    "scenarios": [{"name": "fill", "workload": workload}], "repetitions": 5,
                    "objectives": [{"metric": "throughput", "margin": "5%"}], "placement": {"cpus": 1},
                },
            },
            "status": status,
        });
        serde_json::from_value(spec).expect("a sweep")
    }

    fn change(name: &str, subject: &str, stage: Stage) -> Change {
        let raised = "2026-12-01T01:17:00Z".parse().expect("a time");
        Change {
            name: name.to_owned(),
            subject: subject.to_owned(),
            stage,
            raised,
            good: raised,
            bad: raised,
            visits: 2,
            failed: 0,
            series: Vec::new(),
            failing: Vec::new(),
            is_sum: false,
            accepted: None,
            finding: None,
        }
    }

    /// The values of metrics that alerts on changes ask for.
    fn shown(known: Option<&Known>) -> BTreeMap<&'static str, Vec<(Labels, f64)>> {
        let status = json!({
            "state": "Regressed", "staleAfterTime": "2026-12-10T01:17:00Z", "nightsMeasured": 9,
            "changes": [
                {"name": "main-b-20261203-0117", "stage": "Refuted", "message": ""},
                {"name": "main-b-20261201-0117", "stage": "Regressed", "message": ""},
            ],
        });
        let mut found = Found::default();
        found.sweep(&sweep(&status), known, false);
        found.0
    }

    #[test]
    fn a_new_leader_shows_the_changes_of_the_status() {
        let changes = vec![
            change("main-b-20261201-0117", "main-b", Stage::Regressed),
            change("main-b-20261203-0117", "main-b", Stage::Refuted),
        ];
        let (before, mut after) = (shown(None), shown(Some(&Known { changes, ..Known::default() })));
        after.retain(|name, _| before.contains_key(name));
        assert_eq!(before, after);
        let labels = &before["sweep_regression_confirmed"][0].0;
        assert_eq!(labels[2..], [("change", "main-b-20261201-0117".to_owned()), ("subject", "main-b".to_owned())]);
        assert_eq!(before["sweep_stale_after_timestamp"][0].1, 1_796_865_420.0);
        assert_eq!(before["sweep_state"][0].0[2], ("state", "Regressed".to_owned()));
        assert!(!before.contains_key("sweep_suspects"), "what is not known is not shown as 0");
    }

    #[test]
    fn a_sweep_that_can_not_be_read_keeps_its_changes() {
        let mut found = Found::default();
        let status = json!({"state": "Watching", "changes": [
            {"name": "main-20261201-0117", "stage": "Regressed", "message": ""}]});
        found.sweep(&sweep(&status), None, true);
        assert_eq!(found.0["sweep_state"][0].0[2].1, "Unreadable");
        assert_eq!(found.0["sweep_regression_confirmed"].len(), 1);
    }
}
