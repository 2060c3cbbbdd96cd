//! What becomes of a suspicion: visits, their answer, and what people make of it.

use assay_api::condition::find;
use assay_api::{TuningExperiment, TuningSweep, TuningSweepStatus, names};
use assay_core::sweep::{Night, Outcome, Trigger};
use k8s_openapi::jiff::SignedDuration;
use kube::api::DeleteParams;
use serde_json::json;

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

fn stage(status: &TuningSweepStatus) -> &str {
    status.changes.first().map_or("", |change| change.stage.as_str())
}

/// Nights speak for a change, fresh trials confirm it, whoever of the operators is killed meanwhile, and somebody accepts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_confirmed_by_fresh_trials_and_accepted() {
    let lab = Lab::new("changes").await;
    let _bench = Bench::new(&lab).start(&lab);
    let mut operator = lab.operator_with(&[], None);

    // What a good and a bad night look like.
    let candidate = |jobs: &str| json!([{"name": "candidate", "dbOptions": {"max_background_jobs": jobs}}]);
    let mut object = sweep(&lab, "seen");
    object["spec"]["subjects"] = candidate("8");
    object["spec"]["runNow"] = json!("good");
    lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
    lab.sweeps_to("seen", "a good night is measured", |status| status.nights_measured == 1).await;
    lab.change("seen", json!({"subjects": candidate("4"), "runNow": "bad"})).await;
    lab.sweeps_to("seen", "a bad night is measured", |status| status.nights_measured == 2).await;
    let [good, bad] = &lab.history("seen").await[..] else { panic!("two nights") };
    lab.api::<TuningSweep>().delete("seen", &DeleteParams::default()).await.expect("a sweep can be deleted");
    let nights: Vec<Night> =
        (4..=16).rev().map(|days| earlier(good, days)).chain((1..=3).rev().map(|days| earlier(bad, days))).collect();
    write_history(&lab, "changed", &nights).await;

    let mut object = sweep(&lab, "changed");
    object["spec"]["subjects"] = candidate("4");
    object["spec"]["detect"] = json!({"visitGapSeconds": 60});
    lab.put::<TuningSweep>(Some(&lab.namespace), object).await;
    let status = lab.sweeps_to("changed", "a visit runs", |status| status.active.is_some()).await;
    let active = status.active.expect("a visit");
    let change = active.confirms.clone().unwrap_or_default();
    lab.check(change.starts_with("candidate-20"), &format!("{active:?}")).await;
    // Whoever comes next goes on with it.
    operator.kill();
    operator.start_again();
    lab.sweeps_to("changed", "one visit is not enough", |status| {
        stage(status) == "Confirming" && status.active.is_none()
    })
    .await;
    operator.kill();
    operator.start_again();
    let status = lab.sweeps_to("changed", "the second one decides", |status| stage(status) == "Regressed").await;
    let regressed = find(&status.conditions, names::REGRESSED).expect("a condition");
    lab.check(regressed.status == "True" && regressed.message == change, &format!("{regressed:?}")).await;
    lab.check(status.state.as_deref() == Some("Regressed"), &format!("{:?}", status.state)).await;
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
    let entries = lab.history("changed").await;
    lab.check(entries.iter().filter(|night| night.outcome == Outcome::Accepted).count() == 1, "once").await;
    lab.close().await;
}
