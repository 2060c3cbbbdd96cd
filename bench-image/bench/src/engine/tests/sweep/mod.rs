//! Every option that RocksDB serialises, changed alone and not changed: attestation calls that one changed, and nothing else. The
//! options come from the engine, so a new one has to be swept or listed.

mod values;

use std::{collections::BTreeSet, fs};

use assay_protocol::{EngineConfig, OptionFact, OptionStatus, PageCache, option_value::nested};
use tempfile::TempDir;

use super::{Attestor, Engine, Family, db, family};
use crate::engine::{
    attest::Reference,
    open::check_options,
    options_file::{DB_SCOPE, OptionMap, TABLE_PREFIX},
};
use values::{DERIVED, IGNORED, LEFT_OUT, NEEDS, OTHER_NAMES, UNSERIALISED, UNWRITTEN, VALUES};

/// The family whose options are changed. RocksDB does not let the default one have all of them.
const HOT: &str = "hot";

fn families() -> Vec<Family> {
    ["default", HOT].map(Family::new).to_vec()
}

/// A config with one more option. A key of a table is named in the table's string, as people write it.
fn with(mut config: EngineConfig, scope: &str, option: &str, value: &str) -> EngineConfig {
    let of_table = option.strip_prefix(TABLE_PREFIX).and_then(|rest| rest.strip_prefix('.'));
    let (option, value) = match of_table {
        Some(key) => (TABLE_PREFIX, format!("{{{key}={value}}}")),
        None => (option, value.to_owned()),
    };
    if scope == DB_SCOPE {
        config.db_options.extend(db(&[(option, &value)]).db_options);
    } else {
        config.column_families.extend(family(scope, &[(option, &value)]).column_families);
    }
    config
}

/// One option and what it is changed to.
#[derive(Clone, Debug)]
struct Case {
    scope: &'static str,
    /// What it is called in the lists.
    name: String,
    option: String,
    default: String,
    changed: String,
}

fn defaults(scratch: &TempDir) -> OptionMap {
    let folder = scratch.path().join("defaults");
    Reference::probe(&folder, &EngineConfig::default(), &families(), PageCache::Evict).unwrap().options
}

/// All names in an OPTIONS file, and the keys of structs, with their defaults.
fn serialised(defaults: &OptionMap) -> Vec<(&'static str, String, String)> {
    let mut all = Vec::new();
    for scope in [DB_SCOPE, HOT] {
        for (name, value) in &defaults.scopes[scope] {
            match nested(value) {
                Some(keys) => all.extend(keys.into_iter().map(|(key, value)| (scope, format!("{name}.{key}"), value))),
                None => all.push((scope, name.clone(), value.clone())),
            }
        }
    }
    all.extend(UNWRITTEN.iter().map(|(scope, name)| (*scope, (*name).to_owned(), String::new())));
    for (name, of) in OTHER_NAMES {
        let (scope, _, default) = all.iter().find(|(_, name, _)| name == of).unwrap().clone();
        all.push((scope, (*name).to_owned(), default));
    }
    all
}

/// Another value, by the type that the default shows.
fn other_value(option: &str, default: &str) -> Option<String> {
    let listed = VALUES.iter().find(|(name, _)| *name == option).map(|(_, value)| (*value).to_owned());
    listed.or_else(|| match default {
        "true" => Some("false".to_owned()),
        "false" => Some("true".to_owned()),
        number => match number.parse::<u64>() {
            Ok(whole) => Some((2 * whole + 1).to_string()),
            Err(_) => number.parse::<f64>().ok().map(|real| (real / 2.0 + 0.25).to_string()),
        },
    })
}

fn cases(defaults: &OptionMap) -> (Vec<Case>, Vec<String>) {
    let (mut cases, mut unknown) = (Vec::new(), Vec::new());
    for (scope, option, default) in serialised(defaults) {
        let is_left_out = LEFT_OUT.iter().any(|(name, _)| *name == option);
        match other_value(&option, &default) {
            _ if is_left_out => {}
            Some(changed) => cases.push(Case { scope, name: option.clone(), option, default, changed }),
            None => unknown.push(format!("{option}={default} is neither swept nor listed")),
        }
    }
    // A key of a struct can be declared in the struct, too.
    let in_struct = |case: &Case| {
        let (whole, key) = case.option.split_once('.').filter(|_| !is_of_table(case) && !is_alias(case))?;
        let [default, changed] = [&case.default, &case.changed].map(|value| format!("{{{key}={value}}}"));
        Some(Case { option: whole.to_owned(), default, changed, ..case.clone() })
    };
    cases.extend(cases.iter().filter_map(in_struct).collect::<Vec<Case>>());
    (cases, unknown)
}

