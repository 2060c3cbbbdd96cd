//! How many keys are left when the steps are done. For keys in order this follows from the steps; for drawn keys it is the expected
//! number.
//!
//! A key is there if its last write was a put. If one role puts keys that another deletes, this depends on how the two interleave, and
//! so on the config. To be the same for all configs, each role's steps count as evenly spread over the warm-up and over the window.

use assay_protocol::{KeyOrder, KeyValue, Preload, Role};

use super::exponent;

/// Keys that stand for all keys of a stretch.
const POINTS: u64 = 32;
/// Earlier visits to a key are ignored if the chance that no later one wrote it is below this.
const UNSURE: f64 = 1e-6;
/// Up to about twice this rank each rank is computed. Higher ones are grouped; a group has this fraction of its rank.
const RANKS: u64 = 64;

/// The steps of a role that writes, in the warm-up or in the window.
struct Writer {
    /// Shares of its operations.
    puts: f64,
    deletes: f64,
    operations: f64,
    order: Order,
}

/// Which keys it writes.
#[derive(Clone, Copy)]
enum Order {
    /// The key of its first operation, and those behind it.
    Sequential {
        first: u64,
        operations: u64,
    },
    Uniform,
    /// With the exponent, and the sum over all ranks that makes shares of it.
    Zipfian {
        exponent: f64,
        sum: f64,
    },
}

/// A key as the writers see it.
struct Key {
    number: u64,
    /// Its popularity.
    rank: f64,
    keys: u64,
}

/// What is known of a key. Time runs backwards here: the first write that is met is the last one, and decides.
struct Fate {
    /// The chance that no write was met yet, and that one was met which is a put.
    unmet: f64,
    live: f64,
}

/// The expected number of keys when so many steps of each role are done, warm-up included.
pub fn live_keys(spec: &KeyValue, steps: &[u64]) -> f64 {
    let warmup: Vec<Writer> =
        spec.roles.iter().filter_map(|role| writer(role, spec.keys, 0, role.warmup_steps)).collect();
    let window = spec.roles.iter().zip(steps);
    let window: Vec<Writer> = window
        .filter_map(|(role, steps)| writer(role, spec.keys, role.warmup_steps, steps - role.warmup_steps))
        .collect();
    let phases = [window, warmup];
    let loaded = if spec.preload == Preload::Empty { 0.0 } else { 1.0 };
    let ranks = if phases.iter().flatten().any(|writer| matches!(writer.order, Order::Zipfian { .. })) {
        ranks(spec.keys)
    } else {
        vec![(1.0, spec.keys as f64)]
    };
    let mut live = 0.0;
    for stretch in stretches(spec.keys, &phases).windows(2) {
        let length = stretch[1] - stretch[0];
        let points = length.min(POINTS);
        for point in 0..points {
            let number = stretch[0] + (length * (2 * point + 1)) / (2 * points);
            for (rank, among) in &ranks {
                let key = Key { number, rank: *rank, keys: spec.keys };
                let share = key.live(&phases, loaded);
                // Hot keys are spread over the key space, so each stretch has its share of them.
                live += share * (length as f64 / points as f64) * (among / spec.keys as f64);
            }
        }
    }
    live
}

fn writer(role: &Role, keys: u64, first_step: u64, steps: u64) -> Option<Writer> {
    let (batch, total) = (u64::from(role.batch), f64::from(role.mix.total()));
    let operations = steps * batch;
    if operations == 0 || role.mix.put + role.mix.delete == 0 {
        return None;
    }
    let order = match role.key_order {
        KeyOrder::Sequential => Order::Sequential { first: first_step * batch % keys, operations },
        KeyOrder::Uniform => Order::Uniform,
        KeyOrder::Zipfian => {
            let exponent = exponent(role).unwrap_or(1.0);
            let sum = ranks(keys).iter().map(|(rank, among)| among * rank.powf(-exponent)).sum();
            Order::Zipfian { exponent, sum }
        }
    };
    let (puts, deletes) = (f64::from(role.mix.put) / total, f64::from(role.mix.delete) / total);
    Some(Writer { puts, deletes, operations: operations as f64, order })
}

