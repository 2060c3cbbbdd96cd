//! When an object is reconciled again after an error.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use crate::lock::locked;

/// Soon where somebody else was faster.
const SOON: Duration = Duration::from_millis(200);
/// Otherwise later and later, since whatever fails again and again needs time or a person.
const FIRST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_mins(5);

/// How often each object has failed in a row.
pub struct Backoff<K>(Mutex<HashMap<K, u32>>);

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Backoff<K> {
    /// How long to wait after an error.
    pub fn failed(&self, object: K, is_conflict: bool) -> Duration {
        if is_conflict {
            return SOON;
        }
        let mut failures = locked(&self.0);
        let before = failures.entry(object).or_default();
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(*before)).min(MOST);
        *before = before.saturating_add(1);
        pause
    }

    pub fn succeeded(&self, object: &K) {
        locked(&self.0).remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_tried_later_and_later() {
        let backoff = Backoff::default();
        let pauses: Vec<u64> = (0..10).map(|_| backoff.failed("a", false).as_secs()).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.failed("b", false), FIRST, "each for itself");
        for _ in 0..1000 {
            assert_eq!(backoff.failed("c", true), SOON);
        }
        assert_eq!(backoff.failed("c", false), FIRST, "who was only slower has not failed");
        backoff.succeeded(&"a");
        assert_eq!(backoff.failed("a", false), FIRST);
    }
}
