//! The time by which steps are measured. Tests have one that moves only when they say so; which one it is, is settled when the
//! program is compiled.

use std::{
    thread,
    time::{Duration, Instant},
};

pub trait Clock: Copy {
    fn now(self) -> Instant;
    fn sleep(self, time: Duration);
}

/// The machine's own.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(self) -> Instant {
        Instant::now()
    }

    #[inline]
    fn sleep(self, time: Duration) {
        thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sleeps_is_not_woken_too_soon() {
        let (time, began) = (Duration::from_millis(5), Monotonic.now());
        Monotonic.sleep(time);
        assert!(began.elapsed() >= time);
    }
}
