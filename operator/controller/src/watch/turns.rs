//! Whose reconcile is next where there are more than may run at the same time: that of whoever has waited longest. kube's own limit goes by the
//! order of a hash: with 200 experiments, some had no turn for six minutes while others had one after another. And its debounce begins anew
//! with each change: what changes all the time would have no turn at all.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::lock::locked;

/// How long one waits at least: several changes at once are one reconcile.
const TOGETHER: Duration = Duration::from_millis(20);

pub struct Turns<T> {
    /// Serves whoever has waited longest.
    places: Semaphore,
    waiting: Mutex<HashSet<T>>,
}

impl<T: Hash + Eq + Clone> Turns<T> {
    /// So many at the same time.
    pub fn new(most: usize) -> Self {
        Self { places: Semaphore::new(most), waiting: Mutex::default() }
    }

    /// Whether it waits for its turn, in which it will see whatever can be seen by now.
    pub fn is_in_line(&self, who: &T) -> bool {
        locked(&self.waiting).contains(who)
    }

    /// Waits for a turn, which lasts until the answer is dropped. Nobody may wait twice.
    pub async fn next(&self, who: T) -> SemaphorePermit<'_> {
        locked(&self.waiting).insert(who.clone());
        let _place = InLine { waiting: &self.waiting, who };
        tokio::time::sleep(TOGETHER).await;
        let Ok(turn) = self.places.acquire().await else { unreachable!("it is never closed") };
        turn
    }
}

/// A place in the line, which is given up when this is dropped.
struct InLine<'a, T: Hash + Eq> {
    waiting: &'a Mutex<HashSet<T>>,
    who: T,
}

impl<T: Hash + Eq> Drop for InLine<'_, T> {
    fn drop(&mut self) {
        locked(self.waiting).remove(&self.who);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_has_waited_longest_is_next() {
        let turns = Turns::new(1);
        let is_in_line = || ["a", "b", "c"].map(|who| turns.is_in_line(&who));
        let first = turns.next("a").await;
        let (mut second, mut third) = (Box::pin(turns.next("b")), Box::pin(turns.next("c")));
        for _ in 0..2 {
            assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
            assert_eq!(is_in_line(), [false, true, true]);
            tokio::time::advance(2 * TOGETHER).await;
        }
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "another one was here before");
        let second = second.now_or_never().expect("it is its turn");
        assert_eq!(is_in_line(), [false, false, true]);
        let mut fourth = Box::pin(turns.next("a"));
        for _ in 0..2 {
            assert!((&mut fourth).now_or_never().is_none(), "it begins at the end of the line again");
            tokio::time::advance(2 * TOGETHER).await;
        }
        drop(third);
        assert_eq!(is_in_line(), [true, false, false], "whoever goes is not waited for");
        drop(second);
        assert!(fourth.now_or_never().is_some());
    }
}
