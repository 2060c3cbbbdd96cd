//! What the operator tells Prometheus. What experiments have found out is read from their status when somebody asks, so a
//! deleted experiment leaves no series behind; labels are bounded by what an experiment may have.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_api::TuningExperiment;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::context::Context;
use crate::experiment::node_of;
use crate::watch::locked;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    outcome: String,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconciled {
    result: &'static str,
}

pub struct Metrics {
    registry: Mutex<Registry>,
    ended: Family<Ended, Counter>,
    reconciled: Family<Reconciled, Histogram>,
    leader: Gauge,
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("assay");
        let ended = Family::<Ended, Counter>::default();
        registry.register("attempts_ended", "Attempts at trials that have ended, by outcome and reason", ended.clone());
        let reconciled = Family::<Reconciled, Histogram>::new_with_constructor(|| {
            Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
        });
        registry.register_with_unit(
            "reconcile_duration",
            "Time that looks at an experiment took",
            Unit::Seconds,
            reconciled.clone(),
        );
        let leader = Gauge::default();
        registry.register(
            "leader",
            "1 where this replica leads and watches, 0 where it waits for that",
            leader.clone(),
        );
        Self { registry: Mutex::new(registry), ended, reconciled, leader }
    }

    /// Whoever does not lead any more ends.
    pub fn leads(&self) {
        self.leader.set(1);
    }

    /// Adds what experiments have found out.
    pub fn watch(&self, context: Arc<Context>) {
        locked(&self.registry).register_collector(Box::new(Findings(context)));
    }

    pub fn attempt(&self, outcome: &str, reason: &str) {
        self.ended.get_or_create(&Ended { outcome: outcome.to_owned(), reason: reason.to_owned() }).inc();
    }

    pub fn reconciled(&self, duration: Duration, is_ok: bool) {
        let result = if is_ok { "ok" } else { "error" };
        self.reconciled.get_or_create(&Reconciled { result }).observe(duration.as_secs_f64());
    }

    /// The body of `/metrics`.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut body = String::new();
        prometheus_client::encoding::text::encode(&mut body, &locked(&self.registry))?;
        Ok(body)
    }
}

struct Findings(Arc<Context>);

impl fmt::Debug for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Findings")
    }
}

type Labels = Vec<(&'static str, String)>;

/// A metric's help, and the value of each of its series.
type Described = (&'static str, Vec<(Labels, f64)>);

/// Metrics with all their series.
#[derive(Default)]
struct Series(BTreeMap<&'static str, Described>);

impl Series {
    fn add(&mut self, name: &'static str, help: &'static str, labels: Labels, value: f64) {
        self.0.entry(name).or_insert((help, Vec::new())).1.push((labels, value));
    }
}

impl Collector for Findings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let context = &self.0;
        let mut series = Series::default();
        for experiment in context.experiments.iter().flat_map(Store::state) {
            of_experiment(&experiment, &mut series);
        }
        for ((namespace, pod), share) in locked(&context.progress).iter() {
            let labels = vec![("namespace", namespace.clone()), ("pod", pod.clone())];
            series.add("trial_progress_ratio", "Share of its steps that a running trial has done", labels, *share);
        }
        for lease in context.node_leases.state() {
            let (Some(holder), Some(node)) = (context.leases.holder_of(&lease), node_of(&lease)) else { continue };
            let labels = vec![("node", node.to_owned()), ("holder", holder.to_owned())];
            series.add("node_held", "Nodes that run an experiment's trials, and whose", labels, 1.0);
        }
        for (name, (help, values)) in series.0 {
            let mut descriptor =
                encoder.encode_descriptor(name, help, None, prometheus_client::metrics::MetricType::Gauge)?;
            for (labels, value) in values {
                ConstGauge::new(value).encode(descriptor.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn of_experiment(experiment: &TuningExperiment, series: &mut Series) {
    let Some(status) = &experiment.status else { return };
    let own = || vec![("namespace", experiment.namespace().unwrap_or_default()), ("experiment", experiment.name_any())];
    let with = |more: Labels| own().into_iter().chain(more).collect::<Labels>();
    for condition in &status.conditions {
        let labels = with(vec![("condition", condition.type_.clone()), ("reason", condition.reason.clone())]);
        let value = f64::from(u8::from(condition.status == "True"));
        series.add("experiment_condition", "Conditions of experiments, 1 where they are True", labels, value);
    }
    if let Some(progress) = &status.progress {
        for (state, count) in [
            ("valid", progress.trials_valid),
            ("freed", progress.trials_freed),
            ("open", progress.trials_planned.saturating_sub(progress.trials_valid + progress.trials_freed)),
        ] {
            let labels = with(vec![("state", state.to_owned())]);
            series.add("trials", "Planned trials by state", labels, f64::from(count));
        }
        series.add("attempts", "Attempts that have ended, whatever came of them", own(), f64::from(progress.attempts));
        for (outcome, count) in [
            ("invalid", progress.attempts_invalid),
            ("failed", progress.attempts_failed),
            ("lost", progress.attempts_lost),
        ] {
            let labels = with(vec![("outcome", outcome.to_owned())]);
            series.add("attempts_without_result", "Attempts that do not count, by outcome", labels, f64::from(count));
        }
        let blocks = status.plan.as_ref().map_or(0, |plan| plan.blocks.saturating_sub(progress.blocks_done));
        series.add("blocks_queued", "Blocks of which something is left to run", own(), f64::from(blocks));
    }
    for verdict in &status.verdicts {
        let labels = with(vec![
            ("config", verdict.config.clone()),
            ("verdict", verdict.verdict.clone()),
            ("reason", verdict.reason.clone()),
        ]);
        series.add("verdict", "Verdicts over all scenarios, 1 for the one that holds", labels, 1.0);
        for estimate in &verdict.estimates {
            for (name, help, value) in [
                ("effect_percent", "Effect on a metric, positive is better", &estimate.percent),
                ("effect_low_percent", "Lower end of the 95 % interval of an effect", &estimate.low_percent),
                ("effect_high_percent", "Upper end of the 95 % interval of an effect", &estimate.high_percent),
            ] {
                if let Some(value) = value.as_ref().and_then(|value| value.parse().ok()) {
                    let labels = with(vec![("config", verdict.config.clone()), ("metric", estimate.metric.clone())]);
                    series.add(name, help, labels, value);
                }
            }
        }
    }
}
