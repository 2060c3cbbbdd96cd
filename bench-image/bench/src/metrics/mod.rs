//! The metrics of a trial, from what was measured and from nothing else: no database, no clock. What each means, with its formula and
//! source, stands beside its name in the protocol.

use std::{collections::BTreeMap, time::Duration};

use assay_protocol::{RoleCounts, SAVES, Workload as WorkloadSpec};

use crate::{
    driver::{Results, RoleResult},
    events::Events,
    watch::{Closed, Drained},
    workload::Leftovers,
};

const QUANTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// All that the metrics of a trial are made of.
pub struct Measured<'a> {
    pub workload: &'a WorkloadSpec,
    pub results: &'a Results,
    pub closed: &'a Closed,
    pub drained: &'a Drained,
    /// Of keys and values, as the workload leaves them.
    pub live_bytes: Option<u64>,
    pub leftovers: Option<Leftovers>,
    /// Of the window; `None` where the LOG is not whole.
    pub events: Option<&'a Events>,
}

/// By name. What is unknown, or no number, is absent: it must not be taken for a measurement.
pub fn metrics(measured: &Measured<'_>) -> BTreeMap<String, f64> {
    let Measured { workload, results, closed, drained, live_bytes, leftovers, events } = measured;
    let mut metrics = BTreeMap::new();
    let Some(primary) = workload.primary_role().and_then(|role| results.roles.get(&role.name)) else { return metrics };
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
    let drain = drained.wait.as_secs_f64();
    put("throughput", Some(steps / primary.elapsed.as_secs_f64()));
    put("operation_throughput", Some(operations / window));
    put("drained_throughput", Some(steps / (bound_end(workload, results, primary).as_secs_f64() + drain)));
    put("drain_seconds", Some(drain));
    if let Some((name, per_step)) = workload.kind().unit() {
        put(name, Some(per_step * steps / primary.elapsed.as_secs_f64()));
    }

    let saves = results.roles.get(SAVES).map(|saves| ("save_latency", saves));
    for (metric, role) in [("step_latency", primary)].into_iter().chain(saves) {
        // Without a step there is no latency, not one of 0.
        let steps = Some(role.counts.steps as f64).filter(|steps| *steps > 0.0);
        put(&format!("{metric}_mean"), steps.map(|steps| role.steps_ns as f64 / steps / 1e3));
        put(&format!("{metric}_max"), steps.map(|_| role.longest_ns as f64 / 1e3));
        let known = Some(&role.latency).filter(|latency| !latency.is_empty());
        for (name, quantile) in QUANTILES {
            let nanos = known.map(|latency| latency.value_at_quantile(quantile));
            put(&format!("{metric}_{name}"), nanos.map(|nanos| nanos as f64 / 1e3));
        }
    }

    let ticker = |name: &str| closed.counters.get(name) as f64;
    let (flush, compaction) = ("rocksdb.flush.write.bytes", "rocksdb.compact.write.bytes");
    let (read, written) = (counted(|counts| counts.bytes_read), results.user_bytes as f64);
    let rewritten = drained.counters.get(flush) + drained.counters.get(compaction);
    put("write_amplification", Some(rewritten as f64 / written));
    let from_files = ticker("rocksdb.last.level.read.bytes") + ticker("rocksdb.non.last.level.read.bytes");
    put("read_amplification", Some((from_files - ticker("rocksdb.compact.read.bytes")).max(0.0) / read));
    let files = closed.lsm_after.live_sst_bytes.zip(closed.lsm_after.live_blob_bytes);
    let space = files.zip(*live_bytes).map(|((tables, blobs), live)| (tables + blobs) as f64 / live as f64);
    put("space_amplification", space);

    let stalled = ticker("rocksdb.stall.micros") / 1e6;
    // RocksDB counts the thread that leads the queue of writers; the others wait behind it.
    put("stall_fraction", Some(stalled / window));
    put("stall_seconds", Some(stalled));
    put("stall_count", closed.stalls.map(|count| count as f64));
    put("flush_count", events.map(|events| events.flushes as f64));
    put("flush_bytes", Some(ticker(flush)));
    put("compaction_count", events.map(|events| events.compactions as f64));
    put("compaction_read_bytes", Some(ticker("rocksdb.compact.read.bytes")));
    put("compaction_write_bytes", Some(ticker(compaction)));
    put("compaction_seconds", Some(closed.counters.compaction_seconds()));
    put("compaction_cpu_seconds", Some(ticker("rocksdb.compaction.total.time.cpu_micros") / 1e6));
    put("wal_bytes", Some(ticker("rocksdb.wal.bytes")));
    put("device_read_bytes", closed.usage.read_bytes.map(|bytes| bytes as f64));
    put("device_write_bytes", closed.usage.write_bytes.map(|bytes| bytes as f64));
    put("cpu_user_seconds", closed.usage.user_seconds);
    put("cpu_system_seconds", closed.usage.system_seconds);
    let cpu = drained.usage.user_seconds.zip(drained.usage.system_seconds).map(|(user, system)| user + system);
    put("cpu_seconds_per_step", cpu.map(|cpu| cpu / steps));
    put("rss_peak_bytes", closed.peak_rss.map(|bytes| bytes as f64));
    put("db_bytes", Some(closed.db_bytes as f64));
    put("debt_in_bytes", closed.lsm_before.pending_compaction_bytes.map(|bytes| bytes as f64));
    put("debt_out_bytes", closed.lsm_after.pending_compaction_bytes.map(|bytes| bytes as f64));

    if let Some(Leftovers { dangling_rows, oldest_slot, removed_below }) = *leftovers {
        put("dangling_rows", Some(dangling_rows as f64));
        // No number where nothing was to be removed.
        let still = removed_below.saturating_sub(oldest_slot.unwrap_or(removed_below));
        put("overdue_percent", Some(100.0 * still as f64 / removed_below as f64));
    }
    metrics
}

/// When the primary role was done with all that is bound to it: what follows it finishes its work, and what keeps it company its steps
/// that were due, so that nobody wins by slowing these down.
fn bound_end(workload: &WorkloadSpec, results: &Results, primary: &RoleResult) -> Duration {
    let roles = workload.kind().roles();
    let bound = roles
        .iter()
        .filter(|role| role.until_primary_ends || role.follows.is_some_and(|follows| follows.leader == 0))
        .filter_map(|role| results.roles.get(&role.name));
    bound.map(|role| role.elapsed).fold(primary.elapsed, Ord::max)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub mod crafted;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
