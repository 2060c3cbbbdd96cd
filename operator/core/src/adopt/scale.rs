//! How much of a database an experiment can have on this machine, and what that costs.

use super::baseline::Baseline;
use super::draft::Cache;
use super::info_log::Contents;
use super::options_file::Options;
use crate::quantity::display;
use crate::validate::levels;

/// The most that a first run is worth: filling it takes minutes.
const MOST_BYTES: u64 = 4 << 30;

/// One part in so many of the free disk. An experiment needs room for datasets, for a trial, and for one that runs away.
const DISK_SHARE: u64 = 10;

/// The smallest cache that is worth its name.
const LEAST_CACHE: u64 = 8 << 20;

/// What an entry takes beside its key and value.
const ENTRY_OVERHEAD: u64 = 16;

/// This machine, as far as it could be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub free_bytes: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub cpus: u32,
}

/// The data of a database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Data {
    pub keys: u64,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub compressed_percent: u32,
}

impl Data {
    /// All data, from what some files hold and from the bytes of all files.
    pub fn of(contents: &Contents, sst_bytes: u64) -> Self {
        let share = (sst_bytes as f64 / contents.bytes.max(1) as f64).max(0.0);
        let live = contents.entries.saturating_sub(contents.deletions).max(1);
        Self {
            keys: ((live as f64 * share) as u64).max(1),
            key_bytes: contents.key_bytes.clamp(8, 1024) as u32,
            value_bytes: contents.value_bytes.min(16 << 20) as u32,
            compressed_percent: contents.compressed_percent.unwrap_or(50),
        }
    }

    fn entry_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes) + ENTRY_OVERHEAD
    }

    /// Before compression.
    pub fn raw_bytes(&self) -> u64 {
        self.keys.saturating_mul(self.entry_bytes())
    }

    fn disk_bytes(&self) -> f64 {
        self.raw_bytes() as f64 * f64::from(self.compressed_percent) / 100.0
    }
}

/// What of a database this machine can hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    pub data: Data,
    pub cache: Option<Cache>,
    /// What is different in consequence, a sentence each.
    pub lost: Vec<String>,
}

/// Takes fewer keys where all would be too many, and less cache in proportion.
pub fn scale(data: Data, cache: Option<Cache>, baseline: &Baseline, machine: &Machine) -> Scaled {
    let budget = machine.free_bytes.map_or(MOST_BYTES, |free| (free / DISK_SHARE).min(MOST_BYTES));
    let keys = data.keys.min((budget / data.entry_bytes()).max(1));
    let factor = data.keys as f64 / keys as f64;
    let small = Data { keys, ..data };
    let small_cache = cache.map(|cache| Cache { bytes: shrunk(cache.bytes, factor), ..cache });
    let mut lost = Vec::new();
    if keys < data.keys {
        lost.push(format!(
            "Size: {keys} of about {} keys, 1/{factor:.0} of the data ({} of {}, before compression).",
            data.keys,
            display(small.raw_bytes()),
            display(data.raw_bytes())
        ));
        lost.extend(depth(baseline, data.disk_bytes(), small.disk_bytes()));
        if let (Some(before), Some(after)) = (cache, small_cache) {
            lost.push(format!(
                "Block cache: {} instead of {}, to hold about the same share of the data.",
                display(after.bytes),
                display(before.bytes)
            ));
        }
    }
    lost.extend(memtables(baseline, small.raw_bytes()));
    if let Some(memory) = machine.memory_bytes.filter(|memory| small.disk_bytes() < *memory as f64 / 2.0) {
        lost.push(format!(
            "Page cache: the data fits into the {} of memory here, so later reads of a block need no disk. pageCache: Direct in \
             the scenario avoids that.",
            display(memory)
        ));
    }
    Scaled { data: small, cache: small_cache, lost }
}

/// A smaller cache in whole mebibytes.
fn shrunk(bytes: u64, factor: f64) -> u64 {
    if factor <= 1.0 {
        return bytes;
    }
    let mebibytes = (bytes as f64 / factor / f64::from(1 << 20)).round() as u64;
    (mebibytes << 20).max(LEAST_CACHE).min(bytes)
}

