//! Which stages of a change are told, and when a message is sent again.

use assay_api::{Notified, Time};
use jiff::{SignedDuration, Timestamp};

use crate::status::shorten;

/// How often a message is sent at most. The last try is 17 hours after the first.
pub const TRIES: u32 = 10;
/// Between the first two tries. Each wait is twice as long as the one before.
const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(2);
/// The most that is kept of an error.
const ERROR: usize = 200;

/// The message about a change that was `before` and is in this stage, given what is known of an earlier message. A change is news if it is
/// confirmed for the worse, and then once more if someone accepts it or it is over. What needs nobody's attention is no message: suspicions,
/// improvements, and changes below the margin.
pub fn due(known: Option<&Notified>, before: Option<&str>, stage: &str, now: Timestamp) -> Option<Notified> {
    let is_news = match stage {
        "Regressed" => true,
        // Of what nobody was told of, nobody has to be told that it is over.
        "Accepted" | "Recovered" | "Ended" => known.is_some(),
        _ => false,
    };
    if is_news && before != Some(stage) && known.is_none_or(|known| known.stage != stage) {
        return Some(Notified {
            stage: stage.to_owned(),
            time: Time(now),
            tries: 0,
            delivered_time: None,
            next_try_time: Some(Time(now)),
            error: None,
        });
    }
    // What was not told in time, and is not so any more.
    known.filter(|known| known.stage == stage || known.next_try_time.is_none()).cloned()
}

/// The message after a try.
pub fn tried(notified: &Notified, now: Timestamp, result: &Result<(), String>) -> Notified {
    let tries = notified.tries + 1;
    let is_delivered = result.is_ok();
    Notified {
        tries,
        delivered_time: is_delivered.then_some(Time(now)),
        next_try_time: (!is_delivered && tries < TRIES).then(|| Time(now + pause(tries))),
        error: result.as_ref().err().map(|error| shorten(error, ERROR)),
        ..notified.clone()
    }
}

/// How long a message is kept until its next try, if there is one. A clock that was ahead when it was tried last holds up nothing: no wait
/// is longer than the one that follows so many tries.
pub fn wait(notified: &Notified, now: Timestamp) -> Option<SignedDuration> {
    let wait = notified.next_try_time.as_ref()?.0.duration_since(now);
    Some(if wait > pause(notified.tries) { SignedDuration::ZERO } else { wait.max(SignedDuration::ZERO) })
}

/// The wait after so many tries.
fn pause(tries: u32) -> SignedDuration {
    tries.checked_sub(1).map_or(SignedDuration::ZERO, |earlier| FIRST_WAIT * 2_i32.saturating_pow(earlier))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    /// What is told of a change with these stages, if each message arrives.
    fn told(stages: &[&str]) -> Vec<String> {
        let (mut known, mut before, mut told) = (None, None, Vec::new());
        for (minute, stage) in (0..).zip(stages) {
            known = due(known.as_ref(), before, stage, at(minute));
            if let Some(open) = known.as_ref().filter(|known| known.next_try_time.is_some()) {
                told.push(open.stage.clone());
                known = Some(tried(open, at(minute), &Ok(())));
            }
            before = Some(*stage);
        }
        told
    }

    #[test]
    fn a_change_is_told_once_and_once_more_when_it_is_answered() {
        for (stages, expected) in [
            (
                &["Confirming", "Regressed", "Regressed", "Regressed", "Recovered", "Recovered"][..],
                &["Regressed", "Recovered"][..],
            ),
            (&["Confirming", "Regressed", "Accepted", "Accepted"], &["Regressed", "Accepted"]),
            (
                &["Regressed", "Accepted", "Regressed", "Recovered"],
                &["Regressed", "Accepted", "Regressed", "Recovered"],
            ),
            (&["Regressed", "SmallRegression", "Regressed", "Recovered"], &["Regressed", "Recovered"]),
            (&["Regressed", "Ended", "Ended"], &["Regressed", "Ended"]),
            (&["Confirming", "Ended"], &[]),
            (&["Confirming", "Improved", "Improved"], &[]),
            (&["Confirming", "Refuted"], &[]),
            (&["Confirming", "Undecided"], &[]),
            (&["Confirming", "SmallRegression", "Recovered"], &[]),
            (&["Confirming", "Recovered"], &[]),
            (&["Confirming", "Accepted", "Recovered"], &[]),
        ] {
            assert_eq!(told(stages), expected, "{stages:?}");
        }
    }

    #[test]
    fn what_was_so_before_is_no_news() {
        assert_eq!(due(None, Some("Regressed"), "Regressed", at(0)), None);
        assert!(due(None, None, "Regressed", at(0)).is_some());
    }

    #[test]
    fn only_the_latest_stage_waits_to_be_told() {
        let open = due(None, None, "Regressed", at(0)).unwrap();
        assert_eq!(due(Some(&open), Some("Regressed"), "Regressed", at(1)), Some(open.clone()), "its time is its id");
        assert_eq!(due(Some(&open), Some("Regressed"), "Accepted", at(1)).unwrap().stage, "Accepted");
        assert_eq!(due(Some(&open), Some("Regressed"), "SmallRegression", at(1)), None);
        let lost = Notified { next_try_time: None, ..open };
        assert_eq!(due(Some(&lost), Some("Regressed"), "SmallRegression", at(1)), Some(lost.clone()));
    }

    #[test]
    fn tries_are_further_and_further_apart_and_end() {
        let mut notified = due(None, None, "Regressed", at(0)).unwrap();
        let (mut minutes, mut now) = (Vec::new(), at(0));
        while let Some(next) = notified.next_try_time.clone() {
            minutes.push(next.0.duration_since(at(0)).as_mins());
            let left = next.0.duration_since(now);
            assert_eq!(
                [now, now + left / 2, next.0, at(5000)].map(|now| wait(&notified, now)),
                [left, left - left / 2, SignedDuration::ZERO, SignedDuration::ZERO].map(Some)
            );
            let early = now - SignedDuration::from_secs(1);
            assert_eq!(wait(&notified, early), Some(SignedDuration::ZERO), "the clock was set back");
            now = next.0;
            notified = tried(&notified, now, &Err("x".repeat(1000)));
            assert!(minutes.len() <= 20, "it never ends");
        }
        assert_eq!(minutes, [0, 2, 6, 14, 30, 62, 126, 254, 510, 1022]);
        assert_eq!((notified.tries, notified.delivered_time.clone(), wait(&notified, now)), (TRIES, None, None));
        assert!(notified.error.as_ref().unwrap().chars().count() <= ERROR);
        let delivered = tried(&Notified { tries: 3, ..notified }, now, &Ok(()));
        assert_eq!((delivered.tries, delivered.delivered_time, delivered.error), (4, Some(Time(now)), None));
    }
}
