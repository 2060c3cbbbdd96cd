//! Options that RocksDB takes, writes to its OPTIONS file, and never looks at unless another one is set as well.

use std::collections::BTreeMap;

type Options = BTreeMap<String, String>;

/// Why one option of a column family does nothing beside the others there.
pub fn ignored(options: &Options, option: &str) -> Option<&'static str> {
    let value = |name: &str| options.get(name).map_or("", |value| value.trim());
    let on = |name: &str| is_on(value(name));
    let style = |name: &str| value("compaction_style") == name;
    let about = on("prefix_extractor") || on("memtable_whole_key_filtering");
    let has_filter = about && on("memtable_prefix_bloom_size_ratio");
    match option {
        "memtable_prefix_bloom_size_ratio" if !has_filter => Some(
            "RocksDB builds no memtable filter without prefix_extractor or memtable_whole_key_filtering; set one of them",
        ),
        "memtable_whole_key_filtering" if !has_filter => {
            Some("RocksDB builds no memtable filter without memtable_prefix_bloom_size_ratio; set it too")
        }
        "compression" if on("compression_per_level") => Some("compression_per_level overrides it; remove one of them"),
        "compaction_options_fifo" if !style("kCompactionStyleFIFO") => {
            Some("it needs compaction_style: kCompactionStyleFIFO; set that too")
        }
        "compaction_options_universal" if !style("kCompactionStyleUniversal") => {
            Some("it needs compaction_style: kCompactionStyleUniversal; set that too")
        }
        _ => None,
    }
}

/// Whether a value asks for something, rather than for nothing.
pub fn is_on(value: &str) -> bool {
    !matches!(value, "" | "false" | "nullptr") && value.parse() != Ok(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_needs_another_is_ignored_without_it() {
        let on_its_own = [
            ("memtable_prefix_bloom_size_ratio", "0.200000", "prefix_extractor", "rocksdb.FixedPrefix.8"),
            ("memtable_prefix_bloom_size_ratio", "0.200000", "memtable_whole_key_filtering", "true"),
            ("memtable_whole_key_filtering", "true", "memtable_prefix_bloom_size_ratio", "0.100000"),
            ("compaction_options_fifo", "{ttl=1}", "compaction_style", "kCompactionStyleFIFO"),
            ("compaction_options_universal", "{size_ratio=2}", "compaction_style", "kCompactionStyleUniversal"),
        ];
        for (option, value, other, needed) in on_its_own {
            let mut options = Options::from([(option.to_owned(), value.to_owned())]);
            assert!(ignored(&options, option).is_some(), "{option}");
            options.insert(other.to_owned(), needed.to_owned());
            assert_eq!(ignored(&options, option), None, "{option} with {other}");
        }
        let mut options = Options::from([("compression".to_owned(), "kZSTD".to_owned())]);
        assert_eq!(ignored(&options, "compression"), None);
        options.insert("compression_per_level".to_owned(), "kNoCompression:kZSTD".to_owned());
        assert!(ignored(&options, "compression").is_some());
    }
}
