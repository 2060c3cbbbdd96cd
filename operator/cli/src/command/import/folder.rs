//! The folder of a database that may be in use: read once, never opened, never changed.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use assay_core::adopt::{Database, InfoLog};

use crate::command::init::options_file;

/// The longest line of a LOG that is worth reading.
const LONGEST_LINE: u64 = 1 << 20;

pub fn read(dir: &Path) -> anyhow::Result<Database> {
    let shown = dir.display();
    let folder = fs::metadata(dir).with_context(|| format!("can't read {shown}"))?;
    if !folder.is_dir() {
        bail!("{shown} is not a folder; for a single OPTIONS file use `assay init --from-options {shown}`");
    }
    let newest = newest(dir)?;
    let options = match options_file(&newest) {
        // A database that is in use has just replaced it.
        Err(_) if !newest.exists() => options_file(&self::newest(dir)?)?,
        read => read?,
    };
    let (sst_files, sst_bytes) = ssts(dir).with_context(|| format!("can't read {shown}"))?;
    Ok(Database {
        folder: shown.to_string(),
        options_name: newest.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        options,
        log: log(&dir.join("LOG"))?,
        sst_files,
        sst_bytes,
    })
}

/// The OPTIONS file with the largest number. One that is being written has another name.
fn newest(dir: &Path) -> anyhow::Result<PathBuf> {
    let mut newest = None;
    for entry in fs::read_dir(dir).with_context(|| format!("can't read {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("OPTIONS-")).and_then(|n| n.parse::<u64>().ok());
        newest = newest.max(number.map(|number| (number, entry.path())));
    }
    match newest {
        Some((_, path)) => Ok(path),
        None => bail!(
            "{} has no OPTIONS file: is it the folder of a RocksDB database? Such a folder has CURRENT, MANIFEST-... and OPTIONS-...",
            dir.display()
        ),
    }
}

/// How many SST files there are, and their bytes.
fn ssts(dir: &Path) -> io::Result<(usize, u64)> {
    let (mut files, mut bytes) = (0, 0_u64);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "sst") {
            // A compaction may have just removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            files += 1;
            bytes = bytes.saturating_add(metadata.len());
        }
    }
    Ok((files, bytes))
}

/// The LOG as it is now: what is appended meanwhile is not waited for.
fn log(path: &Path) -> anyhow::Result<Option<InfoLog>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.with_context(|| format!("can't read {}", path.display()))?,
    };
    let failed = || format!("can't read {}", path.display());
    let length = file.metadata().with_context(failed)?.len();
    let mut reader = BufReader::new(file.take(length));
    let mut log = InfoLog::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).with_context(failed)? == 0 {
            return Ok(Some(log));
        }
        log.line(String::from_utf8_lossy(&line).trim_end());
    }
}
