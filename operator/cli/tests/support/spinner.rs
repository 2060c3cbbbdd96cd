//! Programs that keep CPUs busy.

#![allow(clippy::unwrap_used)]

use std::process::{Child, Command};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A program that computes for ever on one CPU.
pub struct Spinner(Child);

impl Spinner {
    fn on(cpu: usize) -> Self {
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut set = CpuSet::new();
        set.set(cpu).unwrap();
        let spinner = Self(child);
        sched_setaffinity(Pid::from_raw(spinner.0.id().cast_signed()), &set).unwrap();
        spinner
    }

    /// One on every CPU that a trial could get.
    pub fn everywhere() -> Vec<Self> {
        let ours = sched_getaffinity(Pid::from_raw(0)).unwrap();
        (0..CpuSet::count()).filter(|&cpu| ours.is_set(cpu).unwrap_or(false)).map(Self::on).collect()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
