//! The shape of a trie, computed instead of stored: which branches lie over which leaf.
//!
//! A Merkle Patricia trie over n random keys has full branches of 16 children near its root, and a fringe of sparse ones from which
//! the leaves hang. Here the fringe has three leaves to a branch, which gives as many branches per leaf as random keys do, and it lies
//! on two neighbouring depths, as many branches on each as it takes to hold all leaves. Some branches of the fringe
//! hang from an extension, because all of their leaves share one more nibble.

use assay_protocol::LEAVES_PER_BRANCH;

use super::super::mix;

/// One in so many branches of the fringe has an extension over it: the chance that keys share a nibble.
const EXTENSION_ONE_IN: u64 = 16;
/// Nibbles from one leaf below a branch to the next.
pub const CHILD_STEP: u64 = 5;
/// Odd, so that multiplying by it permutes the numbers below any power of two: neighbours in number lie far apart in the trie.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The shape of the trie over a number of leaves.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Depth of the fringe's upper part.
    depth: u32,
    /// Positions at that depth that hold a full branch, with the fringe below it.
    split: u64,
    /// Branches of the fringe.
    fringe: u64,
}

/// Where a leaf hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Nibbles from the root to the leaf, the last in the lowest four bits.
    pub path: u64,
    /// How many they are.
    pub length: u32,
    /// Depth of the extension over the leaf's branch.
    pub extension: Option<u32>,
    /// Nibble of the first leaf below its branch; the others follow in steps of [`CHILD_STEP`].
    pub first_child: u8,
    /// Whether it is that first leaf.
    pub is_first: bool,
}

/// A node over a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 16 children.
    Full,
    /// A branch of the fringe, with the first of its children.
    Sparse {
        first_child: u8,
    },
    Extension,
}

impl Shape {
    pub fn of(leaves: u64) -> Self {
        let wanted = (leaves / LEAVES_PER_BRANCH).max(1);
        let depth = wanted.ilog2() / 4;
        let positions = 1 << (4 * depth);
        // A position that is split holds 16 branches of the fringe instead of one.
        let split = (wanted - positions) / 15;
        Self { depth, split, fringe: positions + 15 * split }
    }

    /// The place of a leaf.
    pub fn place(&self, trie: u64, leaf: u64) -> Place {
        let (branch, child) = (leaf % self.fringe, leaf / self.fringe);
        let scatter = |position: u64| position.wrapping_mul(SCATTER) & ((1 << (4 * self.depth)) - 1);
        let (path, length) = if branch < 16 * self.split {
            ((scatter(branch / 16) << 4) | (branch % 16), self.depth + 1)
        } else {
            (scatter(branch - 15 * self.split), self.depth)
        };
        let hash = mix(&[trie, path]);
        let (path, length, extension) = if hash.is_multiple_of(EXTENSION_ONE_IN) {
            (path << 4 | (hash >> 4 & 15), length + 1, Some(length))
        } else {
            (path, length, None)
        };
        let first_child = hash >> 8 & 15;
        let path = (path << 4) | ((first_child + CHILD_STEP * child) % 16);
        Place { path, length: length + 1, extension, first_child: first_child as u8, is_first: child == 0 }
    }
}

impl Place {
    /// The node of this depth on the way from the root to the leaf.
    pub fn node(&self, depth: u32) -> Kind {
        if self.extension == Some(depth) {
            Kind::Extension
        } else if depth + 1 == self.length {
            Kind::Sparse { first_child: self.first_child }
        } else {
            Kind::Full
        }
    }

    /// The nibbles from the root to the node of this depth.
    pub fn prefix(&self, depth: u32) -> u64 {
        self.path >> (4 * (self.length - depth))
    }

    /// The depths of the nodes that are loaded along with this leaf, so that every node is loaded once: a branch of the fringe with its first
    /// leaf, a full branch with the first leaf of the first branch below it.
    pub fn loads(&self) -> impl Iterator<Item = u32> {
        let fringe = self.extension.unwrap_or(self.length - 1);
        let whole = (0..fringe)
            .rev()
            .take_while(move |depth| self.prefix(fringe) & ((1_u64 << (4 * (fringe - depth))) - 1) == 0);
        (fringe..self.length).chain(whole).filter(move |_| self.is_first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_leaf_has_a_place_and_every_node_is_loaded_once() {
        for leaves in [3, 48, 768, 1000, 5000, 12_345] {
            let shape = Shape::of(leaves);
            let (mut paths, mut loaded, mut needed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            for leaf in 0..leaves {
                let place = shape.place(1, leaf);
                assert!(paths.insert((place.length, place.path)), "two leaves of {leaves} at {place:?}");
                for depth in place.loads() {
                    assert!(loaded.insert((depth, place.prefix(depth))), "loaded twice: {depth} of {place:?}");
                }
                needed.extend((0..place.length).map(|depth| (depth, place.prefix(depth))));
            }
            assert_eq!(loaded, needed, "{leaves} leaves");
            // No leaf where a branch is: the tries are real ones.
            assert!(paths.is_disjoint(&needed), "{leaves} leaves");
            let per_leaf = needed.len() as f64 / leaves as f64;
            assert!((0.3..0.43).contains(&per_leaf), "{per_leaf} nodes over each of {leaves} leaves");
        }
    }
}
