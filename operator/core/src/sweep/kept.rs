//! Which experiments of nights are kept. What they measured stays in the history, whatever becomes of them.

use jiff::Timestamp;

use super::history::History;
use super::point::Outcome;

/// Nights whose experiments are no longer kept: the oldest, if more than `measured` were measured or more than `failed` were not. One
/// that is not in the history has not ended.
pub fn surplus(
    history: &History,
    experiments: impl IntoIterator<Item = Timestamp>,
    measured: usize,
    failed: usize,
) -> Vec<Timestamp> {
    let (mut good, mut bad): (Vec<Timestamp>, Vec<Timestamp>) = (Vec::new(), Vec::new());
    for night in experiments {
        match history.get(night).map(|night| night.outcome) {
            Some(Outcome::Measured | Outcome::Visited) => good.push(night),
            Some(Outcome::Skipped | Outcome::Gap | Outcome::Accepted) => bad.push(night),
            None => {}
        }
    }
    let oldest = |mut nights: Vec<Timestamp>, most: usize| {
        nights.sort_unstable();
        let surplus = nights.len().saturating_sub(most);
        nights.truncate(surplus);
        nights
    };
    let mut surplus = oldest(good, measured);
    surplus.extend(oldest(bad, failed));
    surplus.sort_unstable();
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::next::Unmeasured;
    use crate::sweep::point::Trigger;

    #[test]
    fn the_oldest_go_first_and_none_that_has_not_ended() {
        let mut history = History::new("nightly");
        let minute = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        for night in 0..4 {
            let gap = Unmeasured {
                night: minute(night),
                trigger: Trigger::Schedule,
                run_now: None,
                visit: None,
                accepted: None,
                outcome: Outcome::Gap,
                reason: "InvalidNight".to_owned(),
                message: String::new(),
            };
            history.add(gap.night("nightly")).unwrap();
        }
        let there = || (0..6).rev().map(minute);
        assert_eq!(surplus(&history, there(), 0, 1), [minute(0), minute(1), minute(2)]);
        assert_eq!(surplus(&history, there(), 0, 4), []);
        assert_eq!(surplus(&history, there(), 9, 0).len(), 4, "a limit for measured nights keeps no others");
    }
}
