//! Searches whose culprit is known, through the real search.

use assay_core::bisect::{
    Answer, Belief, Bisection, Came, Candidate, Candidates, End, Group, Next, Prior, Probe, Question, Spread, Visit,
};
use assay_protocol::Digest;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Blocks of the comparison from which a search knows the loss.
const PROOF: usize = 16;
/// More blocks than this are no search.
const MOST: usize = 2000;

/// Candidates with a truth that the search does not know. All numbers are on the scale of effects.
#[derive(Clone)]
pub struct World {
    /// Candidates after the good end.
    pub count: usize,
    /// How much worse each culprit makes it. Negative: a fix.
    pub steps: Vec<f64>,
    /// Scatter of blocks.
    pub block: f64,
    /// Scatter of visits.
    pub visit: f64,
    /// Blocks scatter as Student's t with 5 degrees of freedom.
    pub heavy: bool,
    /// The share of candidates that can't run.
    pub broken: f64,
}

impl Default for World {
    fn default() -> Self {
        Self { count: 32, steps: vec![0.03], block: 0.02, visit: 0.0, heavy: false, broken: 0.0 }
    }
}

/// What became of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It named the culprits, or said that there are none.
    Right,
    /// It named others, or none where there are some.
    Wrong,
    /// It named none and said so.
    Open,
}

/// A world with its secrets.
struct Case {
    culprits: Vec<(usize, f64)>,
    broken: Vec<bool>,
    noise: Noise,
    world: World,
}

impl Case {
    fn new(world: &World, seed: u64) -> Self {
        let mut noise = Noise(ChaCha8Rng::seed_from_u64(seed));
        let mut places: Vec<usize> = Vec::new();
        while places.len() < world.steps.len() {
            let place = 1 + (noise.uniform() * world.count as f64) as usize;
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places.sort_unstable();
        let culprits = places.into_iter().zip(world.steps.iter().copied()).collect();
        let mut broken: Vec<bool> = (0..=world.count).map(|_| noise.uniform() < world.broken).collect();
        (broken[0], broken[world.count]) = (false, false);
        Self { culprits, broken, noise, world: world.clone() }
    }

    fn losses(&mut self, reference: usize, candidate: usize, blocks: usize) -> Vec<f64> {
        let between = self.culprits.iter().filter(|(place, _)| reference < *place && *place <= candidate);
        let truth: f64 = between.map(|(_, step)| step).sum();
        let mean = truth + self.world.visit * self.noise.normal();
        (0..blocks).map(|_| mean + self.world.block * self.noise.block(self.world.heavy)).collect()
    }

    fn came(&mut self, probe: &Probe) -> Came {
        match [probe.reference, probe.candidate].into_iter().find(|candidate| self.broken[*candidate]) {
            Some(candidate) => Came::Unusable(candidate),
            None => Came::Measured(self.losses(probe.reference, probe.candidate, probe.blocks)),
        }
    }

    fn judge(&self, answer: &Answer) -> Ended {
        let truth = &self.culprits;
        let is_true = |group: &Group| truth.iter().any(|(place, step)| *step > 0.0 && group.members().contains(place));
        match (&answer.culprits[..], &answer.end) {
            ([], End::NotReproduced(_)) => {
                if truth.is_empty() {
                    Ended::Right
                } else {
                    Ended::Wrong
                }
            }
            ([], _) => Ended::Open,
            (culprits, _) if culprits.iter().all(|culprit| is_true(&culprit.group)) => Ended::Right,
            _ => Ended::Wrong,
        }
    }
}

/// What the belief alone finds, of a search without a budget and without a proof, and in how many blocks.
pub fn search(world: &World, seed: u64, blocks: usize, spread: Spread) -> (Ended, usize) {
    let mut case = Case::new(world, seed);
    // What the confirmation saw, even if nothing is wrong.
    let truth: f64 = if world.steps.is_empty() { 0.03 } else { world.steps.iter().sum() };
    let error = world.block / (PROOF as f64).sqrt();
    let prior = Prior { loss: truth + error * case.noise.normal(), standard_error: error };
    let candidates = Candidates::new(&numbered(world.count)).unwrap();
    let (mut visits, mut spent): (Vec<Visit>, usize) = (Vec::new(), 0);
    loop {
        let belief = Belief::of(&candidates, &prior, &spread, &[], &visits);
        let likeliest = belief.likeliest(&candidates).unwrap();
        if belief.none >= 0.95 {
            return (if world.steps.is_empty() { Ended::Right } else { Ended::Wrong }, spent);
        }
        if likeliest.probability >= 0.95 {
            let is_true = case.culprits.iter().any(|(place, _)| likeliest.members().contains(place));
            return (if is_true { Ended::Right } else { Ended::Wrong }, spent);
        }
        if spent >= MOST {
            return (Ended::Open, spent);
        }
        let candidate = belief.next(&candidates).unwrap();
        visits.push(Visit { reference: 0, candidate, losses: case.losses(0, candidate, blocks) });
        spent += blocks;
    }
}

/// What a plain bisection finds, with so many blocks for each step: as `git bisect` with a threshold at half the loss.
pub fn plain(world: &World, seed: u64, blocks: usize) -> (Ended, usize) {
    let mut case = Case::new(world, seed);
    let threshold = world.steps.iter().sum::<f64>() / 2.0;
    let (mut good, mut bad, mut spent) = (0, world.count, 0);
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        let losses = case.losses(0, middle, blocks);
        spent += blocks;
        if losses.iter().sum::<f64>() / blocks as f64 > threshold { bad = middle } else { good = middle }
    }
    let is_true = case.culprits.iter().any(|(place, _)| *place == bad);
    (if is_true { Ended::Right } else { Ended::Wrong }, spent)
}

