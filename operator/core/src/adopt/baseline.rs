//! From the OPTIONS file of a database to what a baseline declares: what differs from the defaults, and what has to stay behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::defaults::{BUNDLED, Defaults, NOT_BUILT_IN, TABLE, flat, same};
use super::options_file::{Options, OptionsFile};
use crate::validate::is_owned;

/// Column families that an experiment can have, and the characters that their names can have.
const MOST_FAMILIES: usize = 32;
const LONGEST_NAME: usize = 63;
/// Characters of a value that an experiment can have.
const LONGEST_VALUE: usize = 4096;

/// A baseline's options. What is part of a struct has a name such as `block_based_table_factory.block_size`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    pub db: Options,
    /// By column family, in the order of the file.
    pub families: Vec<(String, Options)>,
    pub left_out: BTreeSet<LeftOut>,
    /// What the file does not say and had to be guessed, a sentence each.
    pub assumed: BTreeSet<String>,
}

/// An option, or a column family, that an experiment can't have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    pub why: Why,
    pub option: String,
    pub value: String,
    /// `db` or a column family.
    pub scope: String,
}

/// Why something stays behind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// This version of RocksDB does not have it.
    Unknown,
    Path,
    /// Code of the application.
    Object,
    /// A compression that is not built in.
    Codec,
    /// Beyond what an experiment can hold.
    Limit,
    /// Too long, or with braces that do not match.
    Value,
    /// RocksDB itself said no.
    Refused(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(f, "not known to RocksDB {}", BUNDLED.version),
            Self::Path => f.write_str("paths; each trial has its own directory"),
            Self::Object => f.write_str("objects of your program, which an option string can't create"),
            Self::Codec => f.write_str(
                "compression that this build does not have, so the default applies (it has Snappy, LZ4 and ZSTD)",
            ),
            Self::Limit => write!(
                f,
                "beyond the limits of an experiment ({MOST_FAMILIES} column families, names of {LONGEST_NAME} characters)"
            ),
            Self::Value => f.write_str("values that an option string can't hold"),
            Self::Refused(message) => write!(f, "rejected by RocksDB: {message}"),
        }
    }
}

impl LeftOut {
    /// The option, with its value where that says more.
    pub fn label(&self) -> String {
        match self.why {
            Why::Path | Why::Unknown | Why::Limit | Why::Value => self.option.clone(),
            Why::Object | Why::Codec | Why::Refused(_) => format!("{}={}", self.option, self.value),
        }
    }
}

/// An option that is not at its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `db` or a column family.
    pub scope: String,
    pub option: String,
    pub value: String,
    pub default: String,
}

impl Baseline {
    /// What of an OPTIONS file differs from the defaults of the bundled RocksDB.
    pub fn of(file: &OptionsFile) -> Self {
        let mut baseline = Self::default();
        for kind in &file.unknown_sections {
            baseline.leave_out(Why::Unknown, &format!("[{kind}]"), "", "db");
        }
        let db = flat(&file.db, None);
        baseline.db = baseline.declared("db", &db, &BUNDLED.db);
        for family in &file.families {
            let fits = (1..=LONGEST_NAME).contains(&family.name.chars().count());
            if !fits || baseline.families.len() == MOST_FAMILIES {
                baseline.leave_out(Why::Limit, &format!("column family {}", family.name), "", &family.name);
                continue;
            }
            if let Some(table) = family.table.as_ref().filter(|table| table.factory != "BlockBasedTable") {
                baseline.leave_out(Why::Object, "table_factory", &table.factory, &family.name);
            }
            let all = flat(&family.options, family.table.as_ref());
            let declared = baseline.declared(&family.name, &all, &BUNDLED.family);
            baseline.families.push((family.name.clone(), declared));
        }
        baseline
    }

