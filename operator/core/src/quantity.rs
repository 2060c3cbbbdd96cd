use assay_protocol::Bytes;

/// Why a text is not a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("is not a quantity; use a number with a suffix such as Ki, Mi, Gi, k, M or G")]
    Malformed,
    #[error("must not be negative")]
    Negative,
    #[error("must be a whole number of bytes")]
    Fraction,
    #[error("is too large; the limit is 2^63 - 1 bytes")]
    TooLarge,
}

/// Reads a Kubernetes quantity as bytes, exactly: no floats, and no rounding of what is not a whole number.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    let unsigned = match text.strip_prefix('-') {
        Some(rest) if parse(rest).is_ok() => return Err(QuantityError::Negative),
        Some(_) => return Err(QuantityError::Malformed),
        None => text.strip_prefix('+').unwrap_or(text),
    };
    parse(unsigned)
}

fn parse(text: &str) -> Result<u64, QuantityError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(QuantityError::Malformed);
    }
    // value = digits * numerator / denominator
    let (numerator, denominator) = scale(suffix)?;
    let fraction = fraction.trim_end_matches('0');
    let mut digits = 0_u128;
    for digit in whole.chars().chain(fraction.chars()).filter_map(|c| c.to_digit(10)) {
        digits =
            digits.checked_mul(10).and_then(|d| d.checked_add(u128::from(digit))).ok_or(QuantityError::TooLarge)?;
    }
    let denominator = u32::try_from(fraction.len())
        .ok()
        .and_then(|places| 10_u128.checked_pow(places))
        .and_then(|places| places.checked_mul(denominator))
        .ok_or(QuantityError::Fraction)?;
    let product = digits.checked_mul(numerator).ok_or(QuantityError::TooLarge)?;
    if product % denominator != 0 {
        return Err(QuantityError::Fraction);
    }
    let value = product / denominator;
    if value > i64::MAX as u128 { Err(QuantityError::TooLarge) } else { Ok(value as u64) }
}

/// What a suffix multiplies by and divides by.
fn scale(suffix: &str) -> Result<(u128, u128), QuantityError> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if let Some(step) = BINARY.iter().position(|name| *name == suffix) {
        return Ok((1_u128 << (10 * (step + 1)), 1));
    }
    if let Some(step) = DECIMAL.iter().position(|name| *name == suffix) {
        return Ok((1000_u128.pow(step as u32 + 1), 1));
    }
    match suffix {
        "" => Ok((1, 1)),
        "m" => Ok((1, 1000)),
        _ => exponent(suffix),
    }
}

fn exponent(suffix: &str) -> Result<(u128, u128), QuantityError> {
    let power = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Malformed)?;
    let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
    if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
        return Err(QuantityError::Malformed);
    }
    let negative = power.starts_with('-');
    let magnitude = digits.parse::<u32>().ok().and_then(|power| 10_u128.checked_pow(power));
    match (magnitude, negative) {
        (Some(scale), false) => Ok((scale, 1)),
        (Some(scale), true) => Ok((1, scale)),
        (None, false) => Err(QuantityError::TooLarge),
        (None, true) => Err(QuantityError::Fraction),
    }
}

/// Bytes with a binary suffix, for people: one decimal place at most.
pub fn display(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_by_hand() {
        let table = [
            ("0", Ok(0)),
            ("512Mi", Ok(512 << 20)),
            ("0.5Gi", Ok(512 << 20)),
            ("1k", Ok(1000)),
            ("1.5k", Ok(1500)),
            ("+7", Ok(7)),
            ("1000m", Ok(1)),
            ("1500m", Err(QuantityError::Fraction)),
            ("1e3", Ok(1000)),
            ("1.25E2", Ok(125)),
            ("2500e-2", Ok(25)),
            ("5.", Ok(5)),
            (".5k", Ok(500)),
            ("1.0000000000000000000000000000000000000000000Ki", Ok(1024)),
            ("9223372036854775807", Ok(i64::MAX as u64)),
            ("9223372036854775808", Err(QuantityError::TooLarge)),
            ("8Ei", Err(QuantityError::TooLarge)),
            ("1e99999999999", Err(QuantityError::TooLarge)),
            ("1e-99999999999", Err(QuantityError::Fraction)),
            ("-1Gi", Err(QuantityError::Negative)),
            ("-x", Err(QuantityError::Malformed)),
            ("", Err(QuantityError::Malformed)),
            (".", Err(QuantityError::Malformed)),
            ("Mi", Err(QuantityError::Malformed)),
            ("1MB", Err(QuantityError::Malformed)),
            ("1 Mi", Err(QuantityError::Malformed)),
            ("1.2.3", Err(QuantityError::Malformed)),
            ("1e", Err(QuantityError::Malformed)),
            ("1e+-2", Err(QuantityError::Malformed)),
            ("0x10", Err(QuantityError::Malformed)),
            ("١", Err(QuantityError::Malformed)),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = bytes(&text);
        }

        #[test]
        fn binary_suffixes_are_exact(number in 0_u64..1 << 33, step in 0_usize..4) {
            let suffix = ["", "Ki", "Mi", "Gi"][step];
            let expected = number.checked_mul(1 << (10 * step)).filter(|value| i64::try_from(*value).is_ok());
            prop_assert_eq!(bytes(&format!("{number}{suffix}")).ok(), expected);
        }

        #[test]
        fn milli_is_a_thousandth(number in 0_u64..1_000_000_000) {
            prop_assert_eq!(bytes(&format!("{}m", number * 1000)), Ok(number));
            let milli = format!("{}.{:03}k", number / 1000, number % 1000);
            prop_assert_eq!(bytes(&milli), Ok(number));
        }
    }
}
