//! Declared options that RocksDB's parser refuses, and what was probably meant.

use std::collections::BTreeMap;

use assay_protocol::{EngineConfig, OptionProblem, option_value::nested};

use super::{
    Declared,
    open::check_options,
    options_file::{DB_SCOPE, OptionMap, TABLE_PREFIX},
};

/// Values that RocksDB knows by name, as far as this build has them.
const CODECS: &[&str] = &["kNoCompression", "kSnappyCompression", "kLZ4Compression", "kLZ4HCCompression", "kZSTD"];
const CHOICES: [(&str, &[&str]); 7] = [
    ("compression", CODECS),
    ("bottommost_compression", CODECS),
    ("blob_compression_type", CODECS),
    (
        "compaction_style",
        &["kCompactionStyleLevel", "kCompactionStyleUniversal", "kCompactionStyleFIFO", "kCompactionStyleNone"],
    ),
    (
        "compaction_pri",
        &[
            "kMinOverlappingRatio",
            "kByCompensatedSize",
            "kOldestLargestSeqFirst",
            "kOldestSmallestSeqFirst",
            "kRoundRobin",
        ],
    ),
    (
        "wal_recovery_mode",
        &["kPointInTimeRecovery", "kTolerateCorruptedTailRecords", "kAbsoluteConsistency", "kSkipAnyCorruptedRecords"],
    ),
    ("info_log_level", &["DEBUG_LEVEL", "INFO_LEVEL", "WARN_LEVEL", "ERROR_LEVEL", "FATAL_LEVEL", "HEADER_LEVEL"]),
];

/// Options that people know from elsewhere, with what does the same here.
const ELSEWHERE: [(&str, &str); 5] = [
    ("bloom_bits", "write block_based_table_factory: \"{filter_policy=bloomfilter:10:false}\""),
    ("cache_size", "set the config's blockCache"),
    ("block_cache_size", "set the config's blockCache"),
    ("compression_type", "write compression: kZSTD, or another codec"),
    ("disable_wal", "set the config's writeOptions: {disableWAL: true}"),
];

/// What is wrong with one option.
struct Refusal {
    message: String,
    suggestion: Option<String>,
}

/// The declared options that RocksDB refuses, and a problem for each family that they are for.
pub fn refused(
    name: &str,
    config: &EngineConfig,
    families: &[String],
    defaults: &OptionMap,
) -> (Vec<Declared>, Vec<OptionProblem>) {
    let (mut options, mut problems) = (Vec::new(), Vec::new());
    for declared in Declared::all(config) {
        // What no family has is not applied to any.
        let (Some(scope), Some(value)) = (declared.scope(config, families), declared.value(config)) else { continue };
        let found = refusals(scope, &declared.option, value, defaults);
        if !found.is_empty() {
            problems.extend(found.into_iter().map(|Refusal { message, suggestion }| OptionProblem {
                config: name.to_owned(),
                scope: scope.to_owned(),
                option: declared.option.clone(),
                message,
                suggestion,
            }));
            options.push(declared);
        }
    }
    (options, problems)
}

fn refusals(scope: &str, option: &str, value: &str, defaults: &OptionMap) -> Vec<Refusal> {
    let Err(said) = check_options(&BTreeMap::from([(option.to_owned(), value.to_owned())])) else { return Vec::new() };
    let refusal = |message: String| Refusal { message, suggestion: None };
    if let Some((_, choices)) = CHOICES.iter().find(|(name, _)| *name == option) {
        let message = format!("RocksDB does not know the value {value:?}; it knows {}", choices.join(", "));
        return vec![Refusal {
            message,
            suggestion: meant(value, choices).or_else(|| nearest(value, choices.iter().copied())),
        }];
    }
    if let Some(keys) = keys_of(option, defaults) {
        let found = refused_keys(option, value, &keys);
        return if found.is_empty() {
            vec![refusal(format!("RocksDB rejects the value {value:?}: {said}"))]
        } else {
            found
        };
    }
    if let Some(default) = default_of(option, defaults) {
        let default = if default.is_empty() { String::new() } else { format!("; its default is {default}") };
        let place = misplaced(scope, option, defaults).map(|place| format!("; {place}")).unwrap_or_default();
        // Of a number it says no more than that.
        let why = if said.starts_with("Error parsing") { String::new() } else { format!(": {said}") };
        return vec![refusal(format!("RocksDB can't read the value {value:?}{why}{default}{place}"))];
    }
    if default_of(&format!("{TABLE_PREFIX}.{option}"), defaults).is_some() {
        return vec![refusal(format!(
            "this is part of another option: write {TABLE_PREFIX}: \"{{{option}={value}}}\""
        ))];
    }
    if !said.contains("not recognized") && !said.contains("Could not find") {
        return vec![refusal(said)];
    }
    let message = "RocksDB has no such option";
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(name, _)| *name == option) {
        return vec![refusal(format!("{message}: {instead}"))];
    }
    let known = defaults.names().map(|(_, option)| option).filter(|option| !option.contains('.'));
    vec![Refusal { message: message.to_owned(), suggestion: nearest(option, known) }]
}

