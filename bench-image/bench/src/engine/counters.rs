//! RocksDB's counters and timers.

use std::collections::BTreeMap;

use assay_protocol::COMPONENTS;
use rocksdb::statistics::{Histogram, Ticker};

use super::Engine;

/// All tickers, and the sums of the histograms that tell times.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    tickers: BTreeMap<&'static str, u64>,
    timers: BTreeMap<&'static str, u64>,
}

const COMPACTIONS: &str = "rocksdb.compaction.times.micros";

impl Counters {
    pub(super) fn read(engine: &Engine) -> Self {
        Self {
            tickers: Ticker::iter().map(|ticker| (ticker.name(), engine.options.get_ticker_count(*ticker))).collect(),
            timers: timers().map(|timer| (timer.name(), engine.options.get_histogram_data(timer).sum())).collect(),
        }
    }

    /// As if RocksDB had counted this: tickers and timers by their names.
    #[cfg(test)]
    pub fn told(tickers: &[(&'static str, u64)], timers: &[(&'static str, u64)]) -> Self {
        Self { tickers: tickers.iter().copied().collect(), timers: timers.iter().copied().collect() }
    }

    /// What was counted between two readings.
    pub fn since(&self, earlier: &Self) -> Self {
        let growth = |now: &BTreeMap<&'static str, u64>, before: &BTreeMap<&'static str, u64>| {
            now.iter()
                .map(|(name, count)| (*name, count.saturating_sub(before.get(name).copied().unwrap_or_default())))
                .collect()
        };
        Self { tickers: growth(&self.tickers, &earlier.tickers), timers: growth(&self.timers, &earlier.timers) }
    }

    pub fn get(&self, name: &str) -> u64 {
        self.tickers.get(name).copied().unwrap_or_default()
    }

    pub fn compaction_seconds(&self) -> f64 {
        self.seconds(COMPACTIONS).unwrap_or_default()
    }

    /// A time that RocksDB keeps. Its name tells the unit.
    pub fn seconds(&self, name: &str) -> Option<f64> {
        let count = self.timers.get(name).or_else(|| self.tickers.get(name))?;
        Some(*count as f64 / if name.ends_with("nanos") { 1e9 } else { 1e6 })
    }

    pub fn blocks_written(&self) -> u64 {
        blocks_written(|name| self.get(name))
    }

    /// Those that moved.
    pub fn moved(&self) -> BTreeMap<String, u64> {
        self.tickers.iter().filter(|(_, count)| **count > 0).map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }
}

impl Engine {
    /// Since the database was opened.
    pub fn blocks_written(&self) -> u64 {
        blocks_written(|name| name.parse().map_or(0, |ticker: Ticker| self.options.get_ticker_count(ticker)))
    }
}

fn timers() -> impl Iterator<Item = Histogram> {
    COMPONENTS.iter().map(|component| component.source).chain([COMPACTIONS]).filter_map(|name| name.parse().ok())
}

/// Blocks written, compressed or not, from tickers by their names. Whether one that did not get smaller counts as rejected or as
/// bypassed depends on the codec.
fn blocks_written(ticker: impl Fn(&str) -> u64) -> u64 {
    ticker("rocksdb.number.block.compressed")
        + ticker("rocksdb.number.block_compression_rejected")
        + ticker("rocksdb.number.block_compression_bypassed")
}
