//! The generic key-value workload: fill, overwrite, read, scan, delete, in any mix.
//!
//! A key's value never changes, so every value that is read can be checked, and reads of keys that are
//! neither deleted nor missing from the dataset give the same answers at any interleaving.

mod left;

use assay_protocol::{Digest, EngineConfig, KeyOrder, KeyValue, Mix, Preload, Role};

use super::{
    Action, Bytes, Step, StepSource, Workload, below,
    keys::{KeyChooser, MAX_KEY, Permutation, write_key, write_missing_key},
    mix,
    values::Values,
};
use crate::engine::Family;

/// Keys that one loading step writes.
const LOAD_BATCH: u64 = 1000;
/// Bytes of a value that a read compares.
const CHECKED: usize = 64;

pub struct KeyValueWorkload {
    spec: KeyValue,
    seed: u64,
    dataset_seed: u64,
    values: Values,
    choosers: Vec<KeyChooser>,
}

impl KeyValueWorkload {
    pub fn new(spec: KeyValue, seed: u64, dataset_seed: u64) -> Result<Self, String> {
        if spec.roles.is_empty() || spec.keys == 0 || spec.families.is_empty() {
            return Err("keyValue needs keys, families and roles".to_owned());
        }
        if !(8..=MAX_KEY).contains(&(spec.key_bytes as usize)) {
            return Err(format!("keyValue.keyBytes must be from 8 to {MAX_KEY}, not {}", spec.key_bytes));
        }
        let choosers = spec
            .roles
            .iter()
            .map(|role| {
                if role.mix.total() == 0 || role.batch == 0 || role.threads == 0 {
                    return Err(format!("role {} has no operations", role.name));
                }
                chooser(role, spec.keys, dataset_seed)
            })
            .collect::<Result<_, _>>()?;
        let values = Values::new(spec.value_bytes, spec.compressed_percent, dataset_seed);
        Ok(Self { spec, seed, dataset_seed, values, choosers })
    }

    fn family(&self, key: u64) -> u16 {
        (key % self.spec.families.len() as u64) as u16
    }

    fn put(&self, step: &mut Step, place: u64, key: u64) {
        let value = step.put(|out| self.values.write(key, out));
        self.push(step, place, key, Action::Put { value });
    }

    fn get(&self, step: &mut Step, place: u64, key: u64) {
        let begins = step.put(|out| self.values.begin(key, CHECKED, out));
        self.push(step, place, key, Action::Get { length: self.values.length(key), begins });
    }

    fn get_missing(&self, step: &mut Step, place: u64, key: u64) {
        let mut buffer = [0; MAX_KEY];
        let bytes = write_missing_key(key, self.spec.keys, self.spec.key_bytes as usize, &mut buffer);
        self.push_bytes(step, place, key, bytes, Action::Get { length: 0, begins: Bytes::default() });
    }

    fn push(&self, step: &mut Step, place: u64, key: u64, action: Action) {
        let mut buffer = [0; MAX_KEY];
        self.push_bytes(step, place, key, write_key(key, self.spec.key_bytes as usize, &mut buffer), action);
    }

    fn push_bytes(&self, step: &mut Step, place: u64, key: u64, bytes: &[u8], action: Action) {
        step.push(place, self.family(key), bytes, action);
    }
}

fn chooser(role: &Role, keys: u64, seed: u64) -> Result<KeyChooser, String> {
    match role.key_order {
        KeyOrder::Uniform => Ok(KeyChooser::Uniform { keys }),
        KeyOrder::Sequential => Ok(KeyChooser::Sequential { keys }),
        KeyOrder::Zipfian => KeyChooser::zipfian(keys, exponent(role)?, seed),
    }
}

fn exponent(role: &Role) -> Result<f64, String> {
    let text = role.zipfian_exponent.as_deref().unwrap_or("0.99");
    text.parse().map_err(|_| format!("zipfianExponent {text} is not a number"))
}

impl Workload for KeyValueWorkload {
    fn families(&self, _config: &EngineConfig) -> Vec<Family> {
        self.spec.families.iter().map(|name| Family::new(name)).collect()
    }

    fn load_steps(&self) -> u64 {
        match self.spec.preload {
            Preload::Empty => 0,
            Preload::Shuffled | Preload::Sequential => self.spec.keys.div_ceil(LOAD_BATCH),
        }
    }

    fn load(&self, step: u64, out: &mut Step) {
        out.clear();
        let permutation = Permutation::new(self.spec.keys, self.dataset_seed);
        for index in step * LOAD_BATCH..((step + 1) * LOAD_BATCH).min(self.spec.keys) {
            let key = if self.spec.preload == Preload::Shuffled { permutation.apply(index) } else { index };
            // The place is the key: the content of a dataset does not depend on the order it was loaded in.
            self.put(out, key, key);
        }
    }

    fn content(&self) -> Digest {
        let KeyValue { keys, key_bytes, value_bytes, compressed_percent, families, preload, roles: _ } = &self.spec;
        let text = format!(
            "keyValue 2 {keys} {key_bytes} {value_bytes:?} {compressed_percent} {families:?} {preload:?} {}",
            self.dataset_seed
        );
        Digest::of(text.as_bytes())
    }

    fn source(&self, role: usize) -> Box<dyn StepSource + '_> {
        let spec = &self.spec.roles[role];
        Box::new(Source {
            workload: self,
            chooser: &self.choosers[role],
            mix: spec.mix,
            batch: spec.batch,
            scan_length: spec.scan_length,
            seed: mix(&[self.seed, role as u64]),
        })
    }

    fn live_bytes(&self, loaded: u64, steps: &[u64]) -> u64 {
        let KeyValue { keys, key_bytes, value_bytes, preload, .. } = self.spec;
        let mean = match preload {
            Preload::Empty => f64::from(key_bytes) + value_bytes.mean(),
            // All keys are in the dataset, and keep the lengths that they have there.
            Preload::Shuffled | Preload::Sequential => loaded as f64 / keys as f64,
        };
        (left::live_keys(&self.spec, steps) * mean).round() as u64
    }

    fn answers_are_deterministic(&self) -> bool {
        let roles = &self.spec.roles;
        let one_thread = roles.iter().map(|role| role.threads).sum::<u32>() <= 1;
        let fixed_keys = self.spec.preload != Preload::Empty && roles.iter().all(|role| role.mix.delete == 0);
        one_thread || fixed_keys
    }
}

struct Source<'a> {
    workload: &'a KeyValueWorkload,
    chooser: &'a KeyChooser,
    mix: Mix,
    batch: u32,
    scan_length: u32,
    seed: u64,
}

impl StepSource for Source<'_> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        for index in 0..u64::from(self.batch) {
            let place = step * u64::from(self.batch) + index;
            let tag = mix(&[self.seed, place]);
            let key = self.chooser.choose(tag, place);
            let mut ticket = below(mix(&[tag, 3]), u64::from(self.mix.total())) as u32;
            let mut drawn = |weight: u32| {
                let hit = ticket < weight;
                ticket = ticket.wrapping_sub(weight);
                hit
            };
            let workload = self.workload;
            if drawn(self.mix.put) {
                workload.put(out, tag, key);
            } else if drawn(self.mix.get) {
                workload.get(out, tag, key);
            } else if drawn(self.mix.get_missing) {
                workload.get_missing(out, tag, key);
            } else if drawn(self.mix.delete) {
                workload.push(out, tag, key, Action::Delete);
            } else {
                workload.push(out, tag, key, Action::Scan { entries: self.scan_length });
            }
        }
    }
}
