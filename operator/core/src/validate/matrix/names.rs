//! Names: of values, which say what they set, and of configs, which say which values they have.

use std::collections::BTreeMap;

use assay_api::{CacheSharing, Matrix, MatrixAxis, MatrixValue, TuningExperimentSpec};

use super::{Expansion, difference, value_path};
use crate::validate::configs::config_path;
use crate::validate::problem::Problem;

/// Names become labels of pods.
const MOST_CHARACTERS: usize = 63;
/// Characters of a digest that are enough to tell images apart.
const DIGEST: usize = 12;

/// The name of each value. One that can't be named gets its number, and a problem.
pub fn of_values(matrix: &Matrix, problems: &mut Vec<Problem>) -> Vec<Vec<String>> {
    let axes = matrix.axes.iter().enumerate();
    axes.map(|(axis, own)| {
        let mut names: Vec<String> = Vec::new();
        for (index, value) in own.values.iter().enumerate() {
            let path = value_path(axis, index);
            let name = of_value(value);
            if name.is_empty() {
                let message = "sets nothing that it could be named after: add a name, such as name: default";
                problems.push(Problem::error(path, message));
                names.push((index + 1).to_string());
                continue;
            }
            if let Some(first) = names.iter().position(|other| *other == name) {
                let first = value_path(axis, first);
                let (path, hint) =
                    if value.name.is_some() { (path.key("name"), "") } else { (path, "; give it a name of its own") };
                problems.push(Problem::error(path, format!("duplicate {name:?}; first used in {first}{hint}")));
            }
            names.push(name);
        }
        names
    })
    .collect()
}

/// Its own, or what it sets, as far as that can be part of a name.
fn of_value(value: &MatrixValue) -> String {
    if let Some(name) = &value.name {
        return name.clone();
    }
    let mut texts: Vec<String> = value.image.as_deref().map(image).into_iter().collect();
    let families = value.column_families.iter().flat_map(|entry| entry.options.values());
    texts.extend(value.db_options.values().chain(families).map(assay_api::OptionValue::to_rocksdb));
    if let Some(cache) = &value.block_cache {
        texts.push(cache.size.0.clone());
        texts.extend((cache.sharing == CacheSharing::Private).then(|| "private".to_owned()));
    }
    if let Some(write) = value.write_options {
        texts.extend(write.sync.then(|| "sync".to_owned()));
        texts.extend(write.disable_wal.then(|| "no-wal".to_owned()));
    }
    texts.extend(value.policy.values().cloned());
    sanitised(&texts.join("-"))
}

/// What tells an image from others of the same registry.
fn image(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.split_once("@sha256:") {
        Some((name, digest)) => format!("{name}-{}", digest.chars().take(DIGEST).collect::<String>()),
        None => last.to_owned(),
    }
}

/// Lowercase letters and digits, with one `-` for whatever is between them.
pub fn sanitised(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// `memtable-64m-codec-lz4`.
pub fn of_config(axes: &[MatrixAxis], names: &[Vec<String>], combination: &[usize]) -> String {
    let values = axes.iter().zip(names).zip(combination);
    values.map(|((axis, names), value)| format!("{}-{}", axis.name, names[*value])).collect::<Vec<_>>().join("-")
}

/// The combination that a config is named after.
pub fn read(matrix: &Matrix, config: &str) -> Option<Vec<usize>> {
    fn values(axes: &[MatrixAxis], names: &[Vec<String>], rest: &str) -> Option<Vec<usize>> {
        let ([axis, axes @ ..], [own, names @ ..]) = (axes, names) else { return rest.is_empty().then(Vec::new) };
        let rest = rest.strip_prefix('-')?.strip_prefix(axis.name.as_str())?.strip_prefix('-')?;
        own.iter().enumerate().find_map(|(value, name)| {
            let later = values(axes, names, rest.strip_prefix(name.as_str())?)?;
            Some([vec![value], later].concat())
        })
    }
    values(&matrix.axes, &of_values(matrix, &mut Vec::new()), &format!("-{config}"))
}

/// What is wrong with the names of configs. Each value has one of its own.
pub fn of_configs(spec: &TuningExperimentSpec, expansion: &Expansion) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut first: BTreeMap<&str, &[usize]> = BTreeMap::new();
    for (config, combination) in spec.configs[expansion.written..].iter().zip(&expansion.combinations) {
        let name = config.name.as_str();
        let shown = expansion.shown(combination);
        if let Some(index) = spec.configs[..expansion.written].iter().position(|own| own.name == name) {
            let message = format!("spec.matrix has a config of this name, too: {shown}; rename this one");
            problems.push(Problem::error(config_path(index).key("name"), message));
        }
        if let Some(earlier) = first.insert(name, combination) {
            let message = format!(
                "{} and {shown} both make a config named {name}: give this value another name",
                expansion.shown(earlier)
            );
            problems.push(Problem::error(difference(earlier, combination), message));
        }
    }
    problems.extend(longest(spec, expansion));
    problems
}

/// The longest name, if it is too long.
fn longest(spec: &TuningExperimentSpec, expansion: &Expansion) -> Option<Problem> {
    let configs = spec.configs[expansion.written..].iter().zip(&expansion.combinations);
    let (config, combination) = configs.max_by_key(|(config, _)| config.name.len())?;
    let length = config.name.len();
    // The value whose name takes most of it.
    let axis = (0..combination.len()).max_by_key(|&axis| expansion.names[axis][combination[axis]].len())?;
    (length > MOST_CHARACTERS).then(|| {
        let message = format!(
            "makes a config name of {length} characters, at most {MOST_CHARACTERS} allowed: give this value a shorter name \
             than {:?}",
            expansion.names[axis][combination[axis]]
        );
        Problem::error(value_path(axis, combination[axis]), message)
    })
}
