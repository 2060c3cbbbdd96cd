//! The flags that `db_bench` has, with their types as gflags knows them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What the value of a flag can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Switch,
    /// A whole number between these.
    Whole(i64, i64),
    Decimal,
    Text,
}

/// By name.
pub static FLAGS: LazyLock<BTreeMap<&'static str, Type>> = LazyLock::new(|| read(include_str!("known.txt")));

pub fn is_switch(flag: &str) -> bool {
    FLAGS.get(flag) == Some(&Type::Switch)
}

/// The bounds of a whole number; a flag that nobody knows has none.
pub fn bounds(flag: &str) -> (i64, i64) {
    match FLAGS.get(flag) {
        Some(Type::Whole(least, most)) => (*least, *most),
        _ => (i64::MIN, i64::MAX),
    }
}

fn read(text: &'static str) -> BTreeMap<&'static str, Type> {
    let mut flags = BTreeMap::new();
    let mut of = Type::Text;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_suffix(':') {
            Some("bool") => of = Type::Switch,
            Some("int32") => of = Type::Whole(i64::from(i32::MIN), i64::from(i32::MAX)),
            Some("uint32") => of = Type::Whole(0, i64::from(u32::MAX)),
            Some("int64") => of = Type::Whole(i64::MIN, i64::MAX),
            // Larger ones mean nothing.
            Some("uint64") => of = Type::Whole(0, i64::MAX),
            Some("double") => of = Type::Decimal,
            Some(_) => of = Type::Text,
            None => flags.extend(line.split_whitespace().map(|name| (name, of))),
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::super::table::{OTHER_NAME, SAME_NAME};
    use super::*;
    use crate::adopt::defaults::BUNDLED;

    #[test]
    fn the_list_is_that_of_the_rocksdb_in_use() {
        let version = format!("RocksDB {},", BUNDLED.version);
        assert!(include_str!("known.txt").contains(&version), "write operator/core/src/adopt/db_bench/known.txt anew");
        let mapped = SAME_NAME.iter().map(|(flag, _)| *flag).chain(OTHER_NAME.iter().map(|(flag, ..)| *flag));
        for flag in mapped.chain(["num", "reads", "use_existing_db", "benchmarks"]) {
            assert!(FLAGS.contains_key(flag), "{flag}");
        }
        assert_eq!((FLAGS["threads"], FLAGS["sync"]), (Type::Whole(-2_147_483_648, 2_147_483_647), Type::Switch));
        assert_eq!((FLAGS["num"], FLAGS["db"]), (Type::Whole(i64::MIN, i64::MAX), Type::Text));
    }
}
