//! What runs in a trial: RocksDB's options, and what else of its behaviour a config declares.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::option_value::nested;

/// RocksDB's configuration in RocksDB's own names and value syntax.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EngineConfig {
    /// Database options.
    #[serde(default)]
    pub db_options: BTreeMap<String, String>,
    /// Column family options. If two entries match a family, the later one wins; structs are merged key by key.
    #[serde(default)]
    pub column_families: Vec<FamilyOptions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_cache: Option<BlockCache>,
    #[serde(default)]
    pub write_options: WriteOptions,
    /// Workload behaviour that is part of the change.
    #[serde(default)]
    pub policy: BTreeMap<String, String>,
}

/// Options for the column families that match a glob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FamilyOptions {
    /// Names or globs, such as `*_trie_nodes`.
    pub r#match: Vec<String>,
    pub options: BTreeMap<String, String>,
}

/// The block cache. A field here because RocksDB has no option string for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlockCache {
    pub bytes: u64,
    /// True: one cache for all column families. False: one of this size for each.
    pub shared: bool,
}

/// RocksDB's `WriteOptions`, under its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteOptions {
    /// Every write waits until the WAL is on the device.
    #[serde(default)]
    pub sync: bool,
    /// Writes skip the WAL.
    #[serde(default, rename = "disableWAL")]
    pub disable_wal: bool,
}

impl FamilyOptions {
    pub fn matches(&self, family: &str) -> bool {
        self.r#match.iter().any(|pattern| glob_matches(pattern, family))
    }
}

impl EngineConfig {
    /// The options of one column family as declared: where two entries match, the later one wins, in structs key by key.
    pub fn family_options(&self, family: &str) -> BTreeMap<String, String> {
        let entries = self.column_families.iter().filter(|entry| entry.matches(family));
        let mut all = BTreeMap::new();
        for (name, later) in entries.flat_map(|entry| &entry.options) {
            let value = all.get(name).map_or_else(|| later.clone(), |earlier: &String| merged(earlier, later));
            all.insert(name.clone(), value);
        }
        all
    }

    /// Whether RocksDB itself drops the oldest files of a column family.
    pub fn is_fifo(&self, family: &str) -> bool {
        self.family_options(family).get("compaction_style").is_some_and(|style| style.trim() == "kCompactionStyleFIFO")
    }
}

/// What RocksDB has of a struct after both values: a key that the later one does not name stays.
fn merged(earlier: &str, later: &str) -> String {
    // An object, which has an id, is replaced as a whole, and so is a list.
    let keys = |value: &str| {
        nested(value.trim()).filter(|keys| !keys.contains_key("id") && keys.keys().all(|key| !key.starts_with('{')))
    };
    let (Some(mut all), Some(own)) = (keys(earlier), keys(later)) else { return later.to_owned() };
    if own.iter().all(|(key, value)| all.get(key) == Some(value)) {
        return earlier.to_owned();
    }
    all.extend(own);
    let all: Vec<String> = all.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", all.join(";"))
}

/// Whether a glob matches a whole name: `*` is any run of characters, `?` any one.
pub fn glob_matches(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // What follows the last star, and where it is looked for.
    let mut retry = None;
    loop {
        let (mut p, mut n) = (pattern.clone(), name.clone());
        match (p.next(), n.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                retry = Some((p.clone(), name.clone()));
                pattern = p;
            }
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => (pattern, name) = (p, n),
            _ => {
                // It doesn't fit there: let the star take one character more.
                let Some((after_star, rest)) = &mut retry else { return false };
                if rest.next().is_none() {
                    return false;
                }
                (pattern, name) = (after_star.clone(), rest.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EngineConfig, FamilyOptions, glob_matches};

    #[test]
    fn a_later_entry_changes_the_keys_that_it_names() {
        for (earlier, later, both) in [
            ("1", "2", "2"),
            ("{a=1;b=2}", "{b=3}", "{a=1;b=3}"),
            ("{a=1;b={c=2;d=3}}", "{e=4}", "{a=1;b={c=2;d=3};e=4}"),
            ("{ a=1; b=2; }", "{b=2}", "{ a=1; b=2; }"),
            ("a=1", "{b=2}", "{a=1;b=2}"),
            ("{a=1}", "4:3:0:0", "4:3:0:0"),
            ("{id=A;a=1}", "{a=2}", "{a=2}"),
            ("{a=1}", "{id=A}", "{id=A}"),
            ("{{a=1}:{a=2}}", "{{a=3}}", "{{a=3}}"),
        ] {
            let entry = |family: &str, value: &str| FamilyOptions {
                r#match: vec![family.to_owned()],
                options: [("option".to_owned(), value.to_owned())].into(),
            };
            let config = EngineConfig {
                column_families: vec![entry("*", earlier), entry("other", "{z=1}"), entry("hot", later)],
                ..EngineConfig::default()
            };
            assert_eq!(config.family_options("hot")["option"], both, "{earlier} and {later}");
            assert_eq!(config.family_options("cold")["option"], earlier);
        }
    }

    #[test]
    fn globs() {
        for (pattern, name, expected) in [
            ("default", "default", true),
            ("default", "defaults", false),
            ("*_trie_nodes", "account_trie_nodes", true),
            ("*_trie_nodes", "account_flatkeyvalue", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("?", "", false),
            ("a?c", "abc", true),
        ] {
            assert_eq!(glob_matches(pattern, name), expected, "{pattern} on {name}");
        }
    }
}
