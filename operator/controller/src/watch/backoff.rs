//! When an object is reconciled again after an error.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::locked;

/// Soon where somebody else was faster, though what is refused as a conflict may be refused again and again.
const SOON: Duration = Duration::from_millis(200);
const MOST_SOON: Duration = Duration::from_secs(5);
/// Otherwise later and later, since whatever fails again and again needs time or a person.
const FIRST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_mins(5);

/// Who has not failed for so long has succeeded, or is gone: others are tried again sooner.
const FORGOTTEN: Duration = Duration::from_mins(15);

/// How often each object has failed in a row, and how often it was slower than somebody else.
pub struct Backoff<K>(Mutex<HashMap<K, Failures>>);

struct Failures {
    in_a_row: u32,
    conflicts: u32,
    last: Instant,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Backoff<K> {
    /// How long to wait after an error.
    pub fn failed(&self, object: K, is_conflict: bool, now: Instant) -> Duration {
        let mut all = locked(&self.0);
        all.retain(|_, failures| now.saturating_duration_since(failures.last) < FORGOTTEN);
        let failures = all.entry(object).or_insert(Failures { in_a_row: 0, conflicts: 0, last: now });
        failures.last = now;
        let (count, first, most) = if is_conflict {
            (&mut failures.conflicts, SOON, MOST_SOON)
        } else {
            (&mut failures.in_a_row, FIRST, MOST)
        };
        let pause = first.saturating_mul(2_u32.saturating_pow(*count)).min(most);
        *count = count.saturating_add(1);
        pause
    }

    pub fn succeeded(&self, object: &K) {
        locked(&self.0).remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;

    #[test]
    fn what_fails_again_and_again_is_tried_later_and_later() {
        let now = Manual::new().instant();
        let backoff = Backoff::default();
        let pauses: Vec<u64> = (0..10).map(|_| backoff.failed("a", false, now).as_secs()).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.failed("b", false, now), FIRST, "each for itself");
        let pauses: Vec<u128> = (0..7).map(|_| backoff.failed("c", true, now).as_millis()).collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.failed("c", false, now), FIRST, "who was only slower has not failed");
        backoff.succeeded(&"a");
        assert_eq!(backoff.failed("a", false, now), FIRST);
    }

    #[test]
    fn nothing_is_kept_of_what_is_gone() {
        let clock = Manual::new();
        let backoff = Backoff::default();
        backoff.failed("gone", false, clock.instant());
        for pause in (0..10).map(|_| backoff.failed("there", false, clock.instant())).collect::<Vec<_>>() {
            clock.pass(pause);
            assert_ne!(backoff.failed("there", false, clock.instant()), FIRST, "it is still failing");
        }
        assert_eq!(locked(&backoff.0).keys().copied().collect::<Vec<_>>(), ["there"]);
        clock.pass(FORGOTTEN);
        assert_eq!(backoff.failed("there", false, clock.instant()), FIRST);
    }
}
