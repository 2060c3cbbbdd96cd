//! What happens to runs: their own scatter, the node, the order, other programs, and what their config does to them.

use assay_core::attempt::LostReason;
use rand_chacha::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};

/// Nodes over which blocks rotate, and by how much they differ.
const NODES: usize = 4;
const NODE_SPREAD: f64 = 0.05;

/// Scatter that the throughput with finished compactions has beside that of the throughput, of the latter.
const DRAINED_SPREAD: f64 = 0.5;

/// Degrees of freedom of the runs' scatter: heavier tails than a normal distribution has.
const FREEDOM: usize = 5;

/// Side effect of a disturbance on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing.
    Still,
    /// It takes CPU time, so that the run is as slow as one of those that `slow` is about. The evidence knows the share within 20 % of it.
    Slow,
    /// Slows the run, and the evidence has no share.
    SlowUnseen,
}

/// What a machine does to the runs on it.
#[derive(Clone, Debug)]
pub struct World {
    /// Spread of single runs.
    pub cv: f64,
    /// What a block loses from its first run to its last.
    pub drift: f64,
    /// How bent that is: nothing if it is linear. What is left to lose falls by the factor e in this part of a block, as a divisor.
    pub bend: f64,
    /// Share of runs that something makes take longer, by 20 to 100 %.
    pub slow: f64,
    /// Correlation of the machine's state from run to run, and that state's spread.
    pub state: (f64, f64),
    /// Chance that a run is disturbed so much that it does not count, and the same for the next try after such a one.
    pub disturbed: (f64, f64),
    pub disturbance: Disturbance,
    /// Share of the time in which every run is disturbed, and the mean length of such a stretch, in runs. Needs `minutes`.
    pub stretches: (f64, f64),
    /// Chance that an attempt leaves no record, whatever its config.
    pub lost: Option<(f64, LostReason)>,
    /// Share of the baseline's runs that wait for memory within their own cgroup.
    pub baseline_waits: f64,
    /// Generator's share of a role's time, in percent.
    pub generator: f64,
    /// Whether the guardrail measures nothing at all in every run.
    pub zero_guardrail: bool,
    /// Share of the baseline's runs that are four times as fast.
    pub fast_baseline: f64,
    /// Minutes that a run takes at the usual speed, where blocks have a limit.
    pub minutes: f64,
    /// Chance that a run fails, whatever its config.
    pub failing: f64,
    /// Whether the first run of each block fails.
    pub first_fails: bool,
    /// Chance that a run of the baseline fails, beside that of all.
    pub baseline_failing: f64,
    /// The first attempt of a pass over a block is slower by this, as a logarithm.
    pub cold: f64,
    /// Disturbances come at random times, so a run that takes longer meets more of them.
    pub in_time: bool,
    /// Share of the time in which other programs take CPU in bursts; on a shared machine.
    pub bursts: f64,
}

impl Default for World {
    fn default() -> Self {
        Self {
            cv: 0.08,
            drift: 0.05,
            bend: 0.0,
            slow: 0.02,
            state: (0.0, 0.0),
            disturbed: (0.0, 0.0),
            disturbance: Disturbance::Still,
            stretches: (0.0, 0.0),
            lost: None,
            baseline_waits: 0.0,
            generator: 5.0,
            zero_guardrail: false,
            fast_baseline: 0.0,
            minutes: 0.0,
            failing: 0.0,
            first_fails: false,
            baseline_failing: 0.0,
            cold: 0.0,
            in_time: false,
            bursts: 0.0,
        }
    }
}

/// What a config does to its runs.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// By scenario, in turn: 0.05 is 5 % more throughput.
    pub effects: Vec<f64>,
    /// A share of its runs that have another effect, in one scenario only where one is named.
    pub stalls: Option<(f64, f64, Option<usize>)>,
    /// Whether a run of those is always found disturbed, and so run again.
    pub stalls_invalid: bool,
    /// A slow tail: the standard deviation of an exponential loss, in logarithms. The effect is then that on the mean.
    pub tail: f64,
    /// So many runs in each scenario fail.
    pub fails: usize,
    /// Chance that a run does not count, by its own doing.
    pub lost: f64,
    /// Runs that do not count because they scatter further down than this, in standard deviations.
    pub loses_slow: Option<f64>,
    /// Runs that the kubelet evicts, by the same measure.
    pub evicts_slow: Option<f64>,
    /// Share of its runs that wait for memory within their own cgroup.
    pub waits: f64,
    /// Runs in each scenario whose tail of latencies is beyond the histogram.
    pub saturates: usize,
    /// Whether the CPU time that a disturbance takes does not slow it, because it waits for the device.
    pub io_bound: bool,
    /// CPU time that it wants, of what the baseline wants.
    pub cpu: f64,
    /// What a cost other than time is, of the baseline's.
    pub cost: f64,
    /// Share of what others take that it escapes: luck that is no merit.
    pub spared: f64,
    /// Share of blocks in which the metric is zero.
    pub zeros: f64,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            effects: vec![0.0],
            stalls: None,
            stalls_invalid: false,
            tail: 0.0,
            fails: 0,
            lost: 0.0,
            loses_slow: None,
            evicts_slow: None,
            waits: 0.0,
            saturates: 0,
            io_bound: false,
            cpu: 1.0,
            cost: 1.0,
            spared: 0.0,
            zeros: 0.0,
        }
    }
}

