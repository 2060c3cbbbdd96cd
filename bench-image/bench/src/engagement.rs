//! What the options had to work on: peaks of memtables, files and background jobs, and what was read and written where.
//!
//! Which families are watched is said by the spec. Memtables all together, background jobs and tickers belong to the whole
//! database, and so do the options that they are about.

use std::collections::BTreeMap;

use assay_protocol::{Engagement, FamilyFacts};

use crate::engine::{Counters, Family, Properties};

/// Levels that a summary tells apart; deeper ones count with the last.
pub const LEVELS: usize = 7;

/// Peaks within the window, and what families held at its ends.
#[derive(Debug, Default)]
pub struct Peaks {
    tuned: Vec<String>,
    memtable_bytes: Option<u64>,
    fullest_memtable_bytes: Option<u64>,
    immutable_memtables: Option<u64>,
    flushes_due: Option<u64>,
    compactions_due: Option<u64>,
    /// Of every family.
    pub l0_files: BTreeMap<String, u64>,
    opened: BTreeMap<String, Held>,
    closed: BTreeMap<String, Held>,
}

/// Counters of one family that only grow, as long as nothing is flushed.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    memtable_entries: Option<u64>,
    file_reads: Option<Vec<u64>>,
}

impl Peaks {
    /// Watches these families, or all of the workload's where none is named.
    pub fn of(tuned: &[String], families: &[Family]) -> Self {
        let named = |family: &&Family| tuned.is_empty() || tuned.contains(&family.name);
        Self { tuned: families.iter().filter(named).map(|family| family.name.clone()).collect(), ..Self::default() }
    }

    pub fn tuned(&self) -> &[String] {
        &self.tuned
    }

    pub fn open(&mut self, engine: &dyn Properties) {
        *self = Self { tuned: std::mem::take(&mut self.tuned), ..Self::default() };
        self.opened = self.held(engine);
        self.sample(engine);
    }

    pub fn sample(&mut self, engine: &dyn Properties) {
        let largest = |property: &str| -> Option<u64> {
            self.tuned.iter().filter_map(|family| engine.family_property(family, property)).max()
        };
        // Of a family it is only known that something is due; of those that run, how many.
        let due = |running: &str, pending: &str| Some(engine.max(running)? + engine.sum(pending)?);
        let fullest = largest("rocksdb.cur-size-active-mem-table");
        let immutable = largest("rocksdb.num-immutable-mem-table");
        let flushes = due("rocksdb.num-running-flushes", "rocksdb.mem-table-flush-pending");
        let compactions = due("rocksdb.num-running-compactions", "rocksdb.compaction-pending");
        self.fullest_memtable_bytes = self.fullest_memtable_bytes.max(fullest);
        self.immutable_memtables = self.immutable_memtables.max(immutable);
        self.flushes_due = self.flushes_due.max(flushes);
        self.compactions_due = self.compactions_due.max(compactions);
        self.memtable_bytes = self.memtable_bytes.max(engine.sum("rocksdb.cur-size-all-mem-tables"));
        for family in engine.families() {
            let Some(files) = engine.family_property(family, "rocksdb.num-files-at-level0") else { continue };
            let peak = self.l0_files.entry(family.clone()).or_default();
            *peak = files.max(*peak);
        }
    }

    pub fn close(&mut self, engine: &dyn Properties) {
        self.sample(engine);
        self.closed = self.held(engine);
    }

    fn held(&self, engine: &dyn Properties) -> BTreeMap<String, Held> {
        let of = |family: &String| {
            let number = |property| engine.family_property(family, property);
            let entries = number("rocksdb.num-entries-active-mem-table")
                .zip(number("rocksdb.num-entries-imm-mem-tables"))
                .map(|(active, immutable)| active + immutable);
            let histogram = engine.family_text(family, "rocksdb.cf-file-histogram");
            Held { memtable_entries: entries, file_reads: histogram.as_deref().map(reads_by_level) }
        };
        self.tuned.iter().map(|family| (family.clone(), of(family))).collect()
    }

