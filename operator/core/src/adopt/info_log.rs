//! The LOG that RocksDB writes next to a database: the parts that say how large the data is and which caches there are.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Bytes that RocksDB adds to each key in a file.
const KEY_TRAILER: u64 = 8;

/// What a LOG says, read line by line.
#[derive(Clone, Debug, Default)]
pub struct InfoLog {
    /// The version of RocksDB that runs the database.
    pub version: Option<String>,
    /// Objects that neither OPTIONS nor LOG describe.
    pub has_rate_limiter: bool,
    pub row_cache_bytes: Option<u64>,
    /// The column family whose options the LOG lists at the moment.
    family: String,
    at_cache: bool,
    /// By column family: the address of its cache and the capacity.
    caches: BTreeMap<String, Cache>,
    /// SST files that were created and not deleted since the LOG begins.
    files: BTreeMap<u64, File>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cache {
    address: String,
    bytes: Option<u64>,
}

/// An SST file.
#[derive(Clone, Debug, Default)]
struct File {
    family: String,
    bytes: u64,
    contents: TableProperties,
}

/// A line of events that says something of files.
#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "event")]
    kind: String,
    #[serde(default)]
    cf_name: String,
    #[serde(default)]
    file_number: u64,
    #[serde(default)]
    file_size: u64,
    #[serde(default)]
    table_properties: TableProperties,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TableProperties {
    data_size: u64,
    raw_key_size: u64,
    raw_value_size: u64,
    num_entries: u64,
    num_deletions: u64,
    compression: String,
}

/// The block cache of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheFound {
    /// One for all column families.
    Shared(u64),
    /// One of this size for each.
    Private(u64),
    /// Several of different sizes, or shared by some: the sum.
    Mixed(u64),
}

/// What the files of a database hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// Files that this is known from.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    pub entries: u64,
    pub deletions: u64,
    /// Means over all entries.
    pub key_bytes: u64,
    pub value_bytes: u64,
    /// Compressed size of the data in percent, if it is compressed.
    pub compressed_percent: Option<u32>,
    /// Share of the bytes, by column family.
    pub families: BTreeMap<String, f64>,
}

impl InfoLog {
    pub fn line(&mut self, line: &str) {
        if let Some((_, event)) = line.split_once("EVENT_LOG_v1 ") {
            self.event(event);
        } else if let Some((_, version)) = line.split_once("RocksDB version: ") {
            self.version = version.split_whitespace().next().map(str::to_owned);
        } else if let Some((_, rest)) = line.split_once("Options for column family [") {
            rest.rsplit_once(']').map_or("", |(family, _)| family).clone_into(&mut self.family);
            self.at_cache = false;
        } else if let Some((_, value)) = line.split_once("Options.rate_limiter: ") {
            self.has_rate_limiter = !matches!(value.trim(), "" | "0" | "(nil)" | "0x0" | "None");
        } else if let Some((_, value)) = line.split_once("Options.row_cache: ") {
            self.row_cache_bytes = value.trim().parse().ok();
        } else {
            self.table_option(line);
        }
    }

    /// The dump of table options, several lines of one message.
    fn table_option(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else { return };
        let (name, value) = (name.trim(), value.trim());
        match name {
            "block_cache" if value.starts_with("0x") && value != "0x0" => {
                let cache = Cache { address: value.to_owned(), bytes: None };
                self.caches.insert(self.family.clone(), cache);
            }
            "block_cache_options" => self.at_cache = true,
            "capacity" if self.at_cache => {
                self.at_cache = false;
                if let Some(cache) = self.caches.get_mut(&self.family) {
                    cache.bytes = value.parse().ok();
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, json: &str) {
        // A line that is being written ends in the middle.
        let Ok(event) = serde_json::from_str::<Event>(json) else { return };
        match event.kind.as_str() {
            // A file without entries was dropped at once.
            "table_file_creation" if event.table_properties.num_entries > 0 => {
                let file = File { family: event.cf_name, bytes: event.file_size, contents: event.table_properties };
                self.files.insert(event.file_number, file);
            }
            "table_file_deletion" => drop(self.files.remove(&event.file_number)),
            _ => {}
        }
    }

    /// The block cache, if the LOG goes back to when the database was opened.
    pub fn cache(&self) -> Option<CacheFound> {
        let mut by_address: BTreeMap<&str, u64> = BTreeMap::new();
        for cache in self.caches.values() {
            by_address.insert(&cache.address, cache.bytes?);
        }
        let sizes: Vec<u64> = by_address.values().copied().collect();
        Some(match sizes[..] {
            [] => return None,
            [bytes] => CacheFound::Shared(bytes),
            [bytes, ..] if sizes.len() == self.caches.len() && sizes.iter().all(|size| *size == bytes) => {
                CacheFound::Private(bytes)
            }
            _ => CacheFound::Mixed(sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))),
        })
    }

    /// What the files hold that the LOG has seen and that are still there.
    pub fn contents(&self) -> Option<Contents> {
        let sum = |of: fn(&File) -> u64| self.files.values().map(of).fold(0, u64::saturating_add);
        let (bytes, entries) = (sum(|file| file.bytes), sum(|file| file.contents.num_entries));
        if entries == 0 {
            return None;
        }
        let compressed = || self.files.values().filter(|file| is_compressed(&file.contents.compression));
        let compressed_sum = |of: fn(&File) -> u64| compressed().map(of).fold(0, u64::saturating_add);
        let raw = compressed_sum(|file| file.contents.raw_key_size.saturating_add(file.contents.raw_value_size));
        let percent = |data: u64| (data as f64 / raw as f64 * 100.0).round().clamp(1.0, 100.0) as u32;
        let mut families: BTreeMap<String, f64> = BTreeMap::new();
        for file in self.files.values() {
            *families.entry(file.family.clone()).or_default() += file.bytes as f64 / bytes.max(1) as f64;
        }
        Some(Contents {
            files: self.files.len(),
            bytes,
            entries,
            deletions: sum(|file| file.contents.num_deletions),
            key_bytes: (sum(|file| file.contents.raw_key_size) / entries).saturating_sub(KEY_TRAILER),
            value_bytes: sum(|file| file.contents.raw_value_size) / entries,
            compressed_percent: (raw > 0).then(|| percent(compressed_sum(|file| file.contents.data_size))),
            families,
        })
    }
}

fn is_compressed(codec: &str) -> bool {
    !matches!(codec, "" | "NoCompression" | "kNoCompression")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &str) -> InfoLog {
        let mut log = InfoLog::default();
        lines.lines().for_each(|line| log.line(line));
        log
    }

