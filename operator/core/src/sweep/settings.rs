//! What a config sets, so that two nights can be asked whether it was the same.

use std::collections::BTreeMap;

use assay_protocol::{Digest, EngineConfig, FamilyOptions, glob_matches, option_value};

use super::night::canonical;

/// The digest of all that a planned config sets, with what it takes over from the reference: a subject that is written as it was runs
/// something else once its reference does.
pub(super) fn digest(engine: &EngineConfig) -> Result<Digest, serde_json::Error> {
    let mut families: Vec<FamilyOptions> = Vec::new();
    for entry in &engine.column_families {
        let same = families.iter().position(|own| own.r#match == entry.r#match);
        // Beyond one that names some of the same families, it would no longer be the one that wins.
        match same.filter(|same| !families[same + 1..].iter().any(|own| overlap(&own.r#match, &entry.r#match))) {
            Some(same) => families[same].options = merged(&families[same], entry),
            None => families.push(entry.clone()),
        }
    }
    for family in &mut families {
        family.options = plain(&family.options);
    }
    canonical(&EngineConfig { db_options: plain(&engine.db_options), column_families: families, ..engine.clone() })
}

/// Options in one of their spellings: 32K is 32768.
fn plain(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    options.iter().map(|(name, value)| (name.clone(), plain_value(value))).collect()
}

fn plain_value(value: &str) -> String {
    let value = value.trim();
    if let Some(size) = option_value::size(value) {
        return size.to_string();
    }
    match value {
        "true" => return "1".to_owned(),
        "false" => return "0".to_owned(),
        _ => {}
    }
    let Some(keys) = option_value::nested(value) else { return value.to_owned() };
    // What is in a list, or set twice, has no key of its own.
    let length = |text: &str| text.chars().filter(|c| !c.is_whitespace() && !"{};".contains(*c)).count();
    if keys.iter().map(|(key, value)| length(key) + 1 + length(value)).sum::<usize>() != length(value) {
        return value.to_owned();
    }
    let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={}", plain_value(value))).collect();
    format!("{{{}}}", keys.join(";"))
}

/// What two entries for the same families set together.
fn merged(first: &FamilyOptions, second: &FamilyOptions) -> BTreeMap<String, String> {
    const ANY: &str = "any";
    let of_any = |entry: &FamilyOptions| FamilyOptions { r#match: vec![ANY.to_owned()], ..entry.clone() };
    let column_families = vec![of_any(first), of_any(second)];
    EngineConfig { column_families, ..EngineConfig::default() }.family_options(ANY)
}

/// Whether a family may be meant by both.
fn overlap(one: &[String], other: &[String]) -> bool {
    let is_glob = |name: &str| name.contains(['*', '?']);
    let may_meet = |a: &String, b: &String| glob_matches(a, b) || glob_matches(b, a) || (is_glob(a) && is_glob(b));
    one.iter().any(|a| other.iter().any(|b| may_meet(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Column families, each with its options.
    fn engine(entries: &[(&str, &[(&str, &str)])]) -> EngineConfig {
        let options = |options: &[(&str, &str)]| {
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let entry = |(name, set): &(&str, &[(&str, &str)])| FamilyOptions {
            r#match: vec![(*name).to_owned()],
            options: options(set),
        };
        EngineConfig { column_families: entries.iter().map(entry).collect(), ..EngineConfig::default() }
    }

    fn same(one: &[(&str, &[(&str, &str)])], other: &[(&str, &[(&str, &str)])]) -> bool {
        digest(&engine(one)).unwrap() == digest(&engine(other)).unwrap()
    }

    #[test]
    fn spellings_of_a_value_are_one() {
        for (one, other) in [
            ("32K", "32768"),
            (" 1M", "1048576"),
            ("true", "1"),
            ("{block_size=32K; filter={bits=10}}", "{filter={bits=10};block_size=32768}"),
            ("block_size=32K", "{block_size=32768}"),
        ] {
            assert_eq!(plain_value(one), plain_value(other));
        }
        for (one, other) in [
            ("32K", "32"),
            ("{a=1;b=2}", "{a=1;b=3}"),
            ("{1;2}", "{1;3}"),
            ("{x=1;2}", "{x=1;3}"),
            ("{x=1;x=2}", "{x=2}"),
            ("{a={b=1}}", "{a=1}"),
            ("kLZ4", "kZSTD"),
        ] {
            assert_ne!(plain_value(one), plain_value(other));
        }
    }

    #[test]
    fn what_is_set_twice_is_what_was_set_last() {
        let (old, new) = (("a", &[("x", "1"), ("y", "{p=1;q=1}")][..]), ("a", &[("x", "2"), ("y", "{q=2}")][..]));
        assert!(same(&[new, old], &[old]) && !same(&[old, new], &[new]), "a struct keeps the keys that are not named");
        assert!(same(&[old, new], &[("a", &[("x", "2"), ("y", "{p=1;q=2}")])]));
        assert!(!same(&[new], &[old]) && !same(&[("b", old.1)], &[old]));
        // Beside others.
        let other = ("b", &[("x", "3")][..]);
        assert!(same(&[new, other, old, other], &[old, other]));
        // The glob wins over what is before it.
        let glob = ("*", &[("x", "4")][..]);
        assert!(!same(&[old, glob, old], &[old, glob]) && !same(&[old, glob, old], &[glob, old]));
    }
}
