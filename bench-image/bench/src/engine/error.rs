use std::{
    io::{self, ErrorKind},
    path::Path,
};

/// Why RocksDB, or the disk below it, doesn't do what it should.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("RocksDB rejects {scope}: {message}")]
    Options { scope: String, message: String },
    #[error("RocksDB can't open {path}: {status}")]
    Open { path: String, status: rocksdb::Error },
    #[error("RocksDB: {0}")]
    Call(#[from] rocksdb::Error),
    /// A flush or compaction failed, whether or not a later one succeeded: the status in RocksDB's LOG.
    #[error("a flush or compaction failed: {}", .0.as_deref().unwrap_or("RocksDB's LOG does not say why"))]
    Background(Option<String>),
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
}

/// What is at fault, by the code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// RocksDB takes these options for no database, or not for this one.
    Refused,
    DiskFull,
    /// A system call failed, or the cause is unknown.
    Machine,
    Corruption,
    /// Any other status.
    Engine,
}

impl EngineError {
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.display().to_string(), source }
    }

    pub fn fault(&self) -> Fault {
        match self {
            Self::Options { .. } => Fault::Refused,
            Self::Io { source, .. } if source.kind() == ErrorKind::StorageFull => Fault::DiskFull,
            Self::Io { .. } | Self::Background(None) => Fault::Machine,
            Self::Open { status, .. } => fault(status.as_ref()),
            Self::Background(Some(status)) => of_a_call(status),
            Self::Call(status) => of_a_call(status.as_ref()),
        }
    }
}

/// The options were taken when the database was opened.
fn of_a_call(status: &str) -> Fault {
    match fault(status) {
        Fault::Refused => Fault::Engine,
        other => other,
    }
}

/// Reads the code from the text of a status: the only place that does.
///
/// RocksDB's C API has no status but this text (`SaveError` in `db/c.cc`). It withholds code, subcode, severity, `errno` and whether
/// trying again could help. The text begins with the code's name and, if it has one, the subcode's, as `util/status.cc` spells them;
/// `rocksdb::Error::kind` reads the same first words, but not from a LOG. What follows is prose with file names and other statuses in
/// it, so it is never searched.
fn fault(status: &str) -> Fault {
    let (code, rest) = status.split_once(": ").unwrap_or((status, ""));
    match code {
        "Invalid argument" => Fault::Refused,
        "Corruption" => Fault::Corruption,
        "IO error" if rest.starts_with("No space left on device") => Fault::DiskFull,
        "IO error" => Fault::Machine,
        _ => Fault::Engine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_decides() {
        for (status, expected) in [
            ("Corruption: block checksum mismatch", Fault::Corruption),
            ("Corruption: Can't access /000012.sst: IO error: No space left on device: x", Fault::Corruption),
            (
                "IO error: No space left on device: While appending to file: x.log: No space left on device",
                Fault::DiskFull,
            ),
            ("IO error: No such file or directory: While mkdir: /No space left on device: x", Fault::Machine),
            ("IO error: While open a file for random read: /x: Invalid argument", Fault::Machine),
            ("IO error: While open a file for appending: /Corruption: 1.log: Read-only file system", Fault::Machine),
            ("Invalid argument: Column families not opened: Corruption: a", Fault::Refused),
            ("Operation aborted: Memory limit reached: Insert failed", Fault::Engine),
            ("Result incomplete: Write stall", Fault::Engine),
            ("", Fault::Engine),
        ] {
            assert_eq!(fault(status), expected, "{status}");
            let of_a_call = if expected == Fault::Refused { Fault::Engine } else { expected };
            assert_eq!(EngineError::Background(Some(status.to_owned())).fault(), of_a_call, "{status}");
        }
        assert_eq!(EngineError::Background(None).fault(), Fault::Machine);
        let errno = |number| EngineError::io(Path::new("x"))(io::Error::from_raw_os_error(number)).fault();
        assert_eq!((errno(28), errno(30)), (Fault::DiskFull, Fault::Machine));
    }
}
