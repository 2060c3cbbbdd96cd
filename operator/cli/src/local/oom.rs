//! Whether the kernel has killed something for want of memory: it counts such kills, and says so nowhere else.

use std::path::{Path, PathBuf};

/// The kernel's counters of such kills, the most telling one first.
#[derive(Clone, Debug)]
pub struct OomKills(Vec<PathBuf>);

impl OomKills {
    /// The counter of our own control group, to which trials belong, or else that of the machine.
    pub fn of_this_machine() -> Self {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        let own = own.map(|group| Path::new("/sys/fs/cgroup").join(group).join("memory.events"));
        Self::from(own.into_iter().chain([PathBuf::from("/proc/vmstat")]).collect())
    }

    /// Counters in these files.
    pub fn from(sources: Vec<PathBuf>) -> Self {
        Self(sources)
    }

    /// How many there were so far, by every counter that can be read.
    pub fn count(&self) -> Vec<Option<u64>> {
        self.0.iter().map(|path| count(&std::fs::read_to_string(path).ok()?)).collect()
    }
}

/// Whether there was one between two counts. Only the first counter that was readable both times is asked: others count
/// more than what happened to us.
pub fn has_grown(before: &[Option<u64>], after: &[Option<u64>]) -> bool {
    let known = before.iter().zip(after).find_map(|(before, after)| (*before).zip(*after));
    known.is_some_and(|(before, after)| after > before)
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_files_are_read() {
        assert_eq!(count("low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(count("pgmajfault 7\noom_kill 42\nnuma_hit 1\n"), Some(42));
        assert_eq!(count("oom 2\n"), None);
        assert_eq!(count("oom_kill many\n"), None);
    }

    #[test]
    fn the_nearest_counter_decides() {
        assert!(has_grown(&[Some(1), Some(5)], &[Some(2), Some(5)]));
        assert!(!has_grown(&[Some(1), Some(5)], &[Some(1), Some(6)]), "somebody else's");
        assert!(has_grown(&[None, Some(5)], &[None, Some(6)]));
        assert!(!has_grown(&[None, None], &[None, None]), "unknown");
        assert!(!has_grown(&[Some(3)], &[Some(3)]));
    }

    #[test]
    fn this_machine_counts() {
        assert!(OomKills::of_this_machine().count().iter().any(Option::is_some));
    }
}