/// Fewer levels mean fewer rewrites and fewer places to look.
fn depth(baseline: &Baseline, before: f64, after: f64) -> Option<String> {
    let is_leveled = |options: &Options| options.get("compaction_style").is_none_or(|style| style.contains("Level"));
    let parts = baseline.families.len().max(1) as f64;
    let of = |bytes: f64| {
        let leveled = baseline.families.iter().filter(|(_, options)| is_leveled(options));
        leveled.map(|(_, options)| levels(options, bytes / parts)).max()
    };
    let (before, after) = (of(before)?, of(after)?);
    (after < before).then(|| {
        format!(
            "Levels: about {after} below L0 instead of {before}, so writes are rewritten less often and reads look in fewer files."
        )
    })
}

/// What never leaves memory is never flushed.
fn memtables(baseline: &Baseline, bytes: u64) -> Option<String> {
    let number = |options: &Options, name: &str, default: u64| {
        options.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(default)
    };
    let of = |options: &Options| {
        number(options, "write_buffer_size", 64 << 20).saturating_mul(number(options, "max_write_buffer_number", 2))
    };
    let all = baseline.families.iter().fold(0_u64, |sum, (_, options)| sum.saturating_add(of(options)));
    (all > bytes).then(|| {
        format!(
            "Memtables: they can hold {}, more than all data here. Options of flushes and compactions may not act; use more keys \
             or a smaller write_buffer_size.",
            display(all)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn data(keys: u64) -> Data {
        Data { keys, key_bytes: 24, value_bytes: 360, compressed_percent: 50 }
    }

    fn baseline(pairs: &[(&str, &str)]) -> Baseline {
        let options = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Baseline { families: vec![("default".to_owned(), options)], ..Baseline::default() }
    }

    #[test]
    fn all_data_follows_from_the_bytes_of_all_files() {
        let contents = Contents {
            files: 3,
            bytes: 1000,
            entries: 12,
            deletions: 2,
            key_bytes: 4,
            value_bytes: 100,
            compressed_percent: None,
            families: std::collections::BTreeMap::new(),
        };
        let all = Data::of(&contents, 5000);
        assert_eq!(all, Data { keys: 50, key_bytes: 8, value_bytes: 100, compressed_percent: 50 });
        assert_eq!(Data::of(&contents, 0).keys, 1, "files that have just gone");
    }

    #[test]
    fn what_fits_is_kept() {
        let cache = Some(Cache { bytes: GIB, shared: true });
        let scaled = scale(
            data(1_000_000),
            cache,
            &baseline(&[]),
            &Machine { free_bytes: Some(100 * GIB), ..Machine::default() },
        );
        assert_eq!((scaled.data.keys, scaled.cache), (1_000_000, cache));
        assert_eq!(scaled.lost, Vec::<String>::new());
    }

    #[test]
    fn what_does_not_fit_says_what_is_lost() {
        let cache = Some(Cache { bytes: 64 * GIB, shared: true });
        let machine = Machine { free_bytes: Some(20 * GIB), memory_bytes: Some(16 * GIB), cpus: 4 };
        let scaled = scale(data(1_000_000_000), cache, &baseline(&[]), &machine);
        assert_eq!(scaled.data.keys, 2 * GIB / 400);
        assert_eq!(scaled.cache, Some(Cache { bytes: 352 << 20, shared: true }));
        let begins: Vec<&str> = scaled.lost.iter().filter_map(|lost| lost.split(':').next()).collect();
        assert_eq!(begins, ["Size", "Levels", "Block cache", "Page cache"]);
        assert!(scaled.lost[0].contains("5368709 of about 1000000000 keys, 1/186 of the data"), "{}", scaled.lost[0]);
        assert!(scaled.lost[1].contains("about 2 below L0 instead of 4"), "{}", scaled.lost[1]);
    }

    #[test]
    fn memtables_that_hold_everything_are_named() {
        let huge = baseline(&[("write_buffer_size", "8589934592"), ("compaction_style", "kCompactionStyleUniversal")]);
        let scaled = scale(data(1_000_000_000), None, &huge, &Machine::default());
        let begins: Vec<&str> = scaled.lost.iter().filter_map(|lost| lost.split(':').next()).collect();
        assert_eq!(begins, ["Size", "Memtables"]);
    }
}
