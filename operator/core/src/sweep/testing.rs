//! Nights to test with.

use std::collections::BTreeMap;

use assay_protocol::Digest;
use jiff::{SignedDuration, Timestamp};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Fingerprint, Night, Outcome, Point, Reference, Series, Subject, Trigger, VERSION};
use crate::stats::Scale;

/// The night of a day, counted from 1 January 2026, at 2 o'clock.
pub fn time(day: u32) -> Timestamp {
    let first: Timestamp = "2026-01-01T02:00:00Z".parse().unwrap();
    first + SignedDuration::from_hours(24 * i64::from(day))
}

pub fn series(subject: &str, scenario: &str, metric: &str) -> Series {
    Series { subject: subject.to_owned(), scenario: scenario.to_owned(), metric: metric.to_owned() }
}

pub fn reference(name: &str) -> Reference {
    Reference { name: name.to_owned(), image: Some(image(name)), config: Digest::of(b"config") }
}

pub fn subject(name: &str) -> Subject {
    Subject {
        name: name.to_owned(),
        image: Some(image(name)),
        revision: None,
        config: Digest::of(b"config"),
        settings: None,
        unchanged: false,
    }
}

pub fn image(name: &str) -> String {
    format!("registry.example/bench@sha256:{0}{0}", Digest::of(name.as_bytes()))
}

/// A measured night without points.
pub fn measured(day: u32) -> Night {
    let workloads = ["fill", "read"].map(|name| (name.to_owned(), Digest::of(name.as_bytes())));
    Night {
        version: VERSION,
        sweep: "nightly".to_owned(),
        night: time(day),
        trigger: Trigger::Schedule,
        run_now: None,
        outcome: Outcome::Measured,
        reason: None,
        message: None,
        experiment: Some(format!("nightly-{day}")),
        key: None,
        fingerprint: Some(Fingerprint {
            machine: "c6id".to_owned(),
            protocol: 3,
            workloads: BTreeMap::from(workloads),
        }),
        reference: Some(reference("v1")),
        subjects: vec![subject("main")],
        points: Vec::new(),
        gaps: Vec::new(),
        failures: Vec::new(),
        visit: None,
        accepted: None,
    }
}

/// A night with one point, of `main` in `fill`.
pub fn night(day: u32, effect: f64) -> Night {
    let point = Point::new(series("main", "fill", "throughput"), Scale::Log, effect, 0.01, 6, None);
    Night { points: vec![point], ..measured(day) }
}

/// A night that was not measured.
pub fn unmeasured(day: u32, outcome: Outcome, reason: &str) -> Night {
    let (reason, subjects) = (Some(reason.to_owned()), Vec::new());
    Night { outcome, reason, experiment: None, fingerprint: None, reference: None, subjects, ..measured(day) }
}

/// Normal noise from a seed, by the sum of twelve uniform numbers.
pub struct Noise(ChaCha8Rng);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A night of 50 series with noise as it is measured: 5 subjects, 2 scenarios, 5 metrics.
pub fn full_night(day: u32, noise: &mut Noise) -> Night {
    let mut night = measured(day);
    night.subjects = (0..5).map(|number| subject(&format!("branch-{number}-{day}"))).collect();
    for (number, subject) in night.subjects.iter_mut().enumerate() {
        subject.name = format!("branch-{number}");
        subject.revision = Some(Digest::of(&[number as u8, day as u8]).to_string());
        for scenario in ["fill", "read"] {
            for metric in
                ["throughput", "step_latency_p50", "step_latency_p99", "step_latency_p999", "write_amplification"]
            {
                let series = series(&subject.name, scenario, metric);
                let (effect, error) = (0.011 * noise.normal(), 0.01 * (0.6 + noise.uniform()));
                night.points.push(Point::new(series, Scale::Log, effect, error, 6, None));
            }
        }
    }
    night
}
