//! What nearly every test begins and ends with: an operator, a bench and a witness, and one small experiment that ends well.

use serde_json::Value;

use crate::bench::{AtWork, Bench};
use crate::experiment;
use crate::lab::Lab;
use crate::operator::Operator;
use crate::witness::Witness;

pub struct Scene {
    pub lab: Lab,
    pub bench: AtWork,
    pub witness: Witness,
    pub operator: Operator,
    /// Of the experiment, which is named after the test.
    pub name: String,
}

impl Scene {
    /// With one node and a bench that is changed as told.
    pub async fn new(name: &str, bench: impl FnOnce(Bench) -> Bench) -> Self {
        Self::of(Lab::new(name).await, name, &[], bench)
    }

    /// In a lab that was prepared, with arguments for the operator.
    pub fn of(lab: Lab, name: &str, args: &[&str], bench: impl FnOnce(Bench) -> Bench) -> Self {
        let bench = bench(Bench::new(&lab)).start(&lab);
        let (witness, operator) = (Witness::start(&lab), lab.operator_with(args, None));
        Self { lab, bench, witness, operator, name: name.to_owned() }
    }

    /// Begins the small experiment after a change to it.
    pub async fn begin(&self, change: impl FnOnce(&mut Value)) {
        let mut experiment = experiment::small(&self.lab, &self.name);
        change(&mut experiment["spec"]);
        self.lab.apply(experiment).await;
    }

    /// The planted gain is found by all ten trials, with these losses on the way, and nobody saw anything wrong.
    pub async fn ends_well(self, losses: &[&str]) {
        self.decides(losses).await;
        self.lab.close().await;
    }

    /// The same, but the lab stays.
    pub async fn decides(&self, losses: &[&str]) {
        self.lab.decided(&self.name, "Win", 5).await;
        self.lost(losses).await;
        self.witness.saw_nothing_wrong(&self.lab).await;
    }

    pub async fn lost(&self, losses: &[&str]) {
        let found = self.lab.losses(&self.name).await;
        self.lab.check(found == losses, &format!("lost were {found:?}, expected {losses:?}")).await;
    }
}
