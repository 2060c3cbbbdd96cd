//! What experiments have to show Prometheus. What they have found out is read from their status when somebody asks, so a
//! deleted experiment leaves no series behind; labels are bounded by what an experiment may have.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use assay_api::TuningExperiment;
use kube::ResourceExt as _;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;

use super::context::Context;
use crate::lease::node_of;
use crate::metrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    outcome: String,
    reason: String,
}

/// What is counted as it happens.
pub struct Metrics {
    ended: Family<Ended, Counter>,
}

impl Metrics {
    pub fn register(registry: &metrics::Metrics) -> Self {
        let ended = Family::<Ended, Counter>::default();
        registry.register("attempts_ended", "Attempts that have ended, by outcome and reason", ended.clone());
        Self { ended }
    }

    pub fn attempt(&self, outcome: &str, reason: &str) {
        self.ended.get_or_create(&Ended { outcome: outcome.to_owned(), reason: reason.to_owned() }).inc();
    }
}

/// What experiments have found out, by the time that somebody asks.
pub struct Findings(pub Arc<Context>);

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
        for experiment in context.all_experiments() {
            of_experiment(&experiment, &mut series);
        }
        for ((namespace, _), memory) in context.memories.all() {
            for (pod, share) in &memory.lock().progress {
                let labels = vec![("namespace", namespace.clone()), ("pod", pod.clone())];
                series.add("trial_progress_ratio", "Share of steps that a running trial has done", labels, *share);
            }
        }
        let leases = &context.cluster.leases;
        for lease in context.cluster.node_leases.state() {
            let (Some(holder), Some(node)) = (leases.holder_of(&lease), node_of(&lease)) else { continue };
            let labels = vec![("node", node.to_owned()), ("holder", holder.to_owned())];
            series.add("node_held", "Nodes held by experiments, by holder", labels, 1.0);
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
        series.add("experiment_condition", "Conditions of experiments, 1 if True", labels, value);
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
        series.add("attempts", "Attempts that have ended, whatever their outcome", own(), f64::from(progress.attempts));
        for (outcome, count) in [
            ("invalid", progress.attempts_invalid),
            ("failed", progress.attempts_failed),
            ("lost", progress.attempts_lost),
        ] {
            let labels = with(vec![("outcome", outcome.to_owned())]);
            series.add(
                "attempts_without_result",
                "Attempts without a valid result, by outcome",
                labels,
                f64::from(count),
            );
        }
        let blocks = status.plan.as_ref().map_or(0, |plan| plan.blocks.saturating_sub(progress.blocks_done));
        series.add("blocks_queued", "Blocks with trials left to run", own(), f64::from(blocks));
    }
    for verdict in &status.verdicts {
        let labels = with(vec![
            ("config", verdict.config.clone()),
            ("verdict", verdict.verdict.clone()),
            ("reason", verdict.reason.clone()),
        ]);
        series.add("verdict", "Verdicts over all scenarios, 1 for the current one", labels, 1.0);
        for estimate in &verdict.estimates {
            for (name, help, value) in [
                ("effect_percent", "Effect on a metric; positive is better", &estimate.percent),
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
