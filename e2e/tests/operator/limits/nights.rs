//! What a sweep takes that remembers three years.

use assay_api::{TuningHistory, TuningSweep};
use assay_core::stats::Scale;
use assay_core::sweep::{
    Fingerprint, Night, Object, Outcome, Point, Reference, Ring, Series, Subject, Trigger, VERSION,
};
use assay_protocol::Digest;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use serde_json::json;

use crate::bench::Bench;
use crate::lab::{Lab, SOON};
use crate::nights::sweep;

const NIGHTS: u32 = 1100;
const SUBJECTS: usize = 5;
const METRICS: [&str; 5] =
    ["throughput", "step_latency_p50", "step_latency_p99", "step_latency_p999", "write_amplification"];
/// Nights that are added to them.
const MORE: usize = 20;
/// A year of fifty series, as etcd keeps it.
const BYTES_OF_A_YEAR: usize = 5 << 19;
const MIB_OF_THE_OPERATOR: u64 = 256;

/// Numbers that don't compress, the same in every run (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators").
struct Noise(u64);

impl Noise {
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn night(sweep: &str, day: u32, noise: &mut Noise) -> Night {
    let mut draw = || noise.draw();
    let first: Timestamp = "2023-01-01T02:00:00Z".parse().expect("a time");
    let digest = |of: &str| Digest::of(of.as_bytes());
    let image = |of: String| format!("registry.example/bench@sha256:{0}{0}", Digest::of(of.as_bytes()));
    let names: Vec<String> = (0..SUBJECTS).map(|number| format!("branch-{number}")).collect();
    let mut points = Vec::new();
    for subject in &names {
        for scenario in ["fill", "read"] {
            for metric in METRICS {
                let series =
                    Series { subject: subject.clone(), scenario: scenario.to_owned(), metric: metric.to_owned() };
                let (effect, error) = (0.02 * draw() - 0.01, 0.01 * (0.5 + draw()));
                points.push(Point::new(series, Scale::Log, effect, error, 6, None));
            }
        }
    }
    Night {
        version: VERSION,
        sweep: sweep.to_owned(),
        night: first + SignedDuration::from_hours(24 * i64::from(day)),
        trigger: Trigger::Schedule,
        run_now: None,
        outcome: Outcome::Measured,
        reason: None,
        message: None,
        experiment: Some(format!("{sweep}-{day}")),
        key: Some(digest(&day.to_string())),
        fingerprint: Some(Fingerprint {
            machine: "c6id".to_owned(),
            protocol: 1,
            workloads: ["fill", "read"].map(|name| (name.to_owned(), digest(name))).into(),
        }),
        reference: Some(Reference {
            name: "base".to_owned(),
            image: Some(image("base".to_owned())),
            config: digest("base"),
        }),
        subjects: names
            .iter()
            .map(|name| Subject {
                name: name.clone(),
                image: Some(image(format!("{name}-{day}"))),
                revision: Some(digest(&format!("{name}-{day}")).to_string()),
                config: digest("config"),
                settings: None,
                unchanged: false,
            })
            .collect(),
        points,
        gaps: Vec::new(),
        failures: Vec::new(),
        visit: None,
        accepted: None,
    }
}

/// Writes the objects of a ring as the operator does.
async fn write(lab: &Lab, ring: &Ring, objects: Vec<Object>) {
    for object in objects {
        let history = ring.stored(object, &lab.namespace, None).expect("nights");
        let history = serde_json::to_value(history).expect("a history is JSON");
        lab.put::<TuningHistory>(Some(&lab.namespace), history).await;
    }
}

/// Adds these nights to the history of a sweep.
pub async fn write_history(lab: &Lab, sweep: &str, nights: &[Night]) -> usize {
    let lines = nights.iter().map(|night| night.line().expect("a line") + "\n").collect::<String>();
    let mut ring = lab.ring(sweep).await;
    let (imported, change) = ring.import(&lines).expect("nights");
    write(lab, &ring, change.write).await;
    imported.new
}

/// Bytes of the objects as etcd has them, which keeps custom resources as JSON.
async fn stored(lab: &Lab) -> (usize, usize) {
    let objects = lab.api::<TuningHistory>().list(&ListParams::default()).await.expect("a list").items;
    (objects.len(), objects.iter().map(|one| serde_json::to_vec(one).expect("JSON").len()).sum())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_years_of_nights_and_twenty_more() {
    let lab = Lab::new("years").await;
    let mut noise = Noise(1);
    let all: Vec<Night> = (0..NIGHTS).map(|day| night("years", day, &mut noise)).collect();
    let own: Vec<Night> = all[..365].iter().map(|night| Night { sweep: "year".to_owned(), ..night.clone() }).collect();
    write_history(&lab, "year", &own).await;
    let (objects, bytes) = stored(&lab).await;
    println!("a year of 50 series: {objects} objects, {bytes} bytes");
    assert!(bytes <= BYTES_OF_A_YEAR);

    let kept = write_history(&lab, "years", &all).await;
    let (_, both) = stored(&lab).await;
    println!("{NIGHTS} nights of 50 series: {kept} kept, {} bytes", both - bytes);

    let _bench = Bench::new(&lab).start(&lab);
    let operator = lab.operator_with(&[], None);
    lab.put::<TuningSweep>(Some(&lab.namespace), sweep(&lab, "years")).await;
    lab.until("the sweep is seen", SOON, async || (lab.sweep("years").await.nights_measured > 0).then_some(())).await;
    for number in 0..MORE {
        let token = format!("n{number}");
        lab.change("years", json!({"runNow": token})).await;
        lab.sweeps_to("years", "the night is measured", |status| {
            status.last_manual_run.as_ref() == Some(&token) && status.active.is_none()
        })
        .await;
    }
    let nights = lab.history("years").await;
    let more = nights.iter().filter(|night| night.run_now.is_some() && night.outcome == Outcome::Measured).count();
    let (objects, after) = stored(&lab).await;
    let (peak, now) = (operator.peak_mib(), operator.memory_kib("RssAnon"));
    println!(
        "{more} nights more: {objects} objects in both, {} bytes; the operator holds {now} KiB, at most {peak} MiB",
        after - bytes
    );
    assert_eq!(more, MORE);
    assert!(peak <= MIB_OF_THE_OPERATOR, "{peak} MiB");
    lab.close().await;
}
