//! Options of memtables in experiments that write too little to fill one. The gate `engaged` would say so of every run.

use assay_api::{Scenario, TuningExperimentSpec};
use assay_protocol::{EngineConfig, Workload, option_value};

use super::configs::{baseline_index, config_path, effective};
use super::problem::{FieldPath, Problem};
use super::reach::declared;
use crate::quantity::display;

const MIB: f64 = (1 << 20) as f64;

/// More than an entry takes beside its key and value, and more than a family's memtable takes beside its entries.
const MOST_OF_ENTRY: f64 = 100.0;
const MOST_OF_FAMILY: f64 = 2.0 * MIB;

/// RocksDB takes this size for any smaller one, and two memtables for fewer: `SanitizeOptions` in `db/column_family.cc`.
const SMALLEST: f64 = 64.0 * 1024.0;

/// RocksDB calls a memtable full a little before its size.
const FULL: f64 = 0.9;

/// The most that a trial of a scenario can hold in memtables.
struct Written {
    by_family: f64,
    by_all: f64,
}

pub fn check(spec: &TuningExperimentSpec) -> Vec<Problem> {
    let engines = effective(spec);
    let Some(baseline) = baseline_index(spec) else { return Vec::new() };
    let Some(written) = spec.scenarios.iter().map(written).collect::<Option<Vec<Written>>>() else { return Vec::new() };
    // That nothing is written at all is said elsewhere.
    let most = |of: fn(&Written) -> f64| Some(written.iter().map(of).fold(0.0, f64::max)).filter(|bytes| *bytes > 0.0);
    let (Some(by_family), Some(by_all)) = (most(|written| written.by_family), most(|written| written.by_all)) else {
        return Vec::new();
    };
    let families = super::configs::families(spec);
    let others = engines.iter().enumerate().filter(|(index, _)| *index != baseline);
    let mut problems = Vec::new();
    for (index, engine) in others {
        let pair = [&engines[baseline], engine];
        for option in ["write_buffer_size", "max_write_buffer_number", "min_write_buffer_number_to_merge"] {
            // One family that can fill up is enough.
            let needed = families.iter().filter_map(|family| needed(pair, family, option)).reduce(f64::min);
            let path = families.iter().find_map(|family| declared(spec, index, family, &[option]));
            problems.extend(too_little(path, needed, by_family, "to one column family"));
        }
        let path = config_path(index).key("dbOptions").key("db_write_buffer_size");
        problems.extend(too_little(Some(path), limit_on_all(pair), by_all, "to all column families"));
    }
    problems
}

/// `None` where it depends on how fast the machine is.
fn written(scenario: &Scenario) -> Option<Written> {
    let workload = scenario.workload.kind();
    let families = workload.families().len().max(1) as f64;
    let volume = workload.volume();
    if volume.written_entries <= 0.0 {
        return Some(Written { by_family: 0.0, by_all: 0.0 });
    }
    let (all, share) = match &scenario.workload {
        Workload::KeyValue(own) if own.roles.iter().any(|role| role.until.is_some()) => return None,
        // Popular keys may be those of one family.
        Workload::KeyValue(_) => (1.0, f64::min(1.0, 2.0 / families)),
        // Their volumes are estimates.
        _ => (2.0, 2.0),
    };
    let entries = volume.written_bytes + volume.written_entries * MOST_OF_ENTRY;
    Some(Written { by_family: share * entries + MOST_OF_FAMILY, by_all: all * entries + families * MOST_OF_FAMILY })
}

/// Bytes in one family from which on an option makes a difference between two configs, if they differ in it.
fn needed(pair: [&EngineConfig; 2], family: &str, option: &str) -> Option<f64> {
    let options = pair.map(|engine| engine.family_options(family));
    if options[0].get(option) == options[1].get(option) {
        return None;
    }
    let least = |name: &str, default: f64, smallest: f64| -> Option<f64> {
        let values = options.each_ref().map(|options| match options.get(name) {
            Some(text) => option_value::number(text.trim()),
            None => Some(default),
        });
        Some(values[0]?.min(values[1]?).max(smallest))
    };
    let one = least("write_buffer_size", 64.0 * MIB, SMALLEST)?;
    if option != "max_write_buffer_number" {
        return Some(one);
    }
    // These make memtables wait that are not full.
    let early = ["db_write_buffer_size", "max_total_wal_size"];
    if pair.iter().any(|engine| early.iter().any(|name| engine.db_options.contains_key(*name))) {
        return None;
    }
    // Writes are delayed one memtable before they are stopped, if there may be more than three.
    let number = least(option, 2.0, 2.0)?;
    Some(one * if number > 3.0 { number - 1.0 } else { number })
}

