//! How busy an operator keeps a fleet, next to a control that does nothing but make the same pods on the same cluster. Every figure is
//! worth something only beside that of the control: machines differ.
//!
//! - `make fleet-bench` measures the fleet that `ASSAY_FLEET` names, and adds its figures to the file `ASSAY_FLEET_CSV`.
//! - A small one is part of `make operator-test`: what it prints may be anything, but no trial may be lost or run twice.

mod control;
mod course;
mod figures;
mod reconciles;
mod size;
mod soak;
mod writes;

use std::io::Write as _;
use std::time::Duration;

use assay_api::{TuningExperiment, names};
use futures::StreamExt as _;
use kube::api::ListParams;

use crate::bench::Bench;
use crate::experiment::{condition, small};
use crate::lab::Lab;
use crate::machine;
use crate::witness::Witness;
use control::Control;
use course::Watched;
use figures::{Operator, Turn};
use reconciles::Longest;
use size::Size;
use writes::Audit;

/// Writes of the bench at the same time.
const AT_ONCE: usize = 8;

/// When a turn is called hung, in seconds.
fn patience(size: &Size) -> u64 {
    600 + size.trials as u64
}

struct Fleet {
    lab: Lab,
    size: Size,
    control: Control,
}

impl Fleet {
    /// Nodes, and the control, which learns from an operator what the pod of a trial is.
    async fn new(size: Size) -> Self {
        let lab = Lab::with_nodes("fleet", size.nodes).await;
        let _bench = Bench::new(&lab).start(&lab);
        let mut operator = lab.operator();
        lab.apply(small(&lab, "first")).await;
        let pod = lab.running_pod().await;
        let control = Control::new(&lab, &pod).await;
        lab.decided("first", "Win", 5).await;
        lab.no_pods().await;
        lab.check(operator.terminate(), "the operator ends well").await;
        Self { lab, size, control }
    }

    /// The control has a turn of as many trials as the operator.
    async fn controlled(&self) -> Turn {
        let _bench = Bench::new(&self.lab).takes(self.size.takes).start(&self.lab);
        let (witness, watched) = (Witness::start(&self.lab), Watched::start(&self.lab).await);
        let (audit, cpu) = (Audit::begin(), machine::cpu());
        let run = self.control.run(&self.lab.nodes, self.size.trials);
        let in_time = tokio::time::timeout(Duration::from_secs(patience(&self.size)), run).await.is_ok();
        self.lab.check(in_time, "the control has made its pods").await;
        let cpu = machine::cpu().saturating_sub(cpu);
        self.lab.no_pods().await;
        witness.saw_nothing_wrong(&self.lab).await;
        Turn { course: watched.end(), writes: audit.end().await.writes, cpu }
    }

    async fn operated(&self) -> (Turn, Operator) {
        let (lab, size) = (&self.lab, &self.size);
        let _bench = Bench::new(lab).takes(size.takes).start(lab);
        let mut operator = lab.operator();
        lab.until("the operator watches", 60, async || operator.said().contains("\"watching\"").then_some(())).await;
        let (witness, watched) = (Witness::start(lab), Watched::start(lab).await);
        let (audit, cpu, own) = (Audit::begin(), machine::cpu(), operator.cpu());
        let longest = Longest::watch(&operator);
        futures::stream::iter(size.experiments_in(lab))
            .for_each_concurrent(AT_ONCE, async |experiment| drop(lab.apply(experiment).await))
            .await;
        let ended = async || (watched.ended() >= size.trials).then_some(());
        lab.until("all trials have ended", patience(size), ended).await;
        lab.until("all experiments have ended", patience(size), async || {
            // Its answer is large.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let all = lab.api::<TuningExperiment>().list(&ListParams::default()).await.ok()?.items;
            let is_finished = |one: &TuningExperiment| {
                one.status
                    .as_ref()
                    .and_then(|status| condition(status, names::FINISHED))
                    .is_some_and(|c| c.status == "True")
            };
            all.iter().all(is_finished).then_some(())
        })
        .await;
        let cpu = machine::cpu().saturating_sub(cpu);
        lab.no_pods().await;
        let seen = audit.end().await;
        let own = Operator {
            cpu: operator.cpu().saturating_sub(own),
            peak_mib: operator.peak_mib(),
            longest_reconcile: longest.end(&operator).await,
            reconciles: operator.reconciles().await,
            lease_unwritten: seen.lease_unwritten,
        };
        let turn = Turn { course: watched.end(), writes: seen.writes, cpu };
        lab.check(operator.terminate(), "the operator ends well").await;
        for name in size.names() {
            lab.decided(&name, "Win", size.blocks()).await;
        }
        witness.saw_nothing_wrong(lab).await;
        (turn, own)
    }

    async fn close(self) {
        self.lab.close_within(patience(&self.size)).await;
    }
}

/// Each trial is run once, by the operator as by the control, and counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_fleet_runs_every_trial_once() {
    let size: Size = "50/1/500/1".parse().expect("a fleet");
    let fleet = Fleet::new(size).await;
    let control = fleet.controlled().await;
    let (turn, own) = fleet.operated().await;
    for turn in [&control, &turn] {
        assert_eq!(turn.course.ended(), fleet.size.trials);
    }
    // Past the harness, which shows nothing of a test that passes.
    let table = figures::table(&fleet.size, &figures::rows(&fleet.size, &control, &turn, &own));
    std::io::stdout().write_all(table.as_bytes()).expect("the table can be shown");
    fleet.close().await;
}

/// What `make fleet-bench` was asked for. The control comes before the operator and after it, since what a cluster has behind it counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told() {
    let told =
        std::env::var("ASSAY_FLEET").expect("ASSAY_FLEET is NODES/EXPERIMENTS/TRIALS/SECONDS: see `make fleet-bench`");
    let size: Size = told.parse().unwrap_or_else(|why| panic!("ASSAY_FLEET={told}: {why}"));
    let fleet = Fleet::new(size).await;
    let before = fleet.controlled().await;
    println!("control: {:.1} trials/s", before.course.rate());
    let (turn, own) = fleet.operated().await;
    println!("operator: {:.1} trials/s", turn.course.rate());
    let after = fleet.controlled().await;
    println!("control: {:.1} trials/s", after.course.rate());
    let rows = figures::rows(&fleet.size, &before.and(after), &turn, &own);
    println!("{}", figures::table(&fleet.size, &rows));
    if let Ok(file) = std::env::var("ASSAY_FLEET_CSV") {
        figures::append(file.as_ref(), &fleet.size, &rows);
    }
    fleet.close().await;
}
