//! What sweeps have to show Prometheus, read from their status and from what is known of their history when somebody asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use assay_api::condition::find;
use assay_api::names::STALE;
use assay_core::sweep::confirm::{Stage, is_noisy};
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::controller::Context;

pub struct Findings(pub Arc<Context>);

impl fmt::Debug for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Findings")
    }
}

type Labels = Vec<(&'static str, String)>;

/// A metric's name and help, and the value of each of its series.
type Described = (&'static str, &'static str, Vec<(Labels, f64)>);

impl Collector for Findings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let context = &self.0;
        let sweeps: Vec<_> = context.sweeps.iter().flat_map(Store::state).collect();
        context.memories.prune(&sweeps);
        let (mut stale, mut measured, mut nights, mut levels) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut regressed, mut suspects, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut broken, mut noisy) = (Vec::new(), Vec::new());
        for sweep in &sweeps {
            let own = || vec![("namespace", sweep.namespace().unwrap_or_default()), ("sweep", sweep.name_any())];
            let Some(status) = &sweep.status else { continue };
            let is_stale = find(&status.conditions, STALE).is_some_and(|known| known.status == "True");
            stale.push((own(), f64::from(u8::from(is_stale))));
            nights.push((own(), f64::from(status.nights_measured)));
            if let Some(last) = &status.last_measured_time {
                measured.push((own(), last.0.as_second() as f64));
            }
            let known = context.memories.of(sweep).lock().known.clone().unwrap_or_default();
            suspects.push((own(), known.suspects as f64));
            broken.push((own(), f64::from(u8::from(known.is_reference_broken))));
            noisy.push((own(), f64::from(u8::from(is_noisy(&known.changes)))));
            let mut stages: BTreeMap<String, usize> = BTreeMap::new();
            for change in &known.changes {
                *stages.entry(change.stage.to_string()).or_default() += 1;
                if change.stage == Stage::Regressed {
                    let more: Labels = vec![("change", change.name.clone()), ("subject", change.subject.clone())];
                    regressed.push((own().into_iter().chain(more).collect(), 1.0));
                }
            }
            changes.extend(
                stages
                    .into_iter()
                    .map(|(stage, count)| (own().into_iter().chain([("stage", stage)]).collect(), count as f64)),
            );
            for standing in known.standings.iter().filter(|standing| !standing.is_learning) {
                let series = &standing.series;
                let more: Labels = vec![
                    ("subject", series.subject.clone()),
                    ("scenario", series.scenario.clone()),
                    ("metric", series.metric.clone()),
                ];
                levels.push((own().into_iter().chain(more).collect(), standing.percent));
            }
        }
        let all: [Described; 9] = [
            ("sweep_stale", "1 if no night of the sweep was measured for too long", stale),
            ("sweep_last_measured_timestamp", "The last night that was measured, since 1970", measured),
            ("sweep_nights_measured", "Nights in the history that were measured", nights),
            (
                "sweep_level_percent",
                "Level of a series against the reference, in percent or percentage points; positive is better",
                levels,
            ),
            (
                "sweep_regression_confirmed",
                "1 for each change for the worse that is confirmed, and neither accepted nor over",
                regressed,
            ),
            ("sweep_suspects", "Series that are suspected to have moved", suspects),
            ("sweep_changes", "Changes in the history, by stage", changes),
            ("sweep_reference_broken", "1 if all series have moved while no subject changed", broken),
            ("sweep_noisy", "1 if more than half of the latest six confirmations were refuted", noisy),
        ];
        for (name, help, series) in all.into_iter().filter(|(_, _, series)| !series.is_empty()) {
            let unit = name.ends_with("_timestamp").then_some(&Unit::Seconds);
            let mut descriptor = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for (labels, value) in series {
                ConstGauge::new(value).encode(descriptor.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
