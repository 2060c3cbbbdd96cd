//! Paying what a config leaves to be compacted by the baseline's rules. By its own, one that postpones compaction, or turns it off, would
//! owe what nobody measures.

use std::collections::BTreeSet;

use super::{
    Engine, EngineError,
    options_file::{OptionMap, same_value},
};

/// When compaction is due, as far as an open database can change it. How it is done stays the config's own.
const TRIGGERS: [&str; 7] = [
    "compaction_options_universal",
    "level0_file_num_compaction_trigger",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "max_bytes_for_level_multiplier_additional",
    "periodic_compaction_seconds",
    "ttl",
];

/// When it is due, as fixed at the opening.
const STYLE: &str = "compaction_style";
const FIXED: [&str; 3] = [STYLE, "level_compaction_dynamic_level_bytes", "num_levels"];

/// This style only drops what is old, which is no work that could be owed.
const DROPS: &str = "kCompactionStyleFIFO";

const OFF: &str = "disable_auto_compactions";

impl Engine {
    /// From now on compactions run, and are due when they would be under the baseline. Returns the options that keep their own values and say
    /// otherwise, because RocksDB sets them only when it opens a database.
    pub fn compact_like(&self, own: &OptionMap, baseline: &OptionMap) -> Result<BTreeSet<String>, EngineError> {
        let mut kept = BTreeSet::new();
        for family in &self.families {
            let differs = |name: &&str| {
                let values = own.get(family, name).zip(baseline.get(family, name));
                values.is_some_and(|(own, baseline)| !same_value(own, baseline))
            };
            kept.extend(FIXED.into_iter().filter(differs).map(str::to_owned));
            if own.get(family, STYLE) == Some(DROPS) {
                continue;
            }
            let mut changes = Vec::new();
            if !differs(&STYLE) {
                let triggers = TRIGGERS.into_iter().filter(differs);
                changes.extend(triggers.filter_map(|name| Some((name, baseline.get(family, name)?))));
            }
            if own.get(family, OFF) == Some("true") {
                changes.push((OFF, "false"));
            }
            if !changes.is_empty() {
                self.db.set_options_cf(self.handle(family)?, &changes)?;
            }
        }
        Ok(kept)
    }
}
