//! The OPTIONS file that RocksDB writes at every open: the only full account of the options it really has.

use std::{collections::BTreeMap, fs, io, path::Path};

use assay_protocol::option_value::{nested, number};

use super::needs::ignored;

/// Scope of options of the whole database.
pub const DB_SCOPE: &str = "db";
/// Prefix of options that RocksDB keeps in a section of their own.
pub const TABLE_PREFIX: &str = "block_based_table_factory";
/// The option that names the kind of table.
pub const TABLE_KIND: &str = "table_factory";

/// Names that RocksDB's parser takes for an option that it writes under another.
const ALIASES: [(&str, &str); 2] = [
    ("memtable", "memtable_factory"),
    ("memtable_veirfy_per_key_checksum_on_seek", "memtable_verify_per_key_checksum_on_seek"),
];

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
                let name = unescaped(name.trim_matches('"'));
                section = match kind {
                    "DBOptions" => Some((DB_SCOPE.to_owned(), "")),
                    "CFOptions" => Some((name, "")),
                    _ if kind.starts_with("TableOptions/") => Some((name, TABLE_PREFIX)),
                    _ => None,
                };
            } else if let (Some((scope, prefix)), Some((key, value))) = (&section, line.split_once('=')) {
                let key = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
                map.scopes.entry(scope.clone()).or_default().insert(key, unescaped(value));
            }
        }
        map
    }

    pub fn get(&self, scope: &str, option: &str) -> Option<&str> {
        self.scopes.get(scope)?.get(option).map(String::as_str)
    }

    /// The option that holds what is declared under a name, which may be an alias or name one key of a struct.
    pub fn holder(&self, scope: &str, name: &str) -> String {
        let name = written_name(name);
        let mut holder = name.as_str();
        while self.get(scope, holder).is_none() {
            let Some((whole, _)) = holder.rsplit_once('.') else { return name };
            holder = whole;
        }
        holder.to_owned()
    }

    /// The value of what is declared under a name.
    pub fn declared(&self, scope: &str, name: &str) -> Option<String> {
        let (name, holder) = (written_name(name), self.holder(scope, name));
        let keys = name.get(holder.len()..)?.split('.').skip(1);
        keys.fold(self.get(scope, &holder).map(str::to_owned), |value, key| nested(&value?)?.remove(key))
    }

    /// Why an option that stands here does nothing beside the others of its scope.
    pub fn ignored(&self, scope: &str, option: &str) -> Option<&'static str> {
        self.scopes.get(scope).and_then(|options| ignored(options, &self.holder(scope, option)))
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

/// The name under which RocksDB writes what is declared under this one.
pub fn written_name(name: &str) -> String {
    if let Some((_, written)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        return (*written).to_owned();
    }
    match name.split_once('.') {
        Some((TABLE_KIND, "id")) => TABLE_KIND.to_owned(),
        Some((TABLE_KIND, key)) => format!("{TABLE_PREFIX}.{key}"),
        _ => name.to_owned(),
    }
}

/// RocksDB escapes `\`, `#`, `:` and line ends in texts with a backslash.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.extend(match character {
            '\\' => characters.next().map(|escaped| match escaped {
                'n' => '\n',
                'r' => '\r',
                other => other,
            }),
            other => Some(other),
        });
    }
    plain
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
    if let Some(has) = elements(written) {
        // RocksDB takes a list of one without its braces.
        let asked = elements(requested).unwrap_or_else(|| vec![requested]);
        return asked.len() == has.len() && asked.into_iter().zip(has).all(|(asked, has)| same_value(asked, has));
    }
    match (nested(requested), nested(written)) {
        // What the request leaves out keeps its default, so only the named keys have to agree.
        (Some(asked), Some(has)) => {
            asked.iter().all(|(key, value)| has.get(key).is_some_and(|other| same_value(value, other)))
        }
        _ => false,
    }
}

/// The structs of a list such as `{{a=1}:{a=2}}`.
fn elements(text: &str) -> Option<Vec<&str>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?.trim();
    let is_list = inner.starts_with('{') && inner.ends_with('}');
    let mut depth = 0;
    let between = |character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        depth == 0 && character == ':'
    };
    is_list.then(|| inner.split(between).collect())
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
    fn texts_are_unescaped() {
        let map = OptionMap::parse("[DBOptions]\n  daily_offpeak_time_utc=23\\:00-02\\:00\n  wal_dir=a\\\\b\\#\n");
        assert_eq!(map.get("db", "daily_offpeak_time_utc"), Some("23:00-02:00"));
        assert_eq!(map.get("db", "wal_dir"), Some("a\\b#"));
    }

    #[test]
    fn a_value_is_found_under_every_name_of_its_option() {
        let map = OptionMap::parse(&format!(
            "{TEXT}[CFOptions \"hot\"]\n  memtable_factory=SkipListFactory\n  table_factory=BlockBasedTable\n\
             compression_opts={{a={{b=1;}};level=3;}}\n[TableOptions/BlockBasedTable \"hot\"]\n  block_size=4096\n"
        ));
        for (name, holder, value) in [
            ("memtable", "memtable_factory", Some("SkipListFactory")),
            ("memtable_factory", "memtable_factory", Some("SkipListFactory")),
            ("compression_opts.level", "compression_opts", Some("3")),
            ("compression_opts.a.b", "compression_opts", Some("1")),
            ("compression_opts.levels", "compression_opts", None),
            ("table_factory.id", "table_factory", Some("BlockBasedTable")),
            ("table_factory.block_size", "block_based_table_factory.block_size", Some("4096")),
            ("no.such", "no.such", None),
        ] {
            assert_eq!(map.holder("hot", name), holder, "{name}");
            assert_eq!(map.declared("hot", name).as_deref(), value, "{name}");
        }
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
            ("{{a=1;b=x}:{a=2}}", "{{b=x;a=1;}:{b=y;a=2;}}", true),
            ("{a=1}", "{{b=x;a=1;}}", true),
            ("{{a=1}:{a=3}}", "{{b=x;a=1;}:{b=y;a=2;}}", false),
            ("{{a=1}}", "{{b=x;a=1;}:{b=y;a=2;}}", false),
            ("{max_table_files_size=2M}", "{allow_compaction=false;max_table_files_size=1048576;}", false),
        ] {
            assert_eq!(same_value(requested, written), same, "{requested} and {written}");
        }
    }
}
