//! Compression: a codec acts on the levels that get it.
//!
//! `compression_per_level` does not number levels: its first entry is for L0, the second for the base level, to which L0 is
//! compacted, and so on. With dynamic level bytes the base level is the deeper the smaller the data are.

use std::collections::{BTreeMap, BTreeSet};

use super::case::{Answer, Case};

/// Deeper levels count with the last one.
const LAST: u8 = 6;

type Options = BTreeMap<String, String>;

/// Where the levels of the tuned families lie.
struct Shape {
    lowest_base: u8,
    highest_base: u8,
    last: u8,
}

pub fn compression(case: &Case<'_>) -> Answer {
    let Some(shape) = Shape::of(case) else { return Answer::Unknown };
    let changed: BTreeSet<u8> =
        (0..=LAST).filter(|level| case.places.iter().any(|place| shape.differs(case.option, place, *level))).collect();
    let mut used = BTreeSet::new();
    let mut known = true;
    for seen in case.seen {
        // Files that were there before the trial have the codec of the format that they were written in.
        let read = if case.migration { Some(&Vec::new()) } else { seen.levels_read.as_ref() };
        known &= seen.levels_compressed.is_some() && read.is_some();
        used.extend(seen.levels_compressed.iter().flatten().chain(read.into_iter().flatten()));
    }
    if !changed.is_disjoint(&used) {
        Answer::Acted
    } else if !known {
        Answer::Unknown
    } else if changed.is_empty() {
        let why = format!("data reaches only L{} and the base level is L{}", shape.last, shape.lowest_base);
        Answer::Idle(format!(
            "no level gets another codec: {why}; use more data or a smaller max_bytes_for_level_base, or remove the \
             option that overrides it"
        ))
    } else {
        Answer::Idle(format!(
            "it changes the codec of {}; levels written compressed or read: {}",
            names(&changed),
            names(&used)
        ))
    }
}

fn names(levels: &BTreeSet<u8>) -> String {
    let names: Vec<String> = levels.iter().map(|level| format!("L{level}")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Shape {
    /// The widest that any trial saw; `None` where one did not look.
    fn of(case: &Case<'_>) -> Option<Self> {
        let bases: Vec<[u8; 2]> = case.seen.iter().map(|seen| seen.base_levels).collect::<Option<_>>()?;
        let last = case.seen.iter().filter_map(|seen| seen.last_level).max().unwrap_or_default();
        let lowest_base = bases.iter().map(|[lowest, _]| *lowest).min()?;
        let highest_base = bases.iter().map(|[_, highest]| *highest).max()?;
        Some(Self { lowest_base, highest_base, last: last.min(LAST) })
    }

    /// Whether this option alone gives a level another codec: the other options that have a say are the same on both sides.
    fn differs(&self, option: &str, place: &super::case::Place, level: u8) -> bool {
        let swapped = |into: &Options, from: &Options| {
            let mut options = into.clone();
            match from.get(option) {
                Some(value) => options.insert(option.to_owned(), value.clone()),
                None => options.remove(option),
            };
            options
        };
        let pairs = [(&place.before, &place.after), (&place.after, &place.before)];
        pairs.into_iter().any(|(own, other)| {
            let changed = swapped(own, other);
            (self.lowest_base..=self.highest_base)
                .filter(|base| level == 0 || level >= *base)
                .any(|base| self.codec(own, level, base) != self.codec(&changed, level, base))
        })
    }

    /// The codec that RocksDB takes for a level; `None` is its default.
    fn codec<'a>(&self, options: &'a Options, level: u8, base: u8) -> Option<&'a str> {
        let set = |name: &str| options.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        // A flush does not ask whether its level is the last.
        let bottommost = set("bottommost_compression").filter(|value| *value != "kDisableCompressionOption");
        if let Some(codec) = bottommost.filter(|_| level > 0 && level >= self.last) {
            return Some(codec);
        }
        match set("compression_per_level") {
            Some(list) => {
                let codecs: Vec<&str> = list.split(':').map(str::trim).collect();
                let entry = if level == 0 { 0 } else { usize::from(level - base) + 1 };
                codecs.get(entry).or(codecs.last()).copied()
            }
            None => set("compression"),
        }
    }
}
