use std::time::Duration;

use assay_protocol::{Disturbance, LsmState, ParityHash, RoleCounts, RoleTime, Workload};
use hdrhistogram::{Histogram, serialization::Deserializer};

use super::*;
use crate::{
    engagement::Peaks,
    engine::Counters,
    measure::told::Told,
    metrics::crafted::{self, histogram},
    workload,
};

/// A record in which everything is filled already, with other values: what is not replaced is seen.
fn draft() -> TrialRecord {
    serde_json::from_str(include_str!("../../../protocol/tests/data/full-record.json")).unwrap()
}

/// `reader`, which is primary and paced, and `writer`, which only keeps it company.
fn results() -> Results {
    let role = |number: u64, latency: Histogram<u64>| RoleResult {
        saturated: number,
        time: RoleTime { threads: number as u32, db_seconds: number as f64, ..RoleTime::default() },
        ..crafted::role(
            RoleCounts { steps: 10 * number, ..RoleCounts::default() },
            latency,
            Duration::from_secs(number),
        )
    };
    let sum = |item| {
        let mut sum = ParityHash::default();
        sum.add(item);
        sum
    };
    Results {
        roles: [
            ("reader".to_owned(), role(3, histogram(&[(110, 90), (2010, 10)]))),
            ("writer".to_owned(), role(4, histogram(&[(7, 1)]))),
        ]
        .into(),
        work: sum(1),
        answers: sum(2),
        wrong_answers: 5,
        user_bytes: 6,
        planned_user_bytes: 7,
        policy_operations: 8,
        window: Duration::from_millis(2500),
    }
}

fn closed() -> Closed {
    let mut closed = crafted::blockstore().closed;
    closed.placement.cpuset = Some("9".to_owned());
    closed.storage.model = Some("other".to_owned());
    closed.disturbance = Disturbance { major_faults: Some(9), ..Disturbance::default() };
    closed.counters = Counters::told(&[("rocksdb.wal.bytes", 10), ("rocksdb.stall.micros", 0)], &[]);
    closed.lsm_before = LsmState { l0_files: Some(11), ..LsmState::default() };
    closed.lsm_after = LsmState { l0_files: Some(12), ..LsmState::default() };
    closed.stalls = Some(13);
    closed
}

fn filled() -> TrialRecord {
    let mut draft = draft();
    let spec = draft.spec.clone();
    let workload = workload::build(&spec.workload, 1, 2).unwrap();
    let told = Told::new(&[("default", "rocksdb.estimate-num-keys", "14")]);
    let sampler = Sampler::new(Peaks::default());
    fill(&mut draft, &spec, workload.as_ref(), &told, &results(), &closed(), sampler);
    draft
}

#[test]
fn everything_of_the_window_is_replaced() {
    let (filled, results, closed) = (filled(), results(), closed());
    assert_eq!((filled.window_started_unix_ms, filled.window_seconds), (1_700_000_000_000, 2.5));
    let evidence = &filled.evidence;
    assert_eq!((&evidence.placement, &evidence.storage), (&closed.placement, &closed.storage));
    assert_eq!(evidence.disturbance, closed.disturbance);
    assert_eq!((&evidence.lsm_before, &evidence.lsm_after), (&closed.lsm_before, &closed.lsm_after));
    assert_eq!(evidence.drift_percent, None);
    let times = results.roles.into_iter().map(|(name, role)| (name, role.time));
    assert_eq!(evidence.role_time, times.collect());
    // Counters that did not move are left out.
    assert_eq!(filled.tickers, [("rocksdb.wal.bytes".to_owned(), 10)].into());
    assert_eq!(filled.families["default"].estimated_keys, 14);
    assert!(filled.series.seconds.is_empty() && filled.time_spent["process"] == 11.0);
    // Unlike the parity of configs, what was written has all roles.
    let engagement = &evidence.engagement;
    assert_eq!((engagement.stalls, engagement.user_bytes_written, engagement.wal_bytes), (Some(13), Some(6), Some(10)));
}

