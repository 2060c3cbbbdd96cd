//! How RocksDB's parser reads the values of options.

use std::collections::BTreeMap;

/// A number as RocksDB's parser reads it: with an optional binary suffix.
pub fn number(text: &str) -> Option<f64> {
    let (digits, factor) = match text.char_indices().last()? {
        (end, 'k' | 'K') => (&text[..end], 1u64 << 10),
        (end, 'm' | 'M') => (&text[..end], 1 << 20),
        (end, 'g' | 'G') => (&text[..end], 1 << 30),
        (end, 't' | 'T') => (&text[..end], 1 << 40),
        _ => (text, 1),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
        return None;
    }
    digits.parse::<f64>().ok().map(|value| value * factor as f64)
}

/// A size as RocksDB reads it: a whole number, perhaps with a binary suffix of one letter.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The keys of `{a=1;b={c=2}}`.
pub fn nested(text: &str) -> Option<BTreeMap<String, String>> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None if text.contains('=') => text,
        None => return None,
    };
    let mut map = BTreeMap::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ';')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                let part = inner[start..at].trim();
                start = at + 1;
                if let Some((key, value)) = part.split_once('=') {
                    map.insert(key.trim().to_owned(), value.trim().to_owned());
                }
            }
            _ => {}
        }
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn suffixes_are_binary() {
        for (text, value) in [
            ("64M", Some(67_108_864.0)),
            ("2T", Some(2_199_023_255_552.0)),
            ("7", Some(7.0)),
            ("-1", Some(-1.0)),
            (".5", Some(0.5)),
            ("many", None),
            ("inf", None),
            ("+1", None),
            ("", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }

    #[test]
    fn sizes_are_whole() {
        for (text, bytes) in [
            ("7", Some(7)),
            (" 4k ", Some(4096)),
            ("1G", Some(1 << 30)),
            ("3t", Some(3 << 40)),
            ("1Gi", None),
            ("x", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }

    #[test]
    fn nested_values_keep_inner_braces() {
        let map = nested("{a=1;b={c=2;d=3};e=4}").unwrap();
        assert_eq!(map["b"], "{c=2;d=3}");
        assert_eq!(map["e"], "4");
        assert_eq!(nested("plain"), None);
    }
}