    /// What is known while the database is still open.
    pub fn engagement(&self, facts: &BTreeMap<String, FamilyFacts>, moved: &Counters) -> Engagement {
        let ticker = |name: &str| Some(moved.get(name));
        let tuned = || self.tuned.iter().filter_map(|family| facts.get(family));
        let level = |level: usize| u8::try_from(level).unwrap_or(u8::MAX);
        // RocksDB has none where compaction does not go by levels, and then takes the first for one.
        let base = |facts: &FamilyFacts| facts.base_level.filter(|level| *level < 64).map_or(1, |base| base as u8);
        let last = |facts: &FamilyFacts| facts.files_by_level.iter().rposition(|files| *files > 0);
        let bases = tuned().map(base).min().zip(tuned().map(base).max());
        Engagement {
            l0_files_peak: self.tuned.iter().filter_map(|family| self.l0_files.get(family)).max().copied(),
            fullest_memtable_bytes: self.fullest_memtable_bytes,
            immutable_memtables_peak: self.immutable_memtables,
            memtable_bytes_peak: self.memtable_bytes,
            flushes_due_peak: self.flushes_due,
            compactions_due_peak: self.compactions_due,
            fifo_drops: Some(
                moved.get("rocksdb.fifo.max.size.compactions") + moved.get("rocksdb.fifo.ttl.compactions"),
            ),
            grouped_writes: ticker("rocksdb.write.other"),
            wal_bytes: ticker("rocksdb.wal.bytes"),
            block_cache_misses: ticker("rocksdb.block.cache.miss"),
            block_cache_hits: ticker("rocksdb.block.cache.hit"),
            bytes_decompressed: ticker("rocksdb.bytes.decompressed.to"),
            levels_read: self.levels_read(),
            base_levels: bases.map(|(lowest, highest)| [lowest, highest]),
            last_level: tuned().filter_map(last).max().map(level),
            idle_families: self.without_new_entries(),
            ..Engagement::default()
        }
    }

    fn levels_read(&self) -> Option<Vec<u8>> {
        let mut levels = Vec::new();
        for (family, closed) in &self.closed {
            let before = self.opened.get(family)?.file_reads.as_ref()?;
            for (level, count) in closed.file_reads.as_ref()?.iter().enumerate() {
                if *count > before.get(level).copied().unwrap_or_default() {
                    levels.push(level.min(LEVELS - 1) as u8);
                }
            }
        }
        levels.sort_unstable();
        levels.dedup();
        Some(levels)
    }

    /// Families whose memtables hold what they held. Those that were flushed meanwhile are told by the LOG.
    fn without_new_entries(&self) -> Option<Vec<String>> {
        let mut idle = Vec::new();
        for (family, closed) in &self.closed {
            let before = self.opened.get(family)?.memtable_entries?;
            if closed.memtable_entries? == before {
                idle.push(family.clone());
            }
        }
        Some(idle)
    }
}

