//! Sweeps: from a schedule or a request to a night, and from its trials to the history.

use std::time::Duration;

use assay_api::{TuningExperiment, TuningHistory, TuningSweep, TuningSweepStatus, names};
use assay_core::sweep::{Night, Object, Outcome, Ring, Trigger};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::experiment::small;
use crate::lab::{Lab, SOON};
use crate::witness::Witness;

/// How long a whole night may take.
const NIGHT: u64 = 240;

/// A sweep whose night is the small experiment. Its schedule is a year away.
pub fn sweep(lab: &Lab, name: &str) -> Value {
    let mut night = small(lab, name)["spec"].take();
    let configs = night["configs"].take();
    for field in ["baseline", "configs"] {
        night.as_object_mut().expect("a spec").remove(field);
    }
    json!({
        "metadata": {"name": name},
        "spec": {
            "schedule": "17 1 1 1 *",
            "reference": configs[0],
            "subjects": [configs[1]],
            "experiment": night,
        },
    })
}

/// The minute after the next one, once a day.
pub fn soon() -> (String, Timestamp) {
    let now = Timestamp::from_second(crate::lab::now_ms().cast_signed() / 60_000 * 60).expect("a time");
    let due = now + SignedDuration::from_mins(2);
    (due.to_zoned(TimeZone::UTC).strftime("%M %H * * *").to_string(), due)
}

impl Lab {
    pub async fn sweep(&self, name: &str) -> TuningSweepStatus {
        let found = self.api::<TuningSweep>().get_opt(name).await;
        found.ok().flatten().and_then(|sweep| sweep.status).unwrap_or_default()
    }

    /// Waits until the status of a sweep is like this.
    pub async fn sweeps_to(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&TuningSweepStatus) -> bool,
    ) -> TuningSweepStatus {
        self.until(&format!("{name}: {what}"), NIGHT, async || {
            let status = self.sweep(name).await;
            is(&status).then_some(status)
        })
        .await
    }

    pub async fn change(&self, name: &str, spec: Value) {
        let sweeps = self.api::<TuningSweep>();
        let change = Patch::Merge(json!({"spec": spec}));
        sweeps.patch(name, &PatchParams::default(), &change).await.expect("a sweep can be changed");
    }

    /// All nights that a sweep remembers.
    pub async fn history(&self, name: &str) -> Vec<Night> {
        self.ring(name).await.history().nights().cloned().collect()
    }

    pub async fn ring(&self, name: &str) -> Ring {
        let own = ListParams::default().labels(&format!("{}={name}", names::SWEEP_LABEL));
        let objects = self.api::<TuningHistory>().list(&own).await.expect("a list").items;
        let objects = objects.into_iter().map(Object::from);
        let ring = Ring::read(name, objects);
        self.check(ring.damaged().is_empty(), &format!("{:?}", ring.damaged())).await;
        ring
    }
}

/// Asked for twice, across a restart: each token begins one night, and both are points of one series. The operator's account has the rights of
/// the chart and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_night_that_was_asked_for_is_measured_and_remembered() {
    let lab = Lab::new("asked").await;
    let _bench = Bench::new(&lab).effect(0.7).start(&lab);
    let mut operator = lab.operator_with(&[], None);
    lab.put::<TuningSweep>(Some(&lab.namespace), sweep(&lab, "asked")).await;
    lab.sweeps_to("asked", "it learns", |status| status.state.as_deref() == Some("Learning")).await;
    lab.change("asked", json!({"runNow": "first"})).await;
    lab.sweeps_to("asked", "its night runs", |status| status.active.is_some()).await;
    // Whoever comes next takes it over.
    operator.kill();
    operator.start_again();
    let status = lab.sweeps_to("asked", "its night is measured", |status| status.nights_measured == 1).await;
    lab.check(status.last_manual_run.as_deref() == Some("first"), &format!("{status:?}")).await;
    lab.change("asked", json!({"runNow": "second"})).await;
    let status = lab.sweeps_to("asked", "both are measured", |status| status.nights_measured == 2).await;
    let nights = lab.history("asked").await;
    lab.check(nights.len() == 2, &format!("{nights:?}")).await;
    for (night, token) in nights.iter().zip(["first", "second"]) {
        let point = &night.points[0];
        let right = night.outcome == Outcome::Measured
            && night.trigger == Trigger::Manual
            && night.run_now.as_deref() == Some(token)
            && point.series.subject == "candidate"
            && point.series.metric == "throughput"
            && (point.effect - 0.7_f64.ln()).abs() < 0.05
            && point.standard_error > 0.0
            && point.blocks == 5;
        lab.check(right, &format!("{night:?}")).await;
        let name = night.experiment.as_deref().unwrap_or_default();
        lab.check(name.starts_with("asked-20"), name).await;
        lab.follows_from_trials(name).await;
    }
    lab.check(nights[1].subjects[0].unchanged && nights[0].fingerprint == nights[1].fingerprint, "an A/A night").await;
    let level = status.level.unwrap_or_default();
    lab.check(level.starts_with('-') && level.contains("throughput (candidate, fill)"), &level).await;
    lab.check(status.state.as_deref() == Some("Learning") && status.series == 1, &format!("{:?}", status.state)).await;
    let said = lab.kubectl(&["get", "sweeps", "asked"]).await;
    lab.check(said.contains("Learning") && said.contains("throughput"), &said).await;
    lab.check(lab.event("asked", "NightMeasured").await.contains("1 series"), "the event says so").await;
    // The series outlive the sweep and its nights.
    lab.api::<TuningSweep>().delete("asked", &DeleteParams::default()).await.expect("a sweep can be deleted");
    lab.until("its nights are gone", SOON, async || lab.names::<TuningExperiment>("").await.is_empty().then_some(()))
        .await;
    lab.check(lab.history("asked").await.len() == 2, "the history stays").await;
    lab.close().await;
}

