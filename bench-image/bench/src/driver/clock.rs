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