/// How often each level's files were read, from RocksDB's histograms of these reads.
fn reads_by_level(histograms: &str) -> Vec<u64> {
    let mut counts = Vec::new();
    let mut level = None;
    for line in histograms.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["**", "Level", number, ..] => level = number.parse::<usize>().ok().filter(|level| *level < 64),
            ["**", ..] => level = None,
            ["Count:", count, ..] => {
                if let (Some(level), Ok(count)) = (level.take(), count.parse()) {
                    counts.resize(counts.len().max(level + 1), 0);
                    counts[level] = count;
                }
            }
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use assay_protocol::{Engagement, FamilyFacts};

    use super::{Peaks, reads_by_level};
    use crate::{
        engine::{Counters, Family},
        measure::told::Told,
    };

    /// What RocksDB says of reads, by level.
    fn histograms(reads: &[(usize, u64)]) -> String {
        let one = |(level, count): &(usize, u64)| {
            format!("** Level {level} read latency histogram\nCount: {count} Average: 1\n")
        };
        reads.iter().map(one).collect()
    }

    /// Property, and what families `a`, `b` and `c` say of it when the window opens, within it, and when it closes.
    const SAID: &[(&str, [[u64; 3]; 3])] = &[
        ("rocksdb.cur-size-active-mem-table", [[10, 70, 900], [20, 30, 900], [5, 6, 900]]),
        ("rocksdb.num-immutable-mem-table", [[0, 1, 9], [4, 2, 9], [1, 0, 9]]),
        ("rocksdb.cur-size-all-mem-tables", [[100, 200, 300], [100, 200, 500], [1, 1, 1]]),
        // Of the whole database, so each family says the same.
        ("rocksdb.num-running-flushes", [[0, 0, 0], [3, 3, 3], [1, 1, 1]]),
        ("rocksdb.mem-table-flush-pending", [[1, 1, 1], [0, 1, 1], [0, 0, 0]]),
        ("rocksdb.num-running-compactions", [[1, 1, 1], [0, 0, 0], [4, 4, 4]]),
        ("rocksdb.compaction-pending", [[0, 0, 0], [1, 1, 1], [1, 1, 1]]),
        ("rocksdb.num-files-at-level0", [[1, 2, 30], [3, 8, 30], [4, 0, 30]]),
        // Those of `a` only change memtables.
        ("rocksdb.num-entries-active-mem-table", [[10, 3, 1], [10, 3, 2], [3, 5, 3]]),
        ("rocksdb.num-entries-imm-mem-tables", [[5, 4, 0], [5, 4, 0], [12, 4, 0]]),
    ];

    fn said(moment: usize) -> Told {
        let texts: Vec<_> = SAID
            .iter()
            .flat_map(|(property, values)| {
                ["a", "b", "c"]
                    .into_iter()
                    .zip(values[moment])
                    .map(|(family, value)| (family, *property, value.to_string()))
            })
            .collect();
        Told::new(&texts.iter().map(|(family, property, text)| (*family, *property, text.as_str())).collect::<Vec<_>>())
    }

    /// Of `a` and `b`, after a warm-up in which everything was larger.
    fn peaks() -> Peaks {
        let tuned = ["a", "b"].map(str::to_owned);
        let mut peaks = Peaks::of(&tuned, &["a", "b", "c"].map(Family::new));
        assert_eq!(peaks.tuned(), tuned);
        let texts: Vec<_> = SAID.iter().map(|(property, _)| ("a", *property, "100000")).collect();
        peaks.sample(&Told::new(&texts));
        peaks.open(&said(0));
        peaks.sample(&said(1));
        peaks.close(&said(2));
        assert_eq!(peaks.tuned(), tuned);
        peaks
    }

    fn facts(base_level: Option<u64>, files_by_level: &[u64]) -> FamilyFacts {
        FamilyFacts { base_level, files_by_level: files_by_level.to_vec(), ..FamilyFacts::default() }
    }

    #[test]
    fn peaks_are_of_the_tuned_families_but_for_what_all_share() {
        let facts = BTreeMap::from([
            ("a".to_owned(), facts(Some(5), &[3, 0, 0, 0, 0, 2, 0])),
            ("b".to_owned(), facts(Some(2), &[0, 0, 1])),
            ("c".to_owned(), facts(Some(1), &[0, 0, 0, 0, 0, 0, 9])),
        ]);
        let moved = Counters::told(
            &[
                ("rocksdb.fifo.max.size.compactions", 3),
                ("rocksdb.fifo.ttl.compactions", 4),
                ("rocksdb.write.other", 11),
                ("rocksdb.wal.bytes", 12),
                ("rocksdb.block.cache.miss", 13),
                ("rocksdb.block.cache.hit", 14),
                ("rocksdb.bytes.decompressed.to", 15),
            ],
            &[],
        );
        let expected = Engagement {
            l0_files_peak: Some(8),
            fullest_memtable_bytes: Some(70),
            immutable_memtables_peak: Some(4),
            memtable_bytes_peak: Some(800),
            flushes_due_peak: Some(5),
            compactions_due_peak: Some(7),
            fifo_drops: Some(7),
            grouped_writes: Some(11),
            wal_bytes: Some(12),
            block_cache_misses: Some(13),
            block_cache_hits: Some(14),
            bytes_decompressed: Some(15),
            // Of no family it is told what was read.
            levels_read: None,
            base_levels: Some([2, 5]),
            last_level: Some(5),
            idle_families: Some(vec!["a".to_owned()]),
            ..Engagement::default()
        };
        assert_eq!(peaks().engagement(&facts, &moved), expected);
    }

    #[test]
    fn what_is_not_told_is_not_known() {
        let silent = Told::new(&[("a", "", ""), ("b", "", "")]);
        let mut peaks = Peaks::of(&["a".to_owned()], &[Family::new("a"), Family::new("b")]);
        peaks.open(&silent);
        peaks.close(&silent);
        let known = peaks.engagement(&BTreeMap::new(), &Counters::default());
        let zero = Some(0);
        let tickers = Engagement {
            fifo_drops: zero,
            grouped_writes: zero,
            wal_bytes: zero,
            block_cache_misses: zero,
            block_cache_hits: zero,
            bytes_decompressed: zero,
            ..Engagement::default()
        };
        assert_eq!(known, tickers);
    }

    #[test]
    fn without_levels_the_first_is_the_base() {
        let of = |base_level| {
            let facts =
                BTreeMap::from([("a".to_owned(), facts(base_level, &[])), ("b".to_owned(), facts(Some(3), &[]))]);
            peaks().engagement(&facts, &Counters::default()).base_levels
        };
        assert_eq!(of(Some(6)), Some([3, 6]));
        assert_eq!(of(Some(63)), Some([3, 63]));
        for none in [None, Some(64), Some(u64::MAX)] {
            assert_eq!(of(none), Some([1, 3]), "{none:?}");
        }
    }

    #[test]
    fn levels_are_read_whose_counts_grow() {
        let said = |a: &[(usize, u64)], b: &[(usize, u64)]| {
            let of = |family, reads| (family, "rocksdb.cf-file-histogram", histograms(reads));
            let all = [of("a", a), of("b", b)];
            let texts: Vec<_> =
                all.iter().map(|(family, property, text)| (*family, *property, text.as_str())).collect();
            Told::new(&texts)
        };
        let levels = |before: &Told, after: &Told| {
            let mut peaks = Peaks::of(&["a".to_owned(), "b".to_owned()], &[Family::new("a"), Family::new("b")]);
            peaks.open(before);
            peaks.close(after);
            peaks.engagement(&BTreeMap::new(), &Counters::default()).levels_read
        };
        let before = said(&[(0, 4), (2, 7)], &[(2, 1)]);
        assert_eq!(levels(&before, &before), Some(vec![]));
        assert_eq!(levels(&before, &said(&[(0, 4), (2, 8)], &[(2, 1)])), Some(vec![2]));
        assert_eq!(levels(&before, &said(&[(0, 5), (2, 8)], &[(2, 2), (3, 1), (9, 1)])), Some(vec![0, 2, 3, 6]));
        assert_eq!(levels(&before, &Told::new(&[("a", "", ""), ("b", "", "")])), None, "who is not told knows nothing");
    }

    #[test]
    fn reads_are_counted_by_level() {
        let text = "\n** File Read Latency Histogram By Level [hot] **\n\
            ** Level 0 read latency histogram (micros):\nCount: 12 Average: 3.5  StdDev: 1.0\nMin: 1\n\n\
            ** Level 6 read latency histogram (micros):\nCount: 40 Average: 3.5  StdDev: 1.0\n\n\
            ** Blob file read latency histogram (micros):\nCount: 7 Average: 3.5  StdDev: 1.0\n";
        assert_eq!(reads_by_level(text), [12, 0, 0, 0, 0, 0, 40]);
        assert!(reads_by_level("** File Read Latency Histogram By Level [hot] **\n").is_empty());
        assert!(
            reads_by_level("** Level 3 read latency histogram\n** Blob file read latency histogram\nCount: 7\n")
                .is_empty()
        );
        let deep = |level| reads_by_level(&histograms(&[(level, 9)])).len();
        assert_eq!((deep(63), deep(64)), (64, 0), "there are no more levels");
    }
}