/// The whole search as it is shipped: the ends, the search, the proof of the culprit.
pub fn bisect(world: &World, seed: u64) -> (Ended, usize, Answer) {
    let mut case = Case::new(world, seed);
    let candidates = numbered(world.count);
    let question = Question { candidates, margin: 0.03, blocks: 2, proof: PROOF, budget: None };
    let mut bisection = Bisection::new(question).unwrap();
    let mut spent = 0;
    loop {
        match bisection.next() {
            Next::Visit(probe) => {
                let came = case.came(&probe);
                if let Came::Measured(losses) = &came {
                    spent += losses.len();
                }
                bisection.add(&probe, came);
                assert!(spent < MOST, "it never ends");
            }
            Next::Answer(answer) => return (case.judge(&answer), spent, answer),
        }
    }
}

/// Candidates that are all different.
fn numbered(count: usize) -> Vec<Candidate> {
    (0..=count as u64).map(|number| Candidate { digest: Digest::of(&number.to_le_bytes()), weight: 1.0 }).collect()
}

/// Many searches in sum.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub right: usize,
    pub wrong: usize,
    blocks: Vec<usize>,
}

impl Seen {
    pub fn of(searches: impl Iterator<Item = (Ended, usize)>) -> Self {
        let mut seen = Self::default();
        for (ended, blocks) in searches {
            seen.right += usize::from(ended == Ended::Right);
            seen.wrong += usize::from(ended == Ended::Wrong);
            seen.blocks.push(blocks);
        }
        seen.blocks.sort_unstable();
        seen
    }

    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    pub fn mean(&self) -> f64 {
        self.blocks.iter().sum::<usize>() as f64 / self.count() as f64
    }

    /// The blocks that nine of ten searches need at most.
    pub fn most(&self) -> usize {
        self.blocks.get(self.count() * 9 / 10).copied().unwrap_or_default()
    }
}

/// Noise from a seed.
struct Noise(ChaCha8Rng);

impl Noise {
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Of variance 1.
    fn block(&mut self, heavy: bool) -> f64 {
        let normal = self.normal();
        if !heavy {
            return normal;
        }
        let squares: f64 = (0..5).map(|_| self.normal().powi(2)).sum();
        normal / (squares / 5.0).sqrt() / (5.0_f64 / 3.0).sqrt()
    }
}
