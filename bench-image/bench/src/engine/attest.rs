//! Attestation: which options the engine really has, told from the OPTIONS files that RocksDB writes.
//!
//! Two empty databases, one with the baseline's options and one with the config's, show what RocksDB makes of
//! a declaration: what it applies, corrects, derives from it, or drops without a word. The measured database
//! must then have exactly the options of the config's empty one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use assay_protocol::{Attestation, Digest, EngineConfig, OptionFact, OptionStatus, PageCache, option_value::nested};

use super::{
    Engine, EngineError, Family,
    needs::is_on,
    options_file::{DB_SCOPE, OptionMap, TABLE_KIND, TABLE_PREFIX, same_value},
    spelling::Spellings,
};

/// Options that RocksDB keeps to itself: they never reach an OPTIONS file, so its LOG has to show them.
const NOT_SERIALISED: [(&str, &str); 2] =
    [("rate_limiter_bytes_per_sec", "Options.rate_limiter"), ("blob_cache", "Options.blob_cache")];

/// What an empty database shows of a config.
#[derive(Clone, Debug)]
pub struct Reference {
    pub options: OptionMap,
    log: String,
}

impl Reference {
    pub fn probe(
        dir: &Path,
        config: &EngineConfig,
        families: &[Family],
        page_cache: PageCache,
    ) -> Result<Self, EngineError> {
        if dir.exists() {
            fs::remove_dir_all(dir).map_err(EngineError::io(dir))?;
        }
        fs::create_dir_all(dir).map_err(EngineError::io(dir))?;
        let engine = Engine::open(dir, config, families, page_cache)?;
        let options = OptionMap::read(dir).map_err(EngineError::io(dir))?;
        drop(engine);
        let log = fs::read_to_string(dir.join("LOG")).unwrap_or_default();
        fs::remove_dir_all(dir).map_err(EngineError::io(dir))?;
        Ok(Self { options, log })
    }

    /// The value that the LOG's dump of options shows, where it is not a null pointer.
    fn logged(&self, name: &str) -> Option<String> {
        let line = self
            .log
            .lines()
            .find(|line| line.split_once(name).is_some_and(|(_, rest)| rest.trim_start().starts_with(':')))?;
        let value = line.rsplit_once(": ")?.1.trim();
        (!matches!(value, "" | "0" | "None" | "(nil)" | "0x0" | "nullptr")).then(|| value.to_owned())
    }

    fn digest(&self) -> Option<Digest> {
        Digest::of_json(&self.options.looked_at()).ok()
    }
}

/// Compares a config with the baseline.
pub struct Attestor {
    pub baseline: Reference,
    pub config: Reference,
    pub facts: Vec<OptionFact>,
    /// Declared options, by scope and name, that RocksDB writes in a form of its own.
    respelt: BTreeSet<(String, String)>,
}

impl Attestor {
    /// Opens the two empty databases below `scratch`, each with the families that a workload has under its config.
    pub fn new(
        scratch: &Path,
        baseline: &EngineConfig,
        config: &EngineConfig,
        families: &dyn Fn(&EngineConfig) -> Vec<Family>,
        page_cache: PageCache,
    ) -> Result<Self, EngineError> {
        let base = Reference::probe(&scratch.join("attest"), baseline, &families(baseline), page_cache)?;
        let own = if config == baseline {
            base.clone()
        } else {
            Reference::probe(&scratch.join("attest"), config, &families(config), page_cache)?
        };
        let mut attestor = Self { baseline: base, config: own, facts: Vec::new(), respelt: BTreeSet::new() };
        attestor.respelt = attestor.respelt(config, &Spellings::new(scratch));
        attestor.facts = attestor.compare(baseline, config);
        Ok(attestor)
    }

    /// The engine is the same under config and baseline, as far as OPTIONS files tell.
    pub fn changes_nothing(&self) -> bool {
        self.config.options.looked_at() == self.baseline.options.looked_at()
    }

