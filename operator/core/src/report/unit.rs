//! Measured values with their units, as people write them.

use assay_protocol::{Bytes, metric};

use super::number::{latency, measured};

/// A value of a metric with its unit; a metric that only the experiment knows has none.
pub(crate) fn value(name: &str, value: f64) -> String {
    match metric(name).map_or("", |info| info.unit) {
        "us" => latency(value * 1e3),
        "s" => seconds(value),
        "bytes" if value >= 0.0 => Bytes(value.round() as u64).to_string(),
        "fraction" => format!("{} %", plain(100.0 * value)),
        "" | "ratio" | "count" => plain(value),
        unit => format!("{} {unit}", plain(value)),
    }
}

/// What the numbers of a metric count, if that is known.
pub(crate) fn of(name: &str) -> Option<&'static str> {
    match metric(name)?.unit {
        "us" => Some("µs"),
        unit => Some(unit),
    }
}

fn seconds(value: f64) -> String {
    if value == 0.0 || value.abs() >= 1.0 { format!("{} s", plain(value)) } else { latency(value * 1e9) }
}

/// What is nothing or whole needs no decimals.
fn plain(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e4 { format!("{value:.0}") } else { measured(value) }
}

/// Digits in groups of three: `200,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_unit() {
        let shown = [
            ("throughput", 114_300.0, "114.30 k steps/s"),
            ("gas_throughput", 812.0, "812 Mgas/s"),
            ("step_latency_p999", 2_100.0, "2.1 ms"),
            ("step_latency_p50", 0.8, "800 ns"),
            ("db_bytes", 1_572_864.0, "1.5 MiB"),
            ("stall_fraction", 0.125, "12.50 %"),
            ("stall_fraction", 0.0, "0 %"),
            ("stall_count", 3.0, "3"),
            ("write_amplification", 4.25, "4.25"),
            ("cpu_seconds_per_step", 12.3e-6, "12.3 µs"),
            ("drain_seconds", 0.0, "0 s"),
            ("drain_seconds", 12.5, "12.50 s"),
            ("overdue_percent", 2.5, "2.50 %"),
            ("watts", 17.25, "17.25"),
        ];
        for (name, number, expected) in shown {
            assert_eq!(value(name, number), expected, "{name}");
        }
    }

    #[test]
    fn units_are_known_by_the_metric() {
        assert_eq!([of("step_latency_p99"), of("throughput"), of("watts")], [Some("µs"), Some("steps/s"), None]);
    }

    #[test]
    fn digits_are_in_groups() {
        assert_eq!([0, 999, 1000, 200_000, 1_234_567].map(grouped), ["0", "999", "1,000", "200,000", "1,234,567"]);
    }
}