#[test]
fn work_in_common_is_that_of_planned_steps() {
    let work = filled().work;
    assert_eq!(work.counts.keys().collect::<Vec<_>>(), ["reader"]);
    assert_eq!(work.counts["reader"].steps, 30);
    assert_eq!(work.hash, results().work.digest());
    assert_eq!(work.answers, Some(results().answers.digest()));
    assert_eq!((work.user_bytes, work.wrong_answers, work.policy_operations), (7, 5, 8));
}

#[test]
fn latencies_are_kept_as_they_were_counted() {
    let latency = filled().latency;
    assert_eq!(latency.len(), 2);
    let reader = &latency["reader"];
    assert_eq!((reader.count, reader.saturated, reader.from_intended_start), (100, 3, true));
    let bytes = BASE64_STANDARD.decode(&reader.histogram).unwrap();
    let kept: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(kept, results().roles["reader"].latency);

    let (mut draft, results) = (draft(), results());
    let Workload::KeyValue(workload) = &mut draft.spec.workload else { unreachable!("it is one of key and value") };
    workload.roles[0].steps_per_second = None;
    assert!(!super::latency(&draft.spec, "reader", &results.roles["reader"]).from_intended_start);
    assert!(super::latency(&draft.spec, "writer", &results.roles["writer"]).from_intended_start);
}

const LOG: &str = r#"1 EVENT_LOG_v1 {"time_micros": 10, "job": 1, "event": "flush_started", "num_memtables": 3, "flush_reason": "Write Buffer Full"}
1 EVENT_LOG_v1 {"time_micros": 11, "job": 1, "cf_name": "tuned", "event": "table_file_creation", "file_size": 100, "table_properties": {"compression": "LZ4"}}
1 EVENT_LOG_v1 {"time_micros": 12, "job": 1, "event": "flush_finished", "lsm_state": [4]}
1 EVENT_LOG_v1 {"time_micros": 13, "job": 2, "event": "flush_started", "num_memtables": 9, "flush_reason": "Write Buffer Manager"}
1 EVENT_LOG_v1 {"time_micros": 14, "job": 2, "cf_name": "other", "event": "table_file_creation", "file_size": 200}
1 EVENT_LOG_v1 {"time_micros": 15, "job": 2, "event": "flush_finished", "lsm_state": [8]}
1 EVENT_LOG_v1 {"time_micros": 16, "job": 3, "event": "compaction_started"}
1 EVENT_LOG_v1 {"time_micros": 17, "job": 3, "cf_name": "other", "event": "table_file_creation", "file_size": 50}
1 EVENT_LOG_v1 {"time_micros": 18, "job": 3, "event": "compaction_finished", "output_level": 6, "lsm_state": [0]}
1 EVENT_LOG_v1 {"time_micros": 99, "job": 4, "event": "compaction_finished", "output_level": 6}
"#;

fn engagement() -> Engagement {
    let idle = ["tuned", "idle"].map(str::to_owned);
    Engagement { idle_families: Some(idle.into()), l0_files_peak: Some(1), ..Engagement::default() }
}

#[test]
fn events_are_of_the_tuned_families_but_for_what_all_share() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("LOG"), LOG).unwrap();
    let mut engagement = engagement();
    let all = fill_events(&mut engagement, folder.path(), &["tuned".to_owned()], 5, 50).unwrap();
    assert_eq!((all.flushes, all.compactions), (2, 1));
    let expected = Engagement {
        flushes: Some(1),
        compactions: Some(0),
        l0_files_peak: Some(4),
        filled_memtables: Some(1),
        immutable_memtables_peak: Some(3),
        levels_compressed: Some(vec![0]),
        idle_families: Some(vec!["idle".to_owned()]),
        // Of all families.
        buffer_manager_flushes: Some(1),
        largest_file_bytes: Some(200),
        flushes_due_peak: Some(1),
        compactions_due_peak: Some(1),
        ..Engagement::default()
    };
    assert_eq!(engagement, expected);
}

#[test]
fn without_the_log_nothing_of_it_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let mut engagement = engagement();
    assert_eq!(fill_events(&mut engagement, folder.path(), &[], 5, 50), None);
    assert_eq!(engagement, Engagement { l0_files_peak: Some(1), ..Engagement::default() });
}
