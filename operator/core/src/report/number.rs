use super::Estimate;
use crate::stats::{Interval, Scale};

/// An effect as people read it: signed percent on a log scale, signed difference on a linear one.
pub(crate) fn effect(scale: Scale, value: f64) -> String {
    match scale {
        Scale::Log => {
            let percent = 100.0 * value.exp_m1();
            // No sign where nothing but zeros would follow it.
            if percent.abs() < 0.05 {
                return "0.0 %".to_owned();
            }
            // A factor of ten and more is no matter of decimals.
            if percent.abs() < 1000.0 { format!("{percent:+.1} %") } else { format!("{percent:+.0} %") }
        }
        Scale::Linear => format!("{value:+.4}"),
    }
}

/// An effect as a number that people read: percent on a log scale.
pub(crate) fn shown(scale: Scale, effect: f64) -> f64 {
    match scale {
        Scale::Log => 100.0 * effect.exp_m1(),
        Scale::Linear => effect,
    }
}

/// The effect that is shown as this.
pub(super) fn hidden(scale: Scale, shown: f64) -> f64 {
    match scale {
        Scale::Log => (shown / 100.0).ln_1p(),
        Scale::Linear => shown,
    }
}

pub(crate) fn estimate(estimate: &Estimate) -> String {
    let none = if estimate.has_zeros { "none (zeros)" } else { "unknown" };
    estimate.estimate.map_or(none.to_owned(), |value| effect(estimate.scale, value))
}

/// The effect on what runs add up to; nothing where they add up to nothing.
pub(crate) fn mean(estimate: &Estimate) -> String {
    estimate.mean.map_or(String::new(), |value| effect(estimate.scale, value))
}

pub(crate) fn interval(estimate: &Estimate) -> String {
    let shown = |value: f64| effect(estimate.scale, value);
    match (estimate.interval95, estimate.bounds) {
        (Some(Interval { low: Some(low), high: Some(high) }), _) => {
            format!("{} to {}", shown(low).trim_end_matches(" %"), shown(high))
        }
        (Some(Interval { low: Some(low), high: None }), _) => format!("at least {}", shown(low)),
        (Some(Interval { low: None, high: Some(high) }), _) => format!("at most {}", shown(high)),
        (Some(_), Some(bounds)) => match one_sided(bounds) {
            (Some(low), Some(high)) => format!("at least {}, at most {}", shown(low), shown(high)),
            (Some(low), None) => format!("at least {}", shown(low)),
            (None, Some(high)) => format!("at most {}", shown(high)),
            (None, None) => TOO_FEW.to_owned(),
        },
        (Some(_), None) => TOO_FEW.to_owned(),
        (None, _) if estimate.blocks == 0 && !estimate.has_zeros => TOO_FEW.to_owned(),
        (None, _) => "no interval".to_owned(),
    }
}

/// Where not even a one-sided test can stop.
const TOO_FEW: &str = "too few blocks";

/// The bound that says something: of an effect that is surely on one side the one towards zero, else both.
pub(super) fn one_sided(bounds: Interval) -> (Option<f64>, Option<f64>) {
    match (bounds.low, bounds.high) {
        (Some(low), _) if low > 0.0 => (Some(low), None),
        (_, Some(high)) if high < 0.0 => (None, Some(high)),
        both => both,
    }
}

pub(crate) fn margin(scale: Scale, margin: f64) -> String {
    match scale {
        // Percent strings come with few digits; binary fractions would show more than was written.
        Scale::Log => format!("{} %", (margin * 100.0 * 1e6).round() / 1e6),
        Scale::Linear => format!("{margin}"),
    }
}

/// A measured value with about four digits.
pub(crate) fn measured(value: f64) -> String {
    let size = value.abs();
    if size >= 1e9 {
        format!("{:.3} G", value / 1e9)
    } else if size >= 1e6 {
        format!("{:.3} M", value / 1e6)
    } else if size >= 1e4 {
        format!("{:.2} k", value / 1e3)
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// Nanoseconds as people say them.
pub(crate) fn latency(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        n if n >= 1e9 => (n / 1e9, "s"),
        n if n >= 1e6 => (n / 1e6, "ms"),
        n if n >= 1e3 => (n / 1e3, "µs"),
        n => (n, "ns"),
    };
    if value >= 100.0 || value.fract() < 0.005 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_carry_their_sign() {
        assert_eq!(effect(Scale::Log, 0.1_f64.ln_1p()), "+10.0 %");
        assert_eq!(effect(Scale::Log, (-0.1_f64).ln_1p()), "-10.0 %");
        assert_eq!(effect(Scale::Log, -1e-9), "0.0 %");
        assert_eq!(effect(Scale::Log, 20.0_f64.ln()), "+1900 %");
        assert_eq!(effect(Scale::Linear, -0.01), "-0.0100");
        assert_eq!(margin(Scale::Log, 0.05), "5 %");
        assert_eq!(margin(Scale::Log, 0.025), "2.5 %");
    }

    #[test]
    fn few_blocks_have_the_bound_of_their_proof() {
        let end = |percent: f64| Some((percent / 100.0).ln_1p());
        let none = Interval { low: None, high: None };
        let said = |interval95: Option<Interval>, bounds: Option<Interval>, blocks: usize| {
            let json = serde_json::json!({
                "metric": "throughput", "purpose": "objective", "scale": "log", "margin": 0.05, "blocks": blocks,
                "interval95": interval95, "bounds": bounds,
            });
            interval(&serde_json::from_value(json).unwrap())
        };
        let bounds = |low, high| Some(Interval { low, high });
        assert_eq!(said(bounds(end(-1.0), end(2.0)), None, 8), "-1.0 to +2.0 %");
        assert_eq!(said(Some(none), bounds(end(12.0), end(30.0)), 5), "at least +12.0 %");
        assert_eq!(said(Some(none), bounds(end(-30.0), end(-12.0)), 5), "at most -12.0 %");
        assert_eq!(said(Some(none), bounds(end(-3.0), end(4.0)), 5), "at least -3.0 %, at most +4.0 %");
        assert_eq!(said(Some(none), None, 4), "too few blocks");
        assert_eq!(said(bounds(end(3.0), None), None, 8), "at least +3.0 %");
        assert_eq!(said(bounds(None, end(3.0)), None, 8), "at most +3.0 %");
        assert_eq!(said(None, None, 0), "too few blocks");
        assert_eq!(said(None, None, 8), "no interval");
    }

    #[test]
    fn measured_values_are_short() {
        let shown: Vec<String> = [0.01, 1.5, 812.3, 12_345.0, 2.5e6, 3e10].into_iter().map(measured).collect();
        assert_eq!(shown, ["0.0100", "1.50", "812", "12.35 k", "2.500 M", "30.000 G"]);
    }

    #[test]
    fn latencies_have_their_unit() {
        assert_eq!(
            [812.0, 3_435.0, 51_519.0, 2e6, 1.5e9].map(latency),
            ["812 ns", "3.4 µs", "51.5 µs", "2 ms", "1.5 s"]
        );
    }
}
