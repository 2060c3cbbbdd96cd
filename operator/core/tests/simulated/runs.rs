//! Runs as a bench would report them: summaries that no gate objects to, with what the world did to them.

use assay_core::attempt::{Attempt, Lost, LostReason};
use assay_protocol::{Digest, Summary, TrialId, VERSION};
use serde_json::json;

use super::{
    STEPS, Setting,
    world::{Behaviour, Run},
};

/// Share of a run's time that it spends in the database or the generator.
const BUSY_PERCENT: f64 = 95.0;
/// Steps of a run whose latency is beyond the histogram, where any is: more than belong to the 99th percentile.
const SATURATED: u64 = 2 * (STEPS / 100.0) as u64;
/// Share of its CPU that the baseline wants.
const DEMAND: f64 = 0.8;
/// Spread of a cost that does not depend on speed.
const COST_SPREAD: f64 = 0.01;

/// A disturbance that makes a run not count.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    /// The wall clock moves, which slows nothing.
    Clock,
    Steal,
    Foreign,
}

/// Other properties of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Also {
    pub disturbed: Option<Cause>,
    pub waits: bool,
    pub saturated: bool,
    pub zero: bool,
}

/// Values of the metrics that are judged, of a run of a config that behaves so.
pub fn measured(setting: &Setting, run: &Run, own: Option<&Behaviour>, zero: bool) -> [(String, f64); 4] {
    let slowness = 1000.0 / run.throughput;
    let guardrail = setting.guardrail.map(|(metric, _)| metric);
    let writes = match (setting.metric, guardrail) {
        // A cost that has nothing to do with the speed that is guarded.
        ("write_amplification", Some(_)) => 10.0 * own.map_or(1.0, |own| own.cost) * (COST_SPREAD * run.luck).exp(),
        ("write_amplification", None) => slowness,
        _ => 1.0 + slowness,
    };
    let is_zero = zero || (setting.world.zero_guardrail && guardrail == Some("write_amplification"));
    [
        ("throughput".to_owned(), run.throughput),
        ("drained_throughput".to_owned(), run.drained),
        ("write_amplification".to_owned(), if is_zero { 0.0 } else { writes }),
        ("step_latency_p99".to_owned(), 100.0 * slowness),
    ]
}

/// A summary from which all are made.
pub struct Template(Summary);

impl Template {
    pub fn new(plan: &Digest) -> Self {
        let digest = |text: &str| Digest::of(text.as_bytes());
        let trial =
            TrialId { scenario: String::new(), block: 0, config: String::new(), replicate: 0, order: 0, attempt: 0 };
        let summary = json!({
            "version": VERSION,
            "plan": plan,
            "record": digest("record"),
            "startedUnixMs": 1_700_000_000_000_u64,
            "windowSeconds": 1.0,
            "metrics": {},
            "parity": {
                "work": digest("work"), "counts": digest("counts"), "userBytes": 120_000, "answers": digest("answers"),
                "wrongAnswers": 0, "build": digest("build"), "buildKnown": true, "machine": digest("machine"),
                "boot": digest("boot"), "dataset": digest("dataset"), "datasetFiles": digest("files"),
            },
            "options": {
                "baseline": digest("base"), "config": digest("base"), "effective": digest("base"), "declared": 0,
                "inert": {}, "sanitised": {}, "undeclared": {},
            },
            "placement": {
                "requestedCpus": 1, "affinityCpus": 1, "onlineCpus": 4, "stable": true, "wholeCores": true, "quotaCpus": 0.0,
            },
            "storage": {
                "nvme": true, "rotational": false, "freePercent": 70.0, "foreignWritePercent": 0.0, "replacedSysfs": false,
            },
            "disturbance": {
                "throttledPeriods": 0, "stealPercent": 0.0, "foreignCpuPercent": 0.0,
                "foreignCpuResolutionPercent": 0.1, "cpuPressureSomePercent": 20.0, "memoryPressureFullPercent": 0.0,
                "clockStepSeconds": 0.0,
            },
            "engagement": {
                "flushes": 5, "compactions": 2, "l0FilesPeak": 4, "filledMemtables": 5, "fullestMemtableBytes": 1_048_576,
                "flushesDuePeak": 1000, "compactionsDuePeak": 1000, "idleFamilies": [], "stalls": 0, "userBytesWritten": 120_000,
                "walBytes": 130_000, "blockCacheHits": 10, "blockCacheMisses": 10, "bytesDecompressed": 50_000,
            },
            "primary": {
                "dbPercent": 90.0, "generatorPercent": 5.0, "idlePercent": 0.0, "computePercent": 0.0,
                "runQueuePercent": 1.0,
            },
            "steady": {
                "settledBefore": true, "debtInBytes": 0, "debtOutBytes": 0, "driftPercent": 0.0, "saturatedSteps": 0,
            },
            "trial": trial,
        });
        Self(serde_json::from_value(summary).unwrap())
    }

