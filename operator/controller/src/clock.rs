//! What time it is. Nobody else asks the machine (see clippy.toml), so that a simulation can put a clock of its own in this place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

pub type SharedClock = Arc<dyn Clock>;

pub trait Clock: Send + Sync {
    /// The time of day, which objects have. It may be off, and may jump.
    fn time(&self) -> Timestamp;

    /// A time that never jumps, to measure how long something takes.
    fn instant(&self) -> Instant;

    /// How long ago something was.
    fn since(&self, then: Instant) -> Duration {
        self.instant().saturating_duration_since(then)
    }
}

/// The clocks of this machine.
pub struct System;

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
impl Clock for System {
    fn time(&self) -> Timestamp {
        Timestamp::now()
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }
}

#[cfg(test)]
pub mod testing {
    use std::sync::Mutex;

    use super::{Arc, Clock, Duration, Instant, System, Timestamp};
    use crate::lock::locked;

    /// A clock that stands still until it is moved.
    pub struct Manual {
        begin: Instant,
        passed: Mutex<Duration>,
    }

    impl Manual {
        pub fn new() -> Arc<Self> {
            Arc::new(Self { begin: System.instant(), passed: Mutex::default() })
        }

        pub fn pass(&self, time: Duration) {
            *locked(&self.passed) += time;
        }
    }

    impl Clock for Manual {
        fn time(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH + *locked(&self.passed)
        }

        fn instant(&self) -> Instant {
            self.begin + *locked(&self.passed)
        }
    }
}
