//! What a config asks for and can't get, as can be told from its numbers before anything runs.

use std::collections::{BTreeMap, BTreeSet};

use assay_api::TuningExperimentSpec;
use assay_protocol::{EngineConfig, glob_matches, option_value};

use super::configs::{baseline_index, config_path, effective, families};
use super::counted;
use super::problem::{FieldPath, Problem};
use super::schema::join;
use crate::quantity::display;

type Options = BTreeMap<String, String>;

const CAP: &str = "db_write_buffer_size";
const PER_LEVEL: &str = "compression_per_level";

pub fn check(spec: &TuningExperimentSpec) -> Vec<Problem> {
    let engines = effective(spec);
    let families = families(spec);
    let baseline = baseline_index(spec).map(|index| engines[index].clone()).unwrap_or_default();
    // The largest that a family could be: all data there are.
    let bytes = spec.scenarios.iter().map(|scenario| scenario.workload.kind().volume());
    let bytes = bytes.map(|volume| volume.loaded_bytes + volume.written_bytes).fold(0.0, f64::max);
    let mut problems = Vec::new();
    for (index, engine) in engines.iter().enumerate() {
        for family in &families {
            problems.extend(memtables(spec, index, engine, family));
            let own = engine.family_options(family);
            let before = (engine != &baseline).then(|| baseline.family_options(family));
            if let Some(path) = declared(spec, index, family, &[PER_LEVEL]) {
                problems.extend(codecs(&own, before.as_ref(), bytes).map(|(severe, message)| {
                    if severe { Problem::warning(path, message) } else { Problem::note(path, message) }
                }));
            }
        }
    }
    // One of the families that an entry matches is enough to say it.
    let mut said = BTreeSet::new();
    problems.retain(|problem| said.insert(problem.path.clone()));
    problems
}

