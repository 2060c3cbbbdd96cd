//! Makes the measurements of a record from what was read at both ends of the window.

use std::{collections::BTreeMap, path::Path};

use assay_protocol::{Engagement, Latency, RoleCounts, SAVES, TrialRecord, TrialSpec, Work};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use hdrhistogram::serialization::{Serializer as _, V2Serializer};

use crate::{
    driver::{Results, RoleResult},
    engine::Engine,
    events,
    measure::{self, Sampler},
    time_spent::time_spent,
    watch::Closed,
    workload::Workload,
};

const QUANTILES: &[(&str, f64)] =
    &[("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

pub fn fill(
    draft: &mut TrialRecord,
    spec: &TrialSpec,
    workload: &dyn Workload,
    engine: &Engine,
    results: &Results,
    closed: Closed,
    sampler: Sampler,
) {
    draft.window_started_unix_ms = closed.opening_unix_us / 1000;
    draft.window_seconds = results.window.as_secs_f64();
    draft.work = Work {
        hash: results.work.digest(),
        counts: planned(spec, results).map(|(name, role)| (name.clone(), role.counts)).collect(),
        user_bytes: results.planned_user_bytes,
        answers: workload.answers_are_deterministic().then(|| results.answers.digest()),
        wrong_answers: results.wrong_answers,
        policy_operations: results.policy_operations,
    };
    draft.latency = results.roles.iter().map(|(name, role)| (name.clone(), latency(spec, name, role))).collect();
    draft.families = measure::family_facts(engine, &sampler.peaks.l0_files);
    draft.tickers = closed.counters.moved();
    draft.time_spent = time_spent(results, &closed);

    let primary = spec.workload.primary_role().and_then(|role| results.roles.get(&role.name));
    draft.metrics = primary.map(|primary| metrics(spec, results, primary, &closed)).unwrap_or_default();

    let evidence = &mut draft.evidence;
    evidence.drift_percent = sampler.drift_percent();
    evidence.role_time = results.roles.iter().map(|(name, role)| (name.clone(), role.time.clone())).collect();
    evidence.engagement = Engagement {
        stalls: closed.stalls,
        user_bytes_written: Some(results.user_bytes),
        ..sampler.peaks.engagement(&draft.families, &closed.counters)
    };
    evidence.placement = closed.placement;
    evidence.storage = closed.storage;
    evidence.disturbance = closed.disturbance;
    evidence.lsm_before = closed.lsm_before;
    evidence.lsm_after = closed.lsm_after;
    draft.series = sampler.into_series();
}

/// Roles whose steps were planned: what they did, all configs have in common.
fn planned<'a>(spec: &TrialSpec, results: &'a Results) -> impl Iterator<Item = (&'a String, &'a RoleResult)> {
    let roles = spec.workload.kind().roles();
    let is_planned = move |name: &str| roles.iter().any(|role| role.name == name && !role.until_primary_ends);
    results.roles.iter().filter(move |(name, _)| is_planned(name))
}

/// Adds what only the LOG of the closed database tells.
pub fn fill_events(draft: &mut TrialRecord, trial_dir: &Path, tuned: &[String], from_unix_us: u64, to_unix_us: u64) {
    let Some(log) = events::read_log(trial_dir) else {
        draft.evidence.engagement.idle_families = None;
        return;
    };
    let all = events::count(&log, None, from_unix_us, to_unix_us);
    let tuned = events::count(&log, Some(tuned), from_unix_us, to_unix_us);
    draft.metrics.insert("flush_count".to_owned(), all.flushes as f64);
    draft.metrics.insert("compaction_count".to_owned(), all.compactions as f64);
    let engagement = &mut draft.evidence.engagement;
    engagement.buffer_manager_flushes = Some(all.buffer_manager_flushes);
    engagement.largest_file_bytes = Some(all.largest_file_bytes);
    engagement.flushes_due_peak = engagement.flushes_due_peak.max(Some(all.running_flushes_peak));
    engagement.compactions_due_peak = engagement.compactions_due_peak.max(Some(all.running_compactions_peak));
    engagement.flushes = Some(tuned.flushes);
    engagement.compactions = Some(tuned.compactions);
    engagement.filled_memtables = Some(tuned.filled_memtables);
    engagement.immutable_memtables_peak = engagement.immutable_memtables_peak.max(Some(tuned.flushed_together_peak));
    engagement.l0_files_peak = engagement.l0_files_peak.max(Some(tuned.l0_files_peak));
    engagement.levels_compressed = Some(tuned.levels_compressed.into_iter().collect());
    if let Some(idle) = &mut engagement.idle_families {
        idle.retain(|family| !tuned.flushed_families.contains(family));
    }
}

fn metrics(spec: &TrialSpec, results: &Results, primary: &RoleResult, closed: &Closed) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    // What is unknown, or no number, stays absent: it must not be taken for a measurement.
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            metrics.insert(name.to_owned(), value);
        }
    };
    let window = results.window.as_secs_f64();
    let steps = primary.counts.steps as f64;
    let counted =
        |pick: fn(&RoleCounts) -> u64| results.roles.values().map(|role| pick(&role.counts)).sum::<u64>() as f64;
    let operations = counted(|counts| counts.puts + counts.gets + counts.deletes + counts.scans);
    put("throughput", Some(steps / primary.elapsed.as_secs_f64()));
    put("operation_throughput", Some(operations / window));

    if let Some((name, per_step)) = spec.workload.kind().unit() {
        put(name, Some(per_step * steps / primary.elapsed.as_secs_f64()));
    }

    let us = |nanos: f64| Some(nanos / 1e3);
    let saves = results.roles.get(SAVES).map(|saves| ("save_latency", saves));
    for (metric, role) in [("step_latency", primary)].into_iter().chain(saves) {
        put(&format!("{metric}_mean"), us(role.latency.mean()));
        for (name, quantile) in QUANTILES {
            put(&format!("{metric}_{name}"), us(role.latency.value_at_quantile(*quantile) as f64));
        }
    }

    let ticker = |name: &str| closed.counters.get(name) as f64;
    let (flushed, compacted) = (ticker("rocksdb.flush.write.bytes"), ticker("rocksdb.compact.write.bytes"));
    let (read, written) = (counted(|counts| counts.bytes_read), results.user_bytes as f64);
    put("write_amplification", Some((flushed + compacted) / written));
    let from_files = ticker("rocksdb.last.level.read.bytes") + ticker("rocksdb.non.last.level.read.bytes");
    put("read_amplification", Some((from_files - ticker("rocksdb.compact.read.bytes")).max(0.0) / read));
    let live = closed.lsm_after.live_sst_bytes.zip(closed.lsm_after.live_data_bytes);
    put("space_amplification", live.map(|(files, data)| files as f64 / data as f64));

    let stalled = ticker("rocksdb.stall.micros") / 1e6;
    // RocksDB counts the thread that leads the queue of writers; the others wait behind it.
    put("stall_fraction", Some(stalled / window));
    put("stall_seconds", Some(stalled));
    put("stall_count", closed.stalls.map(|count| count as f64));
    put("flush_bytes", Some(flushed));
    put("compaction_read_bytes", Some(ticker("rocksdb.compact.read.bytes")));
    put("compaction_write_bytes", Some(compacted));
    put("compaction_seconds", Some(closed.counters.compaction_seconds()));
    put("compaction_cpu_seconds", Some(ticker("rocksdb.compaction.total.time.cpu_micros") / 1e6));
    put("wal_bytes", Some(ticker("rocksdb.wal.bytes")));
    put("device_read_bytes", closed.usage.read_bytes.map(|bytes| bytes as f64));
    put("device_write_bytes", closed.usage.write_bytes.map(|bytes| bytes as f64));
    put("cpu_user_seconds", closed.usage.user_seconds);
    put("cpu_system_seconds", closed.usage.system_seconds);
    let cpu = closed.usage.user_seconds.zip(closed.usage.system_seconds).map(|(user, system)| user + system);
    put("cpu_seconds_per_step", cpu.map(|cpu| cpu / steps));
    put("rss_peak_bytes", closed.peak_rss.map(|bytes| bytes as f64));
    put("db_bytes", Some(closed.db_bytes as f64));
    put("debt_in_bytes", closed.lsm_before.pending_compaction_bytes.map(|bytes| bytes as f64));
    put("debt_out_bytes", closed.lsm_after.pending_compaction_bytes.map(|bytes| bytes as f64));
    metrics
}

fn latency(spec: &TrialSpec, name: &str, role: &RoleResult) -> Latency {
    let mut bytes = Vec::new();
    let encoded = V2Serializer::new().serialize(&role.latency, &mut bytes).is_ok();
    Latency {
        count: role.latency.len(),
        saturated: role.saturated,
        from_intended_start: spec
            .workload
            .kind()
            .roles()
            .iter()
            .any(|role| role.name == name && role.interval_ns.is_some()),
        histogram: if encoded { BASE64_STANDARD.encode(&bytes) } else { String::new() },
    }
}
