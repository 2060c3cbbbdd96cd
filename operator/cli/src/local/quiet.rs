//! Waiting until others leave the trial's CPUs alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use assay_core::gates::CPU_PERCENT;

use super::interrupted::Interrupted;

/// How long CPUs are watched at a time. Clock ticks of 10 ms tell half a percent of one CPU then.
const WATCHED: Duration = Duration::from_secs(2);
/// Between two looks at whether Ctrl-C was pressed.
const STEP: Duration = Duration::from_millis(100);
/// Programs that are named.
const NAMED: usize = 3;

/// What some CPUs and all processes have done since the machine has started, in clock ticks.
#[derive(Clone, Debug, Default)]
struct Ticks {
    busy: u64,
    all: u64,
    /// By process number: its name and its time, if it ran last on one of these CPUs.
    processes: BTreeMap<u32, (String, u64)>,
}

/// How much of some CPUs others used.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    percent: f64,
    /// The busiest programs, with their shares of the same.
    by: Vec<(String, f64)>,
}

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "other programs use {:.0} % of the trial's CPUs", self.percent)?;
        if !self.by.is_empty() {
            let each: Vec<String> = self.by.iter().map(|(name, percent)| format!("{name} {percent:.0} %")).collect();
            write!(f, " ({})", each.join(", "))?;
        }
        Ok(())
    }
}

/// Waits until CPUs are as idle as the gate Isolated asks of a trial's, or for as long as it may. `say` hears why it waits, and how that
/// ended.
pub fn wait(cpus: &BTreeSet<usize>, longest: Duration, stop: &AtomicBool, say: impl Fn(&str)) -> anyhow::Result<()> {
    wait_for(longest, say, || {
        let before = Ticks::read(cpus)?;
        let began = Instant::now();
        while began.elapsed() < WATCHED {
            if stop.load(Ordering::SeqCst) {
                return Err(Interrupted.into());
            }
            thread::sleep(STEP);
        }
        Ticks::read(cpus)?.since(&before)
    })
}

fn wait_for(longest: Duration, say: impl Fn(&str), watch: impl Fn() -> anyhow::Result<Busy>) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut waits = false;
    loop {
        let busy = watch()?;
        let seconds = began.elapsed().as_secs();
        if busy.percent <= CPU_PERCENT {
            if waits {
                say(&format!("assay: the machine is quiet after {seconds} s"));
            }
            return Ok(());
        }
        if began.elapsed() >= longest {
            say(&format!("assay: not quiet after {seconds} s, so the trial runs anyway: {busy}"));
            return Ok(());
        }
        if !waits {
            say(&format!("assay: waiting for a quiet machine: {busy}"));
            waits = true;
        }
    }
}

impl Ticks {
    fn read(cpus: &BTreeSet<usize>) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string("/proc/stat").context("can't read /proc/stat, which tells how busy the CPUs are")?;
        let mut ticks = Self::of_cpus(&text, cpus);
        for entry in fs::read_dir("/proc").context("can't read /proc")?.flatten() {
            // One that has ended meanwhile is not there any more.
            if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
                && let Ok(text) = fs::read_to_string(entry.path().join("stat"))
                && let Some((name, time)) = of_process(&text, cpus)
            {
                ticks.processes.insert(pid, (name, time));
            }
        }
        Ok(ticks)
    }

    /// By the lines of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal. Interrupts end what devices have begun, often for
    /// the trial before.
    fn of_cpus(text: &str, cpus: &BTreeSet<usize>) -> Self {
        let mut ticks = Self::default();
        for line in text.lines() {
            let mut columns = line.split_ascii_whitespace();
            let cpu = columns.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
            if cpu.is_some_and(|cpu| cpus.contains(&cpu)) {
                let columns: Vec<u64> = columns.take(8).filter_map(|column| column.parse().ok()).collect();
                ticks.all += columns.iter().sum::<u64>();
                ticks.busy += [0, 1, 2, 7].iter().filter_map(|&column| columns.get(column)).sum::<u64>();
            }
        }
        ticks
    }

    fn since(&self, before: &Self) -> anyhow::Result<Busy> {
        let all = self.all.saturating_sub(before.all);
        if all == 0 {
            bail!("/proc/stat does not tell how busy the CPUs are: leave out --wait-for-quiet");
        }
        let percent = |ticks: u64| 100.0 * ticks as f64 / all as f64;
        let mut by: BTreeMap<&str, u64> = BTreeMap::new();
        for (pid, (name, time)) in &self.processes {
            let earlier = before.processes.get(pid).map_or(*time, |(_, earlier)| *earlier);
            *by.entry(name).or_default() += time.saturating_sub(earlier);
        }
        let mut by: Vec<(String, f64)> = by
            .into_iter()
            .map(|(name, ticks)| (name.to_owned(), percent(ticks)))
            .filter(|(_, percent)| *percent >= 0.5)
            .collect();
        by.sort_by(|a, b| b.1.total_cmp(&a.1));
        by.truncate(NAMED);
        Ok(Busy { percent: percent(self.busy.saturating_sub(before.busy)), by })
    }
}

