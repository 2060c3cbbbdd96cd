//! What disturbs runs: their own scatter, the node, the order.

use rand_chacha::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};

/// Nodes over which blocks rotate, and by how much they differ.
const NODES: usize = 4;
const NODE_SPREAD: f64 = 0.05;

/// What a block loses from its first run to its last.
const DRIFT: f64 = 0.05;

/// Share of runs that something makes take longer, by 20 to 100 %.
const SLOW: f64 = 0.02;

/// Degrees of freedom of the runs' scatter: heavier tails than a normal distribution has.
const FREEDOM: usize = 5;

pub struct Noise(ChaCha20Rng);

impl Noise {
    pub fn new(seed: u64) -> Self {
        // Another stream than the planner's, which is keyed by a hash.
        Self(ChaCha20Rng::seed_from_u64(seed))
    }

    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Box and Muller, "A Note on the Generation of Random Normal Deviates".
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Student's t, scaled to a standard deviation of 1.
    fn scatter(&mut self) -> f64 {
        let squares: f64 = (0..FREEDOM).map(|_| self.normal().powi(2)).sum();
        let freedom = FREEDOM as f64;
        self.normal() / (squares / freedom).sqrt() * ((freedom - 2.0) / freedom).sqrt()
    }
}

/// The nodes of one experiment.
pub struct World {
    nodes: Vec<f64>,
    cv: f64,
}

impl World {
    pub fn new(cv: f64, noise: &mut Noise) -> Self {
        Self { nodes: (0..NODES).map(|_| NODE_SPREAD * noise.normal()).collect(), cv }
    }

    /// One run: of a config with this effect, in the block of this position, at this share of it.
    pub fn throughput(&self, effect: f64, block: usize, place: f64, noise: &mut Noise) -> f64 {
        let slow = if noise.uniform() < SLOW { (0.8 * noise.uniform() + 0.2).ln_1p() } else { 0.0 };
        let log =
            self.nodes[block % self.nodes.len()] - DRIFT * place + effect.ln_1p() + self.cv * noise.scatter() - slow;
        1000.0 * log.exp()
    }
}
