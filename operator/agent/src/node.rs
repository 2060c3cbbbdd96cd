//! What the agent does on its node when it is asked.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use assay_api::agent::{AgentAnswer, AgentSeen, AttemptKey, Done};
use assay_protocol::CpuList;
use tokio::sync::Mutex;
use tracing::warn;

use crate::args::Args;
use crate::{counters, page_cache, trim};

/// The most that preparing may take, whatever a clock says.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much longer work is waited for that has to end by itself by then: it knows best what was not done.
const GRACE: Duration = Duration::from_millis(200);

/// Held by what works on the node's disks. A disk that hangs keeps it, and nothing more is begun beside that.
pub type Disks = Arc<Mutex<()>>;

/// Prepares the node for an attempt, and remembers what the counters were before it. `last` is the answer before this one.
pub async fn begin(
    args: &Args,
    disks: &Disks,
    attempt: AttemptKey,
    block: &str,
    until_unix_ms: u64,
    last: Option<&AgentAnswer>,
) -> AgentAnswer {
    let left = Duration::from_millis(until_unix_ms.saturating_sub(now_ms())).min(PATIENCE);
    let deadline = Instant::now() + left;
    let own = args.clone();
    let page_cache = in_time(disks, left, move || page_cache::drop(&own.proc, deadline)).await;
    let mut trimmed = last.and_then(|last| last.trimmed.clone());
    let mut trim = None;
    if !args.trims.is_empty() && trimmed.as_deref() != Some(block) {
        let (left, own) = (deadline.saturating_duration_since(Instant::now()), args.clone());
        let work = move || trim::trim(&own.fstrim, own.mounts.as_deref(), &own.trims, deadline);
        trim = Some(done("trimming", in_time(disks, left, work).await));
        // Whether or not it could be done: what fails before one trial would fail before all of them.
        trimmed = Some(block.to_owned());
    }
    let page_cache = done("dropping the page cache", page_cache);
    AgentAnswer {
        attempt,
        page_cache,
        trim,
        trimmed,
        prepared_unix_ms: now_ms(),
        before: counters::read(&args.proc, &args.sys),
        seen: None,
    }
}

/// What an attempt met that was begun with this answer.
pub fn end(args: &Args, begun: &AgentAnswer, cpus: &Cpus) -> AgentAnswer {
    let after = counters::read(&args.proc, &args.sys);
    // The kubelet knows better than a bench what the pod had.
    let used = cpus.given.clone().or_else(|| CpuList::parse(cpus.said.as_deref()?).filter(|said| !said.is_empty()));
    let used = used.as_ref();
    let seen = AgentSeen {
        at_unix_ms: now_ms(),
        cpu_ids: cpus.given.as_ref().map(CpuList::to_string),
        throttle_events: used.and_then(|cpus| counters::throttle_events(&begun.before, &after, cpus)),
        device_interrupts: used.and_then(|cpus| counters::device_interrupts(&begun.before, &after, cpus)),
    };
    AgentAnswer { seen: Some(seen), ..begun.clone() }
}

/// The CPUs of an attempt.
#[derive(Default)]
pub struct Cpus {
    /// Those that the kubelet gave to its pod alone.
    pub given: Option<CpuList>,
    /// Those that its bench says it ran on.
    pub said: Option<String>,
}

