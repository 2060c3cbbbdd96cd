//! What becomes of a suspicion: visits, their answer, and what people make of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};

use assay_api::condition::find;
use assay_api::{TuningExperiment, TuningSweep, TuningSweepStatus, names};
use assay_core::sweep::{Night, Outcome, Trigger};
use assay_protocol::Digest;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::jiff::SignedDuration;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::account;
use crate::bench::Bench;
use crate::command_line::{assay, text};
use crate::lab::Lab;
use crate::limits::write_history;
use crate::nights::sweep;

/// A night as it was so many days earlier, and a little different.
fn earlier(night: &Night, days: i64) -> Night {
    let mut night = night.clone();
    "changed".clone_into(&mut night.sweep);
    night.night -= SignedDuration::from_hours(24 * days);
    night.run_now = None;
    night.trigger = Trigger::Schedule;
    night.experiment = None;
    night.points[0].effect += 0.004 * ((days % 5) as f64 - 2.0);
    night
}

/// An endpoint that takes all messages, and those that it took, each with its signature.
fn endpoint() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let head = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let head: Vec<String> = head.collect();
            let field =
                |name: &str| head.iter().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
            let mut body = vec![0; field("content-length: ").parse().unwrap_or(0)];
            reader.read_exact(&mut body).expect("a message");
            let _ = tell.send((field("x-signature: "), serde_json::from_slice(&body).unwrap_or_default()));
            let _ = reader.into_inner().write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    (address, told)
}

/// A Secret that messages are signed with, and the right to read it, which the chart gives with `sweeps.webhooks.allowedHosts`.
async fn secret(lab: &Lab) {
    let of = |name: &str| json!({"name": name, "labels": {names::WEBHOOK_LABEL: "true"}});
    let namespace = Some(lab.namespace.as_str());
    let secret = json!({"metadata": of("hooks"), "stringData": {"token": "a key"}});
    lab.put::<Secret>(namespace, secret).await;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    lab.put::<Role>(namespace, json!({"metadata": of("webhooks"), "rules": rules})).await;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "webhooks"});
    let user = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account::USER});
    lab.put::<RoleBinding>(namespace, json!({"metadata": of("webhooks"), "roleRef": role, "subjects": [user]})).await;
}

/// The stage of the latest change whose message has arrived.
fn delivered(status: &TuningSweepStatus) -> Option<&str> {
    let notified = status.changes.first()?.notified.as_ref()?;
    notified.delivered_time.as_ref().map(|_| notified.stage.as_str())
}

fn stage(status: &TuningSweepStatus) -> &str {
    status.changes.first().map_or("", |change| change.stage.as_str())
}

/// The sweep `changed`, and a history in which its subjects have become worse three nights ago. What good and bad nights look like is
/// measured.
async fn has_changed(lab: &Lab, before: Value, after: Value) -> Value {
    let mut object = sweep(lab, "seen");
    object["spec"]["subjects"] = before;
    object["spec"]["runNow"] = json!("good");
    lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
    lab.sweeps_to("seen", "a good night is measured", |status| status.nights_measured == 1).await;
    lab.change("seen", json!({"subjects": after, "runNow": "bad"})).await;
    lab.sweeps_to("seen", "a bad night is measured", |status| status.nights_measured == 2).await;
    let [good, bad] = &lab.history("seen").await[..] else { panic!("two nights") };
    lab.api::<TuningSweep>().delete("seen", &DeleteParams::default()).await.expect("a sweep can be deleted");
    let nights: Vec<Night> =
        (4..=16).rev().map(|days| earlier(good, days)).chain((1..=3).rev().map(|days| earlier(bad, days))).collect();
    write_history(lab, "changed", &nights).await;
    let mut object = sweep(lab, "changed");
    object["spec"]["subjects"] = after;
    object["spec"]["detect"] = json!({"visitGapSeconds": 60});
    object
}

