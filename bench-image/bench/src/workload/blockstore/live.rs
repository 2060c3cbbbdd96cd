//! A slot that is being inserted: what the database holds of its metadata.

use super::{
    super::{Action, Bytes, Step},
    encoding::{
        ERASURE_META_BYTES, INDEX_BYTES, MAP_BYTES, MERKLE_ROOT_META_BYTES, META_BYTES, Values, merkle_root_key,
        shred_key, slot_key,
    },
    family,
    shreds::{SET, Shred},
};

/// Which shreds of one kind are there.
#[derive(Clone)]
struct Map {
    bits: Box<[u8]>,
    count: u64,
}

impl Map {
    fn new() -> Self {
        Self { bits: vec![0; MAP_BYTES].into(), count: 0 }
    }

    fn clear(&mut self) {
        self.bits.fill(0);
        self.count = 0;
    }

    fn set(&mut self, index: u64) {
        self.bits[index as usize / 8] |= 1 << (index % 8);
        self.count += 1;
    }

    fn has(&self, index: u64) -> bool {
        self.bits.get(index as usize / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }
}

/// Which of its metas an FEC set has.
#[derive(Clone, Copy, Default)]
struct Metas {
    erasure: bool,
    merkle_root: bool,
}

/// A slot that may still get shreds.
pub struct Live {
    slot: u64,
    /// Data shreds of a whole slot.
    shreds: u64,
    data: Map,
    code: Map,
    /// Ends of FEC sets among the data shreds.
    ends: Map,
    /// Data shreds without a gap from the first on.
    consumed: u64,
    /// One more than the highest index of a data shred.
    received: u64,
    metas: Vec<Metas>,
    /// FEC sets of the batch that is being made.
    touched: Vec<u64>,
    /// Shreds that arrive with the thread's next slot, and with the one after it.
    pub late: [Vec<Shred>; 2],
}

impl Live {
    pub fn new(shreds: u64) -> Self {
        Self {
            slot: 0,
            shreds,
            data: Map::new(),
            code: Map::new(),
            ends: Map::new(),
            consumed: 0,
            received: 0,
            metas: vec![Metas::default(); shreds.div_ceil(SET) as usize],
            touched: Vec::new(),
            late: [Vec::new(), Vec::new()],
        }
    }

    /// Becomes a slot of which nothing is there yet.
    pub fn begin(&mut self, slot: u64) {
        self.slot = slot;
        for map in [&mut self.data, &mut self.code, &mut self.ends] {
            map.clear();
        }
        (self.consumed, self.received) = (0, 0);
        self.metas.fill(Metas::default());
        self.late.iter_mut().for_each(Vec::clear);
    }

    /// Becomes a slot of which all data shreds are there.
    pub fn complete(&mut self) {
        (self.consumed, self.received) = (self.shreds, self.shreds);
    }

    /// Reads the metadata that the shreds change, as they are before it.
    pub fn look_up(&mut self, shreds: &[Shred], place: u64, out: &mut Step) {
        self.look_up_meta(place, out);
        let begins = out.put(|out| self.index_begins(out));
        out.push(place, family::INDEX, &slot_key(self.slot), Action::Get { length: INDEX_BYTES, begins });
        self.touch(shreds);
        for &set in &self.touched {
            let begins = out.put(|out| out.extend_from_slice(&set.to_le_bytes()));
            let get = Action::Get { length: ERASURE_META_BYTES, begins };
            out.push(place, family::ERASURE_META, &shred_key(self.slot, set), get);
            let get = Action::Get { length: MERKLE_ROOT_META_BYTES, begins: Bytes::default() };
            out.push(place, family::MERKLE_ROOT_META, &merkle_root_key(self.slot, set), get);
        }
    }

    /// Reads how far the slot is.
    pub fn look_up_meta(&self, place: u64, out: &mut Step) {
        let begins = out.put(|out| self.meta_begins(out));
        out.push(place, family::META, &slot_key(self.slot), Action::Get { length: META_BYTES, begins });
    }

    /// Writes the shreds and all metadata that they change.
    pub fn insert(&mut self, shreds: &[Shred], values: Values, place: u64, out: &mut Step) {
        for &shred in shreds {
            let value = out.put(|out| values.shred(self.slot, shred, out));
            let family = if shred.code { family::CODE_SHRED } else { family::DATA_SHRED };
            out.push(place, family, &shred_key(self.slot, shred.index), Action::Put { value });
            self.note_metas(shred, values, place, out);
            if shred.code {
                self.code.set(shred.index);
            } else {
                self.data.set(shred.index);
                self.received = self.received.max(shred.index + 1);
                if shred.index + 1 == self.end_of(shred.set()) {
                    self.ends.set(shred.index);
                }
            }
        }
        while self.data.has(self.consumed) {
            self.consumed += 1;
        }
        let value = out.put(|out| self.write_index(out));
        out.push(place, family::INDEX, &slot_key(self.slot), Action::Put { value });
        let value = out.put(|out| self.write_meta(out));
        out.push(place, family::META, &slot_key(self.slot), Action::Put { value });
    }

    /// The first shred of a set brings its Merkle root, the first coding shred its erasure config.
    fn note_metas(&mut self, shred: Shred, values: Values, place: u64, out: &mut Step) {
        let set = shred.set();
        let size = self.end_of(set) - set;
        let metas = &mut self.metas[(set / SET) as usize];
        if !metas.merkle_root {
            metas.merkle_root = true;
            let value = out.put(|out| values.merkle_root_meta(self.slot, set, shred, out));
            out.push(place, family::MERKLE_ROOT_META, &merkle_root_key(self.slot, set), Action::Put { value });
        }
        if shred.code && !metas.erasure {
            metas.erasure = true;
            let value = out.put(|out| Values::erasure_meta(set, shred, size, out));
            out.push(place, family::ERASURE_META, &shred_key(self.slot, set), Action::Put { value });
        }
    }

    /// One more than the last index of an FEC set.
    fn end_of(&self, set: u64) -> u64 {
        (set + SET).min(self.shreds)
    }

    fn touch(&mut self, shreds: &[Shred]) {
        self.touched.clear();
        self.touched.extend(shreds.iter().map(|shred| shred.set()));
        self.touched.sort_unstable();
        self.touched.dedup();
    }

    fn index_begins(&self, out: &mut Vec<u8>) {
        words(&[self.slot, self.data.count], out);
    }

    fn write_index(&self, out: &mut Vec<u8>) {
        self.index_begins(out);
        out.extend_from_slice(&self.data.bits);
        words(&[self.code.count], out);
        out.extend_from_slice(&self.code.bits);
    }

    fn meta_begins(&self, out: &mut Vec<u8>) {
        words(&[self.slot, self.consumed, self.received], out);
    }

    fn write_meta(&self, out: &mut Vec<u8>) {
        self.meta_begins(out);
        let time = self.slot * 400;
        words(&[time, self.shreds - 1, self.slot.saturating_sub(1), 1, self.slot + 1], out);
        out.push(0);
        out.extend_from_slice(&self.ends.bits);
    }
}

fn words(words: &[u64], out: &mut Vec<u8>) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}
