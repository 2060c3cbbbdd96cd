//! What only RocksDB knows about options: the question, and the answer's way back to the fields of the file.

use std::collections::BTreeSet;

use assay_api::{Config, TuningExperimentSpec};
use assay_protocol::{OptionsAnswer, OptionsQuestion, PageCache, glob_matches};

use super::configs::{baseline_index, config_path, effective, families, is_owned};
use super::problem::{FieldPath, Problem};
use super::schema::join;

/// One question for each way to use the page cache, as direct I/O changes what an option reaches.
pub fn questions(spec: &TuningExperimentSpec) -> Vec<OptionsQuestion> {
    let mut engines = effective(spec);
    // What is refused anyway is not asked about: to look what RocksDB makes of `wal_dir` is to write there.
    for engine in &mut engines {
        engine.db_options.retain(|option, _| !is_owned(option));
        for family in &mut engine.column_families {
            family.options.retain(|option, _| !is_owned(option));
        }
    }
    let baseline = baseline_index(spec).map(|index| engines[index].clone()).unwrap_or_default();
    let direct = |scenario: &assay_api::Scenario| scenario.page_cache == PageCache::Direct;
    [PageCache::Evict, PageCache::Direct]
        .into_iter()
        .filter(|cache| spec.scenarios.iter().any(|scenario| direct(scenario) == (*cache == PageCache::Direct)))
        .map(|page_cache| OptionsQuestion {
            families: families(spec).into_iter().collect(),
            baseline: baseline.clone(),
            configs: (0..spec.configs.len()).map(|index| asked_as(spec, index)).zip(engines.iter().cloned()).collect(),
            page_cache,
        })
        .collect()
}

/// The name under which a config is asked about. Of several with one name, each after the first needs another.
fn asked_as(spec: &TuningExperimentSpec, index: usize) -> String {
    let name = &spec.configs[index].name;
    let is_first = spec.configs[..index].iter().all(|other| other.name != *name);
    if is_first { name.clone() } else { format!("{name}#{index}") }
}

pub(super) fn asked_index(spec: &TuningExperimentSpec, name: &str) -> Option<usize> {
    (0..spec.configs.len()).find(|&index| asked_as(spec, index) == name)
}

/// What a bench says of an option in the wrong place.
const MISPLACED: &str = "; declare it under ";

/// The answer as problems of the fields that the user wrote.
pub fn answer_problems(spec: &TuningExperimentSpec, answer: &OptionsAnswer) -> Vec<Problem> {
    let mut problems = Vec::new();
    for problem in &answer.problems {
        let Some(found) = found(spec, &problem.config, &problem.scope, &problem.option, true) else { continue };
        let suggestion = problem.suggestion.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        let message = format!("{}{}{suggestion}", found.about(), problem.message);
        problems.push(Problem::error(found.field, message).at_key());
    }
    // An option in the wrong place is a mistake there, and not of the config that has no others.
    let is_misplaced = |config: &String| {
        let mut notes = answer.inert.iter().filter(|note| note.config == *config).peekable();
        notes.peek().is_some() && notes.all(|note| note.message.contains(MISPLACED))
    };
    let (misplaced, all_inert): (Vec<&String>, Vec<&String>) =
        answer.all_inert.iter().partition(|config| is_misplaced(config));
    // An option without effect is reported where it is declared. That others inherit it from the baseline is no news.
    for note in &answer.inert {
        if let Some(found) = found(spec, &note.config, &note.scope, &note.option, false) {
            let key = found.key.as_ref().map(|key| format!("{key} ")).unwrap_or_default();
            let message = format!("{key}has no effect: {}", note.message);
            let severe = misplaced.contains(&&note.config);
            let problem = if severe { Problem::error } else { Problem::warning }(found.field, message);
            problems.push(problem.at_key());
        }
    }
    for note in &answer.sanitised {
        if let Some(found) = found(spec, &note.config, &note.scope, &note.option, false) {
            problems.push(Problem::warning(found.field.clone(), found.about() + &note.message).at_key());
        }
    }
    for name in all_inert {
        if let Some(index) = asked_index(spec, name).filter(|index| Some(*index) != baseline_index(spec)) {
            let declared: BTreeSet<&str> =
                answer.inert.iter().filter(|note| note.config == *name).map(|note| note.option.as_str()).collect();
            let message = format!(
                "NoEffectPossible: none of this config's options has an effect ({}), so it can't differ from the baseline; remove it",
                join(declared)
            );
            problems.push(Problem::error(config_path(index), message));
        }
    }
    problems.sort();
    problems.dedup();
    problems
}

/// Where an option was declared.
struct Found {
    field: FieldPath,
    /// The key that is meant, where the field's value is a string of several.
    key: Option<String>,
}

impl Found {
    /// What a sentence is about that has a subject of its own.
    fn about(&self) -> String {
        self.key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default()
    }
}

/// Where an option was declared: in the config itself, or in the baseline that it builds on.
fn found(spec: &TuningExperimentSpec, config: &str, scope: &str, option: &str, inherited: bool) -> Option<Found> {
    let index = asked_index(spec, config)?;
    let own = declared_at(&spec.configs[index], index, scope, option);
    let from_baseline = || {
        let baseline = baseline_index(spec).filter(|_| inherited)?;
        declared_at(&spec.configs[baseline], baseline, scope, option)
    };
    let config_itself = || inherited.then(|| Found { field: config_path(index), key: None });
    own.or_else(from_baseline).or_else(config_itself)
}

/// RocksDB names what is in `block_based_table_factory: {block_size=4K}` like `block_based_table_factory.block_size`.
fn declared_at(config: &Config, index: usize, scope: &str, option: &str) -> Option<Found> {
    let plain = field_of(config, index, scope, option).map(|field| Found { field, key: None });
    plain.or_else(|| {
        let (whole, key) = option.split_once('.')?;
        Some(Found { field: field_of(config, index, scope, whole)?, key: Some(key.to_owned()) })
    })
}

fn field_of(config: &Config, index: usize, scope: &str, option: &str) -> Option<FieldPath> {
    let path = config_path(index);
    // No glob is about the database, though it may match the word.
    if scope == "db" {
        return config.db_options.contains_key(option).then(|| path.key("dbOptions").key(option));
    }
    // The later entry wins in RocksDB, so it is the one at fault.
    let entry = config.column_families.iter().rposition(|entry| {
        entry.options.contains_key(option) && entry.r#match.iter().any(|pattern| glob_matches(pattern, scope))
    })?;
    Some(path.key("columnFamilies").index(entry).key("options").key(option))
}
