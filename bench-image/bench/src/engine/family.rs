//! What a workload wants of a column family, beside the options of a config.

use rocksdb::MergeOperands;

use super::Floor;

/// A column family. What only the workload can know is set here, before the config's options.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: String,
    pub merge: Option<Merge>,
    /// Below it, compactions drop what they find.
    pub floor: Option<Floor>,
}

impl Family {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), merge: None, floor: None }
    }
}

/// A merge operator: its name in the OPTIONS file, and how a value becomes another by operands.
#[derive(Clone, Debug)]
pub struct Merge {
    pub name: &'static str,
    pub apply: MergeFn,
}

/// From a value, if there is one, and operands to the new value.
type MergeFn = fn(Option<&[u8]>, Operands<'_>) -> Option<Vec<u8>>;

/// What is merged into a value, the oldest first.
#[derive(Clone, Copy)]
pub struct Operands<'a>(&'a MergeOperands);

impl<'a> Operands<'a> {
    pub(super) fn new(operands: &'a MergeOperands) -> Self {
        Self(operands)
    }
}

impl<'a> IntoIterator for Operands<'a> {
    type Item = &'a [u8];
    type IntoIter = <&'a MergeOperands as IntoIterator>::IntoIter;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
