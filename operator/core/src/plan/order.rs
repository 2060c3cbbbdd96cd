use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Block, PlanError, Slot};
use crate::experiment::{Experiment, Scenario};

/// Names the algorithm, so that another one gives other streams.
const ALGORITHM: &str = "assay plan 2";

/// All blocks in the order in which they run.
pub fn blocks(experiment: &Experiment) -> Result<Vec<Block>, PlanError> {
    let baseline = &experiment.baseline_config().ok_or(PlanError::NoBaseline)?.name;
    let configs: Vec<&str> =
        experiment.configs.iter().map(|config| config.name.as_str()).filter(|name| name != baseline).collect();
    let mut blocks = Vec::new();
    for round in 0..experiment.repetitions {
        let mut scenarios: Vec<&Scenario> = experiment.scenarios.iter().collect();
        Stream::new(&json!([ALGORITHM, "round", experiment.spec, experiment.seed.to_string(), round]))
            .shuffle(&mut scenarios);
        blocks.extend(scenarios.into_iter().map(|scenario| {
            let mut stream = Stream::new(&json!([
                ALGORITHM,
                "block",
                experiment.spec,
                experiment.seed.to_string(),
                scenario.name,
                round
            ]));
            let slots = slots(&mut stream, baseline, &configs, experiment.baseline_replicates as usize);
            Block { scenario: scenario.name.clone(), number: round, seed: stream.seed(), slots }
        }));
    }
    Ok(blocks)
}

/// The seed of a scenario's keys and values. It depends on the spec's seed and the scenario's name alone, so that a
/// dataset survives edits of margins, repetitions and configs.
pub fn dataset_seed(experiment: &Experiment, scenario: &str) -> u64 {
    Stream::new(&json!([ALGORITHM, "dataset", experiment.seed.to_string(), scenario])).seed()
}

/// One block: a baseline run at a random place of each segment, the configs in random order between. Segments can't always be
/// equally long; seen from either end at random, the baseline is no earlier than the configs on average.
fn slots(stream: &mut Stream, baseline: &str, configs: &[&str], replicates: usize) -> Vec<Slot> {
    let length = configs.len() + replicates;
    let start = |segment: usize| segment * length / replicates.max(1);
    let mut places: Vec<usize> = (0..replicates)
        .map(|segment| start(segment) + stream.below((start(segment + 1) - start(segment)) as u32) as usize)
        .collect();
    if stream.below(2) == 1 {
        places = places.iter().rev().map(|place| length - 1 - place).collect();
    }
    let mut configs = configs.to_vec();
    stream.shuffle(&mut configs);
    let mut configs = configs.into_iter();
    (0..length)
        .filter_map(|slot| match places.iter().position(|place| *place == slot) {
            Some(replicate) => Some(Slot { config: baseline.to_owned(), replicate: replicate as u32 }),
            None => configs.next().map(|config| Slot { config: config.to_owned(), replicate: 0 }),
        })
        .collect()
}

/// The random numbers of one purpose.
pub(super) struct Stream(ChaCha20Rng);

impl Stream {
    pub(super) fn new(purpose: &Value) -> Self {
        Self(ChaCha20Rng::from_seed(Sha256::digest(purpose.to_string()).into()))
    }

    /// A number below `n`, every one equally likely: words of the incomplete last run of `n` are thrown away.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        if n == 0 {
            return 0;
        }
        let range = 1_u64 << 32;
        let limit = range - range % u64::from(n);
        loop {
            let word = self.0.next_u32();
            if u64::from(word) < limit {
                return word % n;
            }
        }
    }

    /// Fisher-Yates.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i as u32 + 1) as usize);
        }
    }

    /// 53 bits: exact in every reader of JSON.
    fn seed(&mut self) -> u64 {
        let (low, high) = (self.0.next_u32(), self.0.next_u32());
        (u64::from(high) << 32 | u64::from(low)) & ((1 << 53) - 1)
    }
}