/// An option, or one of the keys of a struct.
fn is_of(option: &str, whole: &str) -> bool {
    option.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Case {
    fn set(&self, base: &EngineConfig, value: &str) -> EngineConfig {
        with(base.clone(), self.scope, &self.option, value)
    }

    /// What every config has, so that the option can act.
    fn base(&self, defaults: &OptionMap) -> EngineConfig {
        let needs = NEEDS.iter().filter(|(option, ..)| is_of(&self.name, option));
        needs.fold(EngineConfig::default(), |base, (_, other, value)| {
            let scope = if defaults.get(DB_SCOPE, other).is_some() { DB_SCOPE } else { HOT };
            with(base, scope, other, value)
        })
    }

    fn derived(&self) -> impl Iterator<Item = &str> {
        DERIVED.iter().filter(|(option, ..)| *option == self.name).flat_map(|(_, derived, _)| *derived).copied()
    }

    /// How facts call this option, if all others of them are about what RocksDB derives from it.
    fn status(&self, facts: &[OptionFact], rest: OptionStatus, name: &str) -> Result<OptionStatus, String> {
        let (own, others): (Vec<_>, Vec<_>) =
            facts.iter().partition(|fact| fact.scope == self.scope && fact.option == name);
        let is_about = |fact: &OptionFact, derived: &str| {
            fact.scope == derived || fact.scope == self.scope && is_of(&fact.option, derived)
        };
        let is_expected =
            |fact: &OptionFact| fact.status == rest && self.derived().any(|derived| is_about(fact, derived));
        if let Some(fact) = others.iter().find(|fact| !is_expected(fact)) {
            return Err(format!("and {fact:?}"));
        }
        if let Some(derived) = self.derived().find(|derived| !others.iter().any(|fact| is_about(fact, derived))) {
            return Err(format!("without {derived}"));
        }
        let [fact] = &own[..] else { return Err(format!("has {own:?}")) };
        Ok(fact.status)
    }

    /// Everything that attestation gets wrong about this option.
    fn wrong(&self, scratch: &TempDir, defaults: &OptionMap) -> Vec<String> {
        let base = self.base(defaults);
        let (config, back) = (self.set(&base, &self.changed), self.set(&self.set(&base, &self.changed), &self.default));
        let attestor = |baseline: &EngineConfig, config: &EngineConfig| {
            Attestor::new(scratch.path(), baseline, config, &|_| families(), PageCache::Evict)
        };
        let mut wrong = Vec::new();
        let mut expect = |what: &str, expected: OptionStatus, found: Result<OptionStatus, String>| {
            if found != Ok(expected) {
                wrong.push(format!("{}={}, {what}: {found:?}", self.option, self.changed));
            }
        };
        let declared = match attestor(&base, &config) {
            Ok(attestor) => attestor,
            Err(error) => return vec![format!("{}={}: {error}", self.option, self.changed)],
        };
        let name = self.option.as_str();
        expect("declared", OptionStatus::Applied, self.status(&declared.facts, OptionStatus::Implied, name));

        let measured = scratch.path().join("measured");
        drop(Engine::open(&measured, &config, &families(), PageCache::Evict).unwrap());
        let attestation = declared.attest(&measured).unwrap();
        let as_declared = attestation.config_options == attestation.effective_options;
        let found = if as_declared && attestation.facts == declared.facts {
            self.status(&attestation.facts, OptionStatus::Implied, name)
        } else {
            Err(format!("{:?}", attestation.facts))
        };
        expect("measured", OptionStatus::Applied, found);

        let attestation = attestor(&base, &base).unwrap().attest(&measured).unwrap();
        let facts: Vec<OptionFact> = attestation.facts.into_iter().filter(|fact| fact.declared.is_none()).collect();
        let holder = declared.config.options.holder(self.scope, name);
        let found = self.status(&facts, OptionStatus::Undeclared, &holder);
        let as_declared = attestation.config_options == attestation.effective_options;
        let found = if as_declared { Err("the digests do not differ".to_owned()) } else { found };
        expect("declared by nobody", OptionStatus::Undeclared, found);

        // As what the baseline has, it is applied as well, whatever else it has.
        let own = attestor(&config, &config).unwrap().facts;
        let own = own.iter().find(|fact| fact.scope == self.scope && fact.option == name).map(|fact| fact.status);
        expect("of the baseline", OptionStatus::Applied, own.ok_or_else(String::new));

        if !self.default.is_empty() {
            let found = attestor(&config, &back).map_err(|error| error.to_string());
            let found = found.and_then(|back| self.status(&back.facts, OptionStatus::Implied, name));
            expect("and back", OptionStatus::Applied, found);
        }
        fs::remove_dir_all(&measured).unwrap();
        wrong
    }
}

/// Sweeps a part of the options. Three tests share them out, so that they run side by side.
fn sweep(is_part: impl Fn(&Case) -> bool, least: usize) {
    let scratch = TempDir::new().unwrap();
    let defaults = defaults(&scratch);
    let (cases, mut wrong) = cases(&defaults);
    let part: Vec<&Case> = cases.iter().filter(|case| is_part(case)).collect();
    assert!(part.len() >= least, "{} options", part.len());
    wrong.extend(part.iter().flat_map(|case| case.wrong(&scratch, &defaults)));
    assert!(wrong.is_empty(), "{} wrong of {} options:\n{}", wrong.len(), part.len(), wrong.join("\n"));
}

fn is_of_table(case: &Case) -> bool {
    is_of(&case.option, TABLE_PREFIX)
}

fn is_alias(case: &Case) -> bool {
    OTHER_NAMES.iter().any(|(name, _)| *name == case.name)
}

#[test]
fn a_changed_option_of_the_database_is_attested_alone() {
    sweep(|case| case.scope == DB_SCOPE, 80);
}

#[test]
fn a_changed_option_of_a_family_is_attested_alone() {
    sweep(|case| case.scope != DB_SCOPE && !is_of_table(case), 120);
}

#[test]
fn a_changed_option_of_a_table_is_attested_alone() {
    sweep(is_of_table, 40);
}

/// Defaults that are declared are no change, and as a baseline's own they are what RocksDB has.
#[test]
fn every_option_that_is_not_changed_is_inert() {
    let scratch = TempDir::new().unwrap();
    let plain = EngineConfig::default();
    let defaults = defaults(&scratch);
    let (cases, _) = cases(&defaults);
    // Each once, under one name.
    let is_named_so = |case: &&Case| case.name == case.option && !is_alias(case);
    let declared: Vec<&Case> = cases.iter().filter(|case| !case.default.is_empty()).filter(is_named_so).collect();
    let all = declared.iter().fold(plain.clone(), |config, case| case.set(&config, &case.default));
    let expect = |baseline: &EngineConfig, expected: OptionStatus| {
        let attestor = Attestor::new(scratch.path(), baseline, &all, &|_| families(), PageCache::Evict).unwrap();
        assert!(attestor.changes_nothing());
        // What needs another option does nothing without it, whoever has it.
        let is_right = |fact: &OptionFact| {
            fact.status == expected
                || fact.status == OptionStatus::Inert && defaults.ignored(&fact.scope, &fact.option).is_some()
        };
        for case in &declared {
            let of_case = |fact: &&OptionFact| fact.scope == case.scope && fact.option == case.option;
            assert_eq!(attestor.facts.iter().filter(of_case).count(), 1, "{case:?}");
        }
        let wrong: Vec<&OptionFact> = attestor.facts.iter().filter(|fact| !is_right(fact)).collect();
        assert!(wrong.is_empty() && attestor.facts.len() == declared.len(), "{wrong:?}");
    };
    expect(&plain, OptionStatus::Inert);
    expect(&all, OptionStatus::Applied);
}

/// What is listed and is no option, or needs no list any more.
#[test]
fn the_lists_of_the_sweep_name_options() {
    let scratch = TempDir::new().unwrap();
    let defaults = defaults(&scratch);
    let all: BTreeSet<String> = serialised(&defaults).into_iter().map(|(_, name, _)| name).collect();
    let listed = VALUES.iter().map(|(name, _)| name).chain(LEFT_OUT.iter().map(|(name, _)| name));
    let listed = listed.chain(NEEDS.iter().map(|(name, ..)| name)).chain(DERIVED.iter().map(|(name, ..)| name));
    let strange: Vec<_> = listed.filter(|name| !all.iter().any(|option| is_of(option, name))).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// Whether RocksDB's parser has an option of this name.
fn is_known(name: &str) -> bool {
    match check_options(&[(name.to_owned(), "1".to_owned())].into()) {
        Ok(()) => true,
        Err(said) => !said.contains("not recognized") && !said.contains("Could not find"),
    }
}

/// All words in this program, which has RocksDB in it.
fn words() -> BTreeSet<String> {
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let words = program.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let words: BTreeSet<&[u8]> = words.filter(|word| (3..64).contains(&word.len())).collect();
    words.into_iter().map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()
}

/// RocksDB takes more names than it writes.
#[test]
fn every_name_that_rocksdb_takes_is_swept_or_listed() {
    let scratch = TempDir::new().unwrap();
    let swept = serialised(&defaults(&scratch)).into_iter().map(|(_, name, _)| name);
    let swept = swept.map(|name| name.split('.').next().unwrap().to_owned());
    let listed = IGNORED.iter().copied().chain(UNSERIALISED.iter().map(|(name, _)| *name)).map(str::to_owned);
    let expected: BTreeSet<String> = swept.chain(listed).collect();
    let new: Vec<String> = words().into_iter().filter(|word| !expected.contains(word) && is_known(word)).collect();
    assert!(new.is_empty(), "new options: {new:?}");
    let gone: Vec<&String> = expected.iter().filter(|name| !is_known(name)).collect();
    assert!(gone.is_empty(), "no options: {gone:?}");

    let plain = EngineConfig::default();
    let config = IGNORED.iter().fold(plain.clone(), |config, name| with(config, HOT, name, "1"));
    let attestor = Attestor::new(scratch.path(), &plain, &config, &|_| families(), PageCache::Evict).unwrap();
    let inert = attestor.facts.iter().filter(|fact| fact.status == OptionStatus::Inert).count();
    assert!(attestor.changes_nothing() && inert == IGNORED.len(), "{:?}", attestor.facts);
}
