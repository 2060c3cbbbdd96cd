//! Metrics that equal work repeats exactly: sizes and counts, told from times and rates by the words in their names and units.

use crate::import::comparison::Comparison;
use crate::import::data::Name;

/// Fewer equal runs of a config may be an accident, or copies.
const REPEATED: usize = 3;

const SIZES_AND_COUNTS: [&str; 30] = [
    "b",
    "byte",
    "bytes",
    "kb",
    "kib",
    "mb",
    "mib",
    "gb",
    "gib",
    "tb",
    "tib",
    "size",
    "sizes",
    "count",
    "counts",
    "counter",
    "num",
    "number",
    "amp",
    "amplification",
    "files",
    "blocks",
    "keys",
    "entries",
    "records",
    "rows",
    "levels",
    "compactions",
    "flushes",
    "allocations",
];
/// A name or unit with one of these is measured by a clock, whatever else it has. Quantiles such as p99 are recognised by their form.
const TIMES_AND_RATES: [&str; 38] = [
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "ms",
    "msec",
    "millis",
    "milliseconds",
    "us",
    "usec",
    "micros",
    "microseconds",
    "ns",
    "nanos",
    "nanoseconds",
    "min",
    "minute",
    "minutes",
    "h",
    "hour",
    "hours",
    "time",
    "times",
    "latency",
    "duration",
    "elapsed",
    "wall",
    "cpu",
    "rate",
    "throughput",
    "speed",
    "bandwidth",
    "qps",
    "tps",
    "iops",
    "kops",
    "mbps",
];

/// The configs whose runs all have one value of a metric in a scenario.
pub(super) fn configs_with_one_value(comparison: &Comparison<'_>, scenario: Name, rule: usize) -> Vec<Name> {
    let has_one_value = |config: &Name| {
        let values: Vec<f64> = comparison.runs(scenario, *config).filter_map(|(_, run)| run.value(rule)).collect();
        values.len() >= REPEATED && values.iter().all(|value| value.to_bits() == values[0].to_bits())
    };
    comparison.arms().filter(has_one_value).collect()
}

/// Whether a metric is a size or a count by its name and unit, and neither a time nor a rate.
pub(super) fn is_size_or_count(metric: &str, unit: Option<&str>) -> bool {
    let words = [words(metric), unit.map(words).unwrap_or_default()].concat();
    let is_quantile = |word: &str| {
        word.strip_prefix('p').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_clocked = |word: &String| TIMES_AND_RATES.contains(&word.as_str()) || is_quantile(word);
    words.iter().any(|word| SIZES_AND_COUNTS.contains(&word.as_str())) && !words.iter().any(is_clocked)
}

/// The words of `db_bytes`, `dbBytes` and `db bytes`, in lower case.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut before) = (vec![String::new()], ' ');
    for c in text.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_told_from_times_and_rates() {
        for (metric, unit) in [
            ("db_bytes", None),
            ("dbBytes", None),
            ("space", Some("GiB")),
            ("write_amplification", None),
            ("compaction count", None),
            ("num_ops", None),
            ("written", Some("KB/op")),
        ] {
            assert!(is_size_or_count(metric, unit), "{metric} in {unit:?}");
        }
        for (metric, unit) in [
            ("ops", None),
            ("ops_per_sec", None),
            ("mb_per_sec", None),
            ("writeBytesPerSecond", None),
            ("written", Some("MB/s")),
            ("keys", Some("1/s")),
            ("p99_size", None),
            ("count_time", None),
            ("x", None),
            ("", Some("")),
        ] {
            assert!(!is_size_or_count(metric, unit), "{metric} in {unit:?}");
        }
    }
}
