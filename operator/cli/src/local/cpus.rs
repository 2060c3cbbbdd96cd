//! Which CPUs are the trial's, and which are ours.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use anyhow::{Context, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Who runs where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The trial's.
    pub trial: BTreeSet<usize>,
    /// Ours: what is left, or all where nothing is.
    pub runner: BTreeSet<usize>,
}

impl Cpus {
    /// Divides the CPUs that this process may use.
    ///
    /// The trial gets whole cores from the highest-numbered one down, because CPU 0 is where the kernel does most of its own
    /// work. The runner sleeps nearly all the time, so sharing CPUs with the trial on a small machine costs little.
    pub fn divide(count: u32) -> anyhow::Result<Self> {
        let own = affinity().context("can't read the CPUs of this process")?;
        let (have, want) = (own.len(), count as usize);
        if have < want {
            bail!(
                "placement.cpus asks for {want} CPUs, but this process may use only {have}: run on a larger machine, \
                 or lower placement.cpus (a new experiment)"
            );
        }
        let trial = choose(&cores(&own), want);
        let rest: BTreeSet<usize> = own.difference(&trial).copied().collect();
        let runner = if rest.is_empty() { own } else { rest };
        Ok(Self { trial, runner })
    }

    /// Runs something on the trial's CPUs: a child that it starts stays there.
    pub fn on_trial_cpus<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        pin(&self.trial)?;
        let started = start();
        pin(&self.runner)?;
        started
    }

    /// Moves this thread, and those that it starts, away from the trial.
    pub fn stand_aside(&self) -> io::Result<()> {
        pin(&self.runner)
    }
}

fn affinity() -> nix::Result<BTreeSet<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

fn pin(cpus: &BTreeSet<usize>) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// CPUs by core, hyper-threads together, in the order of their first CPU.
fn cores(own: &BTreeSet<usize>) -> Vec<Vec<usize>> {
    let mut cores: Vec<(String, Vec<usize>)> = Vec::new();
    for &cpu in own {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        // Where the kernel does not say, every CPU is a core.
        let core = fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string());
        match cores.iter_mut().find(|(known, _)| *known == core) {
            Some((_, cpus)) => cpus.push(cpu),
            None => cores.push((core, vec![cpu])),
        }
    }
    cores.into_iter().map(|(_, cpus)| cpus).collect()
}

fn choose(cores: &[Vec<usize>], count: usize) -> BTreeSet<usize> {
    let mut chosen = BTreeSet::new();
    for core in cores.iter().rev() {
        if chosen.len() + core.len() <= count {
            chosen.extend(core);
        }
    }
    let rest = cores.iter().rev().flat_map(|core| core.iter().rev());
    for cpu in rest {
        if chosen.len() >= count {
            break;
        }
        chosen.insert(*cpu);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(cores: &[&[usize]], count: usize) -> Vec<usize> {
        let cores: Vec<Vec<usize>> = cores.iter().map(|core| core.to_vec()).collect();
        choose(&cores, count).into_iter().collect()
    }

    #[test]
    fn whole_cores_from_the_top() {
        assert_eq!(chosen(&[&[0], &[1], &[2], &[3]], 2), [2, 3]);
        assert_eq!(chosen(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]], 4), [2, 3, 6, 7]);
        assert_eq!(chosen(&[&[0, 2], &[1, 3]], 3), [1, 2, 3]);
        assert_eq!(chosen(&[&[0, 1]], 1), [1]);
        assert_eq!(chosen(&[&[0], &[1]], 2), [0, 1]);
    }
}
