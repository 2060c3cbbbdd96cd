//! Datasets: prepared once per storage format, cloned for every trial.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use assay_protocol::{DatasetFacts, Digest, EngineConfig, PageCache, ParityHash, TrialSpec};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::{
    engine::{Engine, EngineError, Properties as _},
    load::Loader,
    workload::{Step, Workload},
};

/// A prepared dataset. Its files are never opened again, only linked.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub dir: PathBuf,
    pub facts: DatasetFacts,
}

/// Reports steps of long work: done, total.
pub type Report<'a> = &'a mut dyn FnMut(u64, u64);

/// Where the dataset of a spec is, with the digest of its format.
fn place(data_dir: &Path, spec: &TrialSpec, workload: &dyn Workload) -> Result<(PathBuf, Digest), EngineError> {
    let format = Digest::of_json(&(&spec.dataset.format, env!("ASSAY_ROCKSDB_BUILD")))
        .map_err(|error| EngineError::Io { path: data_dir.display().to_string(), source: error.into() })?;
    Ok((data_dir.join("datasets").join(format!("{}-{format}", workload.content())), format))
}

fn facts(dir: &Path) -> Option<DatasetFacts> {
    // RocksDB makes an empty database where it finds neither CURRENT nor a WAL, as after half a removal.
    if !dir.join("db").join("CURRENT").is_file() {
        return None;
    }
    let facts: DatasetFacts = serde_json::from_slice(&fs::read(dir.join("dataset.json")).ok()?).ok()?;
    // An older bench, which did not count these, prepared it.
    facts.logical_bytes.is_some().then_some(facts)
}

pub fn is_prepared(data_dir: &Path, spec: &TrialSpec, workload: &dyn Workload) -> bool {
    place(data_dir, spec, workload).is_ok_and(|(dir, _)| facts(&dir).is_some())
}

/// The dataset of a spec, prepared now if it isn't there yet.
pub fn prepare(
    data_dir: &Path,
    spec: &TrialSpec,
    workload: &dyn Workload,
    report: Report<'_>,
) -> Result<Dataset, EngineError> {
    let (dir, format) = place(data_dir, spec, workload)?;
    let facts_file = dir.join("dataset.json");
    if let Some(facts) = facts(&dir) {
        return Ok(Dataset { dir: dir.join("db"), facts });
    }
    // What an interrupted preparation left has no facts file, and is made again.
    remove(&dir)?;
    fs::create_dir_all(&dir).map_err(EngineError::io(&dir))?;
    let build_dir = dir.join("build");
    let facts = build(&build_dir, &dir.join("db"), &spec.dataset.format, format, workload, report)?;
    remove(&build_dir)?;
    let json = serde_json::to_vec(&facts).unwrap_or_default();
    let unfinished = dir.join("dataset.json.new");
    fs::write(&unfinished, json).map_err(EngineError::io(&unfinished))?;
    fs::rename(&unfinished, &facts_file).map_err(EngineError::io(&facts_file))?;
    Ok(Dataset { dir: dir.join("db"), facts })
}

/// Reads a whole dataset under the options that it was made with.
pub fn check(data_dir: &Path, spec: &TrialSpec, workload: &dyn Workload) -> Result<(), EngineError> {
    let (dir, _) = place(data_dir, spec, workload)?;
    let copy = data_dir.join("check");
    let read = || {
        clone_to(&dir.join("db"), &copy)?;
        let format = &spec.dataset.format;
        let engine = Engine::open(&copy, format, &workload.families(format), spec.page_cache)?;
        engine.families().iter().try_for_each(|family| engine.keys(family)?.try_for_each(|key| key.map(drop)))
    };
    let result = read();
    remove(&copy)?;
    result
}

/// Removes a dataset, which is then prepared again.
pub fn discard(data_dir: &Path, spec: &TrialSpec, workload: &dyn Workload) -> Result<(), EngineError> {
    remove(&place(data_dir, spec, workload)?.0)
}