    /// The facts of every declared option and of all that differs from the baseline.
    fn compare(&self, baseline: &EngineConfig, config: &EngineConfig) -> Vec<OptionFact> {
        let mut facts = Vec::new();
        // The baseline's own options are no change, so being like the baseline is not held against them.
        let is_baseline = baseline == config;
        let of_baseline = declared(baseline, &self.scopes());
        for ((scope, option), value) in declared(config, &self.scopes()) {
            if is_baseline || of_baseline.get(&(scope.clone(), option.clone())) != Some(&value) {
                facts.push(self.declared_fact(&scope, &option, &value, is_baseline));
            }
        }
        if config.block_cache.is_some() && (is_baseline || config.block_cache != baseline.block_cache) {
            facts.extend(self.block_cache_facts(config, baseline));
        }
        if config.write_options != baseline.write_options {
            facts.push(OptionFact {
                scope: DB_SCOPE.to_owned(),
                option: "writeOptions".to_owned(),
                status: OptionStatus::AppliedNotSerialised,
                declared: Some(format!("{:?}", config.write_options)),
                baseline: Some(format!("{:?}", baseline.write_options)),
                effective: None,
            });
        }
        for difference in self.config.options.differences(&self.baseline.options) {
            let known = facts.iter().any(|fact| {
                fact.scope == difference.scope
                    && self.config.options.holder(&fact.scope, &fact.option) == difference.option
            });
            if !known {
                facts.push(OptionFact {
                    scope: difference.scope.to_owned(),
                    option: difference.option.to_owned(),
                    status: OptionStatus::Implied,
                    declared: None,
                    baseline: difference.there.map(str::to_owned),
                    effective: difference.here.map(str::to_owned),
                });
            }
        }
        facts.sort();
        facts
    }

    /// Whether RocksDB has what was declared, whatever it makes of it.
    pub fn is_as_declared(&self, fact: &OptionFact) -> bool {
        let same = |declared: &String| self.is_same(&fact.scope, &fact.option, declared, fact.effective.as_deref());
        fact.declared.as_ref().is_some_and(same)
    }

    fn is_same(&self, scope: &str, option: &str, requested: &str, effective: Option<&str>) -> bool {
        effective.is_some_and(|effective| same_value(requested, effective))
            || self.respelt.contains(&(scope.to_owned(), option.to_owned()))
    }

    fn respelt(&self, config: &EngineConfig, spellings: &Spellings<'_>) -> BTreeSet<(String, String)> {
        let is_respelt = |((scope, option), value): &((String, String), String)| {
            let written = self.config.options.declared(scope, option);
            let written = written.as_deref().filter(|written| !same_value(value, written));
            written.is_some_and(|written| spellings.same(scope, option, value, written))
        };
        declared(config, &self.scopes()).into_iter().filter(is_respelt).map(|(place, _)| place).collect()
    }

    fn scopes(&self) -> Vec<String> {
        self.config.options.scopes.keys().cloned().collect()
    }

    fn declared_fact(&self, scope: &str, option: &str, requested: &str, is_baseline: bool) -> OptionFact {
        let (effective, before) =
            (self.config.options.declared(scope, option), self.baseline.options.declared(scope, option));
        let (effective, before) = (effective.as_deref(), before.as_deref());
        let logged = NOT_SERIALISED
            .iter()
            .find(|(name, _)| *name == option)
            .map(|(_, in_log)| (self.config.logged(in_log), self.baseline.logged(in_log)));
        let status = match (effective, logged) {
            // RocksDB writes no value for these, so what counts is that an object exists.
            (_, Some((Some(_), earlier))) if is_baseline || earlier.is_none() || effective.is_none() => {
                OptionStatus::AppliedNotSerialised
            }
            (Some(effective), None) if self.is_same(scope, option, requested, Some(effective)) => {
                if is_baseline || before != Some(effective) { OptionStatus::Applied } else { OptionStatus::Inert }
            }
            (Some(effective), None) if is_baseline => {
                if is_null(effective) {
                    OptionStatus::Inert
                } else {
                    OptionStatus::Sanitised
                }
            }
            (effective @ Some(_), None) => {
                if effective == before {
                    OptionStatus::Inert
                } else {
                    OptionStatus::Sanitised
                }
            }
            _ => OptionStatus::Inert,
        };
        // To switch off what needs another option may well change something.
        let in_vain = self.config.options.ignored(scope, option).is_some() && is_on(requested);
        let status = if in_vain { OptionStatus::Inert } else { status };
        OptionFact {
            scope: scope.to_owned(),
            option: option.to_owned(),
            status,
            declared: Some(requested.to_owned()),
            baseline: before.map(str::to_owned),
            effective: effective.map(str::to_owned),
        }
    }

