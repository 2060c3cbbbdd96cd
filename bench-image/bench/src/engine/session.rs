//! The calls of a trial. They stand between a workload's operations and RocksDB in the time that is measured, so they are inlined, and
//! decide and allocate nothing beside the batches that are asked for.

use std::{
    ops::Deref,
    sync::atomic::{AtomicBool, Ordering},
};

use assay_protocol::WriteOptions;
use rocksdb::{ColumnFamily, DB, ReadOptions, WriteBatch};

use super::{
    CallParts, Engine, EngineError, Family,
    call_timer::{Call, CallTimer},
};

/// Column families by the numbers that operations have for them.
pub struct Families<'e> {
    db: &'e DB,
    handles: Vec<&'e ColumnFamily>,
    times_compression: &'e AtomicBool,
}

/// Writes that take effect together.
pub struct Batch<'f> {
    handles: &'f [&'f ColumnFamily],
    writes: WriteBatch,
}

/// The calls of one thread, some of which are timed.
pub struct Session<'f> {
    db: &'f DB,
    handles: &'f [&'f ColumnFamily],
    write_options: rocksdb::WriteOptions,
    read_options: ReadOptions,
    timer: CallTimer,
    times_compression: &'f AtomicBool,
    /// It did when this was last looked at.
    timed_compression: bool,
}

/// Everything sorts above it.
const LOWEST: &[u8] = &[];

impl Engine {
    /// The families in the order in which a workload numbers them.
    pub fn numbered(&self, families: &[Family]) -> Result<Families<'_>, EngineError> {
        let handles = families.iter().map(|family| self.handle(&family.name)).collect::<Result<_, _>>()?;
        Ok(Families { db: &self.db, handles, times_compression: &self.times_compression })
    }

    /// Writes a part of a dataset, which is made anew where its making is interrupted: without the WAL.
    pub fn load(&self, batch: Batch<'_>) -> Result<(), EngineError> {
        let options = with(WriteOptions { sync: false, disable_wal: true });
        Ok(self.db.write_opt(batch.writes, &options)?)
    }
}

impl Families<'_> {
    /// A batch that has room for so many bytes at once.
    #[inline]
    pub fn batch(&self, bytes: usize) -> Batch<'_> {
        Batch { handles: &self.handles, writes: WriteBatch::with_capacity_bytes(bytes) }
    }
}

impl Batch<'_> {
    #[inline]
    pub fn put(&mut self, family: u16, key: &[u8], value: &[u8]) {
        self.writes.put_cf(self.handles[usize::from(family)], key, value);
    }

    #[inline]
    pub fn delete(&mut self, family: u16, key: &[u8]) {
        self.writes.delete_cf(self.handles[usize::from(family)], key);
    }

    #[inline]
    pub fn merge(&mut self, family: u16, key: &[u8], operand: &[u8]) {
        self.writes.merge_cf(self.handles[usize::from(family)], key, operand);
    }
}

impl<'f> Session<'f> {
    pub fn new(families: &'f Families<'_>, write_options: WriteOptions) -> Self {
        Self {
            db: families.db,
            handles: &families.handles,
            write_options: with(write_options),
            read_options: ReadOptions::default(),
            timer: CallTimer::default(),
            times_compression: families.times_compression,
            timed_compression: false,
        }
    }

    /// What the calls took, since the first one or since it was told to begin anew.
    pub fn calls(&self) -> CallParts {
        self.timer.parts
    }

    /// Whether a call was timed in its parts since this was last asked, or compression was timed at either end.
    #[inline]
    pub fn was_timed(&mut self) -> bool {
        let now = self.times_compression.load(Ordering::Relaxed);
        let before = std::mem::replace(&mut self.timed_compression, now);
        std::mem::take(&mut self.timer.is_touched) || before || now
    }

    /// Forgets the calls up to now.
    pub fn begin_anew(&mut self) {
        self.timer = CallTimer::default();
    }

    #[inline]
    pub fn put(&mut self, family: u16, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let handle = self.handles[usize::from(family)];
        let running = self.timer.begin(Call::Write(1));
        self.db.put_cf_opt(handle, key, value, &self.write_options)?;
        self.timer.end(running);
        Ok(())
    }

    #[inline]
    pub fn delete(&mut self, family: u16, key: &[u8]) -> Result<(), EngineError> {
        let handle = self.handles[usize::from(family)];
        let running = self.timer.begin(Call::Write(1));
        self.db.delete_cf_opt(handle, key, &self.write_options)?;
        self.timer.end(running);
        Ok(())
    }

    /// The value of a key. It stays where RocksDB has it.
    #[inline]
    pub fn get(&mut self, family: u16, key: &[u8]) -> Result<Option<impl Deref<Target = [u8]> + use<'f>>, EngineError> {
        let handle = self.handles[usize::from(family)];
        let running = self.timer.begin(Call::Get);
        let found = self.db.get_pinned_cf_opt(handle, key, &self.read_options)?;
        self.timer.end(running);
        Ok(found)
    }

    /// Seeks to a key and hands over that many entries from there on, if there are.
    #[inline]
    pub fn scan(
        &mut self,
        family: u16,
        key: &[u8],
        entries: u32,
        mut take: impl FnMut(u64, &[u8], &[u8]),
    ) -> Result<(), EngineError> {
        let handle = self.handles[usize::from(family)];
        let running = self.timer.begin(Call::Scan);
        let mut iterator = self.db.raw_iterator_cf_opt(handle, ReadOptions::default());
        iterator.seek(key);
        for rank in 0..u64::from(entries) {
            let Some((key, value)) = iterator.item() else { break };
            take(rank, key, value);
            iterator.next();
        }
        iterator.status()?;
        self.timer.end(running);
        Ok(())
    }

    /// A batch that has room for so many bytes at once.
    #[inline]
    pub fn batch(&self, bytes: usize) -> Batch<'f> {
        Batch { handles: self.handles, writes: WriteBatch::with_capacity_bytes(bytes) }
    }

    #[inline]
    pub fn write(&mut self, batch: Batch<'_>) -> Result<(), EngineError> {
        let running = self.timer.begin(Call::Write(batch.writes.len() as u64));
        self.db.write_opt(batch.writes, &self.write_options)?;
        self.timer.end(running);
        Ok(())
    }

    /// Removes everything below keys by range deletes, then the files that hold nothing else.
    pub fn delete_below<'k>(&self, keys: impl Iterator<Item = (u16, &'k [u8])> + Clone) -> Result<(), EngineError> {
        let mut batch = WriteBatch::default();
        for (family, key) in keys.clone() {
            batch.delete_range_cf(self.handles[usize::from(family)], LOWEST, key);
        }
        self.db.write_opt(batch, &self.write_options)?;
        for (family, key) in keys {
            self.db.delete_file_in_range_cf(self.handles[usize::from(family)], LOWEST, key)?;
        }
        Ok(())
    }

    /// Compacts everything below a key now.
    pub fn compact_below(&self, family: u16, key: &[u8]) {
        self.db.compact_range_cf(self.handles[usize::from(family)], None::<&[u8]>, Some(key));
    }
}

fn with(options: WriteOptions) -> rocksdb::WriteOptions {
    let mut write_options = rocksdb::WriteOptions::default();
    write_options.set_sync(options.sync);
    write_options.disable_wal(options.disable_wal);
    write_options
}
