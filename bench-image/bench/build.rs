//! Keeps how RocksDB was compiled, so that every record can name it.

use std::{env, fs, path::Path};

fn main() {
    println!("cargo::rerun-if-env-changed=ROCKSDB_LIB_DIR");
    let info = env::var_os("ROCKSDB_LIB_DIR")
        .and_then(|dir| {
            let path = Path::new(&dir).join("build-info");
            println!("cargo::rerun-if-changed={}", path.display());
            fs::read_to_string(path).ok()
        })
        .map_or_else(
            || "compiled by cargo with default flags".to_owned(),
            |text| text.lines().collect::<Vec<_>>().join("; "),
        );
    println!("cargo::rustc-env=ASSAY_ROCKSDB_BUILD={info}");
    // RocksDB's version is the part of the -sys crate's version after the plus sign; only the lock file knows it.
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let lock = fs::read_to_string("../../Cargo.lock").unwrap_or_default();
    let version = lock
        .split("name = \"librocksdb-sys\"")
        .nth(1)
        .and_then(|rest| rest.split('"').nth(1))
        .and_then(|version| version.split_once('+'))
        .map_or("unknown", |(_, rocksdb)| rocksdb);
    println!("cargo::rustc-env=ASSAY_ROCKSDB_VERSION={version}");
}