fn build(
    build_dir: &Path,
    checkpoint_dir: &Path,
    format: &EngineConfig,
    format_digest: Digest,
    workload: &dyn Workload,
    report: Report<'_>,
) -> Result<DatasetFacts, EngineError> {
    let families = workload.families(format);
    let mut loader = Loader::open(build_dir, format, &families)?;
    let (mut step, mut content, mut entries, mut bytes) = (Step::default(), ParityHash::default(), 0, 0);
    let total = workload.load_steps();
    for number in 0..total {
        workload.load(number, &mut step);
        entries += loader.write(&step)?;
        bytes += step.written();
        content.merge(step.parity);
        report(number + 1, total);
    }
    let engine = loader.finish()?;
    let levels = levels(&engine);
    engine.checkpoint(checkpoint_dir)?;
    Ok(DatasetFacts {
        content: Digest::of(format!("{} {}", workload.content(), content.digest()).as_bytes()),
        format: format_digest,
        entries,
        // No key is loaded twice.
        logical_bytes: Some(bytes),
        sst_bytes: engine.sum("rocksdb.live-sst-files-size").unwrap_or_default(),
        files_by_level: levels,
    })
}

/// Number of files on each level, over all families. They may differ in their number of levels.
fn levels(engine: &Engine) -> Vec<u64> {
    let mut levels = Vec::new();
    for family in engine.families() {
        let files = engine.files_by_level(family);
        levels.resize(levels.len().max(files.len()), 0);
        levels.iter_mut().zip(files).for_each(|(sum, files)| *sum += files);
    }
    levels
}

/// Clones a dataset: immutable files as hard links, the few others as copies.
pub fn clone_to(dataset: &Path, trial_dir: &Path) -> Result<(), EngineError> {
    remove(trial_dir)?;
    fs::create_dir_all(trial_dir).map_err(EngineError::io(trial_dir))?;
    for entry in fs::read_dir(dataset).map_err(EngineError::io(dataset))? {
        let entry = entry.map_err(EngineError::io(dataset))?;
        let (from, to) = (entry.path(), trial_dir.join(entry.file_name()));
        let immutable = from.extension().is_some_and(|extension| extension == "sst" || extension == "blob");
        if immutable {
            fs::hard_link(&from, &to).map_err(EngineError::io(&to))?;
        } else {
            fs::copy(&from, &to).map_err(EngineError::io(&to))?;
        }
    }
    Ok(())
}

/// Brings the page cache of a trial's files into the declared state.
pub fn set_page_cache(trial_dir: &Path, page_cache: PageCache) -> Result<(), EngineError> {
    if page_cache == PageCache::Direct {
        return Ok(());
    }
    for path in files(trial_dir).map_err(EngineError::io(trial_dir))? {
        let mut file = fs::File::open(&path).map_err(EngineError::io(&path))?;
        match page_cache {
            PageCache::Evict => {
                // Dirty pages can't be evicted.
                file.sync_all().map_err(EngineError::io(&path))?;
                posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
                    .map_err(|errno| EngineError::Io { path: path.display().to_string(), source: errno.into() })?;
            }
            PageCache::Warm => {
                let mut buffer = vec![0; 1 << 20];
                while file.read(&mut buffer).map_err(EngineError::io(&path))? > 0 {}
            }
            PageCache::Direct => {}
        }
    }
    Ok(())
}

/// Regular files below a directory.
pub fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Bytes that a directory's files occupy. Files may vanish while we look: RocksDB deletes what it compacted.
pub fn size(dir: &Path) -> u64 {
    files(dir)
        .unwrap_or_default()
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|metadata| metadata.len().min(metadata.blocks() * 512))
        .sum()
}

pub fn remove(dir: &Path) -> Result<(), EngineError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(EngineError::io(dir)(error)),
        _ => Ok(()),
    }
}
