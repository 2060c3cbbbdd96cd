//! Series of nights whose truth is known, and what detectors make of them.

use assay_core::sweep::detect::{Detector, Value};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Blocks of a night.
const BLOCKS: usize = 6;
/// Measured nights before anybody looks, and before a change.
const WARM_UP: usize = 10;
const CHANGE: usize = 70;
/// The most nights that a change is waited for.
const PATIENCE: usize = 120;
pub const YEAR: usize = 365;
/// Series of a sweep, and the evidence that suspects a change in one of them: as many as there are nights, with 50 confirmations a year.
pub const SERIES: usize = 50;
pub const ALARM: f64 = 365.0;

/// How nights differ. All in percent: blocks give a night a standard error of 1 % on average.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub name: &'static str,
    /// Standard deviation of what moves all blocks of a night alike.
    pub night: f64,
    /// What that grows to at a random night within a year.
    pub grown: Option<f64>,
    /// Correlation of that with the night before.
    pub correlation: f64,
    /// Degrees of freedom of the noise; none if normal.
    pub tails: Option<usize>,
    /// Share of nights that are off by 5 % in either direction.
    pub outliers: f64,
    /// Share of nights without a value.
    pub missing: f64,
    /// Standard errors of nights lie between these.
    pub errors: (f64, f64),
}

const NORMAL: World = World {
    name: "normal nights, night effect 0.5 %",
    night: 0.5,
    grown: None,
    correlation: 0.0,
    tails: None,
    outliers: 0.0,
    missing: 0.0,
    errors: (1.0, 1.0),
};

pub const WORLDS: [World; 12] = [
    NORMAL,
    World { name: "no night effect", night: 0.0, ..NORMAL },
    World { name: "night effect 1 %", night: 1.0, ..NORMAL },
    World { name: "noise of t, 5 degrees of freedom", tails: Some(5), ..NORMAL },
    World { name: "2 % of nights off by 5 %", outliers: 0.02, ..NORMAL },
    World { name: "20 % of nights missing", missing: 0.2, ..NORMAL },
    World { name: "nights 0.6 to 1.7 times as noisy", errors: (0.6, 1.7), ..NORMAL },
    World { name: "night effect correlated by 0.5", correlation: 0.5, ..NORMAL },
    World { name: "night effect 1 %, correlated by 0.5", night: 1.0, correlation: 0.5, ..NORMAL },
    World { name: "night effect 1 %, correlated by 0.8", night: 1.0, correlation: 0.8, ..NORMAL },
    World { name: "night effect grows to 2 %", grown: Some(2.0), ..NORMAL },
    World { name: "night effect grows to 3 %", grown: Some(3.0), ..NORMAL },
];

/// What happens to a series at a change, in percent.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Step(f64),
    /// So much each night.
    Drift(f64),
}

pub const CHANGES: [Change; 4] = [Change::Step(1.5), Change::Step(3.0), Change::Step(5.0), Change::Drift(0.2)];

/// Who watches the series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The detector of sweeps, with so much evidence.
    Evidence(f64),
    /// Tonight against one accepted night: off by more than this is an alarm, and the new night is accepted.
    Threshold(f64),
}

pub struct Noise(ChaCha8Rng);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn is(&mut self, chance: f64) -> bool {
        self.uniform() < chance
    }

    /// A number of variance 1, normal or of Student's t.
    pub fn own(&mut self, tails: Option<usize>) -> f64 {
        match tails {
            None => self.normal(),
            Some(freedom) => {
                let scale = ((freedom - 2) as f64 / freedom as f64).sqrt();
                scale * self.normal() / self.chi_square(freedom).sqrt()
            }
        }
    }

    /// A chi-square number over its degrees of freedom.
    fn chi_square(&mut self, freedom: usize) -> f64 {
        (0..freedom).map(|_| self.normal().powi(2)).sum::<f64>() / freedom as f64
    }
}

/// The nights of one series; none where one is missing.
pub struct Nights {
    world: World,
    noise: Noise,
    effect: f64,
    /// Nights until the night effect grows.
    until: Option<usize>,
}

impl Nights {
    pub fn new(world: World, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let effect = world.night * noise.normal();
        let until = world.grown.map(|_| WARM_UP + (YEAR as f64 * noise.uniform()) as usize);
        Self { world, noise, effect, until }
    }

    pub fn next(&mut self) -> Option<Value> {
        self.until = self.until.map(|nights| nights.saturating_sub(1));
        let grown = self.world.grown.filter(|_| self.until == Some(0));
        let night = grown.unwrap_or(self.world.night);
        let World { correlation, tails, outliers, missing, errors: (low, high), .. } = self.world;
        let noise = &mut self.noise;
        self.effect = correlation * self.effect + (1.0 - correlation * correlation).sqrt() * night * noise.normal();
        let error = low + (high - low) * noise.uniform();
        let own = noise.own(tails);
        let seen = error * noise.chi_square(BLOCKS - 1).sqrt();
        let off = if noise.uniform() < outliers { 5.0_f64.copysign(noise.uniform() - 0.5) } else { 0.0 };
        let is_missing = noise.uniform() < missing;
        (!is_missing).then_some(Value { effect: self.effect + error * own + off, standard_error: seen })
    }

    /// The next that is not missing.
    fn measured(&mut self) -> Value {
        loop {
            if let Some(night) = self.next() {
                return night;
            }
        }
    }
}

/// A rule at work on one series.
pub struct Watcher {
    rule: Rule,
    detector: Detector,
    accepted: Option<f64>,
}

impl Watcher {
    pub fn new(rule: Rule) -> Self {
        Self { rule, detector: Detector::default(), accepted: None }
    }

    /// Whether it raises an alarm tonight. An alarm is then found to be wrong.
    pub fn sees(&mut self, night: Value) -> bool {
        match self.rule {
            Rule::Evidence(alarm) => {
                self.detector.add(night);
                let is_alarm = self.detector.evidence().sum() >= alarm;
                if is_alarm {
                    self.detector.restart();
                }
                is_alarm
            }
            Rule::Threshold(limit) => {
                let accepted = *self.accepted.get_or_insert(night.effect);
                let is_alarm = (night.effect - accepted).abs() > limit;
                if is_alarm {
                    self.accepted = Some(night.effect);
                }
                is_alarm
            }
        }
    }
}

/// False alarms of one series in a year of nights, whether measured or not.
pub fn false_alarms(world: World, rule: Rule, seed: u64) -> usize {
    let (mut nights, mut watcher) = (Nights::new(world, seed), Watcher::new(rule));
    for _ in 0..WARM_UP {
        watcher.sees(nights.measured());
    }
    (0..YEAR).filter(|_| nights.next().is_some_and(|night| watcher.sees(night))).count()
}

/// Nights until a change raises an alarm, whether measured or not: 1 is the first night after it. None if it does not.
pub fn delay(world: World, rule: Rule, change: Change, seed: u64) -> Option<usize> {
    let (mut nights, mut watcher) = (Nights::new(world, seed), Watcher::new(rule));
    for _ in 0..CHANGE {
        watcher.sees(nights.measured());
    }
    (1..=PATIENCE).find(|passed| {
        let moved = match change {
            Change::Step(size) => size,
            Change::Drift(size) => size * *passed as f64,
        };
        nights.next().is_some_and(|night| watcher.sees(Value { effect: night.effect - moved, ..night }))
    })
}
