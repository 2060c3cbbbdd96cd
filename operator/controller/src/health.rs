//! Whether what has begun goes on: a reconcile that hangs, for whatever reason, is never heard of again, and neither is its experiment.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::clock::SharedClock;
use crate::lock::locked;

/// How long a reconcile may be between two answers: longer than any call waits, or any verdict takes.
const MOST: Duration = Duration::from_mins(5);

tokio::task_local! {
    static STEP: Arc<Step>;
}

/// When a reconcile has gone on last.
struct Step {
    clock: SharedClock,
    at: Mutex<Instant>,
}

pub struct Health {
    clock: SharedClock,
    steps: Mutex<Vec<Weak<Step>>>,
}

impl Health {
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, steps: Mutex::default() }
    }

    /// Watches over a reconcile until it ends.
    pub async fn watch<T>(&self, reconcile: impl Future<Output = T>) -> T {
        STEP.scope(self.begin(), reconcile).await
    }

    fn begin(&self) -> Arc<Step> {
        let step = Arc::new(Step { clock: Arc::clone(&self.clock), at: Mutex::new(self.clock.instant()) });
        let mut steps = locked(&self.steps);
        steps.retain(|step| step.strong_count() > 0);
        steps.push(Arc::downgrade(&step));
        step
    }

    /// Whether none hangs.
    pub fn is_well(&self) -> bool {
        let steps = locked(&self.steps);
        let mut running = steps.iter().filter_map(Weak::upgrade);
        running.all(|step| self.clock.since(*locked(&step.at)) < MOST)
    }
}

/// Says that this reconcile goes on.
pub fn goes_on() {
    // What is done beside reconciles is not watched over.
    let _ = STEP.try_with(|step| *locked(&step.at) = step.clock.instant());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::Manual;

    #[tokio::test]
    async fn a_reconcile_that_hangs_is_seen_and_one_that_goes_on_is_not() {
        let clock = Manual::new();
        let health = Arc::new(Health::new(clock.clone()));
        assert!(health.is_well(), "nothing runs");
        let (go_on, mut wait) = tokio::sync::mpsc::channel::<()>(1);
        let (tell, mut told) = tokio::sync::mpsc::channel::<()>(1);
        let watched = Arc::clone(&health);
        let reconcile = tokio::spawn(async move {
            let work = async {
                let _ = tell.send(()).await;
                while wait.recv().await.is_some() {
                    goes_on();
                    let _ = tell.send(()).await;
                }
            };
            watched.watch(work).await;
        });
        told.recv().await.expect("it has begun");
        clock.pass(Duration::from_secs(299));
        assert!(health.is_well());
        go_on.send(()).await.expect("it waits");
        told.recv().await.expect("it goes on");
        clock.pass(Duration::from_secs(2));
        assert!(health.is_well(), "it went on a moment ago");
        clock.pass(MOST);
        assert!(!health.is_well(), "it hangs");
        drop(go_on);
        reconcile.await.expect("it ends");
        assert!(health.is_well(), "what has ended does not hang");
    }
}
