//! Where one thread spent its time.

use std::marker::PhantomData;
use std::path::Path;
use std::rc::Rc;

use nix::time::{ClockId, clock_gettime};

use super::read;

/// Started and stopped by the thread that it measures; it can't be moved to another one.
#[derive(Debug)]
pub struct ThreadClock {
    cpu_seconds: Option<f64>,
    run_queue_nanos: Option<u64>,
    involuntary_switches: Option<u64>,
    stays_on_its_thread: PhantomData<Rc<()>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadTime {
    pub cpu_seconds: Option<f64>,
    /// Runnable, but waiting for a CPU.
    pub run_queue_seconds: Option<f64>,
    pub involuntary_switches: Option<u64>,
}

impl ThreadClock {
    pub fn start() -> Self {
        let directory = Path::new("/proc/thread-self");
        Self {
            cpu_seconds: cpu_seconds(),
            run_queue_nanos: read::line(&directory.join("schedstat")).and_then(|line| parse_run_queue(&line)),
            involuntary_switches: read::text(&directory.join("status"))
                .and_then(|status| read::number(&status, "nonvoluntary_ctxt_switches")),
            stays_on_its_thread: PhantomData,
        }
    }

    pub fn stop(self) -> ThreadTime {
        let now = Self::start();
        ThreadTime {
            cpu_seconds: self.cpu_seconds.zip(now.cpu_seconds).map(|(before, after)| (after - before).max(0.0)),
            run_queue_seconds: read::growth(self.run_queue_nanos, now.run_queue_nanos).map(|nanos| nanos as f64 / 1e9),
            involuntary_switches: read::growth(self.involuntary_switches, now.involuntary_switches),
        }
    }
}

/// Not the first field of schedstat: that one is brought up to date by the clock tick only, so it may lack the last
/// milliseconds. The clock asks the scheduler.
pub(super) fn cpu_seconds() -> Option<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
    Some(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// The second field: time spent runnable without running, in nanoseconds.
pub(super) fn parse_run_queue(schedstat: &str) -> Option<u64> {
    let fields: Vec<u64> = schedstat.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let &[cpu, waited, slices] = fields.as_slice() else { return None };
    // A kernel that doesn't keep these numbers prints zeros, but a thread that reads its own has run.
    (cpu > 0 || waited > 0 || slices > 0).then_some(waited)
}
