//! What this process used.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::read;

/// Counters since the process started, threads that have ended included, children not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    pub user_seconds: Option<f64>,
    pub system_seconds: Option<f64>,
    pub involuntary_switches: Option<u64>,
    pub major_faults: Option<u64>,
    pub rss_bytes: Option<u64>,
    /// Since the process started, or since [`PeakRss::begin`] reset it.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes that were really fetched from storage.
    pub read_bytes: Option<u64>,
    /// Bytes that this process made dirty or wrote directly, whether or not they have reached storage.
    pub write_bytes: Option<u64>,
}

/// Growth over a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessDelta {
    pub user_seconds: Option<f64>,
    pub system_seconds: Option<f64>,
    pub involuntary_switches: Option<u64>,
    pub major_faults: Option<u64>,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
}

impl ProcessUsage {
    pub fn now() -> Self {
        Self::read(Path::new("/proc"))
    }

    pub(super) fn read(proc: &Path) -> Self {
        // getrusage rather than a sum over /proc/self/task: it keeps what ended threads used.
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let usage = usage.as_ref();
        let status = read::text(&proc.join("self/status")).unwrap_or_default();
        let io = read::text(&proc.join("self/io")).unwrap_or_default();
        Self {
            user_seconds: usage.map(|usage| seconds(usage.user_time())),
            system_seconds: usage.map(|usage| seconds(usage.system_time())),
            involuntary_switches: usage.and_then(|usage| usage.involuntary_context_switches().try_into().ok()),
            major_faults: usage.and_then(|usage| usage.major_page_faults().try_into().ok()),
            rss_bytes: read::kilobytes(&status, "VmRSS"),
            peak_rss_bytes: read::kilobytes(&status, "VmHWM"),
            read_bytes: read::number(&io, "read_bytes"),
            write_bytes: read::number(&io, "write_bytes"),
        }
    }

    pub fn since(&self, before: &Self) -> ProcessDelta {
        let span = |before: Option<f64>, after: Option<f64>| Some((after? - before?).max(0.0));
        ProcessDelta {
            user_seconds: span(before.user_seconds, self.user_seconds),
            system_seconds: span(before.system_seconds, self.system_seconds),
            involuntary_switches: read::growth(before.involuntary_switches, self.involuntary_switches),
            major_faults: read::growth(before.major_faults, self.major_faults),
            read_bytes: read::growth(before.read_bytes, self.read_bytes),
            write_bytes: read::growth(before.write_bytes, self.write_bytes),
        }
    }
}

/// User and system time together, by itself because it's read in a hurry. The kernel keeps the sum in nanoseconds;
/// only its split follows the clock tick.
pub(super) fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// How a peak was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeakMethod {
    /// The kernel's own mark, reset when the window opened: exact.
    KernelMark,
    /// The largest sample, because the mark couldn't be reset: shorter peaks are missing.
    Sampled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssPeak {
    pub bytes: Option<u64>,
    pub method: PeakMethod,
}

/// The largest resident size within a window. The kernel's mark counts from the start of the process, where
/// preparing the dataset would hide what the window needed, so it is reset.
#[derive(Debug)]
pub struct PeakRss {
    proc: PathBuf,
    method: PeakMethod,
    largest_sample: AtomicU64,
}

impl PeakRss {
    pub fn begin() -> Self {
        Self::begin_in(Path::new("/proc"))
    }

    pub(super) fn begin_in(proc: &Path) -> Self {
        let method = if reset_mark(proc) { PeakMethod::KernelMark } else { PeakMethod::Sampled };
        let peak = Self { proc: proc.to_owned(), method, largest_sample: AtomicU64::new(0) };
        peak.sample();
        peak
    }

    /// Call once a second or so, from any thread. Without effect on an exact peak.
    pub fn sample(&self) {
        if self.method == PeakMethod::Sampled
            && let Some(bytes) = self.read("VmRSS")
        {
            self.largest_sample.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    pub fn end(&self) -> RssPeak {
        self.sample();
        let bytes = match self.method {
            PeakMethod::KernelMark => self.read("VmHWM"),
            PeakMethod::Sampled => Some(self.largest_sample.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0),
        };
        RssPeak { bytes, method: self.method }
    }

    fn read(&self, key: &str) -> Option<u64> {
        read::kilobytes(&read::text(&self.proc.join("self/status"))?, key)
    }
}

fn reset_mark(proc: &Path) -> bool {
    let file = OpenOptions::new().write(true).open(proc.join("self/clear_refs"));
    file.is_ok_and(|mut file| file.write_all(b"5").is_ok())
}
