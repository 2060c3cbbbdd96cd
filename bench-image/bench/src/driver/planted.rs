//! Effects of known size, to see whether Assay finds them: `make campaign`. Only with the feature `planted`, which no bench for users has.
//!
//! The variable says which config does what, in words like `old:slow=5.26 new:stall=2000`; `*` is every config:
//!
//! - `slow=PERCENT`: each thread of the primary role sleeps so many percent of the time that it spends otherwise;
//! - `stall=MILLISECONDS`: in one run of eight, the primary role stands still once, in the middle of its steps;
//! - `fail`: in one run of eight, RocksDB seems to fail there;
//! - `corrupt`: likewise, with damaged data.

use std::time::{Duration, Instant};

use assay_protocol::{RolePlan, TrialSpec};

use super::clock::Clock;
use crate::{engine::EngineError, workload::mix};

/// The variable.
pub const VARIABLE: &str = "ASSAY_PLANTED";
/// Stands for every config, so that an image can have an effect, whatever runs it.
const ANY: &str = "*";
/// Of so many blocks in a row, one has a stall or a failure.
const ONE_OF: u64 = 8;
/// Shorter sleeps would cost more than they last.
const LEAST_NS: f64 = 200_000.0;

/// What is planted in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plant {
    /// Time to sleep, as a share of all other time.
    pub slow: f64,
    pub stall: Option<Duration>,
    /// Status with which it fails.
    pub fails: Option<&'static str>,
}

impl Plant {
    /// What the variable says about a trial.
    pub fn of(spec: &TrialSpec) -> Result<Self, String> {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Self::parse(&text, spec).map_err(|word| {
            format!(
                "{VARIABLE}: can't read {word:?}: write CONFIG:slow=PERCENT, CONFIG:stall=MILLISECONDS, CONFIG:fail or CONFIG:corrupt"
            )
        })
    }

    fn parse<'t>(text: &'t str, spec: &TrialSpec) -> Result<Self, &'t str> {
        let mut plant = Self::default();
        for word in text.split_whitespace() {
            let (config, what) = word.split_once(':').ok_or(word)?;
            let own = config == ANY || config == spec.trial.config;
            match what.split_once('=') {
                Some(("slow", percent)) => {
                    let percent: f64 = percent.parse().map_err(|_| word)?;
                    if !(percent > 0.0 && percent.is_finite()) {
                        return Err(word);
                    }
                    plant.slow = if own { percent / 100.0 } else { plant.slow };
                }
                Some(("stall", millis)) => {
                    let time = Duration::from_millis(millis.parse().map_err(|_| word)?);
                    plant.stall = if own && is_hit(spec) { Some(time) } else { plant.stall };
                }
                None => {
                    let status = match what {
                        "fail" => "Operation aborted",
                        "corrupt" => "Corruption",
                        _ => return Err(word),
                    };
                    plant.fails = if own && is_hit(spec) { Some(status) } else { plant.fails };
                }
                Some(_) => return Err(word),
            }
        }
        Ok(plant)
    }
}

/// Whether a trial is the one of its eight: which one that is depends on the experiment's seed, the scenario and the config. So each
/// experiment of eight blocks or more has one, and where it is can't be known beforehand.
fn is_hit(spec: &TrialSpec) -> bool {
    let trial = &spec.trial;
    let block = u64::from(trial.block);
    let of_text = |text: &str| xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    mix(&[spec.dataset.seed, of_text(&trial.scenario), of_text(&trial.config), block / ONE_OF]) % ONE_OF
        == block % ONE_OF
}

/// What one thread of a role still has to do of it.
pub struct Planted<C> {
    clock: C,
    plant: Plant,
    /// The step after which it stalls or fails.
    middle: u64,
    /// Nanoseconds to sleep. Negative after a sleep that was too long.
    owed: f64,
    since: Instant,
}

impl<C: Clock> Planted<C> {
    pub fn new(plant: Plant, clock: C, role: &RolePlan, number: usize) -> Self {
        let plant = if number == 0 { plant } else { Plant::default() };
        Self { clock, plant, middle: role.warmup_steps + role.steps / 2, owed: 0.0, since: clock.now() }
    }

    /// Steps begin here: what was before them is no time of theirs.
    pub fn begin(&mut self) {
        (self.owed, self.since) = (0.0, self.clock.now());
    }

