//! Paying what a config leaves to be compacted by the baseline's rules. By its own, one that postpones compaction, or turns it off, would
//! owe what nobody measures.

use std::collections::{BTreeMap, BTreeSet};

use assay_protocol::option_value::nested;
use rocksdb::ErrorKind;

use super::{
    Engine, EngineError,
    options_file::{OptionMap, same_value},
};

/// When compaction is due, as far as an open database can change it. How it is done stays the config's own.
const TRIGGERS: [&str; 11] = [
    UNIVERSAL,
    L0,
    "blob_garbage_collection_age_cutoff",
    "blob_garbage_collection_force_threshold",
    "enable_blob_garbage_collection",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "max_bytes_for_level_multiplier_additional",
    "periodic_compaction_seconds",
    "read_triggered_compaction_threshold",
    "ttl",
];

/// Of one style only, but for this one: so many runs are too many under any.
const L0: &str = "level0_file_num_compaction_trigger";

/// A struct of which these keys say when.
const UNIVERSAL: &str = "compaction_options_universal";
const UNIVERSAL_TRIGGERS: [&str; 6] = [
    "max_merge_width",
    "max_read_amp",
    "max_size_amplification_percent",
    "min_merge_width",
    "size_ratio",
    "stop_style",
];

/// When it is due, as fixed at the opening.
const STYLE: &str = "compaction_style";
const FIXED: [&str; 4] = [STYLE, "cf_allow_ingest_behind", "level_compaction_dynamic_level_bytes", "num_levels"];

/// This style drops what is old, which is no work that could be owed; by other rules it would drop what the config keeps.
const DROPS: &str = "kCompactionStyleFIFO";

const OFF: &str = "disable_auto_compactions";

impl Engine {
    /// From now on compactions run, and are due when they would be under the baseline. Returns the options that keep their own values and say
    /// otherwise: RocksDB sets some only when it opens a database, and refuses some beside others.
    pub fn compact_like(&self, own: &OptionMap, baseline: &OptionMap) -> Result<BTreeSet<String>, EngineError> {
        let mut kept = BTreeSet::new();
        for family in &self.families {
            if own.get(family, STYLE) == Some(DROPS) {
                continue;
            }
            let differs = |name: &str| {
                let values = own.get(family, name).zip(baseline.get(family, name));
                values.is_some_and(|(own, baseline)| !same_value(own, baseline))
            };
            kept.extend(FIXED.into_iter().filter(|name| differs(name)).map(str::to_owned));
            let mut changes = BTreeMap::new();
            for name in TRIGGERS.into_iter().filter(|name| differs(name) && (*name == L0 || !differs(STYLE))) {
                let value = baseline.get(family, name).unwrap_or_default();
                changes.insert(name, if name == UNIVERSAL { only_triggers(value) } else { value.to_owned() });
            }
            if own.get(family, OFF) == Some("true") {
                changes.insert(OFF, "false".to_owned());
            }
            let changes: Vec<(&str, &str)> = changes.iter().map(|(name, value)| (*name, value.as_str())).collect();
            // Together, because some fit each other only; what is refused that way, one by one.
            if !changes.is_empty() && !self.takes(family, &changes)? {
                for change in changes {
                    if !self.takes(family, &[change])? {
                        kept.insert(change.0.to_owned());
                    }
                }
            }
        }
        Ok(kept)
    }

    /// Changes options of a family, or says that RocksDB refuses them.
    fn takes(&self, family: &str, changes: &[(&str, &str)]) -> Result<bool, EngineError> {
        match self.db.set_options_cf(self.handle(family)?, changes) {
            Err(status) if matches!(status.kind(), ErrorKind::InvalidArgument | ErrorKind::NotSupported) => Ok(false),
            done => Ok(done.map(|()| true)?),
        }
    }
}

/// A struct in RocksDB's string form that leaves all other keys as they are.
fn only_triggers(universal: &str) -> String {
    let keys = nested(universal).unwrap_or_default();
    let pairs = UNIVERSAL_TRIGGERS.iter().filter_map(|key| Some(format!("{key}={}", keys.get(*key)?)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(";"))
}
