//! How large a fleet is, and what runs on it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::experiment::{self, small};
use crate::lab::Lab;

/// Scenarios that an experiment may have.
const SCENARIOS: usize = 32;
/// Blocks of a scenario: as few as prove a gain, and as many as there may be.
const REPETITIONS: std::ops::RangeInclusive<usize> = 5..=1000;

/// Its trials are those of all experiments together.
#[derive(Debug, PartialEq)]
pub struct Size {
    pub nodes: usize,
    pub experiments: usize,
    pub trials: usize,
    pub takes: Duration,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let [nodes, experiments, trials, takes] = parts[..] else {
            return Err("must be NODES/EXPERIMENTS/TRIALS/SECONDS, such as 20/1/240/2".to_owned());
        };
        let count = |name: &str, text: &str| match text.parse() {
            Ok(0) | Err(_) => Err(format!("{name} must be a whole number above 0, not {text:?}")),
            Ok(count) => Ok(count),
        };
        let seconds = takes.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let size = Self {
            nodes: count("NODES", nodes)?,
            experiments: count("EXPERIMENTS", experiments)?,
            trials: count("TRIALS", trials)?,
            takes: seconds.ok_or_else(|| format!("TAKES must be seconds, such as 2 or 0.5, not {takes:?}"))?,
        };
        if !size.trials.is_multiple_of(size.trials_of_round()) || size.shape().is_none() {
            return Err(format!(
                "TRIALS must make {experiments} experiments of whole blocks, such as {}, not {trials}",
                size.trials_of_round() * REPETITIONS.start(),
            ));
        }
        Ok(size)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.nodes, self.experiments, self.trials, self.takes.as_secs_f64())
    }
}

impl Size {
    /// Blocks of each experiment.
    pub fn blocks(&self) -> usize {
        self.trials / self.trials_of_round()
    }

    /// With one block in each experiment.
    fn trials_of_round(&self) -> usize {
        self.experiments * experiment::trials(1)
    }

    /// As many scenarios as possible, as large experiments have them, and blocks of each.
    fn shape(&self) -> Option<(usize, usize)> {
        let blocks = self.blocks();
        let mut whole = (1..=SCENARIOS).rev().filter(|scenarios| blocks.is_multiple_of(*scenarios));
        whole.find_map(|scenarios| {
            REPETITIONS.contains(&(blocks / scenarios)).then_some((scenarios, blocks / scenarios))
        })
    }

    pub fn names(&self) -> Vec<String> {
        (0..self.experiments).map(|number| format!("fleet-{number}")).collect()
    }

    /// Experiments that run all of their trials, whatever these show.
    pub fn experiments_in(&self, lab: &Lab) -> Vec<Value> {
        let (scenarios, repetitions) = self.shape().expect("it was checked");
        let experiment = |name: &String| {
            let mut experiment = small(lab, name);
            let spec = &mut experiment["spec"];
            let workload = spec["scenarios"][0]["workload"].take();
            let scenario = |number| json!({"name": format!("fill-{number}"), "workload": workload});
            spec["scenarios"] = (0..scenarios).map(scenario).collect();
            spec["repetitions"] = json!(repetitions);
            spec["stopOn"] = json!("Never");
            experiment
        };
        self.names().iter().map(experiment).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_told_in_a_word() {
        let size: Size = "200/4/2000/0.5".parse().expect("a fleet");
        let takes = Duration::from_millis(500);
        assert_eq!(size, Size { nodes: 200, experiments: 4, trials: 2000, takes });
        assert_eq!((size.to_string().as_str(), size.blocks()), ("200/4/2000/0.5", 250));
        for (odd, why) in [
            ("20/1/240", "NODES/EXPERIMENTS/TRIALS/SECONDS"),
            ("20/1/240/2/3", "NODES/EXPERIMENTS/TRIALS/SECONDS"),
            ("0/1/240/2", "NODES must be"),
            ("20/-1/240/2", "EXPERIMENTS must be"),
            ("20/1/many/2", "TRIALS must be"),
            ("20/1/240/-2", "TAKES must be"),
            ("20/1/240/soon", "TAKES must be"),
            ("20/1/241/2", "TRIALS must make 1 experiments of whole blocks, such as 10, not 241"),
            // Too few blocks, and more than one scenario can have.
            ("20/1/8/2", "such as 10, not 8"),
            ("20/1/2018/2", "such as 10, not 2018"),
        ] {
            let said = odd.parse::<Size>().expect_err(odd);
            assert!(said.contains(why), "{odd}: {said}");
        }
    }

    #[test]
    fn trials_are_spread_over_scenarios() {
        for (told, shape) in
            [("1/1/10/1", (1, 5)), ("50/1/500/1", (25, 10)), ("200/1/2112/5", (32, 33)), ("9/200/10000/1", (5, 5))]
        {
            assert_eq!(told.parse::<Size>().expect("a fleet").shape(), Some(shape), "{told}");
        }
    }
}
