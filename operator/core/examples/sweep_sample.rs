//! Writes report pages of invented sweeps, to look at and to test in a browser:
//! `cargo run -p assay-core --example sweep_sample -- FOLDER`.

use std::{collections::BTreeMap, env, error::Error, fs, path::Path};

use assay_core::stats::Scale;
use assay_core::sweep::detect::Watch;
use assay_core::sweep::report::{SweepReport, html, markdown};
use assay_core::sweep::{
    Fingerprint, Gap, History, Night, Outcome, Point, Reference, Series, Subject, Trigger, VERSION,
};
use assay_protocol::Digest;
use jiff::{SignedDuration, Timestamp};

/// Noise that is the same in every run of this program.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1_u64 << 31) as f64
    }

    /// About normal, with a standard deviation of 1.
    fn normal(&mut self) -> f64 {
        2.0 * (self.uniform() + self.uniform() + self.uniform() - 1.5)
    }
}

const SCENARIOS: [&str; 2] = ["fill", "read-while-writing"];
const METRICS: [(&str, Scale, f64); 3] =
    [("throughput", Scale::Log, 0.03), ("step_latency_p99", Scale::Log, 0.1), ("stall_fraction", Scale::Linear, 0.02)];

/// Nights by which the reference moves, the machine does, and a branch begins.
struct Story {
    nights: u32,
    repin: u32,
    machine: u32,
    branch: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: sweep_sample FOLDER")?;
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let margins: BTreeMap<String, f64> =
        METRICS.iter().map(|(name, _, margin)| ((*name).to_owned(), *margin)).collect();
    let watch = Watch { alarm: None, margins, promised: None, bisect: None };
    let stories = [
        ("sweep-0", Story { nights: 0, repin: 9, machine: 9, branch: 0 }),
        ("sweep-3", Story { nights: 3, repin: 9, machine: 9, branch: 0 }),
        ("sweep-30", Story { nights: 30, repin: 14, machine: 99, branch: 26 }),
        ("sweep-700", Story { nights: 700, repin: 300, machine: 560, branch: 420 }),
    ];
    for (name, story) in stories {
        let report = SweepReport::new(&history(&story)?, &watch);
        fs::write(folder.join(format!("{name}.html")), html(&report))?;
        fs::write(folder.join(format!("{name}.md")), markdown(&report))?;
        fs::write(folder.join(format!("{name}.json")), serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(())
}

fn history(story: &Story) -> Result<History, Box<dyn Error>> {
    let (mut history, mut noise) = (History::new("nightly"), Noise(11));
    let first: Timestamp = "2025-02-03T02:30:00Z".parse()?;
    for day in 0..story.nights {
        history.add(night(story, day, first + SignedDuration::from_hours(24 * i64::from(day)), &mut noise))?;
    }
    Ok(history)
}

fn night(story: &Story, day: u32, time: Timestamp, noise: &mut Noise) -> Night {
    let empty = Night {
        version: VERSION,
        sweep: "nightly".to_owned(),
        night: time,
        trigger: Trigger::Schedule,
        run_now: None,
        outcome: Outcome::Gap,
        reason: None,
        message: None,
        experiment: None,
        key: None,
        fingerprint: None,
        reference: None,
        subjects: Vec::new(),
        points: Vec::new(),
        gaps: Vec::new(),
        failures: Vec::new(),
        visit: None,
        accepted: None,
    };
    let missing = match day {
        n if n % 97 == 40 => Some((Outcome::Gap, "ImagePullFailed", "registry.example/bench@sha256:07…: not found")),
        n if (120..131).contains(&n) => {
            Some((Outcome::Gap, "NodesMissing", "no node has the label assay.rocks/kind=c6id"))
        }
        n if n % 29 == 20 || n % 29 == 21 => {
            Some((Outcome::Skipped, "Unchanged", "nothing changed since the last night"))
        }
        _ => None,
    };
    if let Some((outcome, reason, message)) = missing {
        return Night { outcome, reason: Some(reason.to_owned()), message: Some(message.to_owned()), ..empty };
    }
    let is_new = day >= story.repin;
    let mut subjects = vec![subject("main", day / 3)];
    if day >= story.branch {
        subjects.push(subject("large-memtables", 0));
    }
    if (story.repin..story.repin + 12).contains(&day) {
        subjects.push(Subject { image: Some(image("11.8.1")), ..subject("old-reference", 0) });
    }
    let (mut points, mut gaps) = (Vec::new(), Vec::new());
    for subject in &mut subjects {
        subject.unchanged = !day.is_multiple_of(3);
        let effect = match subject.name.as_str() {
            // A slow gain, and a step back.
            "main" => 0.00005 * f64::from(day) - if day > 480 { 0.04 } else { 0.0 } - if is_new { 0.02 } else { 0.0 },
            "old-reference" => -0.02,
            _ => 0.18,
        };
        for scenario in SCENARIOS {
            let own = 0.006 * noise.normal();
            for (metric, scale, _) in METRICS {
                let series =
                    Series { subject: subject.name.clone(), scenario: scenario.to_owned(), metric: metric.to_owned() };
                if metric == "step_latency_p99" && day % 41 == 7 {
                    let Series { subject, scenario, metric } = series;
                    gaps.push(Gap { subject, scenario, metric: Some(metric), reason: "TooFewOperations".to_owned() });
                    continue;
                }
                let size = match metric {
                    "throughput" => 0.009,
                    "step_latency_p99" => 0.03,
                    _ => 0.004,
                };
                let outlier = if noise.uniform() < 0.01 { 4.0 } else { 1.0 };
                let effect =
                    effect * if scale == Scale::Log { 1.0 } else { 0.3 } + own + outlier * size * noise.normal();
                points.push(Point::new(series, scale, effect, size * (0.7 + 0.6 * noise.uniform()), 6, None));
            }
        }
    }
    let machine = if day >= story.machine { "m7gd.2xlarge" } else { "c6id.2xlarge" };
    let workloads = SCENARIOS.iter().map(|name| ((*name).to_owned(), Digest::of(name.as_bytes())));
    let name = if is_new { "11.9.0" } else { "11.8.1" };
    Night {
        outcome: Outcome::Measured,
        experiment: Some(format!("nightly-{day}")),
        fingerprint: Some(Fingerprint { machine: machine.to_owned(), protocol: 3, workloads: workloads.collect() }),
        reference: Some(Reference { name: name.to_owned(), image: Some(image(name)), config: Digest::of(b"default") }),
        subjects,
        points,
        gaps,
        ..empty
    }
}

fn subject(name: &str, revision: u32) -> Subject {
    Subject {
        name: name.to_owned(),
        image: Some(image(&format!("{name}-{revision}"))),
        settings: None,
        revision: Some(Digest::of(&revision.to_le_bytes()).to_string()),
        config: Digest::of(b"default"),
        unchanged: false,
    }
}

fn image(name: &str) -> String {
    let digest = Digest::of(name.as_bytes());
    format!("registry.example/bench@sha256:{digest}{digest}")
}