/// Nights speak for a change, fresh trials confirm it, whoever of the operators is killed meanwhile, and somebody accepts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_confirmed_by_fresh_trials_and_accepted() {
    let lab = Lab::new("changes").await;
    let _bench = Bench::new(&lab).start(&lab);
    let (hooks, told) = endpoint();
    secret(&lab).await;
    let mut operator = lab.operator_with(&["--webhook-host", &hooks], None);

    let candidate = |jobs: &str| json!([{"name": "candidate", "dbOptions": {"max_background_jobs": jobs}}]);
    let mut object = has_changed(&lab, candidate("8"), candidate("4")).await;
    object["spec"]["notify"] = json!({"webhook": {"url": hooks, "secretRef": {"name": "hooks", "key": "token"}}});
    lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
    let status = lab.sweeps_to("changed", "a visit runs", |status| status.active.is_some()).await;
    let active = status.active.expect("a visit");
    let change = active.confirms.clone().unwrap_or_default();
    lab.check(change.starts_with("candidate-20"), &format!("{active:?}")).await;
    // An event follows what it tells of, and is not written by who is killed in between.
    lab.event("changed", "ChangeSuspected").await;
    // Whoever comes next goes on with it.
    operator.kill();
    operator.start_again();
    lab.sweeps_to("changed", "one visit is not enough", |status| {
        stage(status) == "Confirming" && status.changes.iter().any(|own| own.message.contains("1 of 2 visits"))
    })
    .await;
    operator.kill();
    operator.start_again();
    let status = lab.sweeps_to("changed", "the second one decides", |status| stage(status) == "Regressed").await;
    let regressed = find(&status.conditions, names::REGRESSED).expect("a condition");
    lab.check(regressed.status == "True" && regressed.message == change, &format!("{regressed:?}")).await;
    lab.check(status.state.as_deref() == Some("Regressed"), &format!("{:?}", status.state)).await;
    lab.sweeps_to("changed", "it is reported", |status| delivered(status) == Some("Regressed")).await;
    // Whoever comes next knows what was reported.
    operator.kill();
    operator.start_again();
    let visits: Vec<Night> =
        lab.history("changed").await.into_iter().filter(|night| night.outcome == Outcome::Visited).collect();
    lab.check(visits.len() == 2, &format!("{visits:?}")).await;
    for (night, number) in visits.iter().zip(1..) {
        let visit = night.visit.as_ref().expect("a visit");
        let losses = &visit.series[0].losses;
        let right = visit.number == number && losses.len() >= 5 && losses.iter().all(|loss| (0.15..0.3).contains(loss));
        lab.check(right && night.trigger == Trigger::Confirmation, &format!("{night:?}")).await;
        lab.follows_from_trials(night.experiment.as_deref().unwrap_or_default()).await;
    }
    lab.check(visits[1].night >= visits[0].night + SignedDuration::from_mins(1), "they are apart").await;
    let experiments = lab.names::<TuningExperiment>("").await;
    lab.check(experiments.len() == 2, &format!("the experiments of visits stay: {experiments:?}")).await;
    for (reason, said) in
        [("VisitBegun", change.as_str()), ("ChangeSuspected", "1 of 2"), ("ChangeConfirmed", "Regressed -")]
    {
        let told = lab.event("changed", reason).await;
        lab.check(
            told.contains(&change) && told.contains(if reason == "ChangeSuspected" { &change } else { said }),
            &told,
        )
        .await;
    }

    // People look at it, and take it.
    let explained = text(&assay(&lab, &["sweep", "explain", "changed", &change]).await);
    let right =
        explained.contains("options dbOptions.max_background_jobs \"8\" to \"4\"") && explained.contains("visit 2");
    lab.check(right, &explained).await;
    let shown = text(&assay(&lab, &["sweep", "status", "changed"]).await);
    lab.check(shown.contains(&format!("{change}: Regressed -")), &shown).await;
    let refused = assay(&lab, &["accept", "changed", "candidate-20260101-0000", "--reason", "why not"]).await;
    lab.check(!refused.status.success() && text(&refused).contains(&change), &text(&refused)).await;
    let accepted = assay(&lab, &["accept", "changed", &change, "--reason", "it saves memory"]).await;
    lab.check(accepted.status.success(), &text(&accepted)).await;
    let status = lab.sweeps_to("changed", "it is accepted", |status| stage(status) == "Accepted").await;
    lab.check(status.changes[0].message.ends_with("accepted: it saves memory"), &format!("{:?}", status.changes)).await;
    let regressed = find(&status.conditions, names::REGRESSED).expect("a condition");
    lab.check(regressed.status == "False", &format!("{regressed:?}")).await;
    lab.event("changed", "ChangeAccepted").await;
    lab.sweeps_to("changed", "that is reported", |status| delivered(status) == Some("Accepted")).await;
    let told: Vec<(String, Value)> = told.try_iter().collect();
    let stages: Vec<&Value> = told.iter().map(|(_, message)| &message["data"]["stage"]).collect();
    lab.check(stages == ["Regressed", "Accepted"], &format!("{told:?}")).await;
    for (signature, message) in &told {
        let right = signature.len() == "sha256=".len() + 64 && message["subject"] == json!(change);
        lab.check(right, &format!("{signature}: {message}")).await;
    }
    let entries = lab.history("changed").await;
    lab.check(entries.iter().filter(|night| night.outcome == Outcome::Accepted).count() == 1, "once").await;
    lab.close().await;
}

