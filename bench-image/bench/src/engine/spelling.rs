//! Whether two spellings name the same object. RocksDB writes an object in a form of its own, `rocksdb.FixedPrefix.8` for `fixed:8`,
//! so a value that looks changed may be the declared one. Only RocksDB knows its names: it is asked what it writes for the value
//! alone, where nothing else could change it.

use std::{cell::RefCell, collections::BTreeMap, fs, path::Path};

use assay_protocol::{EngineConfig, FamilyOptions, PageCache, option_value::nested};

use super::{
    Family,
    attest::Reference,
    options_file::{DB_SCOPE, TABLE_PREFIX, same_value, written_name},
};

/// Memtables to begin with: RocksDB keeps the one that is there if it does not know another.
const BEFORE: [&str; 2] = ["SkipListFactory", "VectorRepFactory"];

/// The name of no object.
const NO_OBJECT: &str = "assay.NoSuchObject";

/// What RocksDB writes for values that it takes, by what was there before, option and value.
pub struct Spellings<'a> {
    scratch: &'a Path,
    known: RefCell<BTreeMap<[String; 3], Option<String>>>,
}

impl<'a> Spellings<'a> {
    pub fn new(scratch: &'a Path) -> Self {
        Self { scratch, known: RefCell::default() }
    }

    /// Whether an object was declared that RocksDB writes like this. What it does not know it may pass over, and keep the object that
    /// was there; so it is asked with two of them, and what a name does that no object has counts for nothing.
    pub fn same(&self, scope: &str, option: &str, requested: &str, written: &str) -> bool {
        let of_db = scope == DB_SCOPE;
        keeps(requested, written)
            && BEFORE.into_iter().any(|before| {
                self.written(before, of_db, option, requested).as_deref() == Some(written)
                    && self.written(before, of_db, option, NO_OBJECT).as_deref() != Some(written)
            })
    }

    fn written(&self, before: &str, of_db: bool, option: &str, value: &str) -> Option<String> {
        let key = [before, option, value].map(str::to_owned);
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let written = self.ask(before, of_db, option, value);
        self.known.borrow_mut().insert(key, written.clone());
        written
    }

    fn ask(&self, before: &str, of_db: bool, option: &str, value: &str) -> Option<String> {
        let option = &written_name(option);
        let (name, value) = match option.strip_prefix(TABLE_PREFIX).and_then(|rest| rest.strip_prefix('.')) {
            Some(key) => (TABLE_PREFIX, format!("{{{key}={value}}}")),
            None => (option.as_str(), value.to_owned()),
        };
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let entry = |options| FamilyOptions { r#match: vec!["*".to_owned()], options };
        // Hash tables as memtables need a prefix, and one writer.
        let mut config = EngineConfig {
            db_options: map(&[("allow_concurrent_memtable_write", "false")]),
            column_families: vec![entry(map(&[
                ("prefix_extractor", "rocksdb.FixedPrefix.1"),
                ("memtable_factory", before),
            ]))],
            ..EngineConfig::default()
        };
        if of_db {
            config.db_options.extend(map(&[(name, &value)]));
        } else {
            config.column_families.push(entry(map(&[(name, &value)])));
        }
        let family = Family::new("default");
        let folder = self.scratch.join("spelling");
        let seen = Reference::probe(&folder, &config, &[family], PageCache::Evict);
        // Of a database that could not be opened a part may be left.
        let _ = fs::remove_dir_all(folder);
        seen.ok()?.options.declared(if of_db { DB_SCOPE } else { "default" }, option)
    }
}

/// Whether an object has everything that was asked of it: its parser, too, may change a number. What is 0 need not be written.
fn keeps(requested: &str, written: &str) -> bool {
    // Of what is no object, one writing is all there is.
    if !written.starts_with(|c: char| c.is_ascii_alphabetic() || c == '{')
        || matches!(written, "true" | "false" | "nullptr")
    {
        return false;
    }
    let properties = nested(written).unwrap_or_default();
    let has = |value: &str| written.split([':', ';', '=', '.', '{', '}']).any(|part| same_value(value, part));
    let (id, asked) = match nested(requested.trim()) {
        Some(mut asked) => (asked.remove("id").unwrap_or_default(), asked),
        None => (requested.trim().to_owned(), BTreeMap::new()),
    };
    id.split([':', '.']).filter(|part| part.starts_with(|c: char| c.is_ascii_digit() || c == '-')).all(has)
        && asked.iter().all(|(key, value)| match properties.get(key) {
            Some(own) => same_value(value, own),
            None => has(value) || same_value(value, "0") || value == "nullptr",
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_what_was_asked_of_it() {
        for (requested, written, expected) in [
            ("fixed:8", "rocksdb.FixedPrefix.8", true),
            ("fixed:8", "rocksdb.FixedPrefix.80", false),
            ("vector", "{id=VectorRepFactory;count=0;}", true),
            ("vector:7", "{id=VectorRepFactory;count=0;}", false),
            ("{id=SkipListFactory;lookahead=0;}", "SkipListFactory", true),
            ("{id=SkipListFactory;lookahead=5;}", "SkipListFactory", false),
            ("{id=SkipListFactory;lookahead=5;}", "SkipListFactory:5", true),
            ("bloomfilter:1000", "bloomfilter:100:false", false),
            ("bloomfilter:9.9", "bloomfilter:9.9:false", true),
            ("1M", "65536", false),
            ("x", "nullptr", false),
        ] {
            assert_eq!(keeps(requested, written), expected, "{requested} and {written}");
        }
    }
}