/// Each minute, with a bench that takes longer: what is due meanwhile is skipped and says so; with Replace, the running night ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nights_that_are_due_while_one_runs_are_skipped_or_replace_it() {
    let lab = Lab::new("due").await;
    let _bench = Bench::new(&lab).takes(Duration::from_secs(12)).start(&lab);
    let _operator = lab.operator_with(&[], None);
    let mut each_minute = sweep(&lab, "due");
    each_minute["spec"]["schedule"] = json!("* * * * *");
    lab.put::<TuningSweep>(Some(&lab.namespace), each_minute).await;
    let is_skipped = |status: &TuningSweepStatus| {
        status.last_skipped.as_ref().is_some_and(|skipped| skipped.reason == "PreviousRunning")
    };
    lab.sweeps_to("due", "the second is skipped", is_skipped).await;
    lab.change("due", json!({"concurrencyPolicy": "Replace"})).await;
    let is_replaced = |status: &TuningSweepStatus| {
        status.last_skipped.as_ref().is_some_and(|skipped| skipped.reason == "Replaced") && status.active.is_some()
    };
    lab.sweeps_to("due", "the first is replaced", is_replaced).await;
    lab.change("due", json!({"suspend": true})).await;
    let is_suspended =
        |status: &TuningSweepStatus| status.last_skipped.as_ref().is_some_and(|skipped| skipped.reason == "Suspended");
    lab.sweeps_to("due", "the next is skipped", is_suspended).await;
    let running = lab.names::<TuningExperiment>("").await;
    lab.check(running.len() == 1, &format!("one night at a time: {running:?}")).await;
    let nights = lab.history("due").await;
    let minutes: Vec<i64> = nights.iter().map(|night| night.night.as_second() / 60).collect();
    // The one that runs has no entry yet.
    let all: Vec<i64> = (minutes[0]..=minutes[minutes.len() - 1]).collect();
    lab.check(all.len() - minutes.len() <= 1, &format!("every minute is told of: {minutes:?}")).await;
    lab.close().await;
}

/// A night that can't begin is a gap with its reason, never a zero; so is a spec that makes no sense.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_night_without_nodes_or_images_is_a_gap_with_its_reason() {
    let lab = Lab::with_nodes("gaps", 0).await;
    let _operator = lab.operator_with(&["--allow-image", "*"], None);
    let mut without_nodes = sweep(&lab, "without-nodes");
    without_nodes["spec"]["startingDeadlineSeconds"] = json!(60);
    without_nodes["spec"]["runNow"] = json!("now");
    lab.put::<TuningSweep>(Some(&lab.namespace), without_nodes).await;
    let mut impossible = sweep(&lab, "impossible");
    impossible["spec"]["schedule"] = json!("0 0 31 2 *");
    lab.put::<TuningSweep>(Some(&lab.namespace), impossible).await;
    lab.sweeps_to("impossible", "it is refused", |status| status.state.as_deref() == Some("Refused")).await;
    let status = lab.sweeps_to("without-nodes", "its night is a gap", |status| status.last_skipped.is_some()).await;
    lab.check(status.nights_measured == 0 && status.last_manual_run.as_deref() == Some("now"), &format!("{status:?}"))
        .await;
    let nights = lab.history("without-nodes").await;
    let reason = nights[0].reason.as_deref().unwrap_or_default();
    lab.check(nights[0].outcome == Outcome::Gap && nights[0].points.is_empty(), &format!("{nights:?}")).await;
    lab.check(reason == "NodesMissing", &format!("{nights:?}")).await;
    lab.until("nothing is left of it", SOON, async || lab.names::<TuningExperiment>("").await.is_empty().then_some(()))
        .await;
    lab.until("nor its pods", SOON, async || lab.names::<Pod>("").await.is_empty().then_some(())).await;
    lab.close().await;
}

