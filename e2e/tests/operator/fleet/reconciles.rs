//! How long the longest reconcile took. An operator shows only how many took at most so and so long, so it is asked every second: between
//! two answers few reconciles end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::operator::{Operator, get};

const NAME: &str = "assay_reconcile_duration_seconds_";

/// Reconciles that have ended, whatever came of them.
#[derive(Clone, Default)]
struct Reconciles {
    count: u64,
    seconds: f64,
    /// By the upper end of a bucket, in order: how many took no longer.
    within: Vec<(f64, u64)>,
}

impl Reconciles {
    fn of(metrics: &str) -> Self {
        let mut found = Self::default();
        for (name, value) in metrics.lines().filter_map(|line| line.strip_prefix(NAME)?.rsplit_once(' ')) {
            let number: f64 = value.parse().unwrap_or_default();
            if name.starts_with("count") {
                found.count += number as u64;
            } else if name.starts_with("sum") {
                found.seconds += number;
            } else if let Some(end) = end_of(name) {
                match found.within.iter_mut().find(|(known, _)| *known == end) {
                    Some((_, within)) => *within += number as u64,
                    None => found.within.push((end, number as u64)),
                }
            }
        }
        found.within.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        found
    }

    /// The most that one may have taken of those that have ended since. It is what the only one took.
    fn longest_since(&self, before: &Self) -> f64 {
        let ended = self.count.saturating_sub(before.count);
        let was = |end: f64| before.within.iter().find(|(known, _)| *known == end).map_or(0, |(_, within)| *within);
        let end = self.within.iter().find(|(end, within)| within.saturating_sub(was(*end)) == ended);
        let all = (self.seconds - before.seconds).max(0.0);
        if ended == 0 { 0.0 } else { end.map_or(all, |(end, _)| end.min(all)) }
    }
}

/// The upper end of a bucket.
fn end_of(name: &str) -> Option<f64> {
    let (_, end) = name.strip_prefix("bucket")?.split_once("le=\"")?;
    end.split_once('"')?.0.replace('+', "").parse().ok()
}

/// The longest so far, and what there was at that time.
pub struct Longest {
    seen: Arc<Mutex<(f64, Reconciles)>>,
    task: AbortHandle,
}

impl Longest {
    /// From now on.
    pub fn watch(operator: &Operator) -> Self {
        let (seen, port) = (Arc::<Mutex<(f64, Reconciles)>>::default(), operator.port());
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                add(&shared, &get(port, "/metrics").await);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        Self { seen, task: task.abort_handle() }
    }

    pub async fn end(self, operator: &Operator) -> Duration {
        self.task.abort();
        add(&self.seen, &operator.get("/metrics").await);
        Duration::from_secs_f64(self.seen.lock().expect("reconciles").0)
    }
}

fn add(seen: &Mutex<(f64, Reconciles)>, metrics: &str) {
    let now = Reconciles::of(metrics);
    let mut seen = seen.lock().expect("reconciles");
    // No answer is no news.
    if now.count >= seen.1.count {
        seen.0 = seen.0.max(now.longest_since(&seen.1));
        seen.1 = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(ok: [u64; 3], error: [u64; 3], seconds: f64) -> String {
        let of = |result: &str, [fast, slow, all]: [u64; 3], seconds: f64| {
            format!(
                "{NAME}sum{{result=\"{result}\"}} {seconds}\n{NAME}count{{result=\"{result}\"}} {all}\n\
                 {NAME}bucket{{le=\"0.1\",result=\"{result}\"}} {fast}\n{NAME}bucket{{le=\"10.0\",result=\"{result}\"}} {slow}\n\
                 {NAME}bucket{{le=\"+Inf\",result=\"{result}\"}} {all}\n"
            )
        };
        format!("HTTP/1.1 200 OK\n\nassay_leader 1\n{}{}", of("ok", ok, seconds), of("error", error, 0.5))
    }

    #[test]
    fn the_longest_is_known_where_one_has_ended() {
        let seen = Mutex::default();
        let longest = |metrics: String| {
            add(&seen, &metrics);
            seen.lock().expect("reconciles").0
        };
        // Of many at once only that none can have been longer than its bucket.
        assert_eq!(longest(metrics([100, 100, 100], [1, 1, 1], 4.0)), 0.1);
        assert_eq!(longest(metrics([100, 101, 101], [1, 1, 1], 6.5)), 2.5);
        assert_eq!(longest(metrics([101, 102, 102], [1, 1, 1], 7.5)), 2.5, "both took a second");
        assert_eq!(longest(String::new()), 2.5);
        assert_eq!(longest(metrics([101, 102, 103], [1, 1, 1], 27.0)), 19.5, "longer than every bucket");
        assert_eq!(longest(metrics([101, 102, 103], [1, 1, 1], 27.0)), 19.5);
    }
}
