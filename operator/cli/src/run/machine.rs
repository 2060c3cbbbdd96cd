//! The machine that trials run on: its CPUs, its clock, its boots.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use assay_record::Digest;
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
        let own = affinity().context("the CPUs of this process can't be read")?;
        let (have, want) = (own.len(), count as usize);
        if have < want {
            bail!(
                "placement.cpus asks for {want} CPUs, but this process may use {have}: run on a larger machine, or lower \
                 placement.cpus (which is another experiment)"
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
        // Where the kernel does not tell, every CPU is a core.
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

pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Digest of the boot id, as records have it.
pub fn boot() -> Option<Digest> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(Digest::of(id.trim().as_bytes()))
}

/// Bytes that an ordinary user may still fill in the file system of an existing path.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)?;
    Ok(stat.blocks_available() as u64 * stat.fragment_size() as u64)
}

/// Bytes that removing a directory would free: a file with several names is there once. Nothing where there is none.
pub fn used_bytes(dir: &Path) -> io::Result<u64> {
    let (mut bytes, mut seen) = (0, BTreeSet::new());
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        // What was there a moment ago may be gone.
        let Some(entries) = if_there(fs::read_dir(&dir))? else { continue };
        for entry in entries {
            let entry = entry?;
            let Some(metadata) = if_there(entry.metadata())? else { continue };
            if metadata.is_dir() {
                dirs.push(entry.path());
            } else if seen.insert((metadata.dev(), metadata.ino())) {
                // Of 512 bytes, whatever those of the file system are.
                bytes += 512 * metadata.blocks();
            }
        }
    }
    Ok(bytes)
}

fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        found => found.map(Some),
    }
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

    #[test]
    fn links_take_no_room_and_files_take_what_they_fill() {
        let dir = tempfile::TempDir::new().unwrap();
        let work = dir.path().join("work");
        assert_eq!(used_bytes(&work).unwrap(), 0, "there is none");
        fs::create_dir_all(work.join("trials/one")).unwrap();
        fs::write(work.join("data"), vec![1; 1 << 20]).unwrap();
        let once = used_bytes(&work).unwrap();
        assert!((1 << 20..2 << 20).contains(&once), "{once}");
        fs::hard_link(work.join("data"), work.join("trials/one/data")).unwrap();
        fs::File::create(work.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(used_bytes(&work).unwrap(), once);
        fs::write(work.join("trials/one/own"), vec![1; 1 << 20]).unwrap();
        assert!(used_bytes(&work).unwrap() >= once + (1 << 20));
    }
}
