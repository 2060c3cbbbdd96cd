//! The OPTIONS file that RocksDB writes at every open: the only full account of the options it really has.

use std::{collections::BTreeMap, fs, io, path::Path};

use assay_protocol::option_value::{nested, number};

use super::needs::ignored;

/// Scope of options of the whole database.
pub const DB_SCOPE: &str = "db";
/// Prefix of options that RocksDB keeps in a section of their own.
pub const TABLE_PREFIX: &str = "block_based_table_factory";

/// Option values by scope (`db` or a column family) and option name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionMap {
    pub scopes: BTreeMap<String, BTreeMap<String, String>>,
}

impl OptionMap {
    /// Reads the newest OPTIONS file of a database.
    pub fn read(db_dir: &Path) -> io::Result<Self> {
        let newest = fs::read_dir(db_dir)?
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let number: u64 = entry.file_name().to_str()?.strip_prefix("OPTIONS-")?.parse().ok()?;
                Some((number, entry.path()))
            })
            .max()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "RocksDB wrote no OPTIONS file"))?;
        Ok(Self::parse(&fs::read_to_string(newest.1)?))
    }

    /// Parses the INI-like text. Table options join their family under [`TABLE_PREFIX`].
    pub fn parse(text: &str) -> Self {
        let mut map = Self::default();
        let mut section: Option<(String, &str)> = None;
        for line in text.lines().map(str::trim) {
            if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let (kind, name) = header.split_once(' ').unwrap_or((header, ""));
                let name = name.trim_matches('"').to_owned();
                section = match kind {
                    "DBOptions" => Some((DB_SCOPE.to_owned(), "")),
                    "CFOptions" => Some((name, "")),
                    _ if kind.starts_with("TableOptions/") => Some((name, TABLE_PREFIX)),
                    _ => None,
                };
            } else if let (Some((scope, prefix)), Some((key, value))) = (&section, line.split_once('=')) {
                let key = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
                map.scopes.entry(scope.clone()).or_default().insert(key, value.to_owned());
            }
        }
        map
    }

    pub fn get(&self, scope: &str, option: &str) -> Option<&str> {
        self.scopes.get(scope)?.get(option).map(String::as_str)
    }

    /// Why an option that stands here does nothing beside the others of its scope.
    pub fn ignored(&self, scope: &str, option: &str) -> Option<&'static str> {
        self.scopes.get(scope).and_then(|options| ignored(options, option))
    }

    /// The options that RocksDB looks at.
    pub fn looked_at(&self) -> BTreeMap<&str, BTreeMap<&str, &str>> {
        self.scopes
            .iter()
            .map(|(scope, options)| {
                let kept = options.iter().filter(|(name, _)| ignored(options, name).is_none());
                (scope.as_str(), kept.map(|(name, value)| (name.as_str(), value.as_str())).collect())
            })
            .collect()
    }

    /// Every (scope, option) where the two differ, with both values.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<Difference<'a>> {
        let mut found = Vec::new();
        for (scope, option) in self.names().chain(other.names()) {
            let (here, there) = (self.get(scope, option), other.get(scope, option));
            let difference = Difference { scope, option, here, there };
            if here != there && !found.contains(&difference) {
                found.push(difference);
            }
        }
        found
    }

    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.scopes
            .iter()
            .flat_map(|(scope, options)| options.keys().map(move |option| (scope.as_str(), option.as_str())))
    }
}

/// One option that two databases do not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    pub scope: &'a str,
    pub option: &'a str,
    pub here: Option<&'a str>,
    pub there: Option<&'a str>,
}

/// Whether a requested value and RocksDB's own spelling of a value mean the same.
pub fn same_value(requested: &str, written: &str) -> bool {
    let (requested, written) = (requested.trim(), written.trim());
    if requested == written {
        return true;
    }
    match (number(requested), number(written)) {
        (Some(a), Some(b)) => return a == b,
        (None, None) => {}
        _ => return truth(requested).is_some_and(|value| truth(written) == Some(value)),
    }
    if let (Some(a), Some(b)) = (truth(requested), truth(written)) {
        return a == b;
    }
    match (nested(requested), nested(written)) {
        // What the request leaves out keeps its default, so only the named keys have to agree.
        (Some(asked), Some(has)) => {
            asked.iter().all(|(key, value)| has.get(key).is_some_and(|other| same_value(value, other)))
        }
        _ => false,
    }
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[Version]\n  rocksdb_version=11.8.1\n\n[DBOptions]\n  max_background_jobs=2\n\
        [CFOptions \"default\"]\n  write_buffer_size=67108864\n  \n\
        [TableOptions/BlockBasedTable \"default\"]\n  block_size=4096\n";

    #[test]
    fn parses_sections() {
        let map = OptionMap::parse(TEXT);
        assert_eq!(map.get("db", "max_background_jobs"), Some("2"));
        assert_eq!(map.get("default", "write_buffer_size"), Some("67108864"));
        assert_eq!(map.get("default", "block_based_table_factory.block_size"), Some("4096"));
        assert_eq!(map.get("db", "rocksdb_version"), None);
    }

    #[test]
    fn differences_name_both_sides_once() {
        let (a, b) = (OptionMap::parse(TEXT), OptionMap::parse(&TEXT.replace("4096", "16384")));
        let found = a.differences(&b);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].here, found[0].there), (Some("4096"), Some("16384")));
        assert!(a.differences(&a).is_empty());
    }

    #[test]
    fn values_in_other_spellings() {
        for (requested, written, same) in [
            ("64M", "67108864", true),
            ("64M", "67108865", false),
            ("1", "true", true),
            ("true", "true", true),
            ("false", "true", false),
            ("10", "10.000000", true),
            ("-1", "-1", true),
            ("kLZ4Compression", "kLZ4Compression", true),
            ("kLZ4Compression", "kZSTD", false),
            ("x", "nullptr", false),
            ("{max_table_files_size=1M}", "{allow_compaction=false;max_table_files_size=1048576;}", true),
            ("{max_table_files_size=2M}", "{allow_compaction=false;max_table_files_size=1048576;}", false),
        ] {
            assert_eq!(same_value(requested, written), same, "{requested} and {written}");
        }
    }
}