/// Nobody gets an image onto a node by way of a sweep that no experiment may run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_of_an_image_that_is_not_allowed_makes_no_pod() {
    let lab = Lab::new("not-allowed").await;
    let witness = Witness::start(&lab);
    let _operator = lab.operator_with(&["--allow-image", "registry.example/lab"], None);
    for (name, image, reason) in [
        ("others", "registry.example/other:tag", "NotAllowed"),
        ("prefix", "registry.example/laboratory:tag", "NotAllowed"),
    ] {
        let mut object = sweep(&lab, name);
        object["spec"]["subjects"][0]["image"] = json!(image);
        object["spec"]["runNow"] = json!("now");
        lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
        let status = lab.sweeps_to(name, "its night is a gap", |status| status.last_skipped.is_some()).await;
        let skipped = status.last_skipped.expect("a night");
        lab.check(skipped.reason == reason && skipped.message.contains(image), &format!("{skipped:?}")).await;
    }
    let image = "registry.example/other:value";
    let mut object = sweep(&lab, "matrix");
    object["spec"].as_object_mut().expect("a spec").remove("subjects");
    object["spec"]["matrix"] = json!({"axes": [{"name": "build", "values": [{"name": "other", "image": image}]}]});
    object["spec"]["runNow"] = json!("now");
    lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
    let status = lab.sweeps_to("matrix", "its night is a gap", |status| status.last_skipped.is_some()).await;
    let skipped = status.last_skipped.expect("a night");
    let right = skipped.reason == "NotAllowed" && skipped.message.contains("build-other: registry.example/other:value");
    lab.check(right && status.series == 1, &format!("{skipped:?}")).await;
    lab.check(lab.names::<Pod>("").await.is_empty() && witness.ran() == 0, "there is no pod").await;
    lab.close().await;
}

/// Whoever may write histories: no night is taken away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nights_are_only_added() {
    let lab = Lab::with_nodes("added", 0).await;
    let objects = [json!({"count": 2}), json!({"count": 1}), json!({"sweep": "others"})];
    let mut spec = json!({"sweep": "added", "count": 2, "first": "2026-01-01T00:00:00Z", "last": "2026-01-02T00:00:00Z", "nights": "bm9uZQ=="});
    spec["count"] = objects[0]["count"].clone();
    lab.put::<TuningHistory>(Some(&lab.namespace), json!({"metadata": {"name": "added-history-00001"}, "spec": spec}))
        .await;
    let histories = lab.api::<TuningHistory>();
    for (change, is_fine) in objects.into_iter().zip([true, false, false]) {
        let patch = Patch::Merge(json!({"spec": change}));
        let patched = histories.patch("added-history-00001", &PatchParams::default(), &patch).await.map(drop);
        let said = format!("{change}: {patched:?}");
        lab.check(patched.is_ok() == is_fine && (is_fine || said.contains("nights are only added")), &said).await;
    }
    lab.close().await;
}

/// Real trials on the real node. It takes a quarter of an hour, most of which is waiting for minutes to pass.
mod long {
    use std::collections::BTreeMap;

    use assay_api::TuningSweepSpec;
    use assay_core::stats::Scale;
    use assay_core::sweep::{Fingerprint, Point, Reference, Series, Subject, VERSION, night};
    use assay_protocol::Digest;

    use super::*;
    use crate::experiment::on_the_real_node;
    use crate::limits::write_history;
    use crate::machine::image;

    const SWEEP: &str = "nightly";

    fn real(lab: &Lab) -> Value {
        let mut sweep = sweep(lab, SWEEP);
        let night = &mut sweep["spec"]["experiment"];
        on_the_real_node(night);
        night["repetitions"] = json!(6);
        night["scenarios"][0]["workload"]["keyValue"] = json!({
            "keys": 20_000,
            "valueBytes": {"fixed": 400},
            "roles": [{"name": "writer", "steps": 100_000, "warmupSteps": 5_000, "mix": {"get": 9, "put": 1}}],
        });
        sweep
    }