    /// Takes out what RocksDB rejects. Names a struct as a whole, as RocksDB does.
    pub fn refuse(&mut self, scope: &str, option: &str, message: &str) {
        let part = format!("{option}.");
        let is_meant = |name: &String| name == option || name.starts_with(&part);
        let mut out: Vec<(String, String)> = Vec::new();
        let in_scope = self.families.iter_mut().filter(|(family, _)| family == scope).map(|(_, options)| options);
        for options in in_scope.chain((scope == "db").then_some(&mut self.db)) {
            out.extend(options.iter().filter(|(name, _)| is_meant(name)).map(|(n, v)| (n.clone(), v.clone())));
            options.retain(|name, _| !is_meant(name));
        }
        for (name, value) in out {
            self.leave_out(Why::Refused(message.to_owned()), &name, &value, scope);
        }
    }

    /// All that differs from the defaults.
    pub fn differences(&self) -> Vec<Difference> {
        let of = |scope: &str, options: &Options, defaults: &Options| -> Vec<Difference> {
            let differences = options.iter().map(|(option, value)| Difference {
                scope: scope.to_owned(),
                option: option.clone(),
                value: value.clone(),
                default: defaults.get(option).cloned().unwrap_or_default(),
            });
            differences.collect()
        };
        let Defaults { db, family, .. } = &*BUNDLED;
        let families = self.families.iter().flat_map(|(name, options)| of(name, options, family));
        of("db", &self.db, db).into_iter().chain(families).collect()
    }

    fn leave_out(&mut self, why: Why, option: &str, value: &str, scope: &str) {
        let [option, value, scope] = [option, value, scope].map(str::to_owned);
        self.left_out.insert(LeftOut { why, option, value, scope });
    }

    /// The options of one scope that can be declared and have to be.
    fn declared(&mut self, scope: &str, all: &Options, defaults: &Options) -> Options {
        let mut declared = Options::new();
        for (option, value) in all {
            let value = value.trim();
            if is_silent(option) || value.is_empty() {
                continue;
            }
            let own = option.strip_prefix(TABLE).and_then(|rest| rest.strip_prefix('.')).unwrap_or(option);
            let default = defaults.get(option);
            let kind = Kind::of(own, value, default.map(String::as_str));
            match (kind, default) {
                (Kind::Path, _) => self.leave_out(Why::Path, own, value, scope),
                (_, Some(default)) if same(value, default) || is_derived(option, value, all) => {}
                (Kind::Object, _) => self.leave_out(Why::Object, own, value, scope),
                (_, None) => self.leave_out(Why::Unknown, own, value, scope),
                (Kind::Codec, _) => self.leave_out(Why::Codec, own, value, scope),
                (Kind::Unwritable, _) => self.leave_out(Why::Value, own, value, scope),
                (Kind::OldBloom, _) => {
                    self.assumed.insert(
                        "filter_policy: the OPTIONS file has a Bloom filter but not its bits per key; 10 is assumed."
                            .to_owned(),
                    );
                    declared.insert(option.clone(), "bloomfilter:10:false".to_owned());
                }
                (Kind::Plain, _) => {
                    if own == "prefix_extractor" {
                        self.assumed.insert(
                            "prefix_extractor: the first 8 bytes of a generated key are different in every key, so \
                             prefixes do not group keys as in your data."
                                .to_owned(),
                        );
                    }
                    declared.insert(option.clone(), value.to_owned());
                }
            }
        }
        declared
    }
}

/// What kind of value an option has.
enum Kind {
    Plain,
    Path,
    Object,
    Codec,
    /// The name of a Bloom filter, as versions before 7 wrote it.
    OldBloom,
    Unwritable,
}

