//! What the RocksDB that the bench links has where nothing is set.

use std::sync::LazyLock;

use assay_protocol::option_value::{nested, number};

use super::options_file::{self, Options, OptionsFile, Table};

/// The option that holds those of the usual SST files.
pub const TABLE: &str = "block_based_table_factory";

/// Compressions that the bundled RocksDB is built without.
pub const NOT_BUILT_IN: [&str; 3] = ["kZlibCompression", "kBZip2Compression", "kXpressCompression"];

/// An OPTIONS file without any setting.
const TEXT: &str = include_str!("defaults.ini");

/// The defaults of the bundled RocksDB. A test sees that they can be read.
pub static BUNDLED: LazyLock<Defaults> =
    LazyLock::new(|| options_file::parse(TEXT).map(|file| Defaults::of(&file)).unwrap_or_default());

/// Default values by option; what is part of a struct has a name such as `compression_opts.level`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    pub version: String,
    pub db: Options,
    pub family: Options,
}

impl Defaults {
    fn of(file: &OptionsFile) -> Self {
        let family = file.families.first();
        Self {
            version: file.version.clone(),
            db: flat(&file.db, None),
            family: family.map(|family| flat(&family.options, family.table.as_ref())).unwrap_or_default(),
        }
    }

    /// Where an option belongs, under the name that it has here.
    pub fn find(&self, option: &str) -> Option<(Scope, String)> {
        let in_table = format!("{TABLE}.{option}");
        if self.db.contains_key(option) {
            Some((Scope::Db, option.to_owned()))
        } else if self.family.contains_key(option) {
            Some((Scope::Families, option.to_owned()))
        } else if self.family.contains_key(&in_table) {
            Some((Scope::Families, in_table))
        } else {
            None
        }
    }
}

/// What an option is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The whole database.
    Db,
    /// Column families.
    Families,
}

/// Options with those in structs one by one, and those of SST files among them.
pub fn flat(options: &Options, table: Option<&Table>) -> Options {
    let mut all = Options::new();
    for (name, value) in options {
        match parts(name, value) {
            Some(parts) => all.extend(parts.into_iter().map(|(key, value)| (format!("{name}.{key}"), value))),
            None => drop(all.insert(name.clone(), value.clone())),
        }
    }
    if let Some(table) = table.filter(|table| table.factory == "BlockBasedTable") {
        all.extend(table.options.iter().map(|(name, value)| (format!("{TABLE}.{name}"), value.clone())));
    }
    all
}

/// The keys of a struct. An object such as `{id=fixed:8}` is one value.
fn parts(name: &str, value: &str) -> Option<Options> {
    /// The order in which versions before 6 wrote `compression_opts`.
    const COLONS: [&str; 5] = ["window_bits", "level", "strategy", "max_dict_bytes", "zstd_max_train_bytes"];
    if name.ends_with("compression_opts") && value.contains(':') && !value.starts_with('{') {
        let values = COLONS.iter().zip(value.split(':'));
        return Some(values.map(|(key, value)| ((*key).to_owned(), value.trim().to_owned())).collect());
    }
    value.strip_prefix('{').and_then(|_| nested(value)).filter(|parts| !parts.contains_key("id"))
}

/// Whether two spellings of a value mean the same.
pub fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim(), other.trim());
    let truth = |text: &str| match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    };
    if one == other || truth(one).is_some_and(|value| truth(other) == Some(value)) {
        return true;
    }
    match (number(one), number(other), nested(one), nested(other)) {
        (Some(one), Some(other), ..) => one == other,
        // What an older version does not name, it does not have.
        (_, _, Some(one), Some(other)) => {
            one.iter().all(|(key, value)| other.get(key).is_some_and(|there| same(value, there)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_rocksdb_that_is_linked() {
        let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock")).unwrap();
        let (_, after) = lock.split_once("name = \"librocksdb-sys\"\nversion = \"").unwrap();
        let linked = after.split(['+', '"']).nth(1).unwrap();
        assert_eq!(BUNDLED.version, linked, "write operator/core/src/adopt/defaults.ini anew");
    }

    #[test]
    fn defaults_are_known_by_scope() {
        let find = |name: &str| BUNDLED.find(name).map(|(scope, name)| (scope, name, 0));
        assert_eq!(find("max_background_jobs"), Some((Scope::Db, "max_background_jobs".to_owned(), 0)));
        assert_eq!(find("compression_per_level"), Some((Scope::Families, "compression_per_level".to_owned(), 0)));
        assert_eq!(find("block_size"), Some((Scope::Families, format!("{TABLE}.block_size"), 0)));
        assert_eq!(find("compression_opts.level"), Some((Scope::Families, "compression_opts.level".to_owned(), 0)));
        assert_eq!(find("blok_size"), None);
        assert_eq!(BUNDLED.family["write_buffer_size"], "67108864");
    }

    #[test]
    fn structs_are_taken_apart_and_objects_are_not() {
        let options = |pairs: &[(&str, &str)]| -> Options {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let written = options(&[
            ("compaction_options_universal", "{size_ratio=1;stop_style=x;}"),
            ("compression_opts", "-14:32767:0:0"),
            ("prefix_extractor", "{id=rocksdb.FixedPrefix.8;}"),
            ("ttl", "0"),
        ]);
        let expected = options(&[
            ("compaction_options_universal.size_ratio", "1"),
            ("compaction_options_universal.stop_style", "x"),
            ("compression_opts.window_bits", "-14"),
            ("compression_opts.level", "32767"),
            ("compression_opts.strategy", "0"),
            ("compression_opts.max_dict_bytes", "0"),
            ("prefix_extractor", "{id=rocksdb.FixedPrefix.8;}"),
            ("ttl", "0"),
        ]);
        assert_eq!(flat(&written, None), expected);
    }

    #[test]
    fn spellings() {
        for (one, other, expected) in [
            ("10", "10.000000", true),
            ("64M", "67108864", true),
            ("true", "1", true),
            ("1", "1.0", true),
            ("false", "true", false),
            ("kZSTD", "kLZ4Compression", false),
            ("{a=1;}", "{a=1;b=2;}", true),
            ("{a=2;}", "{a=1;b=2;}", false),
            ("", "nullptr", false),
        ] {
            assert_eq!(same(one, other), expected, "{one} and {other}");
        }
    }
}
