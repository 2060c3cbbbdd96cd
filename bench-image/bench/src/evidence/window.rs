//! The probe that is opened once, and the window that it watches.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use assay_protocol::{CpuList, Disturbance, Host, Placement, Storage};
use nix::time::{ClockId, clock_gettime};

use super::Roots;
use super::affinity;
use super::cgroup::{Cgroups, Throttling};
use super::cpu_time::{self, Sample};
use super::host;
use super::kernel_threads::KernelThreads;
use super::mounts;
use super::neighbours::Neighbours;
use super::pressure;
use super::process::ProcessUsage;
use super::read;
use super::storage::{Level, Location};

/// Facts that hold for the whole trial, read once. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Probe(Arc<Facts>);

#[derive(Debug)]
struct Facts {
    roots: Roots,
    requested_cpus: u32,
    host: Host,
    cgroups: Cgroups,
    pressure: pressure::Sources,
    location: Location,
    guest: bool,
    stat_is_the_kernels: bool,
}

/// Counters from when the window opened.
#[derive(Debug)]
pub struct Window {
    facts: Arc<Facts>,
    affinity: Option<CpuList>,
    throttling: Throttling,
    level: Level,
    process: ProcessUsage,
    others: pressure::Others,
    pressure: pressure::Totals,
    opened: Instant,
    clock_offset: Option<i128>,
    neighbours: Option<Neighbours>,
    kernel: Option<KernelThreads>,
    cpu: Sample,
}

impl Probe {
    /// `data_dir` must exist; what can't be found out about it stays unknown.
    pub fn open(roots: Roots, data_dir: &Path, requested_cpus: u32) -> Self {
        let cgroups = Cgroups::find(&roots);
        let mounts = mounts::parse(&read::text(&roots.proc.join("self/mountinfo")).unwrap_or_default());
        Self(Arc::new(Facts {
            host: host::read(&roots, affinity::of_process(&roots.proc).as_ref()),
            pressure: pressure::Sources::find(&roots.proc, cgroups.unified()),
            location: Location::find(&roots, data_dir),
            guest: host::is_guest(&roots.proc),
            // lxcfs mounts a file over it that knows only the container's own time.
            stat_is_the_kernels: !mounts.iter().any(|mount| mount.point == Path::new("/proc/stat")),
            cgroups,
            requested_cpus,
            roots,
        }))
    }

    pub fn host(&self) -> Host {
        self.0.host.clone()
    }

    /// Call when the measured window opens.
    pub fn begin(&self) -> Window {
        let facts = Arc::clone(&self.0);
        let proc = &facts.roots.proc;
        let affinity = affinity::of_process(proc);
        // From slow to fast and from slowly to quickly changing: the CPU times are read last, nearest to the work.
        Window {
            others: pressure::Others::read(facts.cgroups.others()),
            neighbours: Neighbours::read(proc),
            kernel: affinity.as_ref().and_then(|ours| KernelThreads::read(proc, ours)),
            affinity,
            throttling: facts.cgroups.throttling(),
            level: facts.location.level(proc),
            process: ProcessUsage::read(proc),
            pressure: facts.pressure.read(),
            opened: Instant::now(),
            clock_offset: clock_offset(nanos),
            cpu: Sample::take(proc, facts.stat_is_the_kernels),
            facts,
        }
    }
}

impl Window {
    /// Call when the measured window closes, before anything else.
    pub fn end(self) -> (Placement, Storage, Disturbance) {
        let facts = &self.facts;
        let proc = &facts.roots.proc;
        let cpu = Sample::take(proc, facts.stat_is_the_kernels);
        let clock_offset = clock_offset(nanos);
        let window = self.opened.elapsed();
        let pressure = self.pressure.until(facts.pressure.read(), window);
        let others = self.others.until(window);
        let process = ProcessUsage::read(proc).since(&self.process);
        let storage = facts.location.storage(&self.level, &facts.location.level(proc));
        let (throttled_periods, throttled_seconds) = self.throttling.until(&facts.cgroups.throttling());
        let affinity = affinity::of_process(proc);
        let kernel = affinity.as_ref().and_then(|ours| KernelThreads::read(proc, ours));
        let kernel = kernel.as_ref().zip(self.kernel.as_ref()).map(|(now, earlier)| now.seconds_since(earlier));

        // Our CPU time can be taken off our CPUs only if all of it was spent there.
        let ours = self.affinity.as_ref().filter(|before| affinity.as_ref() == Some(*before));
        let neighbours = Neighbours::read(proc).zip(self.neighbours.as_ref()).zip(self.affinity.as_ref());
        let neighbours = neighbours.map(|((now, earlier), ours)| now.since(earlier, ours, window));
        let shares = ours.map(|ours| cpu_time::shares(&self.cpu, &cpu, ours, facts.guest, kernel)).unwrap_or_default();
        let disturbance = Disturbance {
            throttled_periods,
            throttled_seconds,
            steal_percent: shares.steal,
            foreign_cpu_percent: shares.foreign,
            kernel_cpu_percent: shares.kernel,
            foreign_cpu_resolution_percent: shares.resolution,
            cpu_pressure_some_percent: pressure.cpu_some,
            memory_pressure_full_percent: pressure.memory_full,
            foreign_memory_pressure_percent: pressure.memory_full.zip(others).map(|(own, others)| own.min(others)),
            io_pressure_full_percent: pressure.io_full,
            involuntary_switches: process.involuntary_switches,
            major_faults: process.major_faults,
            clock_step_seconds: clock_step(self.clock_offset, clock_offset),
            neighbours,
        };
        (self.placement(affinity.as_ref()), storage, disturbance)
    }

    fn placement(&self, after: Option<&CpuList>) -> Placement {
        let facts = &self.facts;
        Placement {
            requested_cpus: facts.requested_cpus,
            affinity_before: self.affinity.as_ref().map(CpuList::to_string),
            affinity_after: after.map(CpuList::to_string),
            affinity_cpus: self.affinity.as_ref().and_then(|cpus| cpus.len().try_into().ok()),
            cpuset: facts.cgroups.cpuset().map(|cpus| cpus.to_string()),
            quota_cpus: facts.cgroups.quota_cpus(),
            whole_cores: self.affinity.as_ref().and_then(|cpus| affinity::whole_cores(&facts.roots.sys, cpus)),
        }
    }
}

/// Wall clock minus monotonic clock, in nanoseconds. Both are slewed alike, so a change is a step (or a suspend).
///
/// Being interrupted between the two readings would look like a step: of a few tries the tightest is the best.
pub(super) fn clock_offset(mut nanos: impl FnMut(ClockId) -> Option<i128>) -> Option<i128> {
    let tries = (0..5).filter_map(|_| {
        let before = nanos(ClockId::CLOCK_MONOTONIC)?;
        let wall = nanos(ClockId::CLOCK_REALTIME)?;
        let after = nanos(ClockId::CLOCK_MONOTONIC)?;
        Some((after - before, wall - before - (after - before) / 2))
    });
    tries.min_by_key(|(gap, _)| *gap).map(|(_, offset)| offset)
}

pub(super) fn clock_step(before: Option<i128>, after: Option<i128>) -> Option<f64> {
    Some((after? - before?) as f64 / 1e9)
}

pub(super) fn nanos(clock: ClockId) -> Option<i128> {
    let time = clock_gettime(clock).ok()?;
    Some(i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec()))
}
