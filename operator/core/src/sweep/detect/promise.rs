//! What a sweep promises before its first night: how rarely it errs, and how soon it suspects what is there ("Detection").

use assay_api::TuningSweepSpec;
use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::detector::{Detector, Value};
use crate::sweep::schedule::Schedule;

/// Below this evidence single nights could suspect a change.
const LOWEST_ALARM: f64 = 100.0;
/// Nights before the simulated change, and the most that are waited for it to be suspected.
const BEFORE: usize = 30;
const AFTER: usize = 60;
const RUNS: u64 = 200;

/// What decides how sure detection has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    pub series: usize,
    pub nights_a_year: f64,
    pub confirmations_a_year: f64,
}

impl Promise {
    /// Of a sweep that is sound.
    pub fn of(spec: &TuningSweepSpec, series: usize, now: Timestamp) -> Option<Self> {
        Some(Self {
            series,
            nights_a_year: Schedule::parse(&spec.schedule, &spec.time_zone, now).ok()?.nights_a_year(now),
            confirmations_a_year: spec.detect.confirmations_per_year.into(),
        })
    }

    /// Of a sweep of which there is only the history: one night a day, and the defaults.
    pub fn of_series(series: usize) -> Self {
        Self { series, nights_a_year: 365.0, confirmations_a_year: 50.0 }
    }

    /// Evidence from which a change is suspected: then chance alone suspects no more changes a year than may be confirmed.
    pub fn alarm(&self) -> f64 {
        (self.series as f64 * self.nights_a_year / self.confirmations_a_year).max(LOWEST_ALARM)
    }

    /// Whether it takes more evidence than confirmations allow, because there are few series.
    pub fn is_lowest(&self) -> bool {
        self.suspicions_a_year() < self.confirmations_a_year
    }

    /// The most changes a year that are suspected by chance, on average.
    pub fn suspicions_a_year(&self) -> f64 {
        self.series as f64 * self.nights_a_year / self.alarm()
    }
}

/// How a series moves, in standard deviations of a night.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Movement {
    Step(f64),
    /// So much each night.
    Drift(f64),
}

/// Nights until a change is suspected: 1 is the first night after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// As many nights are enough in half of all cases, and in nine of ten; none if more than 60.
    pub median: Option<usize>,
    pub ninety_percent: Option<usize>,
}

/// The delay after 30 nights that are independent, normal and of one precision, simulated through the detector. The same every time.
pub fn delay(movement: Movement, alarm: f64) -> Delay {
    let mut delays: Vec<usize> = (0..RUNS).map(|run| simulated(movement, alarm, run)).collect();
    delays.sort_unstable();
    let at = |share: usize| Some(delays[delays.len() * share / 100]).filter(|nights| *nights <= AFTER);
    Delay { median: at(50), ninety_percent: at(90) }
}

fn simulated(movement: Movement, alarm: f64, seed: u64) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut detector = Detector::default();
    for night in 0..BEFORE + AFTER {
        let passed = (night + 1).saturating_sub(BEFORE);
        let moved = match movement {
            Movement::Step(size) if passed > 0 => size,
            Movement::Step(_) => 0.0,
            Movement::Drift(size) => size * passed as f64,
        };
        detector.add(Value { effect: moved + normal(&mut random), standard_error: 1.0 });
        if detector.evidence().sum() < alarm {
            continue;
        }
        if passed > 0 {
            return passed;
        }
        // By chance: a confirmation would refute it.
        detector.restart();
    }
    AFTER + 1
}

/// A normal number (Box and Muller).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Promise = Promise { series: 50, nights_a_year: 365.0, confirmations_a_year: 50.0 };

    #[test]
    fn more_series_need_more_evidence() {
        assert_eq!((USUAL.alarm(), USUAL.suspicions_a_year()), (365.0, 50.0));
        let few = Promise { series: 2, ..USUAL };
        assert_eq!((few.alarm(), few.suspicions_a_year()), (100.0, 7.3));
        assert!(few.is_lowest() && !USUAL.is_lowest());
    }

    #[test]
    fn large_changes_are_suspected_soon_and_small_ones_late() {
        let of = |movement| delay(movement, 365.0);
        let nights = |delay: Delay| (delay.median.unwrap(), delay.ninety_percent.unwrap());
        let (small, usual, large) = (of(Movement::Step(1.34)), of(Movement::Step(2.68)), of(Movement::Step(4.47)));
        assert!((6..=11).contains(&nights(small).0) && (2..=4).contains(&nights(usual).0), "{small:?} {usual:?}");
        assert!(nights(large).1 <= 4 && nights(usual).1 <= 6, "{usual:?} {large:?}");
        assert_eq!(of(Movement::Step(-2.68)).median, usual.median);
        assert!((8..=13).contains(&nights(of(Movement::Drift(0.18))).0));
        // What is not there is not found, and what is tiny is found too late to say when.
        assert_eq!(of(Movement::Step(0.0)), Delay { median: None, ninety_percent: None });
        assert_eq!(of(Movement::Step(0.1)).ninety_percent, None);
        assert_eq!(of(Movement::Step(2.68)), usual);
    }
}
