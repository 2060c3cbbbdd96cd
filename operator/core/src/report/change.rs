//! What a config changes, with sizes as people read them. Plans keep the values as they were written: they are part of a plan's digest.

use assay_protocol::option_value;

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// `write_buffer_size: 67108864 -> 1048576` as `write_buffer_size: 64 MiB -> 1 MiB`. Whatever is no size stays as it is.
pub fn human(change: &str) -> String {
    let Some((name, values)) = change.split_once(": ") else { return change.to_owned() };
    let (values, families) = match values.split_once(" (column families ") {
        Some((values, families)) => (values, format!(" (column families {families}")),
        None => (values, String::new()),
    };
    let sides: Vec<String> = values.split(" -> ").map(|value| side(name, value)).collect();
    format!("{name}: {}{families}", sides.join(" -> "))
}

/// One value: a size, or a struct that may hold some.
fn side(name: &str, value: &str) -> String {
    if !value.contains('=') {
        return size(name, value).unwrap_or_else(|| value.to_owned());
    }
    let mut out = String::with_capacity(value.len());
    for part in value.split_inclusive(['{', '}', ';']) {
        let (text, end) = match part.char_indices().next_back() {
            Some((at, '{' | '}' | ';')) => part.split_at(at),
            _ => (part, ""),
        };
        match text.split_once('=').and_then(|(key, value)| Some((key, size(key, value)?))) {
            Some((key, size)) => out.extend([key, "=", &size]),
            None => out.push_str(text),
        }
        out.push_str(end);
    }
    out
}

/// A number of bytes with its unit, if this option counts bytes. A number that no unit divides keeps its digits.
fn size(name: &str, value: &str) -> Option<String> {
    let bytes = option_value::size(value).filter(|bytes| *bytes >= 1024 && counts_bytes(name))?;
    if let Some((unit, shift)) = UNITS.into_iter().find(|(_, shift)| bytes % (1 << shift) == 0) {
        return Some(format!("{} {unit}", bytes >> shift));
    }
    Some(format!("{bytes} B"))
}

/// By its name: RocksDB's options of bytes are called so, and a few are not.
fn counts_bytes(name: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or(name).trim();
    let is_ratio = ["multiplier", "ratio", "deviation", "percent"].iter().any(|word| name.contains(word));
    let is_size = name.ends_with("size") || name.contains("_size_") || name.contains("bytes");
    !is_ratio && (is_size || name == "delayed_write_rate")
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn sizes_have_their_unit() {
        for (written, read) in [
            ("write_buffer_size: 67108864 -> 1048576", "write_buffer_size: 64 MiB -> 1 MiB"),
            ("write_buffer_size: 64M -> 1G", "write_buffer_size: 64 MiB -> 1 GiB"),
            (
                "target_file_size_base: RocksDB's default -> 8388608",
                "target_file_size_base: RocksDB's default -> 8 MiB",
            ),
            ("db_write_buffer_size: 0 -> 67000000", "db_write_buffer_size: 0 -> 67000000 B"),
            (
                "bytes_per_sync: 0 -> 1536K (column families a, b)",
                "bytes_per_sync: 0 -> 1536 KiB (column families a, b)",
            ),
            (
                "block_based_table_factory: {block_size=4096;format_version=5} -> {block_size=16384;format_version=5}",
                "block_based_table_factory: {block_size=4 KiB;format_version=5} -> {block_size=16 KiB;format_version=5}",
            ),
            (
                "block_based_table_factory.metadata_block_size: 4096 -> 8192",
                "block_based_table_factory.metadata_block_size: 4 KiB -> 8 KiB",
            ),
            (
                "compaction_options_fifo: RocksDB's default -> {max_table_files_size=1073741824}",
                "compaction_options_fifo: RocksDB's default -> {max_table_files_size=1 GiB}",
            ),
        ] {
            assert_eq!(human(written), read);
        }
    }

    #[test]
    fn what_is_no_size_stays_as_it_is() {
        for text in [
            "max_background_jobs: 2 -> 4096",
            "max_bytes_for_level_multiplier: 10 -> 2048",
            "memtable_prefix_bloom_size_ratio: 0 -> 0.1",
            "level_compaction_dynamic_level_bytes: true -> false",
            "max_total_wal_size: -1 -> 0",
            "compression: kSnappyCompression -> kLZ4Compression",
            "block cache: 1 GiB shared -> 1 KiB for each column family",
            "image: registry.example/bench@sha256:00",
            "policy retention: unset -> fifo",
            "odd",
        ] {
            assert_eq!(human(text), text);
        }
    }
}