    /// Five nights that measured what the sweep would measure tonight.
    fn five_nights(spec: &TuningSweepSpec) -> Vec<Night> {
        let tonight = night::experiment(spec);
        let key = night::key(&tonight, Some(&image("bench"))).expect("a key");
        let digest = |of: &str| Digest::of(of.as_bytes());
        let first: Timestamp = "2026-01-01T01:17:00Z".parse().expect("a time");
        let now = Timestamp::from_second(crate::lab::now_ms().cast_signed() / 60_000 * 60).expect("a time");
        let first = first.max(now - SignedDuration::from_hours(6 * 24));
        let night = |day: i64| Night {
            version: VERSION,
            sweep: SWEEP.to_owned(),
            night: first + SignedDuration::from_hours(24 * day),
            trigger: Trigger::Schedule,
            run_now: None,
            outcome: Outcome::Measured,
            reason: None,
            message: None,
            experiment: Some(format!("elsewhere-{day}")),
            key: Some(key.clone()),
            fingerprint: Some(Fingerprint {
                machine: "elsewhere".to_owned(),
                protocol: 1,
                workloads: BTreeMap::from([("fill".to_owned(), digest("fill"))]),
            }),
            reference: Some(Reference { name: "base".to_owned(), image: None, config: digest("base") }),
            subjects: vec![Subject {
                name: "candidate".to_owned(),
                image: None,
                revision: None,
                config: digest("candidate"),
                settings: None,
                unchanged: day > 0,
            }],
            points: vec![Point::new(
                Series {
                    subject: "candidate".to_owned(),
                    scenario: "fill".to_owned(),
                    metric: "throughput".to_owned(),
                },
                Scale::Log,
                0.01,
                0.01,
                6,
                None,
            )],
            gaps: Vec::new(),
            failures: Vec::new(),
            visit: None,
            accepted: None,
        };
        (0..5).map(night).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nights_from_schedule_to_series() {
        let lab = Lab::alone("nights", 0).await;
        let mut operator = lab.operator_with(&["--allow-image", "*", "--bench-image", &image("bench")], None);
        let mut object = real(&lab);
        let spec: TuningSweepSpec = serde_json::from_value(object["spec"].clone()).expect("a spec");
        write_history(&lab, SWEEP, &five_nights(&spec)).await;

        // What elsewhere has measured for five nights, and nothing has changed.
        let (schedule, _) = soon();
        object["spec"]["schedule"] = json!(schedule);
        lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
        let status = lab.sweeps_to(SWEEP, "the night is skipped", |status| status.last_skipped.is_some()).await;
        let skipped = status.last_skipped.expect("a night");
        lab.check(skipped.reason == "Unchanged" && status.nights_measured == 5, &format!("{skipped:?}")).await;

        // One by the schedule, since the subject has changed.
        let (schedule, due) = soon();
        lab.change(
            SWEEP,
            json!({"schedule": schedule, "subjects": [{"name": "candidate", "writeOptions": {"sync": true}}]}),
        )
        .await;
        lab.sweeps_to(SWEEP, "a night is measured", |status| status.nights_measured == 6).await;
        let nights = lab.history(SWEEP).await;
        let measured = &nights[nights.len() - 1];
        let right = measured.night == due && measured.trigger == Trigger::Schedule && measured.points[0].effect < 0.0;
        lab.check(right, &format!("{measured:?}")).await;
        lab.follows_from_trials(measured.experiment.as_deref().unwrap_or_default()).await;

        // One that is caught up, once: the operator is away when it is due.
        let (schedule, due) = soon();
        lab.change(SWEEP, json!({"schedule": schedule, "suspend": false})).await;
        let wanted = schedule.clone();
        lab.sweeps_to(SWEEP, "the schedule is seen", |status| {
            status.schedule.as_ref().is_some_and(|seen| seen.starts_with(&wanted))
        })
        .await;
        operator.kill();
        tokio::time::sleep(Duration::from_mins(8)).await;
        operator.start_again();
        lab.sweeps_to(SWEEP, "a night is caught up", |status| status.nights_measured == 7).await;
        let nights = lab.history(SWEEP).await;
        let caught_up = &nights[nights.len() - 1];
        lab.check(caught_up.night == due && caught_up.trigger == Trigger::CatchUp, &format!("{caught_up:?}")).await;
        lab.check(caught_up.subjects[0].unchanged, "nothing has changed, but the series are learning").await;

        // One that somebody asks for.
        lab.change(SWEEP, json!({"runNow": "third"})).await;
        lab.sweeps_to(SWEEP, "a night is measured", |status| status.nights_measured == 8).await;

        // One without its image.
        let missing = format!("{}@sha256:{}", image("missing").replace(':', "-"), "0".repeat(64));
        let subject = json!({"name": "candidate", "image": missing});
        lab.change(SWEEP, json!({"subjects": [subject], "startingDeadlineSeconds": 60, "runNow": "fourth"})).await;
        lab.sweeps_to(SWEEP, "a night is a gap", |status| {
            status.last_manual_run.as_deref() == Some("fourth") && status.active.is_none()
        })
        .await;
        let nights = lab.history(SWEEP).await;
        let gap = &nights[nights.len() - 1];
        lab.check(gap.reason.as_deref() == Some("ImagePullFailed") && gap.points.is_empty(), &format!("{gap:?}")).await;
        let said = lab.kubectl(&["get", "sweeps"]).await;
        println!("{said}");
        for night in &nights {
            println!("{}", night.line().expect("a line"));
        }
        lab.close().await;
    }
}
