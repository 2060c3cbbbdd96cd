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
pub(super) fn shown(scale: Scale, effect: f64) -> f64 {
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
    match estimate.interval95 {
        Some(Interval { low: None, high: None }) | None => "not bounded yet".to_owned(),
        Some(Interval { low, high }) => {
            let limit = |value: Option<f64>| value.map_or("?".to_owned(), |value| effect(estimate.scale, value));
            format!("{} to {}", limit(low).trim_end_matches(" %"), limit(high))
        }
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
    fn measured_values_are_short() {
        let shown: Vec<String> = [0.01, 1.5, 812.3, 12_345.0, 2.5e6, 3e10].into_iter().map(measured).collect();
        assert_eq!(shown, ["0.0100", "1.50", "812", "12.35 k", "2.500 M", "30.000 G"]);
    }
}