/// Where a config itself sets one of these options for a family.
pub fn declared(spec: &TuningExperimentSpec, index: usize, family: &str, options: &[&str]) -> Option<FieldPath> {
    let entries = spec.configs[index].column_families.iter().enumerate().rev();
    let mut matching = entries.filter(|(_, entry)| entry.r#match.iter().any(|pattern| glob_matches(pattern, family)));
    matching.find_map(|(position, entry)| {
        let option = options.iter().find(|option| entry.options.contains_key(**option))?;
        Some(config_path(index).key("columnFamilies").index(position).key("options").key(*option))
    })
}

fn bytes_of(options: &Options, name: &str, default: f64) -> f64 {
    options.get(name).and_then(|value| option_value::number(value.trim())).unwrap_or(default)
}

/// The limit on all memtables together flushes at seven eighths of it, however many memtables a family may have.
fn memtables(spec: &TuningExperimentSpec, index: usize, engine: &EngineConfig, family: &str) -> Option<Problem> {
    let cap = bytes_of(&engine.db_options, CAP, 0.0);
    let options = engine.family_options(family);
    let (one, number) = (
        bytes_of(&options, "write_buffer_size", f64::from(64 << 20)),
        bytes_of(&options, "max_write_buffer_number", 2.0),
    );
    let reached = cap * 7.0 / 8.0;
    if cap <= 0.0 || one * number <= reached {
        return None;
    }
    let path = declared(spec, index, family, &["max_write_buffer_number", "write_buffer_size"]).or_else(|| {
        let own = spec.configs[index].db_options.contains_key(CAP);
        own.then(|| config_path(index).key("dbOptions").key(CAP))
    })?;
    let message = format!(
        "can't be reached: {number} memtables of {} need {}, but with {CAP} {} RocksDB flushes when the memtables of all column \
         families hold {}; raise it, or lower write_buffer_size or max_write_buffer_number",
        display(one as u64),
        display((one * number) as u64),
        display(cap as u64),
        display(reached as u64),
    );
    Some(Problem::note(path, message).at_key())
}

/// Entries of `compression_per_level` that no level gets with so many bytes. True where none that is left differs from what
/// the baseline has.
fn codecs(own: &Options, before: Option<&Options>, bytes: f64) -> Option<(bool, String)> {
    if own.get("compaction_style").is_some_and(|style| !style.contains("Level")) {
        return None;
    }
    let levels = levels(own, bytes);
    let list: Vec<&str> = own.get(PER_LEVEL)?.split(':').map(str::trim).collect();
    let used = &list[..list.len().min(levels + 1)];
    let so_much = format!(
        "about {} of data fills at most {} below L0 (max_bytes_for_level_base {})",
        display(bytes as u64),
        counted(levels, "level", "levels"),
        display(level_base(own) as u64)
    );
    let to_do = "lower max_bytes_for_level_base to match the data, or use more data";
    let has = |options: &Options, entry: usize| -> Option<String> {
        match options.get(PER_LEVEL) {
            Some(list) => list.split(':').map(str::trim).take(entry + 1).last().map(str::to_owned),
            None => options.get("compression").map(|codec| codec.trim().to_owned()),
        }
    };
    if before.is_some_and(|before| (0..=levels).all(|entry| has(own, entry) == has(before, entry))) {
        let message = format!("has no effect here: {so_much}, with the same codecs as in the baseline; {to_do}");
        return Some((true, message));
    }
    let unused: BTreeSet<&str> = list.iter().copied().filter(|codec| !used.contains(codec)).collect();
    let message = format!("is only partly used: {so_much}, so no level gets {}; {to_do}", join(unused.iter().copied()));
    (!unused.is_empty()).then_some((false, message))
}

fn level_base(options: &Options) -> f64 {
    bytes_of(options, "max_bytes_for_level_base", f64::from(256 << 20)).max(1.0)
}

/// Levels below L0 that so many bytes fill: each is as many times the one above as the multiplier says.
pub fn levels(options: &Options, bytes: f64) -> usize {
    let multiplier = bytes_of(options, "max_bytes_for_level_multiplier", 10.0).max(2.0);
    let most = bytes_of(options, "num_levels", 7.0) as usize;
    let (mut levels, mut left) = (1, bytes);
    while left > level_base(options) && levels + 1 < most {
        (levels, left) = (levels + 1, left / multiplier);
    }
    levels
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::validate::tests::messages_with as messages;

    #[test]
    fn memtables_that_the_limit_on_all_forbids_are_named() {
        let with = |cap: &str, number: u32| {
            messages(|spec| {
                let options = json!({"write_buffer_size": "512M", "max_write_buffer_number": number});
                spec["configs"][0]["dbOptions"] = json!({"db_write_buffer_size": cap});
                spec["configs"][0]["columnFamilies"][0]["options"] = options;
            })
        };
        assert_eq!(
            with("1G", 6),
            [
                "note: spec.configs[0].columnFamilies[0].options.max_write_buffer_number: can't be reached: 6 memtables of 512 MiB \
                 need 3 GiB, but with db_write_buffer_size 1 GiB RocksDB flushes when the memtables of all column families \
                 hold 896 MiB; raise it, or lower write_buffer_size or max_write_buffer_number"
            ]
        );
        assert_eq!(with("4G", 6), Vec::<String>::new());
        assert_eq!(with("0", 6), Vec::<String>::new());
        assert_eq!(with("1G", 1), Vec::<String>::new());
    }

    #[test]
    fn a_config_hears_only_of_what_it_declares_itself() {
        let found = messages(|spec| {
            spec["configs"][0]["columnFamilies"][0]["options"] = json!({"write_buffer_size": "512M"});
            spec["configs"][1]["dbOptions"] = json!({"db_write_buffer_size": "1G"});
            spec["configs"][1]["columnFamilies"] = json!([]);
            spec["scenarios"][0]["workload"]["keyValue"]["roles"][0]["steps"] = json!(10_000_000);
        });
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("note: spec.configs[1].dbOptions.db_write_buffer_size: can't be reached"),
            "{found:?}"
        );
    }

    #[test]
    fn levels_follow_from_the_bytes() {
        let gib = f64::from(1 << 30);
        let of = |bytes: f64| levels(&Options::new(), bytes);
        assert_eq!([0.2, 0.3, 2.6, 25.0, 26.0, 250.0, 257.0].map(|size| of(size * gib)), [1, 2, 3, 3, 4, 4, 5]);
        assert_eq!(levels(&Options::from([("num_levels".to_owned(), "3".to_owned())]), 1e15), 2);
    }

    #[test]
    fn codecs_of_levels_that_stay_empty_are_named() {
        const LIST: &str = "kNoCompression:kNoCompression:kLZ4Compression:kLZ4Compression:kLZ4Compression:kZSTD:kZSTD";
        // 100000 keys of 100 bytes and 20000 writes: about 14 MB.
        let with = |base: &str| {
            messages(|spec| {
                spec["configs"][0]["columnFamilies"][0]["options"] = json!({"compression": "kNoCompression"});
                let options = json!({"compression_per_level": LIST, "max_bytes_for_level_base": base});
                spec["configs"][1]["columnFamilies"] = json!([{"match": ["*"], "options": options}]);
            })
        };
        let found = with("256M");
        assert_eq!(found.len(), 1, "{found:?}");
        let field = "spec.configs[1].columnFamilies[0].options.compression_per_level";
        // 120000 entries of 120 bytes.
        let how_much = "about 13.7 MiB of data fills at most 1 level below L0";
        assert!(found[0].starts_with(&format!("warning: {field}: has no effect here: {how_much}")), "{found:?}");
        let found = with("200K");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("note: {field}: is only partly used")), "{found:?}");
        assert!(found[0].contains("so no level gets kZSTD"), "{found:?}");
        assert_eq!(with("1K"), Vec::<String>::new());
        // With one level below L0 there are two codecs in use.
        let own = Options::from([(PER_LEVEL.to_owned(), "a:b:c".to_owned())]);
        let (severe, message) = codecs(&own, None, 14e6).unwrap_or_default();
        assert!(!severe && message.contains("so no level gets c; "), "{message}");
        // Under other styles the levels fill otherwise.
        let style = |style: &str| {
            let own = [("compaction_style", style), (PER_LEVEL, LIST)].map(|(name, value)| (name.into(), value.into()));
            codecs(&Options::from(own), None, 14e6).is_some()
        };
        assert!(style("kCompactionStyleLevel") && !style("kCompactionStyleUniversal"));
    }
}