/// What is not done when the attempt begins must be left undone: within it, it would be a disturbance. The work has to see to that
/// itself, as nobody can stop it.
async fn in_time(
    disks: &Disks,
    left: Duration,
    work: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Result<(), String> {
    if left.is_zero() {
        return Err("no time left: the request came too late, or the clocks differ".to_owned());
    }
    let Ok(held) = Arc::clone(disks).try_lock_owned() else {
        return Err("work from before an earlier trial has not ended: check for a hung disk".to_owned());
    };
    let work = move || {
        let _held = held;
        work()
    };
    match tokio::time::timeout(left + GRACE, tokio::task::spawn_blocking(work)).await {
        Ok(worked) => worked.unwrap_or_else(|error| Err(error.to_string())),
        Err(_) => Err("not finished when the trial started".to_owned()),
    }
}

fn done(what: &str, result: Result<(), String>) -> Done {
    match result {
        Ok(()) => Done::Yes,
        Err(why) => {
            warn!(why, "{what} failed");
            Done::No(why)
        }
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn key(pod: &str) -> AttemptKey {
        AttemptKey {
            namespace: "team".to_owned(),
            experiment: "e".to_owned(),
            pod: pod.to_owned(),
            trial: "uid".to_owned(),
            refusals: 0,
        }
    }

    /// A node of folders, whose CPUs count as told.
    fn node(trims: &[&str]) -> (tempfile::TempDir, Args) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (proc, sys) = (path("proc"), path("sys"));
        std::fs::create_dir_all(path("proc/sys/vm")).unwrap();
        let args = ["assay-agent", "--node", "n", "--node-lease-namespace", "l", "--fstrim", "/bin/true"];
        let trims = trims.iter().flat_map(|trim| ["--trim", trim]);
        let args = args.into_iter().chain(["--proc", &proc, "--sys", &sys]).chain(trims);
        let args = Args::parse_from(args);
        count(&args, 0);
        (folder, args)
    }

    fn count(args: &Args, count: u32) {
        std::fs::write(args.proc.join("interrupts"), format!(" CPU0 CPU1\n 9: {count} 7 nvme0q1\n")).unwrap();
        for cpu in ["cpu0", "cpu1"] {
            let folder = args.sys.join("devices/system/cpu").join(cpu).join("thermal_throttle");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("core_throttle_count"), format!("{count}\n")).unwrap();
            std::fs::write(folder.join("package_throttle_count"), "1\n").unwrap();
        }
    }

    #[tokio::test]
    async fn an_attempt_is_prepared_and_watched() {
        let (_folder, args) = node(&[]);
        let begun = begin(&args, &Disks::default(), key("a"), "b", now_ms() + 60_000, None).await;
        assert_eq!((&begun.page_cache, &begun.trim, &begun.seen), (&Done::Yes, &None, &None));
        assert_eq!(std::fs::read_to_string(args.proc.join("sys/vm/drop_caches")).unwrap(), "1");
        count(&args, 3);
        let seen = |given: Option<&[u32]>, said: Option<&str>| {
            let given = given.map(|cpus| cpus.iter().copied().collect());
            let seen = end(&args, &begun, &Cpus { given, said: said.map(str::to_owned) }).seen.unwrap();
            assert!(seen.at_unix_ms >= begun.prepared_unix_ms);
            AgentSeen { at_unix_ms: 0, ..seen }
        };
        let three = AgentSeen { throttle_events: Some(3), device_interrupts: Some(3), ..AgentSeen::default() };
        assert_eq!(seen(None, Some("0-1")), three);
        assert_eq!(seen(Some(&[0]), Some("1")), AgentSeen { cpu_ids: Some("0".to_owned()), ..three });
        for unknown in [None, Some("all"), Some("0,7")] {
            assert_eq!(seen(None, unknown), AgentSeen::default());
        }
    }

    #[tokio::test]
    async fn what_comes_too_late_is_left() {
        let (_folder, args) = node(&["/mnt"]);
        let begun = begin(&args, &Disks::default(), key("a"), "b", now_ms(), None).await;
        assert!(matches!((&begun.page_cache, &begun.trim), (Done::No(_), Some(Done::No(_)))), "{begun:?}");
        assert!(!args.proc.join("sys/vm/drop_caches").exists());
    }

    #[tokio::test]
    async fn nothing_is_begun_beside_what_hangs() {
        let (_folder, args) = node(&["/mnt"]);
        let disks = Disks::default();
        let hanging = disks.lock().await;
        let begun = begin(&args, &disks, key("a"), "b", now_ms() + 60_000, None).await;
        let Done::No(why) = &begun.page_cache else { unreachable!("{begun:?}") };
        assert!(why.contains("has not ended"), "{why}");
        assert!(!args.proc.join("sys/vm/drop_caches").exists());
        drop(hanging);
        assert_eq!(begin(&args, &disks, key("b"), "b", now_ms() + 60_000, None).await.page_cache, Done::Yes);
    }

    #[tokio::test]
    async fn file_systems_are_trimmed_once_in_a_block() {
        let (_folder, args) = node(&["/mnt"]);
        let mut last = None;
        for (pod, block, is_due) in [("a", "1", true), ("b", "1", false), ("c", "2", true)] {
            let begun = begin(&args, &Disks::default(), key(pod), block, now_ms() + 60_000, last.as_ref()).await;
            assert_eq!(begun.trim, is_due.then_some(Done::Yes), "{pod}");
            last = Some(begun);
        }
    }
}
