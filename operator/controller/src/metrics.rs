//! What the operator shows Prometheus. Controllers add what their kind has to show.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::error::Error;
use crate::lock::locked;

/// Results of reconciles. A conflict is retried with the newer object, and is no error.
const OK: &str = "ok";
const CONFLICT: &str = "conflict";
const ERROR: &str = "error";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconciled {
    result: &'static str,
}

pub struct Metrics {
    registry: Mutex<Registry>,
    reconciled: Family<Reconciled, Histogram>,
    leader: Gauge,
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("assay");
        let reconciled = Family::<Reconciled, Histogram>::new_with_constructor(|| {
            Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
        });
        // One that is counted from its first error on would hide that one from `increase`.
        for result in [OK, CONFLICT, ERROR] {
            drop(reconciled.get_or_create(&Reconciled { result }));
        }
        registry.register_with_unit("reconcile_duration", "Duration of reconciles", Unit::Seconds, reconciled.clone());
        let leader = Gauge::default();
        registry.register("leader", "1 if this replica leads, 0 if it waits to lead", leader.clone());
        Self { registry: Mutex::new(registry), reconciled, leader }
    }

    /// Whoever does not lead any more ends.
    pub fn leads(&self) {
        self.leader.set(1);
    }

    pub fn reconciled<T>(&self, duration: Duration, result: &Result<T, Error>) {
        let result = match result {
            Ok(_) => OK,
            Err(error) if error.is_conflict() => CONFLICT,
            Err(_) => ERROR,
        };
        self.reconciled.get_or_create(&Reconciled { result }).observe(duration.as_secs_f64());
    }

    /// Adds a metric that is counted as it goes.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        locked(&self.registry).register(name, help, metric);
    }

    /// Adds metrics that are collected when somebody asks.
    pub fn collect(&self, collector: impl Collector) {
        locked(&self.registry).register_collector(Box::new(collector));
    }

    /// The body of `/metrics`.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut body = String::new();
        prometheus_client::encoding::text::encode(&mut body, &locked(&self.registry))?;
        Ok(body)
    }
}