/// The limit on all memtables together flushes at seven eighths of it.
fn limit_on_all(pair: [&EngineConfig; 2]) -> Option<f64> {
    let values = pair.map(|engine| engine.db_options.get("db_write_buffer_size").map(String::as_str));
    if values[0] == values[1] {
        return None;
    }
    let limits: Option<Vec<f64>> = values.iter().flatten().map(|text| option_value::number(text.trim())).collect();
    let lowest = limits?.into_iter().filter(|limit| *limit > 0.0).reduce(f64::min)?;
    Some(lowest * 7.0 / 8.0)
}

fn too_little(path: Option<FieldPath>, needed: Option<f64>, written: f64, to: &str) -> Option<Problem> {
    let needed = needed.filter(|needed| written < needed * FULL)?;
    let message = format!(
        "has no effect here: it takes effect at {} in memtables, and no scenario writes more than about {} {to}; use more \
         steps or a smaller size",
        display(needed as u64),
        display(written as u64)
    );
    Some(Problem::warning(path?, message))
}

#[cfg(test)]
mod tests {
    use assay_protocol::{EngineConfig, FamilyOptions};
    use serde_json::{Value, json};

    use super::{MIB, MOST_OF_ENTRY, MOST_OF_FAMILY, limit_on_all, needed, too_little, written};
    use crate::validate::problem::FieldPath;
    use crate::validate::tests::messages_with as messages;

    const FIELD: &str = "warning: spec.configs[1].columnFamilies[0].options";

    /// A config against RocksDB's defaults, with so many puts of 420 bytes into one family.
    fn with(steps: u64, families: &Value, db: &Value) -> Vec<String> {
        messages(|spec| {
            spec["configs"][0] = json!({"name": "large"});
            let mut config = json!({"name": "small", "dbOptions": db});
            config["columnFamilies"] = json!([{"match": ["*"], "options": families}]);
            spec["configs"][1] = config;
            let workload = &mut spec["scenarios"][0]["workload"]["keyValue"];
            (workload["families"], workload["valueBytes"]) = (json!(["default"]), json!({"fixed": 400}));
            workload["roles"][0]["steps"] = json!(steps);
        })
    }

    #[test]
    fn memtables_that_nothing_fills_are_named() {
        // Half a million steps with one put in ten, as a first experiment may have.
        assert_eq!(
            with(55_000, &json!({"write_buffer_size": 134_217_728}), &json!({})),
            [format!(
                "{FIELD}.write_buffer_size: has no effect here: it takes effect at 64 MiB in memtables, and no scenario writes \
                 more than about 29.3 MiB to one column family; use more steps or a smaller size"
            )]
        );
        // The smaller of both values decides.
        assert_eq!(with(55_000, &json!({"write_buffer_size": "16M"}), &json!({})), Vec::<String>::new());
        assert_eq!(with(200_000, &json!({"write_buffer_size": "128M"}), &json!({})), Vec::<String>::new());
    }

    #[test]
    fn numbers_and_limits_of_memtables_need_bytes_too() {
        let number = |steps, number: u32| with(steps, &json!({"max_write_buffer_number": number}), &json!({}));
        assert!(
            number(200_000, 6)[0].starts_with(&format!(
                "{FIELD}.max_write_buffer_number: has no effect here: it takes effect at 128 MiB"
            ))
        );
        assert_eq!(number(400_000, 6), Vec::<String>::new());
        let merge = |steps| with(steps, &json!({"min_write_buffer_number_to_merge": 2}), &json!({}));
        assert_eq!((merge(50_000).len(), merge(200_000).len()), (1, 0));
        // That one memtable more than the limit allows can't be had is a note of its own.
        let limit = |steps| with(steps, &json!({"ttl": 60}), &json!({"db_write_buffer_size": "64M"}));
        assert!(limit(50_000)[1].contains("takes effect at 56 MiB in memtables"), "{:?}", limit(50_000));
        let all = limit(200_000);
        assert!(matches!(&all[..], [only] if only.contains("can't be reached")), "{all:?}");
    }

