//! Nodes that had no room for a trial. What their own pods, such as those of `DaemonSets`, take of them is nowhere to be read, so a pod
//! has to try: it is taken back soon, and the node is tried again later and later.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a node is left alone, at first and at most.
const FIRST: Duration = Duration::from_mins(1);
const MOST: Duration = Duration::from_mins(30);

/// Nodes by their names.
#[derive(Default)]
pub struct Full(HashMap<String, Tried>);

struct Tried {
    at: Instant,
    pause: Duration,
    said: String,
}

impl Full {
    /// Remembers what the scheduler said of a node.
    pub fn add(&mut self, node: &str, said: &str, now: Instant) {
        let pause = self.0.get(node).map_or(FIRST, |before| (before.pause * 2).min(MOST));
        self.0.insert(node.to_owned(), Tried { at: now, pause, said: said.to_owned() });
    }

    /// Forgets a node on which a trial has begun.
    pub fn remove(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// For how long a node is left alone yet, and what was said of it.
    pub fn left(&self, node: &str, now: Instant) -> Option<(Duration, String)> {
        let tried = self.0.get(node)?;
        let left = tried.pause.saturating_sub(now.saturating_duration_since(tried.at));
        (left > Duration::ZERO).then(|| (left, tried.said.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock as _;
    use crate::clock::testing::Manual;

    #[test]
    fn a_full_node_is_tried_again_later_and_later() {
        let begin = Manual::new().instant();
        let minutes = |minutes: u64| begin + Duration::from_mins(minutes);
        let mut full = Full::default();
        assert_eq!(full.left("n", begin), None);
        let mut at = 0;
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            full.add("n", "no room", minutes(at));
            assert_eq!(full.left("n", minutes(at)), Some((Duration::from_mins(pause), "no room".to_owned())));
            assert_eq!(full.left("other", minutes(at)), None);
            at += pause;
            assert_eq!(full.left("n", minutes(at)), None);
        }
        full.remove("n");
        full.add("n", "no room", minutes(at));
        assert_eq!(full.left("n", minutes(at)).map(|(left, _)| left), Some(FIRST));
    }
}
