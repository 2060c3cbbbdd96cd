//! Configs of a matrix that are the same under two names. Their runs would be spent on nothing, and each verdict would need more
//! blocks.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::TuningExperimentSpec;
use assay_protocol::{BlockCache, EngineConfig, WriteOptions};

use super::{Expansion, difference, matrix_path};
use crate::validate::configs::{baseline_index, config_path, effective, families};
use crate::validate::problem::{FieldPath, Problem};

/// What RocksDB gets of a config, and which program runs it.
#[derive(PartialEq)]
struct Meant<'a> {
    db: &'a BTreeMap<String, String>,
    families: Vec<BTreeMap<String, String>>,
    cache: Option<BlockCache>,
    write: WriteOptions,
    policy: &'a BTreeMap<String, String>,
    image: Option<&'a str>,
}

impl Expansion {
    /// Combinations that mean the same as an earlier config. One that means the same as the baseline shows the noise.
    pub(in crate::validate) fn same(&self, spec: &TuningExperimentSpec) -> Vec<Problem> {
        let (Some(baseline), false) = (baseline_index(spec), self.is_partial) else { return Vec::new() };
        let families = families(spec);
        let engines = effective(spec);
        let meant: Vec<Meant<'_>> = spec
            .configs
            .iter()
            .zip(&engines)
            .map(|(config, engine)| Meant::of(engine, &families, config.image.as_deref()))
            .collect();
        let mut problems: BTreeMap<FieldPath, Problem> = BTreeMap::new();
        for (number, combination) in self.combinations.iter().enumerate() {
            let index = self.written + number;
            let is_written_noise = |other: usize| other < self.written && meant[other] == meant[baseline];
            let Some(earlier) = (0..index).find(|&other| meant[other] == meant[index] && !is_written_noise(other))
            else {
                continue;
            };
            let shown = self.shown(combination);
            let (path, message) = if earlier < self.written {
                let message = format!(
                    "{shown} is the same config as {} in {}: exclude it, or remove that one",
                    spec.configs[earlier].name,
                    config_path(earlier)
                );
                (matrix_path(), message)
            } else {
                let other = &self.combinations[earlier - self.written];
                let message = format!(
                    "changes nothing: {shown} is the same config as {}; remove this value, or set its options on one axis \
                     only",
                    self.shown(other)
                );
                (difference(other, combination), message)
            };
            // Once is enough for each value.
            problems.entry(path.clone()).or_insert_with(|| Problem::error(path, message));
        }
        problems.into_values().collect()
    }
}

impl<'a> Meant<'a> {
    fn of(engine: &'a EngineConfig, families: &BTreeSet<String>, image: Option<&'a str>) -> Self {
        Self {
            db: &engine.db_options,
            families: families.iter().map(|family| engine.family_options(family)).collect(),
            cache: engine.block_cache,
            write: engine.write_options,
            policy: &engine.policy,
            image,
        }
    }
}
