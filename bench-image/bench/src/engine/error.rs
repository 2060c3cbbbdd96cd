use std::path::Path;

/// Why RocksDB, or the disk below it, doesn't do what it should.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("RocksDB rejects {scope}: {message}")]
    Options { scope: String, message: String },
    #[error("RocksDB can't open {path}: {message}")]
    Open { path: String, message: String },
    #[error("RocksDB: {0}")]
    Call(#[from] rocksdb::Error),
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
}

impl EngineError {
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::Io { path: path.display().to_string(), source }
    }
}