/// Numbers of keys at which what sequential roles do changes, with both ends.
fn stretches(keys: u64, phases: &[Vec<Writer>]) -> Vec<u64> {
    let mut cuts = vec![0, keys];
    for writer in phases.iter().flatten() {
        if let Order::Sequential { first, operations } = writer.order {
            cuts.extend([first, (first + operations) % keys]);
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Groups of neighbouring ranks, each as the rank in its middle and their number.
fn ranks(keys: u64) -> Vec<(f64, f64)> {
    let (mut groups, mut first) = (Vec::new(), 1);
    while first <= keys {
        let among = (first / RANKS).max(1).min(keys + 1 - first);
        groups.push((first as f64 + (among - 1) as f64 / 2.0, among as f64));
        first += among;
    }
    groups
}

impl Key {
    /// The chance that it is there after the phases. The last phase comes first.
    fn live(&self, phases: &[Vec<Writer>], loaded: f64) -> f64 {
        let mut fate = Fate { unmet: 1.0, live: 0.0 };
        for writers in phases {
            let (mut at_any_time, mut puts) = (0.0, 0.0);
            let mut visits = Vec::new();
            for writer in writers {
                match self.meetings(writer) {
                    Meetings::AtAnyTime(meetings) => {
                        at_any_time += meetings;
                        puts += meetings * writer.puts / (writer.puts + writer.deletes);
                    }
                    Meetings::At(times) => visits.extend(times.map(|time| (time, writer))),
                }
            }
            visits.sort_by(|(a, _), (b, _)| b.total_cmp(a));
            let share = puts / at_any_time;
            let mut until = 1.0;
            for (time, writer) in visits {
                fate.pass(at_any_time * (until - time), share);
                fate.visit(writer);
                until = time;
            }
            fate.pass(at_any_time * until, share);
        }
        fate.live + fate.unmet * loaded
    }

    fn meetings(&self, writer: &Writer) -> Meetings<impl Iterator<Item = f64> + use<>> {
        let writes = writer.puts + writer.deletes;
        // Writes at random times that leave the key untouched with the same chance as these tries.
        let tries = |tries: f64, chance: f64| Meetings::AtAnyTime(-tries * (-chance.min(1.0 - 1e-9)).ln_1p());
        match writer.order {
            Order::Uniform => tries(writer.operations, writes / self.keys as f64),
            Order::Zipfian { exponent, sum } => tries(writer.operations, writes * self.rank.powf(-exponent) / sum),
            Order::Sequential { first, operations } => {
                let begin = (self.number + self.keys - first) % self.keys;
                let visits = operations.saturating_sub(begin).div_ceil(self.keys);
                let enough = (UNSURE.ln() / (1.0 - writes).ln()).ceil().max(1.0) as u64;
                let keys = self.keys;
                let looked_at = visits.saturating_sub(enough)..visits;
                Meetings::At(looked_at.map(move |visit| (begin + visit * keys) as f64 / operations as f64))
            }
        }
    }
}

/// When a writer meets a key.
enum Meetings<Times> {
    /// Times of the phase, from 0 to 1.
    At(Times),
    /// So many writes, each at a random time.
    AtAnyTime(f64),
}

impl Fate {
    /// Time with so many writes at random, of which this share puts.
    fn pass(&mut self, writes: f64, puts: f64) {
        if writes > 0.0 {
            let met = -self.unmet * (-writes).exp_m1();
            self.live += met * puts;
            self.unmet -= met;
        }
    }

    /// One operation on the key.
    fn visit(&mut self, writer: &Writer) {
        self.live += self.unmet * writer.puts;
        self.unmet *= 1.0 - writer.puts - writer.deletes;
    }
}