impl Kind {
    fn of(option: &str, value: &str, default: Option<&str>) -> Self {
        const PATHS: [&str; 4] = ["wal_dir", "db_log_dir", "db_paths", "cf_paths"];
        const MEMTABLES: [&str; 4] =
            ["SkipListFactory", "HashSkipListRepFactory", "HashLinkListRepFactory", "VectorRepFactory"];
        if PATHS.contains(&option) {
            return Self::Path;
        }
        if is_owned(option) {
            return Self::Object;
        }
        let id = value.strip_prefix("{id=").map_or(value, |rest| rest.split([';', '}']).next().unwrap_or(rest));
        let begins = |names: &[&str]| names.iter().any(|name| id.starts_with(name));
        match option {
            "filter_policy" if id == "rocksdb.BuiltinBloomFilter" => Self::OldBloom,
            "filter_policy"
                if begins(&["bloomfilter:", "ribbonfilter:", "rocksdb.BloomFilter:", "rocksdb.RibbonFilter:"]) =>
            {
                Self::Plain
            }
            "prefix_extractor" | "memtable_insert_with_hint_prefix_extractor"
                if begins(&["rocksdb.FixedPrefix.", "rocksdb.CappedPrefix.", "rocksdb.Noop", "fixed:", "capped:"]) =>
            {
                Self::Plain
            }
            "memtable_factory" if !begins(&MEMTABLES) => Self::Object,
            // What is nothing by default is an object: other options have numbers and words.
            _ if default == Some("nullptr") => Self::Object,
            _ if NOT_BUILT_IN.iter().any(|codec| value.contains(codec)) => Self::Codec,
            _ if value.chars().count() > LONGEST_VALUE || !is_balanced(value) => Self::Unwritable,
            _ => Self::Plain,
        }
    }
}

/// What says nothing about a configuration.
fn is_silent(option: &str) -> bool {
    const SILENT: [&str; 6] = [
        "create_if_missing",
        "create_missing_column_families",
        "error_if_exists",
        "db_host_id",
        // The section of the table has it.
        "table_factory",
        "rocksdb_version",
    ];
    SILENT.contains(&option)
}

/// Whether RocksDB has computed a value from others. Written down it would stay as it is when those change.
fn is_derived(option: &str, value: &str, all: &Options) -> bool {
    const ARENA: u64 = 1 << 20;
    const PAGE: u64 = 4096;
    let number = |name: &str, default: u64| all.get(name).and_then(|value| value.parse().ok()).unwrap_or(default);
    let is = |derived: u64| value.parse() == Ok(derived);
    match option {
        "arena_block_size" => {
            let eighth = number("write_buffer_size", 64 << 20) / 8;
            let in_pages = |bytes: u64| bytes.div_ceil(PAGE).saturating_mul(PAGE);
            [eighth, in_pages(eighth), in_pages(eighth.min(ARENA))].into_iter().any(is)
        }
        "max_compaction_bytes" => is(number("target_file_size_base", 64 << 20).saturating_mul(25)),
        "max_bytes_for_level_multiplier_additional" => value.split(':').all(|one| one.trim() == "1"),
        _ => false,
    }
}

/// Whether braces close what they open, so that RocksDB reads the text as one value.
fn is_balanced(value: &str) -> bool {
    let mut depth = 0_i32;
    for c in value.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth < 0 || c == ';' && depth == 0 {
            return false;
        }
    }
    depth == 0
}

/// Options that all families have in common, and the others of each group of families that share them.
pub fn grouped(families: &[(String, Options)]) -> Vec<(Vec<String>, Options)> {
    /// Entries that a config can have.
    const MOST_ENTRIES: usize = 32;
    let Some((_, first)) = families.first() else { return Vec::new() };
    let in_all = |option: &String, value: &String| families.iter().all(|(_, other)| other.get(option) == Some(value));
    let common: Options = first.iter().filter(|(o, v)| in_all(o, v)).map(|(o, v)| (o.clone(), v.clone())).collect();
    let mut groups: BTreeMap<Options, (usize, Vec<String>)> = BTreeMap::new();
    for (place, (family, options)) in families.iter().enumerate() {
        let own: Options =
            options.iter().filter(|(o, _)| !common.contains_key(*o)).map(|(o, v)| (o.clone(), v.clone())).collect();
        if !own.is_empty() {
            groups.entry(own).or_insert((place, Vec::new())).1.push(family.clone());
        }
    }
    let mut groups: Vec<(usize, Vec<String>, Options)> =
        groups.into_iter().map(|(options, (place, names))| (place, names, options)).collect();
    groups.sort();
    let mut entries: Vec<(Vec<String>, Options)> =
        groups.into_iter().map(|(_, names, options)| (names, options)).collect();
    if common.is_empty() {
        return entries;
    }
    if entries.len() < MOST_ENTRIES {
        entries.insert(0, (vec!["*".to_owned()], common));
    } else {
        for (_, options) in &mut entries {
            options.extend(common.clone());
        }
    }
    entries
}
