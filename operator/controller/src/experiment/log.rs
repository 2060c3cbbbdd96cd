//! The log of a pod that has ended, which may not be there at once: a kubelet, or an API server, may be just starting again.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tracing::warn;

use super::outcome::node_lost;
use super::{RETRY, Reconcile};
use crate::error::{self, Error};
use crate::logs::{Log, Whose};

/// How long a log is asked for that can't be read. What an agent has counted is of no use to an attempt that ends a minute later.
const PATIENCE: Duration = Duration::from_secs(30);

/// A log that can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// When it was asked for first.
    since: Instant,
    /// When that failed last.
    last: Instant,
}

impl Unread {
    /// What is remembered of a log that was asked for then, and could not be read until now; `None` once it is given up.
    pub fn next(before: Option<Self>, asked: Instant, now: Instant) -> Option<Self> {
        // Before that it waited for room.
        let asked = now.checked_sub(error::PATIENCE).map_or(asked, |earliest| asked.max(earliest));
        let since = before.map_or(asked, |before| before.since);
        (now.saturating_duration_since(since) < PATIENCE).then_some(Self { since, last: now })
    }
}

impl Reconcile<'_> {
    /// The end of a pod's log; `None` while too many others are read, or while it may yet be read.
    pub async fn log(&self, pod: &Pod) -> Result<Option<Log>, Error> {
        let (uid, asked) = (pod.uid().unwrap_or_default(), self.instant());
        let before = self.memory().unread.get(&uid).copied();
        // Others may wake this experiment all the time, and each call may take as long as one that nobody answers.
        if let Some(left) = before.and_then(|unread| RETRY.checked_sub(self.elapsed(unread.last))) {
            self.wake_in(left);
            return Ok(None);
        }
        let error = match self.log_now(pod).await {
            Ok(log) => {
                if log.is_some() {
                    self.memory().unread.remove(&uid);
                }
                return Ok(log);
            }
            Err(error) => error,
        };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let is_lost = is_final(&error) || node.is_some_and(|node| node_lost(self, node).is_some());
        let Some(unread) = Unread::next(before, asked, self.instant()).filter(|_| !is_lost) else { return Err(error) };
        if before.is_none() {
            warn!(pod = pod.name_any(), error = error.message(), "can't read its log: will retry");
        }
        self.memory().unread.insert(uid, unread);
        self.wake_in(RETRY);
        Ok(None)
    }

    /// The same for whoever can do without it.
    pub async fn log_now(&self, pod: &Pod) -> Result<Option<Log>, Error> {
        let (namespace, experiment) = (self.namespace.clone(), self.name.clone());
        let whose = Whose { namespace, experiment, pod: pod.name_any() };
        let log = self.cluster().logs.end_of(&self.room, &whose, &self.api()).await?;
        if log.is_none() {
            // Nobody else may ask before what is kept for others is free again.
            self.wake_in(RETRY);
        }
        Ok(log)
    }
}

/// What is said of a log that is there no more, or is not for us, stays true.
fn is_final(error: &Error) -> bool {
    error.is_not_found() || error.is_refusal()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;

    #[test]
    fn a_log_that_cannot_be_read_is_given_up_in_time() {
        // How long each call takes, and how often one is made.
        for (takes, calls) in [(0, 7), (3, 5), (20, 2)] {
            let clock = Manual::new();
            let (begin, mut unread, mut count) = (clock.instant(), None, 0);
            loop {
                let asked = clock.instant();
                clock.pass(Duration::from_secs(takes));
                count += 1;
                unread = Unread::next(unread, asked, clock.instant());
                if unread.is_none() {
                    break;
                }
                clock.pass(RETRY);
            }
            let took = clock.instant().saturating_duration_since(begin);
            assert_eq!(count, calls, "{takes}");
            assert!(took < Duration::from_mins(1), "{takes}: {took:?}");
        }
    }

    #[test]
    fn whoever_has_waited_for_room_is_as_patient() {
        let clock = Manual::new();
        let asked = clock.instant();
        clock.pass(Duration::from_mins(10));
        assert!(Unread::next(None, asked, clock.instant()).is_some());
    }

    #[test]
    fn an_answer_that_stays_true_is_believed_at_once() {
        let answer =
            |code| Error::from(kube::Error::Api(Status::failure("because", "Because").with_code(code).boxed()));
        for (code, is_believed) in
            [(400, true), (403, true), (404, true), (422, true), (429, false), (500, false), (502, false), (503, false)]
        {
            assert_eq!(is_final(&answer(code)), is_believed, "{code}");
        }
        assert!(!is_final(&Error::Silent));
    }
}
