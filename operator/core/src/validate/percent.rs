/// Reads a percentage such as `2.5%` as a fraction: the double nearest to the decimal that was written.
pub fn fraction(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?;
    let (whole, places) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    // The decimal point is moved in the text, so nothing is rounded twice: 2.3 / 100 is not 0.023.
    (digits(whole) && digits(places)).then(|| format!("{whole}{places}e-{}", places.len() + 2).parse().ok()).flatten()
}

/// A fraction as a percentage, without digits that say nothing.
pub fn display(fraction: f64) -> String {
    let text = format!("{:.4}", fraction * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentages_by_hand() {
        for (text, expected) in [
            ("2%", Some(0.02)),
            ("2.3%", Some(0.023)),
            ("0.1%", Some(0.001)),
            ("100%", Some(1.0)),
            ("007%", Some(0.07)),
            ("2", None),
            ("%", None),
            (".5%", None),
            ("5.%", None),
            ("-1%", None),
            ("1e2%", None),
            ("NaN%", None),
            ("1.2.3%", None),
        ] {
            assert_eq!(fraction(text), expected, "{text}");
        }
        assert_eq!(display(0.05), "5 %");
        assert_eq!(display(0.025), "2.5 %");
    }

    proptest! {
        #[test]
        fn exact(hundredths in 0_u32..1_000_000) {
            let text = format!("{}.{:02}%", hundredths / 100, hundredths % 100);
            prop_assert_eq!(fraction(&text), Some(f64::from(hundredths) / 10_000.0));
        }
    }
}