/// A build and its options have changed in one night. Further visits find that it was the options, whoever of the operators is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_brought_a_change_is_found_by_further_visits() {
    let lab = Lab::new("culprit").await;
    let _bench = Bench::new(&lab).start(&lab);
    let mut operator = lab.operator_with(&["--allow-image", "registry.example/lab"], None);
    let version = |number: u32| {
        let digest = Digest::of(&number.to_le_bytes());
        json!({"image": format!("registry.example/lab/bench@sha256:{digest}{digest}"), "revision": format!("r{number}")})
    };
    let candidate = |number: u32, jobs: &str| {
        let mut own = version(number);
        (own["name"], own["dbOptions"]) = (json!("candidate"), json!({"max_background_jobs": jobs}));
        json!([own])
    };
    let mut object = has_changed(&lab, candidate(0, "8"), candidate(4, "4")).await;
    object["spec"]["bisect"] = json!({"candidates": (0..=4).map(version).collect::<Vec<_>>()});
    lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
    let culprit = |status: &TuningSweepStatus| status.changes.first().and_then(|change| change.culprit.clone());
    for visits in ["0 visits", "1 visit", "2 visits"] {
        lab.sweeps_to("changed", &format!("the search has {visits}"), |status| match culprit(status) {
            Some(said) => said.ends_with(&format!("; {visits} so far")),
            None => visits == "0 visits" && stage(status) == "Regressed",
        })
        .await;
        operator.kill();
        operator.start_again();
    }
    let status = lab
        .sweeps_to("changed", "the search is over", |status| {
            culprit(status).is_some_and(|said| !said.ends_with("so far"))
        })
        .await;
    let said = culprit(&status).unwrap_or_default();
    lab.check(said.starts_with("the change of options (-1"), &said).await;
    let told = lab.event("changed", "CulpritFound").await;
    lab.check(told.contains(&said), &told).await;
    let visits: Vec<Night> = lab.history("changed").await.into_iter().filter(|night| night.visit.is_some()).collect();
    let numbers: Vec<u32> = visits.iter().filter_map(|night| Some(night.visit.as_ref()?.number)).collect();
    lab.check(numbers == (1..=numbers.len() as u32).collect::<Vec<_>>(), &format!("each visit once: {numbers:?}"))
        .await;
    let searches = || visits.iter().filter_map(|night| night.visit.as_ref()?.search.as_ref());
    lab.check(searches().next().is_some_and(|first| first.candidates.len() == 6), "the first one lists all").await;
    for night in visits.iter().filter(|night| night.outcome == Outcome::Visited) {
        lab.follows_from_trials(night.experiment.as_deref().unwrap_or_default()).await;
    }
    let name = status.changes[0].name.clone();
    let explained = text(&assay(&lab, &["sweep", "explain", "changed", &name]).await);
    lab.check(explained.contains("search: ") && explained.contains("next: fix it, or revert it"), &explained).await;
    println!("{explained}");
    lab.close().await;
}
