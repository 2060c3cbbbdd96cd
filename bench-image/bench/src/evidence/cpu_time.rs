//! Who used our CPUs: time taken by the hypervisor and time used by other processes.
//!
//! Foreign time = wall time - idle - iowait - steal - irq - softirq - CPU time of this process, summed over our CPUs.
//!
//! **Why from the idle side.** Most kernels charge user and system time by clock tick: the whole tick goes to whoever
//! runs when it strikes. Work that wakes up after a tick and sleeps before the next one is invisible in these
//! columns, and work in step with the tick is counted many times over. The error has no bound. Idle time is kept
//! by time stamps on kernels with a stopping tick (`NO_HZ`, the default of every distribution), and so is the CPU
//! time of a process. Taking idle time from wall time avoids sampled numbers altogether. On a kernel without
//! a stopping tick idle is sampled too, and a foreign process in step with the tick stays hidden.
//!
//! **Interrupts** aren't counted as foreign: on our CPUs they are mostly completions of our own I/O, which no
//! placement could avoid, and no process stands behind them. Kernels differ, however: with exact interrupt
//! accounting they are outside of every process, else they are part of the time of whichever process they hit, and
//! we subtract them twice. The same goes for steal. So their sum is part of the resolution.
//!
//! **Kernel threads** that can be seen aren't foreign either (see `kernel_threads`). Where they can't be seen, they
//! are.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use assay_protocol::CpuList;

use super::process;
use super::read;

/// One unit of `/proc/stat`: `USER_HZ` is part of the kernel's ABI and 100 on every architecture that Rust's
/// Linux targets have.
const TICK_SECONDS: f64 = 0.01;

/// Columns of one CPU in units of [`TICK_SECONDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    pub steal: u64,
    /// User, nice and system, which hold guest time as well.
    pub busy: u64,
}

/// One reading. `earliest` and `latest` enclose the moment it is of: the file is long on large machines.
#[derive(Clone, Debug)]
pub struct Sample {
    pub earliest: Instant,
    pub latest: Instant,
    pub cpus: Option<BTreeMap<u32, Columns>>,
    pub own_seconds: Option<f64>,
}

/// In percent of the window times our CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    pub steal: Option<f64>,
    pub foreign: Option<f64>,
    pub kernel: Option<f64>,
    /// How much foreign time `foreign` may lack at most.
    pub resolution: Option<f64>,
}

impl Sample {
    /// `trusted` is false where `/proc/stat` is known not to be the kernel's.
    pub fn take(proc: &Path, trusted: bool) -> Self {
        let earliest = Instant::now();
        let stat = trusted.then(|| read::text(&proc.join("stat"))).flatten();
        let own_seconds = process::cpu_seconds();
        let latest = Instant::now();
        Self { earliest, latest, cpus: stat.as_deref().and_then(parse_stat), own_seconds }
    }

    fn uncertainty(&self) -> Duration {
        self.latest - self.earliest
    }
}

/// Every numbered `cpu` line.
pub fn parse_stat(stat: &str) -> Option<BTreeMap<u32, Columns>> {
    let mut cpus = BTreeMap::new();
    for line in stat.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { continue };
        let mut words = rest.split_whitespace();
        let Some(Ok(cpu)) = words.next().map(str::parse) else { continue };
        // The first line is the sum: its first word is already a counter.
        if rest.starts_with(' ') {
            continue;
        }
        let values: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = values.as_slice() else { return None };
        cpus.insert(cpu, Columns { idle, iowait, irq, softirq, steal, busy: user + nice + system });
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// `guest`: we know that a hypervisor is below us.
pub fn shares(before: &Sample, after: &Sample, ours: &CpuList, guest: bool, kernel_seconds: Option<f64>) -> Shares {
    growth(before, after, ours).map_or_else(Shares::default, |growth| {
        let steal_is_reported = after.cpus.iter().flatten().any(|(_, columns)| columns.steal > 0);
        let own = before.own_seconds.zip(after.own_seconds).map(|(before, after)| after - before);
        growth.shares(own, kernel_seconds, guest && !steal_is_reported)
    })
}

/// Sums over our CPUs, in seconds.
struct Growth {
    cpu_window: f64,
    not_busy: f64,
    interrupts: f64,
    steal: f64,
    rounding: f64,
}

fn growth(before: &Sample, after: &Sample, ours: &CpuList) -> Option<Growth> {
    let (first, last) = (before.cpus.as_ref()?, after.cpus.as_ref()?);
    // Middle to middle.
    let window = (after.earliest.duration_since(before.earliest) + after.latest.duration_since(before.latest)) / 2;
    let reading = (before.uncertainty() + after.uncertainty()).as_secs_f64() / 2.0;
    let cpus = ours.len() as f64;
    let cpu_window = window.as_secs_f64() * cpus;
    if cpu_window <= 0.0 {
        return None;
    }
    let (mut idle, mut interrupts, mut steal, mut counted) = (0.0, 0.0, 0.0, 0.0);
    // Our other running threads are brought up to date by the scheduler's tick: one tick for each CPU at most.
    let mut rounding = (TICK_SECONDS + reading) * cpus;
    for cpu in ours.iter() {
        let (a, b) = (first.get(&cpu)?, last.get(&cpu)?);
        // A column is rounded down at both ends, so its growth may be too large by less than one unit. One that
        // didn't grow can't be too large, and only too much of these columns hides foreign time.
        let mut column = |before: u64, after: u64| {
            let units = after.checked_sub(before)?;
            rounding += if units > 0 { TICK_SECONDS } else { 0.0 };
            Some(units as f64 * TICK_SECONDS)
        };
        idle += column(a.idle, b.idle)? + column(a.iowait, b.iowait)?;
        interrupts += column(a.irq, b.irq)? + column(a.softirq, b.softirq)?;
        steal += column(a.steal, b.steal)?;
        counted += b.busy.saturating_sub(a.busy) as f64 * TICK_SECONDS;
    }
    // Sandboxes serve a file of constants. There idle wouldn't grow and everything would look foreign.
    let counted = counted + idle + interrupts + steal + rounding;
    (counted >= cpu_window / 2.0).then_some(Growth {
        cpu_window,
        not_busy: idle + interrupts + steal,
        interrupts,
        steal,
        rounding,
    })
}

impl Growth {
    fn shares(&self, own_seconds: Option<f64>, kernel_seconds: Option<f64>, steal_is_silent: bool) -> Shares {
        let percent = |seconds: f64| seconds / self.cpu_window * 100.0;
        let not_foreign = self.not_busy + kernel_seconds.unwrap_or_default();
        let foreign = own_seconds.map(|own| percent((self.cpu_window - not_foreign - own).max(0.0)));
        Shares {
            // A guest that never saw steal on any CPU since boot most likely isn't told about it.
            steal: (!steal_is_silent).then(|| percent(self.steal)),
            foreign,
            kernel: kernel_seconds.map(percent),
            resolution: foreign.map(|_| percent(self.rounding + self.interrupts + self.steal)),
        }
    }
}