    /// A step was executed.
    pub fn after(&mut self, step: u64) -> Result<(), EngineError> {
        if step >= self.middle {
            if let Some(status) = self.plant.fails.take() {
                return Err(EngineError::Background(Some(format!("{status}: planted by {VARIABLE}"))));
            }
            if let Some(time) = self.plant.stall.take() {
                self.clock.sleep(time);
                // Nothing is owed of it.
                self.since = self.clock.now();
            }
        }
        if self.plant.slow > 0.0 {
            let now = self.clock.now();
            self.owed += (now - self.since).as_nanos() as f64 * self.plant.slow;
            self.since = now;
            if self.owed >= LEAST_NS {
                self.clock.sleep(Duration::from_nanos(self.owed as u64));
                let woken = self.clock.now();
                self.owed -= (woken - now).as_nanos() as f64;
                self.since = woken;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::engine::Fault;

    thread_local! {
        static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    const US: Duration = Duration::from_micros(1);

    fn pass(time: Duration) {
        NOW.set(NOW.get() + time);
    }

    /// Whoever sleeps is woken late.
    #[derive(Clone, Copy)]
    struct Late(Instant);

    impl Clock for Late {
        fn now(self) -> Instant {
            self.0 + NOW.get()
        }

        fn sleep(self, time: Duration) {
            pass(time + 70 * US);
        }
    }

    fn spec(config: &str, block: u32, seed: u64) -> TrialSpec {
        let json = serde_json::json!({
            "version": 1,
            "experiment": "e",
            "plan": "00000000000000000000000000000000",
            "trial": {"scenario": "s", "block": block, "config": config, "replicate": 0, "order": 0, "attempt": 0},
            "seed": block,
            "config": {},
            "baseline": {},
            "workload": {"keyValue": {"keys": 1, "valueBytes": {"fixed": 1}, "roles": [{"name": "r", "steps": 1, "mix": {"put": 1}}]}},
            "dataset": {"seed": seed, "format": {}},
            "pageCache": "Evict",
            "cpus": 1,
            "deadlineSeconds": 1,
            "maxDiskBytes": 1,
            "metrics": [],
        });
        serde_json::from_value(json).unwrap()
    }

    /// How long 10,000 steps of 20 us take with a plant, in seconds, and how many of them are done.
    fn run(plant: Plant, number: usize) -> (f64, Result<u64, String>) {
        NOW.set(Duration::ZERO);
        let role = RolePlan {
            name: "writer".to_owned(),
            threads: 1,
            steps: 10_000,
            until_primary_ends: false,
            warmup_steps: 100,
            interval_ns: None,
            operations_per_step: 1,
            follows: None,
        };
        let mut planted = Planted::new(plant, Late(Instant::now()), &role, number);
        // Warm-up and window meet between the two.
        pass(5000 * US);
        planted.begin();
        let started = NOW.get();
        let mut end = Ok(10_000);
        for step in 0..10_000 {
            pass(20 * US);
            if let Err(error) = planted.after(100 + step) {
                end = Err(error.to_string());
                break;
            }
        }
        (NOW.get().saturating_sub(started).as_secs_f64(), end)
    }

    #[test]
    fn what_is_slept_is_the_share_of_all_else_however_late_one_is_woken() {
        for percent in [5.0, 10.0, 100.0 / 9.0] {
            let (seconds, _) = run(Plant { slow: percent / 100.0, ..Plant::default() }, 0);
            let exact = 0.2 * (1.0 + percent / 100.0);
            assert!((seconds - exact).abs() < 2.0 * LEAST_NS / 1e9, "{percent}: {seconds} s, not {exact}");
        }
        assert_eq!(run(Plant::default(), 0).0, 0.2);
    }

    #[test]
    fn a_stall_is_slept_once_and_a_failure_comes_in_the_middle() {
        let stall = Plant { stall: Some(2_000_000 * US), ..Plant::default() };
        assert_eq!(run(stall, 0), (2.20007, Ok(10_000)));
        let (seconds, end) = run(Plant { fails: Some("Operation aborted"), ..Plant::default() }, 0);
        assert!((seconds - 0.1).abs() < 0.001 && end.is_err_and(|error| error.contains(VARIABLE)));
        // Other roles keep the primary one company.
        assert_eq!(run(stall, 1), (0.2, Ok(10_000)));
    }

    #[test]
    fn a_failure_is_the_configs() {
        for (word, fault) in [("new:fail", Fault::Engine), ("new:corrupt", Fault::Corruption)] {
            let mut plants = (0..8).map(|block| Plant::parse(word, &spec("new", block, 1)).unwrap());
            let status = plants.find_map(|plant| plant.fails).unwrap();
            let failure = EngineError::Background(Some(format!("{status}: planted")));
            assert_eq!(failure.fault(), fault);
        }
    }

    #[test]
    fn each_config_has_its_own_and_one_run_of_eight_is_hit() {
        let text = "old:slow=5.25 new:stall=2000 new:fail";
        for seed in 0..50 {
            let plants: Vec<Plant> =
                (0..24).map(|block| Plant::parse(text, &spec("new", block, seed)).unwrap()).collect();
            for eight in plants.chunks(8) {
                assert_eq!(eight.iter().filter(|plant| plant.fails.is_some()).count(), 1);
            }
            assert!(plants.iter().all(|plant| plant.slow == 0.0 && plant.fails.is_some() == plant.stall.is_some()));
        }
        assert_eq!(Plant::parse(text, &spec("old", 0, 0)), Ok(Plant { slow: 0.0525, ..Plant::default() }));
        assert_eq!(Plant::parse("", &spec("old", 0, 0)), Ok(Plant::default()));
        assert_eq!(Plant::parse("*:slow=5.25", &spec("new", 0, 0)), Ok(Plant { slow: 0.0525, ..Plant::default() }));
        let hits: Vec<usize> =
            (0..50).map(|seed| (0..8).find(|&block| is_hit(&spec("new", block, seed))).unwrap() as usize).collect();
        assert!((0..8).all(|block| hits.contains(&block)), "{hits:?}");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for bad in [
            "slow=5",
            "new:slow",
            "new:slow=-1",
            "new:slow=0",
            "new:slow=NaN",
            "new:stall=x",
            "new:fast=1",
            "new:fail=1",
            "new:corrupted",
            "old:fail new:slw=1",
        ] {
            let word = bad.split(' ').next_back().unwrap();
            assert_eq!(Plant::parse(bad, &spec("new", 0, 0)), Err(word), "{bad}");
        }
    }
}