    /// The block cache never reaches the OPTIONS file; the LOG's dump of table options names its capacity.
    fn block_cache_facts(&self, config: &EngineConfig, baseline: &EngineConfig) -> Vec<OptionFact> {
        let capacity = |reference: &Reference| {
            reference
                .log
                .lines()
                .skip_while(|line| !line.contains("block_cache_options"))
                .find_map(|line| line.split_once("capacity :").map(|(_, value)| value.trim().to_owned()))
        };
        let effective = capacity(&self.config);
        let one_family = self.config.options.scopes.len() <= 2;
        let same_sharing = one_family || config.block_cache.map(|c| c.shared) == baseline.block_cache.map(|c| c.shared);
        let status = match (&effective, config.block_cache) {
            _ if config != baseline && same_sharing && effective.is_some() && effective == capacity(&self.baseline) => {
                OptionStatus::Inert
            }
            (Some(seen), Some(cache)) if *seen == cache.bytes.to_string() => OptionStatus::AppliedNotSerialised,
            (Some(_), Some(_)) => OptionStatus::Sanitised,
            _ => OptionStatus::Inert,
        };
        vec![OptionFact {
            scope: DB_SCOPE.to_owned(),
            option: "blockCache".to_owned(),
            status,
            declared: config.block_cache.map(|cache| cache.bytes.to_string()),
            baseline: baseline.block_cache.map(|cache| cache.bytes.to_string()).or_else(|| capacity(&self.baseline)),
            effective,
        }]
    }

    /// The attestation of the measured database, from its own OPTIONS file.
    pub fn attest(&self, db_dir: &Path) -> Result<Attestation, EngineError> {
        let effective = OptionMap::read(db_dir).map_err(EngineError::io(db_dir))?;
        let mut facts = self.facts.clone();
        for difference in effective.differences(&self.config.options) {
            facts.push(OptionFact {
                scope: difference.scope.to_owned(),
                option: difference.option.to_owned(),
                status: OptionStatus::Undeclared,
                declared: None,
                baseline: self.baseline.options.get(difference.scope, difference.option).map(str::to_owned),
                effective: difference.here.map(str::to_owned),
            });
        }
        facts.sort();
        Ok(Attestation {
            baseline_options: self.baseline.digest(),
            config_options: self.config.digest(),
            effective_options: Digest::of_json(&effective.looked_at()).ok(),
            facts,
            options: effective.scopes,
        })
    }
}

fn is_null(value: &str) -> bool {
    matches!(value, "" | "nullptr")
}

/// A declared option, or each key of it where its value is a struct that RocksDB keeps in a section of its own.
fn parts(name: &str, value: &str) -> Vec<(String, String)> {
    match nested(value).filter(|_| matches!(name, TABLE_PREFIX | TABLE_KIND)) {
        Some(keys) => keys.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)).collect(),
        None => vec![(name.to_owned(), value.to_owned())],
    }
}

/// Every declared option, by scope and name, once per family it names.
fn declared(config: &EngineConfig, scopes: &[String]) -> BTreeMap<(String, String), String> {
    let of_scope = |scope: &String| match scope.as_str() {
        DB_SCOPE => config.db_options.clone(),
        family => config.family_options(family),
    };
    let all = scopes.iter().flat_map(|scope| of_scope(scope).into_iter().map(move |option| (scope, option)));
    all.flat_map(|(scope, (name, value))| {
        parts(&name, &value).into_iter().map(move |(option, value)| ((scope.clone(), option), value))
    })
    .collect()
}