/// The keys of an option whose value is a struct, with their defaults.
fn keys_of(option: &str, defaults: &OptionMap) -> Option<BTreeMap<String, String>> {
    if option == TABLE_PREFIX {
        let start = format!("{TABLE_PREFIX}.");
        let of_table = |(scope, name): (&str, &str)| {
            Some((name.strip_prefix(&start)?.to_owned(), defaults.get(scope, name)?.to_owned()))
        };
        return Some(defaults.names().filter_map(of_table).collect());
    }
    default_of(option, defaults).filter(|default| default.starts_with('{')).and_then(nested)
}

fn refused_keys(option: &str, value: &str, keys: &BTreeMap<String, String>) -> Vec<Refusal> {
    let own = nested(value.trim()).unwrap_or_default();
    let of_key = |(key, value): (&String, &String)| {
        let single = BTreeMap::from([(option.to_owned(), format!("{{{key}={value}}}"))]);
        check_options(&single).err()?;
        let Some(default) = keys.get(key) else {
            let suggestion = nearest(key, keys.keys().map(String::as_str));
            return Some(Refusal { message: format!("has no key {key}"), suggestion });
        };
        let message = format!("RocksDB can't read the value {value:?} of {key}; its default is {default}");
        Some(Refusal { message, suggestion: None })
    };
    own.iter().filter_map(of_key).collect()
}

fn default_of<'a>(option: &str, defaults: &'a OptionMap) -> Option<&'a str> {
    defaults.scopes.values().find_map(|options| options.get(option)).map(String::as_str)
}

/// Where an option belongs that is declared for the database and is one of families, or the other way round.
pub fn misplaced(scope: &str, option: &str, known: &OptionMap) -> Option<&'static str> {
    let in_db = known.get(DB_SCOPE, option).is_some();
    // RocksDB keeps a struct's keys in a section of their own.
    let is_it = |name: &str| name.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let in_family = known.names().any(|(scope, name)| scope != DB_SCOPE && is_it(name));
    match (scope == DB_SCOPE, in_db, in_family) {
        (true, false, true) => Some("this is a column family option; declare it under columnFamilies"),
        (false, true, false) => Some("this is a database option; declare it under dbOptions"),
        _ => None,
    }
}

/// The choice that has this value as a part, whatever its case: `zstd` means `kZSTD`.
fn meant(value: &str, choices: &[&str]) -> Option<String> {
    let value = value.trim().to_lowercase();
    let fits = |choice: &&&str| !value.is_empty() && choice.to_lowercase().contains(&value);
    choices.iter().find(fits).map(|choice| (*choice).to_owned())
}

/// The known name that takes the fewest edits, where few are enough.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= 3.max(name.len() / 4).min(name.len().div_ceil(3)))
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rocksdb_knows_the_values_that_are_listed() {
        for (option, choices) in CHOICES {
            for choice in choices {
                let single = BTreeMap::from([(option.to_owned(), (*choice).to_owned())]);
                assert!(check_options(&single).is_ok(), "{option}: {choice}");
            }
        }
        assert_eq!(meant("zstd", CODECS).as_deref(), Some("kZSTD"));
        assert_eq!(meant("lz5", CODECS), None);
        let refused = |value: &str| refusals("default", "compression", value, &OptionMap::default()).remove(0);
        assert_eq!(refused("kZSTDD").suggestion.as_deref(), Some("kZSTD"));
        assert_eq!(refused("brotli").suggestion, None);
    }
}
