//! A fleet through everything at once: leaders that are killed as soon as they have begun, nodes that are gone for a minute, and an API
//! server that is killed, after which all watches have to begin anew. `make soak` runs it.

use std::time::{Duration, Instant};

use assay_api::names;

use super::size::Size;
use crate::bench::Bench;
use crate::experiment::condition;
use crate::lab::Lab;
use crate::machine::cluster;
use crate::operator::Operator;
use crate::witness::Witness;

/// From when an operator leads until it is killed.
const LEADS: Duration = Duration::from_secs(20);
const MINUTE: Duration = Duration::from_mins(1);
/// When it is called hung.
const PATIENCE: Duration = Duration::from_hours(1);

async fn is_finished(lab: &Lab, experiment: &str) -> bool {
    condition(&lab.status(experiment).await, names::FINISHED).is_some_and(|end| end.status == "True")
}

/// Kills whoever leads, again and again until the end; how often.
async fn kill_leaders(lab: &Lab, operators: &mut [Operator; 2], experiment: &str) -> usize {
    let begun = Instant::now();
    let (mut kills, mut led) = (0, [0, 0]);
    while !is_finished(lab, experiment).await {
        lab.check(begun.elapsed() < PATIENCE, "it ends").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let leads = |operator: &Operator| operator.said().matches(r#""message":"watching""#).count();
        let Some(leader) = (0..2).find(|at| leads(&operators[*at]) > led[*at]) else { continue };
        led[leader] += 1;
        let other = &mut operators[1 - leader];
        if !other.is_running() {
            other.start_again();
        }
        tokio::time::sleep(LEADS).await;
        operators[leader].kill();
        kills += 1;
        let progress = lab.status(experiment).await.progress.unwrap_or_default();
        println!("after {} s: operator {leader} is killed, {} attempts", begun.elapsed().as_secs(), progress.attempts);
    }
    kills
}

async fn trouble(lab: &Lab) {
    tokio::time::sleep(MINUTE).await;
    let gone = &lab.nodes[..lab.nodes.len() / 3];
    for (ready, word) in [("Unknown", "gone"), ("True", "back")] {
        for node in gone {
            lab.ready(node, ready, Duration::ZERO).await;
        }
        println!("{} nodes are {word}", gone.len());
        tokio::time::sleep(MINUTE).await;
    }
    cluster(&["stop", "kube-apiserver", "KILL"]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster(&["start", "kube-apiserver"]).await;
    println!("the API server is back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_at_once() {
    let size: Size = "500/1/4000/10".parse().expect("a fleet");
    let lab = Lab::with_nodes("soak", size.nodes).await;
    let _bench = Bench::new(&lab).takes(size.takes).start(&lab);
    let witness = Witness::start(&lab);
    let mut operators = [lab.operator(), lab.operator()];
    lab.apply(size.experiments_in(&lab).remove(0)).await;
    let name = size.names().remove(0);
    let (kills, ()) = tokio::join!(kill_leaders(&lab, &mut operators, &name), trouble(&lab));
    let status = lab.status(&name).await;
    let progress = status.progress.unwrap_or_default();
    println!("{kills} kills, {} attempts, {} lost: {:?}", progress.attempts, progress.attempts_lost, status.verdict);
    lab.check(kills > 3, "it was killed often").await;
    lab.decided(&name, "Win", size.blocks()).await;
    witness.saw_nothing_wrong(&lab).await;
    lab.close_within(600).await;
}
