//! What pods leave when they end: the records that the tests of the CLI and on a cluster have, with seeded mishaps.

use assay_api::names::{INPUT_ANNOTATION, ROLE_CHECK, ROLE_LABEL, ROLE_TRIAL};
use assay_protocol::output::record_line;
use assay_protocol::{Digest, Exit, OptionsAnswer, Summary, TrialSpec};
use serde_json::Value;

use super::random::Random;
use super::record::{Measured, record};

/// How the only container of a pod ends.
#[derive(Clone, Debug)]
pub struct End {
    pub code: i32,
    pub reason: &'static str,
    pub message: String,
    pub log: String,
}

impl End {
    fn new(exit: Exit, message: String, log: String) -> Self {
        let reason = if exit == Exit::Completed { "Completed" } else { "Error" };
        Self { code: exit as i32, reason, message, log }
    }

    /// By a signal.
    pub fn killed(code: i32) -> Self {
        Self { code, reason: "Error", message: String::new(), log: String::new() }
    }
}

/// How a pod will end that has begun at this time, on a node with this boot.
pub fn end_of(pod: &Value, boot: &str, started_unix_ms: u64, mishaps: u64, random: &mut Random) -> End {
    let input = pod["metadata"]["annotations"][INPUT_ANNOTATION].as_str().unwrap_or_default();
    match pod["metadata"]["labels"][ROLE_LABEL].as_str() {
        Some(ROLE_CHECK) => {
            let answer = serde_json::to_string(&OptionsAnswer::default()).unwrap();
            End::new(Exit::Completed, answer, String::new())
        }
        Some(ROLE_TRIAL) => trial(input, boot, started_unix_ms, mishaps, random),
        // One that looks up an image, or keeps a node.
        _ => End::new(Exit::Completed, String::new(), String::new()),
    }
}

/// Steps a second, undisturbed: more jobs do more.
fn throughput(spec: &TrialSpec) -> f64 {
    match spec.config.db_options.get("max_background_jobs").map(String::as_str) {
        Some("4") => 1300.0,
        Some("8") => 1700.0,
        _ => 1000.0,
    }
}

/// What a trial measures that begins at this time.
fn measured(spec: &TrialSpec, started_unix_ms: u64, boot_id: Option<String>, random: &mut Random) -> Measured {
    // Of one attempt everybody can tell it from every other one.
    let noise = 1.0 + 0.01 * (random.below(2_000_001) as f64 / 1e6 - 1.0);
    let throughput = throughput(spec) * noise;
    Measured { started_unix_ms, throughput, other: noise, boot_id, cpus: Some("0".to_owned()) }
}

/// The summary of an undisturbed trial.
pub fn undisturbed(spec: TrialSpec, random: &mut Random) -> Summary {
    let (digest, measured) = (Digest::of_json(&spec).unwrap(), measured(&spec, 0, None, random));
    let record = record(spec, digest, measured);
    Summary::of(&record, &serde_json::to_vec(&record).unwrap()).unwrap()
}

fn trial(input: &str, boot: &str, started_unix_ms: u64, mishaps: u64, random: &mut Random) -> End {
    if random.happens(mishaps) {
        match random.below(5) {
            0 => return End::killed(9),
            1 => return End { reason: "OOMKilled", ..End::killed(137) },
            2 => return End::new(Exit::EnvironmentRefused, String::new(), "the disk is full\n".to_owned()),
            3 => return End::new(Exit::Completed, "not a summary".to_owned(), String::new()),
            _ => return End::killed(139),
        }
    }
    let spec = TrialSpec::from_json(input.as_bytes()).unwrap();
    let measured = measured(&spec, started_unix_ms, Some(boot.to_owned()), random);
    let mut record = record(spec, Digest::of(input.as_bytes()), measured);
    if random.happens(mishaps) {
        record.evidence.disturbance.throttled_periods = Some(3);
    }
    let json = serde_json::to_vec(&record).unwrap();
    let summary = serde_json::to_string(&Summary::of(&record, &json).unwrap()).unwrap();
    // The log may be gone before anybody has read it.
    let log = if random.happens(mishaps) { String::new() } else { String::from_utf8(record_line(&json)).unwrap() };
    End::new(Exit::Completed, summary, log)
}
