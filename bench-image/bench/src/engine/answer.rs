//! Answers, before anything runs, which declared options do not exist and which would reach nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use assay_protocol::{
    EngineConfig, OptionFact, OptionNote, OptionProblem, OptionStatus, OptionsAnswer, OptionsQuestion, PageCache,
};

use super::{
    EngineError, Family,
    attest::{Attestor, Reference},
    open::check_options,
    options_file::{DB_SCOPE, OptionMap, TABLE_PREFIX, same_value},
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

/// Answers which declared options do not exist and which reach nothing, before anything runs.
pub fn options_answer(question: &OptionsQuestion, scratch: &Path) -> Result<OptionsAnswer, EngineError> {
    let families: Vec<Family> = question.families.iter().map(|name| Family::new(name)).collect();
    let known = known_options(scratch, &families)?;
    let mut answer = OptionsAnswer::default();
    for (name, config) in &question.configs {
        let problems = problems_of(name, config, &question.families, &known);
        if !problems.is_empty() {
            answer.problems.extend(problems);
            continue;
        }
        match Attestor::new(scratch, &question.baseline, config, &|_| families.clone(), question.page_cache) {
            Ok(attestor) => {
                note_inert(name, config, &question.baseline, &attestor, &mut answer);
                note_sanitised(name, &attestor, &mut answer);
            }
            Err(error) => answer.problems.push(OptionProblem {
                config: name.clone(),
                scope: String::new(),
                option: String::new(),
                message: error.to_string(),
                suggestion: None,
            }),
        }
    }
    Ok(answer)
}

fn note_inert(
    name: &str,
    config: &EngineConfig,
    baseline: &EngineConfig,
    attestor: &Attestor,
    answer: &mut OptionsAnswer,
) {
    let declared: Vec<&OptionFact> = attestor.facts.iter().filter(|fact| fact.declared.is_some()).collect();
    let inert: Vec<&&OptionFact> = declared.iter().filter(|fact| fact.status == OptionStatus::Inert).collect();
    for fact in &inert {
        answer.inert.push(OptionNote {
            config: name.to_owned(),
            scope: fact.scope.clone(),
            option: fact.option.clone(),
            message: inert_reason(fact, &attestor.config.options),
        });
    }
    let only_engine_changed = config.policy == baseline.policy;
    if config != baseline
        && only_engine_changed
        && !declared.is_empty()
        && inert.len() == declared.len()
        && attestor.changes_nothing()
    {
        answer.all_inert.push(name.to_owned());
    }
}

fn note_sanitised(name: &str, attestor: &Attestor, answer: &mut OptionsAnswer) {
    for fact in attestor.facts.iter().filter(|fact| fact.status == OptionStatus::Sanitised) {
        let (asked, has) = (fact.declared.as_deref().unwrap_or(""), fact.effective.as_deref().unwrap_or(""));
        // RocksDB's parser reads a negative size as a huge one, and of 1.5G the 1; nobody means that.
        let misread = if asked.starts_with('-') && !has.starts_with('-') {
            Some(format!("{asked} is negative, and RocksDB would use {has}"))
        } else if is_integer(has) && asked.starts_with(|c: char| c.is_ascii_digit()) && !is_size(asked) {
            Some(format!(
                "RocksDB reads only part of {asked} and would use {has}: write a whole number, with K, M, G or T if needed"
            ))
        } else {
            None
        };
        if let Some(message) = misread {
            answer.problems.push(OptionProblem {
                config: name.to_owned(),
                scope: fact.scope.clone(),
                option: fact.option.clone(),
                message,
                suggestion: None,
            });
        } else {
            answer.sanitised.push(OptionNote {
                config: name.to_owned(),
                scope: fact.scope.clone(),
                option: fact.option.clone(),
                message: format!("RocksDB corrects {asked} to {has}"),
            });
        }
    }
}

fn is_integer(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// A number as RocksDB reads it whole: with a binary suffix of one letter at most.
fn is_size(text: &str) -> bool {
    is_integer(text.strip_suffix(|c: char| "kKmMgGtT".contains(c)).unwrap_or(text))
}

fn inert_reason(fact: &OptionFact, options: &OptionMap) -> String {
    if let Some(reason) = options.ignored(&fact.scope, &fact.option) {
        return reason.to_owned();
    }
    let in_db = options.get(DB_SCOPE, &fact.option).is_some();
    let in_family = options.scopes.iter().any(|(scope, map)| scope != DB_SCOPE && map.contains_key(&fact.option));
    match (&fact.effective, &fact.declared) {
        (None, _) if fact.scope == DB_SCOPE && in_family => {
            "is a column family option: declare it under columnFamilies".to_owned()
        }
        (None, _) if fact.scope != DB_SCOPE && in_db => "is a database option: declare it under dbOptions".to_owned(),
        (None, _) => "RocksDB accepts it and ignores it".to_owned(),
        (Some(effective), Some(declared)) if same_value(declared, effective) => {
            format!("already {effective} in the baseline")
        }
        (Some(effective), _) => format!("RocksDB accepts it but keeps {effective}"),
    }
}

/// Option names that RocksDB writes to its OPTIONS file, for suggestions.
fn known_options(scratch: &Path, families: &[Family]) -> Result<BTreeSet<String>, EngineError> {
    let empty = Reference::probe(&scratch.join("attest"), &EngineConfig::default(), families, PageCache::Evict)?;
    Ok(empty.options.names().map(|(_, option)| option.to_owned()).collect())
}

fn problems_of(
    config_name: &str,
    config: &EngineConfig,
    families: &[String],
    known: &BTreeSet<String>,
) -> Vec<OptionProblem> {
    let mut problems = Vec::new();
    let mut check = |scope: &str, option: &String, value: &String| {
        let single = BTreeMap::from([(option.clone(), value.clone())]);
        if let Err(message) = check_options(&single) {
            let in_table = format!("{TABLE_PREFIX}.{option}");
            let is_whole = |name: &String| name.strip_prefix(option.as_str()).is_some_and(|rest| rest.starts_with('.'));
            let exists = known.contains(option) || known.iter().any(is_whole);
            let choices = CHOICES.iter().find(|(name, _)| name == option).map(|(_, choices)| *choices);
            let elsewhere = ELSEWHERE.iter().find(|(name, _)| name == option).map(|(_, instead)| *instead);
            problems.push(OptionProblem {
                config: config_name.to_owned(),
                scope: scope.to_owned(),
                option: option.clone(),
                message: if let Some(choices) = choices {
                    format!("RocksDB does not know the value {value:?}; it knows {}", choices.join(", "))
                } else if exists {
                    format!("RocksDB rejects the value {value:?}: {message}")
                } else if known.contains(&in_table) {
                    format!("this is part of another option: write {TABLE_PREFIX}: \"{{{option}={value}}}\"")
                } else if message.contains("not recognized") || message.contains("Could not find") {
                    elsewhere.map_or("RocksDB has no such option".to_owned(), |instead| {
                        format!("RocksDB has no such option: {instead}")
                    })
                } else {
                    message
                },
                suggestion: match choices {
                    Some(choices) => meant(value, choices),
                    None if exists || elsewhere.is_some() || known.contains(&in_table) => None,
                    None => nearest(option, known),
                },
            });
        }
    };
    for (option, value) in &config.db_options {
        check(DB_SCOPE, option, value);
    }
    for entry in &config.column_families {
        for family in families.iter().filter(|family| entry.matches(family)) {
            for (option, value) in &entry.options {
                check(family, option, value);
            }
        }
    }
    problems
}

/// The choice that has this value as a part, whatever its case: `zstd` means `kZSTD`.
fn meant(value: &str, choices: &[&str]) -> Option<String> {
    let value = value.trim().to_lowercase();
    let fits = |choice: &&&str| !value.is_empty() && choice.to_lowercase().contains(&value);
    choices.iter().find(fits).map(|choice| (*choice).to_owned())
}

/// The known name that takes the fewest edits, where few are enough.
fn nearest(name: &str, known: &BTreeSet<String>) -> Option<String> {
    known
        .iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= 3.max(name.len() / 4))
        .min()
        .map(|(_, candidate)| candidate.clone())
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
    }
}
