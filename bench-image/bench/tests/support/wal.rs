//! What RocksDB has written to its WAL, batch by batch.
//!
//! A trial removes its files, but RocksDB moves a WAL that it needs no more to an archive if it is told to, and the archive can be
//! elsewhere. Users can't: `wal_dir` is refused when an experiment is validated.

use std::{collections::BTreeMap, fs, path::Path};

use assay_protocol::EngineConfig;

/// One write of a key.
#[derive(Debug)]
pub struct Put {
    /// In the order in which the workload names its families, from 1 on.
    pub family: u32,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Makes RocksDB keep the WAL below `dir`.
pub fn keep(config: &mut EngineConfig, dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let options = [("wal_dir", dir.display().to_string()), ("WAL_ttl_seconds", "3600".to_owned())];
    config.db_options.extend(BTreeMap::from(options.map(|(name, value)| (name.to_owned(), value))));
}

/// All batches that were kept, in the order of writing.
pub fn read(dir: &Path) -> Vec<Vec<Put>> {
    let mut files: Vec<_> = [dir.join("archive"), dir.to_owned()]
        .iter()
        .flat_map(|dir| super::entries(dir))
        .filter(|file| file.is_file())
        .collect();
    files.sort_by_key(|file| file.file_name().map(ToOwned::to_owned));
    files.iter().flat_map(|file| records(&fs::read(file).unwrap())).map(|record| batch(&record)).collect()
}

/// Records lie in blocks of 32 KiB, in pieces where they don't fit.
fn records(file: &[u8]) -> Vec<Vec<u8>> {
    const HEADER: usize = 7;
    const RECYCLABLE_HEADER: usize = 11;
    let (mut records, mut record) = (Vec::new(), Vec::new());
    for mut rest in file.chunks(32 << 10) {
        while rest.len() >= HEADER {
            let (length, kind) = (usize::from(u16::from_le_bytes([rest[4], rest[5]])), rest[6]);
            let (header, piece) = match kind {
                1..=4 => (HEADER, kind),
                5..=8 => (RECYCLABLE_HEADER, kind - 4),
                0 => break,
                other => panic!("a piece of type {other}"),
            };
            record.extend_from_slice(&rest[header..header + length]);
            rest = &rest[header + length..];
            if piece == 1 || piece == 4 {
                records.push(std::mem::take(&mut record));
            }
        }
    }
    records
}

fn batch(record: &[u8]) -> Vec<Put> {
    // Sequence number and count.
    let mut rest = &record[12..];
    let mut puts = Vec::new();
    while let Some((tag, after)) = rest.split_first() {
        rest = after;
        let family = match tag {
            1 => 0,
            5 => varint(&mut rest),
            other => panic!("an operation of type {other}"),
        };
        let (key, value) = (slice(&mut rest), slice(&mut rest));
        puts.push(Put { family, key, value });
    }
    puts
}

fn varint(rest: &mut &[u8]) -> u32 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, after) = rest.split_first().unwrap();
        *rest = after;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

fn slice(rest: &mut &[u8]) -> Vec<u8> {
    let length = varint(rest) as usize;
    let (slice, after) = rest.split_at(length);
    *rest = after;
    slice.to_vec()
}
