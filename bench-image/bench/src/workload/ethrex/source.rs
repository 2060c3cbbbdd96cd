//! Makes the steps, one for each block.

use super::super::{Action, Bytes, Step, StepSource, below, mix};
use super::changes::{Known, Past, Version, version};
use super::layers::Stamps;
use super::state::{Entry, Located};
use super::{EthrexWorkload, chain, push};

/// Marks the flat entry among an entry's records; the others are told by the depth of the node.
const FLAT: u32 = u32::MAX;

pub struct Source<'a> {
    workload: &'a EthrexWorkload,
    /// The nodes in the layers.
    layers: Stamps,
    /// The nodes that are in the batch.
    batch: Stamps,
    /// The last version of each hot entry: as the blocks have it, and as RocksDB has it.
    hot: HotVersions,
    hot_written: HotVersions,
    // Kept, so that a step allocates nothing.
    changed: Vec<Changed>,
    records: Vec<(u32, u32)>,
}

struct Changed {
    located: Located,
    is_there: bool,
}

/// The versions of hot accounts and hot slots.
struct HotVersions([Vec<Version>; 2]);

impl HotVersions {
    fn set(&mut self, entry: Entry, hot: usize, version: Version) -> Version {
        let kind = usize::from(matches!(entry, Entry::Slot { .. }));
        std::mem::replace(&mut self.0[kind][hot], version)
    }
}

impl<'a> Source<'a> {
    pub fn new(workload: &'a EthrexWorkload) -> Self {
        let content = workload.spec.content_of_block();
        // About three nodes to a change, and the layers share those near the root.
        let nodes = 3 * (content.accounts + content.slots);
        let hot = || HotVersions(workload.state.hot_entries().map(|entries| vec![0; entries]));
        Self {
            workload,
            layers: Stamps::new(nodes.saturating_mul(workload.spec.commit_depth)),
            batch: Stamps::new(2 * nodes),
            hot: hot(),
            hot_written: hot(),
            changed: Vec::new(),
            records: Vec::new(),
        }
    }

    fn is_in_layers(&self, version: Version, block: u64) -> bool {
        version > 0 && version + self.workload.spec.commit_depth > block
    }

    /// Reads what the block changes, with the ways through the tries, and what it only reads.
    fn read(&mut self, block: u64, out: &mut Step) {
        let EthrexWorkload { state, changes, .. } = self.workload;
        for (entry, known) in changes.read(state, block) {
            let Known::Cold(position) = known else { continue };
            let past = changes.past(entry, position, block);
            if !self.is_in_layers(past.version, block) {
                get_flat(&state.locate(entry), past.version, state.is_there(entry, position, past.changes), block, out);
            }
        }
        for (entry, known) in changes.changed(state, block) {
            let (past, is_there) = match known {
                Known::Cold(position) => {
                    let past = changes.past(entry, position, block);
                    (past, state.is_there(entry, position, past.changes))
                }
                Known::Hot(hot) => {
                    let before = self.hot.set(entry, hot, version(block));
                    if before == version(block) {
                        continue;
                    }
                    (Past { version: before, changes: 0 }, true)
                }
            };
            let located = state.locate(entry);
            let is_in_layers = self.is_in_layers(past.version, block);
            if !is_in_layers {
                get_flat(&located, past.version, is_there, block, out);
            }
            self.walk(&located, block, out);
            if is_there && !is_in_layers {
                let (begins, length) = located.leaf_begin(out, past.version);
                let key = located.keys.node(located.place.length);
                push(out, block, located.trie_family(), key, Action::Get { length, begins });
            }
        }
    }

    /// Reads the nodes over a leaf that neither this block has read nor the layers hold.
    fn walk(&mut self, located: &Located, block: u64, out: &mut Step) {
        let mut wanted = 0_u32;
        for depth in (0..located.place.length).rev() {
            let before = self.layers.touch(located.node(depth), version(block));
            if before == version(block) {
                break;
            }
            wanted |= u32::from(!self.is_in_layers(before, block)) << depth;
        }
        for depth in (0..located.place.length).filter(|depth| wanted >> depth & 1 == 1) {
            let (begins, length) = located.node_begin(out, depth);
            push(out, block, located.trie_family(), located.keys.node(depth), Action::Get { length, begins });
        }
    }

    /// Writes the state of a block that leaves the layers, in the order of a hash map's entries: none.
    fn write(&mut self, block: u64, now: u64, out: &mut Step) {
        let EthrexWorkload { state, changes, seed, .. } = self.workload;
        let version = version(block);
        self.changed.clear();
        self.records.clear();
        for (entry, known) in changes.changed(state, block) {
            let is_there = match known {
                Known::Cold(position) => {
                    state.is_there(entry, position, changes.past(entry, position, block).changes + 1)
                }
                Known::Hot(hot) => {
                    if self.hot_written.set(entry, hot, version) == version {
                        continue;
                    }
                    true
                }
            };
            let located = state.locate(entry);
            let (number, leaf) = (self.changed.len() as u32, located.place.length);
            self.records.extend([(number, FLAT), (number, leaf)]);
            for depth in (0..leaf).rev() {
                if self.batch.touch(located.node(depth), version) == version {
                    break;
                }
                self.records.push((number, depth));
            }
            self.changed.push(Changed { located, is_there });
        }
        for last in (1..self.records.len()).rev() {
            let tag = mix(&[*seed ^ block, last as u64]);
            self.records.swap(last, below(tag, last as u64 + 1) as usize);
        }
        for &(number, what) in &self.records {
            self.changed[number as usize].write(what, version, now, out);
        }
    }
}

impl Changed {
    fn write(&self, what: u32, version: Version, now: u64, out: &mut Step) {
        let Self { located, is_there } = self;
        let (family, key, value) = if what == FLAT {
            let value = is_there.then(|| located.put_flat(out, version));
            (located.flat_family(), located.keys.flat(), value)
        } else if what == located.place.length {
            let value = is_there.then(|| located.put_leaf(out, version));
            (located.trie_family(), located.keys.node(what), value)
        } else {
            (located.trie_family(), located.keys.node(what), Some(located.put_node(out, what, version)))
        };
        push(out, now, family, key, value.map_or(Action::Delete, |value| Action::Put { value }));
    }
}

fn get_flat(located: &Located, version: Version, is_there: bool, block: u64, out: &mut Step) {
    let (begins, length) = if is_there { located.flat_begin(out, version) } else { (Bytes::default(), 0) };
    push(out, block, located.flat_family(), located.keys.flat(), Action::Get { length, begins });
}

impl StepSource for Source<'_> {
    fn fill(&mut self, step: u64, out: &mut Step) {
        out.clear();
        self.read(step, out);
        let EthrexWorkload { spec, seed, .. } = self.workload;
        chain::put_block(out, *seed, step, spec.content_of_block().transactions);
        push(out, step, 0, b"", Action::Commit);
        if let Some(block) = step.checked_sub(spec.commit_depth) {
            self.write(block, step, out);
        }
    }
}