    fn dump(family: &str, address: &str, bytes: u64) -> String {
        format!(
            "2024/05/01-10:00:00.1 7f {} --------------- Options for column family [{family}]:\n\
             2024/05/01-10:00:00.1 7f            table_factory options:   flush_block_policy_factory: F (0x1)\n  \
             block_cache: {address}\n  block_cache_name: LRUCache\n  block_cache_options:\n    \
             capacity : {bytes}\n    num_shard_bits : 6\n  persistent_cache: (nil)\n",
            "[db/column_family.cc:630]"
        )
    }

    fn created(number: u64, family: &str, compression: &str) -> String {
        format!(
            "2024/05/01-10:00:01.5 7f EVENT_LOG_v1 {{\"time_micros\": 1, \"cf_name\": \"{family}\", \"job\": 2, \"event\": \
             \"table_file_creation\", \"file_number\": {number}, \"file_size\": 1000, \"file_checksum\": \"\", \
             \"table_properties\": {{\"data_size\": 900, \"index_size\": 20, \"raw_key_size\": 280, \"raw_average_key_size\": 28, \
             \"raw_value_size\": 1520, \"num_entries\": 10, \"num_deletions\": 1, \"compression\": \"{compression}\"}}}}\n"
        )
    }

    #[test]
    fn versions_and_objects() {
        let seen = log("2024/05/01-10:00:00.1 7f RocksDB version: 8.10.0\n\
             2024/05/01-10:00:00.1 7f       Options.rate_limiter: 0x7f12\n\
             2024/05/01-10:00:00.1 7f          Options.row_cache: 4096\n");
        assert_eq!(seen.version.as_deref(), Some("8.10.0"));
        assert!(seen.has_rate_limiter);
        assert_eq!(seen.row_cache_bytes, Some(4096));
        let none = log("x Options.rate_limiter: (nil)\nx Options.row_cache: None\n");
        assert_eq!((none.has_rate_limiter, none.row_cache_bytes), (false, None));
    }

    #[test]
    fn caches_are_told_apart_by_their_addresses() {
        let caches = |dumps: &[(&str, &str, u64)]| {
            log(&dumps.iter().map(|(family, address, bytes)| dump(family, address, *bytes)).collect::<String>()).cache()
        };
        assert_eq!(caches(&[]), None);
        assert_eq!(caches(&[("default", "0x1", 7)]), Some(CacheFound::Shared(7)));
        assert_eq!(caches(&[("default", "0x1", 7), ("a", "0x1", 7)]), Some(CacheFound::Shared(7)));
        assert_eq!(caches(&[("default", "0x1", 7), ("a", "0x2", 7)]), Some(CacheFound::Private(7)));
        assert_eq!(caches(&[("default", "0x1", 7), ("a", "0x2", 8)]), Some(CacheFound::Mixed(15)));
        assert_eq!(caches(&[("default", "0x1", 7), ("a", "0x2", 7), ("b", "0x2", 7)]), Some(CacheFound::Mixed(14)));
        assert_eq!(caches(&[("default", "(nil)", 7)]), None);
    }

    #[test]
    fn files_that_are_still_there_count() {
        let deleted =
            "x EVENT_LOG_v1 {\"time_micros\": 2, \"job\": 3, \"event\": \"table_file_deletion\", \"file_number\": 1}\n";
        let seen =
            log(&[created(1, "a", "LZ4"), created(2, "a", "LZ4"), created(3, "b", "LZ4"), deleted.into()].concat());
        let contents = seen.contents().unwrap();
        assert_eq!((contents.files, contents.bytes, contents.entries, contents.deletions), (2, 2000, 20, 2));
        assert_eq!((contents.key_bytes, contents.value_bytes, contents.compressed_percent), (20, 152, Some(50)));
        assert_eq!(contents.families, BTreeMap::from([("a".to_owned(), 0.5), ("b".to_owned(), 0.5)]));
        let plain = log(&created(1, "a", "NoCompression")).contents().unwrap();
        assert_eq!(plain.compressed_percent, None, "how well it would compress is not known");
    }

    #[test]
    fn half_a_line_and_other_text_are_passed_over() {
        let whole = created(1, "a", "LZ4");
        let seen = log(&[&whole[..whole.len() - 20], "\nEVENT_LOG_v1 7\n\u{0}\u{fffd} capacity : 3\n"].concat());
        assert_eq!(seen.contents(), None);
        assert_eq!(seen.cache(), None);
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_read(line in "(EVENT_LOG_v1 |\\{|\\}|\"event\"|block_cache|: |0x1|capacity|\\[|\\]|Options for column family |.){0,20}") {
            log(&line);
        }
    }
}