/// Name and CPU time of a process that ran last on one of these CPUs, by its /proc/PID/stat. The name may have spaces and brackets.
fn of_process(text: &str, cpus: &BTreeSet<usize>) -> Option<(String, u64)> {
    let (head, rest) = text.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    let columns: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Columns 14, 15 and 39 of the whole line, of which the name ends the second.
    let number = |column: usize| columns.get(column - 3)?.parse::<u64>().ok();
    let here = cpus.contains(&usize::try_from(number(39)?).ok()?);
    here.then_some((name.to_owned(), number(14)? + number(15)?))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn process(name: &str, user: u64, system: u64, cpu: usize) -> String {
        let middle = vec!["0"; 23].join(" ");
        format!("7 ({name}) R 1 1 1 0 -1 0 0 0 0 0 {user} {system} {middle} {cpu} 0 0\n")
    }

    fn ticks(user: u64, steal: u64, idle: u64, time: u64) -> Ticks {
        let text =
            format!("cpu  9 9 9 9\ncpu0 900 0 0 100 0 0 0 0\ncpu1 {user} 0 0 {idle} 5 7 9 {steal} 3 3\nintr 1\n");
        let mut ticks = Ticks::of_cpus(&text, &BTreeSet::from([1]));
        ticks.processes = BTreeMap::from([(7, ("cc1 (plus)".to_owned(), time))]);
        ticks
    }

    #[test]
    fn who_uses_the_trials_cpus_is_told_with_a_share() {
        let busy = ticks(130, 20, 1150, 55).since(&ticks(100, 10, 1000, 30)).unwrap();
        // 30 of 190 ticks, and 10 that the hypervisor took.
        assert!((busy.percent - 100.0 * 40.0 / 190.0).abs() < 1e-9, "{busy:?}");
        assert_eq!(busy.to_string(), "other programs use 21 % of the trial's CPUs (cc1 (plus) 13 %)");
        // A sandbox has a file of constants.
        assert!(ticks(1, 1, 1, 1).since(&ticks(1, 1, 1, 1)).is_err());
    }

    #[test]
    fn a_process_counts_where_it_ran_last() {
        let text = process("cc1 (plus)", 40, 2, 1);
        assert_eq!(of_process(&text, &BTreeSet::from([1])), Some(("cc1 (plus)".to_owned(), 42)));
        assert_eq!(of_process(&text, &BTreeSet::from([0, 2])), None);
        assert_eq!(of_process("7 (broken", &BTreeSet::from([1])), None);
    }

    #[test]
    fn it_waits_until_it_is_quiet_or_as_long_as_it_may() {
        let waited = |longest: u64, shares: &[f64]| {
            let (said, looks) = (RefCell::new(Vec::new()), Cell::new(0));
            let watch = || {
                let look = looks.replace(looks.get() + 1);
                Ok(Busy { percent: shares[look], by: Vec::new() })
            };
            wait_for(Duration::from_secs(longest), |text| said.borrow_mut().push(text.to_owned()), watch).unwrap();
            (looks.get(), said.into_inner())
        };
        assert_eq!(waited(60, &[1.0]), (1, Vec::new()));
        let (looks, said) = waited(60, &[30.0, 1.1, 0.9]);
        assert_eq!((looks, said.len()), (3, 2));
        assert!(said[0].contains("waiting") && said[0].contains("30 %") && said[1].contains("quiet after"), "{said:?}");
        let (looks, said) = waited(0, &[30.0, 0.0]);
        assert!(looks == 1 && said.len() == 1 && said[0].contains("runs anyway"), "{said:?}");
    }
}