    /// Of workloads whose volume is an estimate, twice as much may be written, all of it to one family.
    #[test]
    fn estimated_bytes_are_doubled() {
        let ethrex = json!({"blocks": 100, "accounts": 100_000, "storageSlots": 500_000});
        let scenario = serde_json::from_value(json!({"name": "blocks", "workload": {"ethrex": ethrex}})).unwrap();
        let scenario: assay_api::Scenario = scenario;
        let (workload, found) = (scenario.workload.kind(), written(&scenario).unwrap());
        let (volume, families) = (workload.volume(), workload.families().len() as f64);
        let entries = volume.written_bytes + MOST_OF_ENTRY * volume.written_entries;
        assert!(entries > MIB && families > 1.0);
        assert_eq!(found.by_family, 2.0 * entries + MOST_OF_FAMILY);
        assert_eq!(found.by_all, 2.0 * entries + families * MOST_OF_FAMILY);
    }

    #[test]
    fn nothing_is_said_where_the_bytes_are_unknown() {
        let found = |until: bool| {
            messages(|spec| {
                spec["configs"][0] = json!({"name": "large"});
                let writer = if until {
                    json!({"name": "writer", "until": "PrimaryEnds", "stepsPerSecond": 1000, "mix": {"put": 1}})
                } else {
                    json!({"name": "writer", "steps": 20_000, "mix": {"put": 1}})
                };
                let reader = json!({"name": "reader", "steps": 20_000, "mix": {"get": 1}});
                spec["scenarios"][0]["workload"]["keyValue"]["roles"] = json!([reader, writer]);
                let options = json!({"write_buffer_size": "128M"});
                spec["configs"][1] = json!({"name": "small", "columnFamilies": [{"match": ["*"], "options": options}]});
            })
        };
        assert_eq!((found(false).len(), found(true).len()), (1, 0));
    }

    /// Popular keys may be those of one family, which gets twice its share at most.
    #[test]
    fn one_of_four_families_gets_half_of_the_writes() {
        let with = |families: &[&str]| {
            let roles = json!([{"name": "writer", "steps": 50_000, "mix": {"put": 1}}]);
            let workload = json!({"keys": 1000, "valueBytes": {"fixed": 100}, "families": families, "roles": roles});
            serde_json::from_value(json!({"name": "writes", "workload": {"keyValue": workload}})).unwrap()
        };
        // Keys of 20 bytes.
        let entries = 50_000.0 * (120.0 + MOST_OF_ENTRY);
        for (families, share) in [(&["a"][..], 1.0), (&["a", "b"], 1.0), (&["a", "b", "c", "d"], 0.5)] {
            let found = written(&with(families)).unwrap();
            assert_eq!(found.by_family, share * entries + MOST_OF_FAMILY, "{families:?}");
            assert_eq!(found.by_all, entries + families.len() as f64 * MOST_OF_FAMILY, "{families:?}");
        }
    }

    #[test]
    fn the_lower_value_says_how_much_is_needed() {
        let engine = |option: &str, value: Option<&str>| {
            let options = value.map(|value| (option.to_owned(), value.to_owned())).into_iter().collect();
            let entry = FamilyOptions { r#match: vec!["*".to_owned()], options };
            EngineConfig { column_families: vec![entry], ..EngineConfig::default() }
        };
        let needed = |option: &str, own: Option<&str>, other: Option<&str>| {
            needed([&engine(option, own), &engine(option, other)], "state", option).map(|bytes| bytes / MIB)
        };
        // So many memtables of 64 MiB: of more than three all but one. RocksDB's default is two.
        for (own, other, memtables) in
            [(None, "6", 2.0), (Some("3"), "6", 3.0), (Some("6"), "4", 3.0), (Some("7"), "6", 5.0)]
        {
            assert_eq!(needed("max_write_buffer_number", own, Some(other)), Some(memtables * 64.0), "{own:?} {other}");
        }
        assert_eq!(needed("write_buffer_size", Some("16M"), None), Some(16.0));
        // What is too small for RocksDB is what it takes instead.
        assert_eq!(needed("write_buffer_size", Some("0"), None), Some(1.0 / 16.0));
        assert_eq!(needed("max_write_buffer_number", Some("0"), Some("6")), Some(128.0));
        // At 0 there is no limit on all.
        let limited = |value: &str| {
            let db_options = [("db_write_buffer_size".to_owned(), value.to_owned())].into();
            EngineConfig { db_options, ..EngineConfig::default() }
        };
        assert_eq!(limit_on_all([&limited("0"), &limited("64M")]), Some(56.0 * MIB));
        assert_eq!(limit_on_all([&limited("32M"), &limited("64M")]), Some(28.0 * MIB));
    }

    #[test]
    fn nine_tenths_may_be_enough() {
        let told = |written: f64| too_little(Some(FieldPath::root()), Some(100.0), written, "").is_some();
        assert!(told(89.9) && !told(90.0));
    }
}
