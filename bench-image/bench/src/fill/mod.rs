//! Makes the measurements of a record from what was read at both ends of the window.

use std::path::Path;

use assay_protocol::{Engagement, Latency, TrialRecord, TrialSpec, Work};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use hdrhistogram::serialization::{Serializer as _, V2Serializer};

use crate::{
    driver::{Results, RoleResult},
    engine::Properties,
    events::{self, Events},
    measure::{self, Sampler},
    time_spent::time_spent,
    watch::Closed,
    workload::Workload,
};

pub fn fill(
    draft: &mut TrialRecord,
    spec: &TrialSpec,
    workload: &dyn Workload,
    engine: &dyn Properties,
    results: &Results,
    closed: &Closed,
    sampler: Sampler,
) {
    draft.window_started_unix_ms = closed.opening_unix_us / 1000;
    draft.window_seconds = results.window.as_secs_f64();
    draft.work = Work {
        hash: results.work.digest(),
        counts: planned(spec, results).map(|(name, role)| (name.clone(), role.counts)).collect(),
        user_bytes: results.planned_user_bytes,
        live_bytes: None,
        answers: workload.answers_are_deterministic().then(|| results.answers.digest()),
        wrong_answers: results.wrong_answers,
        policy_operations: results.policy_operations,
    };
    draft.latency = results.roles.iter().map(|(name, role)| (name.clone(), latency(spec, name, role))).collect();
    draft.families = measure::family_facts(engine, &sampler.peaks.l0_files);
    draft.tickers = closed.counters.moved();
    draft.time_spent = time_spent(results, closed);

    let evidence = &mut draft.evidence;
    evidence.drift_percent = sampler.drift_percent();
    evidence.role_time = results.roles.iter().map(|(name, role)| (name.clone(), role.time.clone())).collect();
    evidence.engagement = Engagement {
        stalls: closed.stalls,
        user_bytes_written: Some(results.user_bytes),
        ..sampler.peaks.engagement(&draft.families, &closed.counters)
    };
    evidence.placement = closed.placement.clone();
    evidence.storage = closed.storage.clone();
    evidence.disturbance = closed.disturbance.clone();
    evidence.lsm_before = closed.lsm_before.clone();
    evidence.lsm_after = closed.lsm_after.clone();
    draft.series = sampler.into_series();
}

/// Bytes of live keys and values that the steps have left of a dataset of so many. The driver counts those of the window; a warm-up is
/// always made as planned.
pub fn live_bytes(spec: &TrialSpec, workload: &dyn Workload, results: &Results, loaded: u64) -> u64 {
    let roles = spec.workload.kind().roles();
    let measured = |name: &str| results.roles.get(name).map_or(0, |role| role.counts.steps);
    let steps: Vec<u64> = roles.iter().map(|role| role.warmup_steps + measured(&role.name)).collect();
    workload.live_bytes(loaded, &steps)
}

/// Roles whose steps were planned: what they did, all configs have in common.
fn planned<'a>(spec: &TrialSpec, results: &'a Results) -> impl Iterator<Item = (&'a String, &'a RoleResult)> {
    let roles = spec.workload.kind().roles();
    let is_planned = move |name: &str| roles.iter().any(|role| role.name == name && !role.until_primary_ends);
    results.roles.iter().filter(move |(name, _)| is_planned(name))
}

/// Adds what only the LOG of the closed database tells, and returns the events of all families in the window.
pub fn fill_events(
    engagement: &mut Engagement,
    trial_dir: &Path,
    tuned: &[String],
    from_unix_us: u64,
    to_unix_us: u64,
) -> Option<Events> {
    let Some(log) = events::read_log(trial_dir) else {
        engagement.idle_families = None;
        return None;
    };
    let all = events::count(&log, None, from_unix_us, to_unix_us);
    let tuned = events::count(&log, Some(tuned), from_unix_us, to_unix_us);
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
    Some(all)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod live_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