    fn of(&self, id: TrialId, started_unix_ms: u64) -> Summary {
        let mut summary = self.0.clone();
        summary.started_unix_ms = started_unix_ms;
        let is_baseline = id.config == "config-0";
        if !is_baseline {
            let own = Digest::of(id.config.as_bytes());
            (summary.options.config, summary.options.effective) = (Some(own.clone()), Some(own));
            summary.options.declared = 1;
        }
        summary.trial = id;
        summary
    }

    /// A run that ended, of a config that behaves so.
    pub fn ended(
        &self,
        setting: &Setting,
        id: TrialId,
        run: Run,
        own: Option<&Behaviour>,
        started: u64,
        also: Also,
    ) -> Attempt {
        let mut summary = self.of(id, started);
        let window = STEPS / run.throughput;
        summary.window_seconds = window;
        // The same work at any speed: CPU per step is the config's own.
        let per_step = own.map_or(1.0, |own| own.cpu) * DEMAND / 1000.0;
        let wanted = per_step * STEPS / (1.0 - run.taken);
        let taken = Some(100.0 * (wanted - per_step * STEPS) / window);
        let seen = &mut summary.disturbance;
        match also.disturbed {
            // Others on the machine, where the hypervisor is not meant.
            Some(Cause::Foreign) => seen.foreign_cpu_percent = taken,
            Some(Cause::Clock) => (seen.steal_percent, seen.clock_step_seconds) = (taken, Some(9.0)),
            Some(Cause::Steal) | None => seen.steal_percent = taken,
        }
        if also.waits {
            seen.memory_pressure_full_percent = Some(9.0);
        }
        if also.saturated {
            summary.steady.saturated_steps = SATURATED;
        }
        summary.primary.generator_percent = setting.world.generator;
        summary.primary.db_percent = BUSY_PERCENT - setting.world.generator;
        let latency = summary.primary.db_percent / 100.0 * 1e6 / run.throughput;
        summary.metrics.extend(measured(setting, &run, own, also.zero));
        summary
            .metrics
            .extend([("step_latency_mean".to_owned(), latency), ("cpu_seconds_per_step".to_owned(), per_step)]);
        Attempt::Finished(summary.into())
    }

    /// An attempt without a record.
    pub fn lost(&self, id: TrialId, started: u64, reason: LostReason) -> Attempt {
        let summary = self.of(id, started);
        let message = match reason {
            LostReason::Evicted => "The node was low on resource: ephemeral-storage.",
            _ => "as planted",
        };
        Attempt::from(Lost {
            plan: summary.plan.clone(),
            trial: summary.trial.clone(),
            started_unix_ms: started,
            boot: summary.parity.boot.clone(),
            reason,
            message: message.to_owned(),
        })
    }

    /// A run that failed under its config.
    pub fn failed(&self, id: TrialId, started: u64) -> Attempt {
        let mut summary = self.of(id, started);
        summary.failure =
            Some(serde_json::from_value(json!({"kind": "EngineError", "message": "as planted"})).unwrap());
        Attempt::Finished(summary.into())
    }
}