/// A gain everywhere.
pub fn gain(effect: f64) -> Behaviour {
    Behaviour { effects: vec![effect], ..Behaviour::default() }
}

pub struct Noise(ChaCha20Rng);

impl Noise {
    pub fn new(seed: u64) -> Self {
        // Another stream than the planner's, which is keyed by a hash.
        Self(ChaCha20Rng::seed_from_u64(seed))
    }

    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub fn hits(&mut self, chance: f64) -> bool {
        self.uniform() < chance
    }

    pub fn below(&mut self, count: usize) -> usize {
        ((self.uniform() * count as f64) as usize).min(count - 1)
    }

    /// How much longer something makes a run take, in logarithms: by 20 to 100 %.
    pub fn slowness(&mut self) -> f64 {
        (0.8 * self.uniform() + 0.2).ln_1p()
    }

    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
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

/// Other programs that take CPU in bursts.
#[derive(Default)]
struct Burst {
    /// Seconds to its end, and the share of CPU that it takes; or seconds to the next one.
    left: f64,
    taking: f64,
}

/// Seconds that a run takes, about.
const RUN_SECONDS: f64 = 10.0;

/// One experiment's machines.
pub struct Machines {
    world: World,
    nodes: Vec<f64>,
    state: f64,
    burst: Burst,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub throughput: f64,
    /// Throughput including the drain of compactions.
    pub drained: f64,
    /// Of the CPU time that it wanted, the share that others took.
    pub taken: f64,
    pub stalled: bool,
    /// How it scatters, in standard deviations.
    pub luck: f64,
}

impl Machines {
    pub fn new(world: &World, noise: &mut Noise) -> Self {
        let nodes = (0..NODES).map(|_| NODE_SPREAD * noise.normal()).collect();
        Self { world: world.clone(), nodes, state: 0.0, burst: Burst::default() }
    }

    /// A run: of a config that behaves so (the baseline has none), in a scenario, in the block of this position, at this share of it.
    pub fn run(
        &mut self,
        behaviour: Option<&Behaviour>,
        scenario: usize,
        block: usize,
        place: f64,
        noise: &mut Noise,
    ) -> Run {
        let world = self.world.clone();
        let (rho, spread) = world.state;
        self.state = rho * self.state + (1.0 - rho * rho).sqrt() * spread * noise.normal();
        let slow = if noise.hits(world.slow) { noise.slowness() } else { 0.0 };
        let mut taken = self.taken(noise);
        let (mut effect, mut stalled) = (0.0, false);
        if let Some(own) = behaviour {
            effect = own.effects[scenario % own.effects.len()].ln_1p();
            if let Some((share, other, only)) = own.stalls
                && noise.hits(share)
                && only.is_none_or(|only| only == scenario)
            {
                (effect, stalled) = (other.ln_1p(), true);
            }
            if own.tail > 0.0 {
                // So that the mean of the cost is what the effect says: E exp(s X) = 1 / (1 - s) of an exponential X.
                effect += -(1.0 - own.tail).ln() - own.tail * noise.exponential();
            }
            taken *= 1.0 - own.spared;
        } else if noise.hits(world.fast_baseline) {
            effect = 4.0_f64.ln();
        }
        let luck = noise.scatter();
        let drifted = if world.bend > 0.0 { 1.0 - (-world.bend * place).exp() } else { place };
        // What is taken is missing.
        let log = self.nodes[block % self.nodes.len()] - world.drift * drifted + self.state + effect + world.cv * luck
            - slow
            + (1.0 - taken).ln();
        let drained = 900.0 * (log + DRAINED_SPREAD * world.cv * noise.scatter()).exp();
        Run { throughput: 1000.0 * log.exp(), drained, taken, stalled, luck }
    }

    /// What others take of the CPU meanwhile: in bursts of 0.2 to 60 s, 10 to 60 % of it.
    fn taken(&mut self, noise: &mut Noise) -> f64 {
        if self.world.bursts == 0.0 {
            return 0.0;
        }
        let (mut left, mut sum) = (RUN_SECONDS, 0.0);
        while left > 0.0 {
            if self.burst.left <= 0.0 {
                let seconds = 0.2 * 300.0_f64.powf(noise.uniform());
                self.burst = if self.burst.taking > 0.0 {
                    // As much time between bursts as makes them the share that they are, on average.
                    let mean = 59.8 / 300.0_f64.ln();
                    Burst { left: mean * (1.0 / self.world.bursts - 1.0) * noise.exponential(), taking: 0.0 }
                } else {
                    Burst { left: seconds, taking: 0.1 + 0.5 * noise.uniform() }
                };
            }
            let step = left.min(self.burst.left);
            sum += step * self.burst.taking;
            left -= step;
            self.burst.left -= step;
        }
        sum / RUN_SECONDS
    }
}
