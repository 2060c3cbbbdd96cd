//! From the files of a database to an experiment that has its options as the baseline.

use assay_protocol::Mix;

use super::baseline::Baseline;
use super::defaults::{BUNDLED, TABLE};
use super::draft::{BASELINE, CANDIDATE, Cache, Draft, DraftScenario, placeholder};
use super::info_log::{CacheFound, Contents, InfoLog};
use super::options_file::OptionsFile;
use super::scale::{Data, Machine, scale};
use crate::quantity::display;

/// RocksDB's own cache: one of this size for each column family.
const DEFAULT_CACHE: u64 = 32 << 20;

/// What stands for a workload that nobody has described yet.
const KEYS: u64 = 1_000_000;
const KEY_BYTES: u32 = 20;
const VALUE_BYTES: u32 = 400;
const MIX: Mix = Mix { put: 1, get: 9, get_missing: 0, delete: 0, scan: 0 };

/// The folder of a database, as far as it was read.
#[derive(Clone, Debug)]
pub struct Database {
    /// The folder and the name of its OPTIONS file, for people.
    pub folder: String,
    pub options_name: String,
    pub options: OptionsFile,
    pub log: Option<InfoLog>,
    /// SST files there, and their bytes.
    pub sst_files: usize,
    pub sst_bytes: u64,
}

/// What was made of a database.
#[derive(Clone, Debug)]
pub struct Import {
    pub draft: Draft,
    /// The data of the database, if it is known.
    pub data: Option<Data>,
    /// What the experiment has of it.
    pub scaled: Option<Data>,
    /// What is different in consequence, a sentence each.
    pub lost: Vec<String>,
}

/// An experiment from nothing but an OPTIONS file. `label` is the file as the user has named it.
pub fn from_options(name: &str, label: &str, file: &OptionsFile, cpus: u32) -> Draft {
    let baseline = Baseline::of(file);
    let families = names(&baseline);
    let scenario = DraftScenario {
        name: "mixed".to_owned(),
        notes: vec![format!("Fill in your workload, which an OPTIONS file does not describe. {HELP}")],
        workload: placeholder(KEYS, KEY_BYTES, VALUE_BYTES, families, MIX),
    };
    let mut draft = Draft {
        name: name.to_owned(),
        head: head(&format!("assay init --from-options {label}"), &file.version),
        scenarios: vec![scenario],
        cpus,
        ..Draft::default()
    };
    if has_cache(&baseline) {
        draft.baseline_notes.push(NO_CACHE.to_owned());
    }
    Draft { baseline, ..draft }
}

const HELP: &str = "keys and valueBytes: the size of the data, in proportion to memory as in production. mix: the share of each kind \
                    of operation. keyOrder: Zipfian, if few keys are hot. See docs/experiment.md.";

const NO_CACHE: &str = "An OPTIONS file does not have the size of the block cache: set blockCache, such as {size: 8Gi}, if yours is \
                        not RocksDB's default, 32 MiB for each column family.";

fn head(command: &str, version: &str) -> Vec<String> {
    let other = if version == BUNDLED.version {
        String::new()
    } else {
        format!(" The database runs RocksDB {version}: what only RocksDB {} has is at its default.", BUNDLED.version)
    };
    let origin = format!(
        "Written by `{command}`. The config `{BASELINE}` has the options of that database that differ from the defaults of \
         RocksDB {}.{other}",
        BUNDLED.version
    );
    vec![
        origin,
        format!(
            "To do: fill in the scenario and what `{CANDIDATE}` changes, then use `assay validate` and `assay plan` on this file."
        ),
    ]
}

/// The families of the workload: a workload has one at least.
fn names(baseline: &Baseline) -> Vec<String> {
    let names: Vec<String> = baseline.families.iter().map(|(name, _)| name.clone()).collect();
    if names.is_empty() { vec!["default".to_owned()] } else { names }
}

fn has_cache(baseline: &Baseline) -> bool {
    let off = format!("{TABLE}.no_block_cache");
    baseline.families.iter().any(|(_, options)| options.get(&off).is_none_or(|value| value != "true"))
}

impl Database {
    /// The RocksDB that runs it: the LOG is of the last time it was opened.
    pub fn version(&self) -> &str {
        self.log.as_ref().and_then(|log| log.version.as_deref()).unwrap_or(&self.options.version)
    }

    fn contents(&self) -> Option<Contents> {
        self.log.as_ref().and_then(InfoLog::contents)
    }

    /// The experiment, scaled to a machine.
    pub fn import(&self, name: &str, machine: &Machine) -> Import {
        let baseline = Baseline::of(&self.options);
        let mut draft = Draft {
            name: name.to_owned(),
            head: head(&format!("assay import {}", self.folder), self.version()),
            cpus: machine.cpus,
            ..Draft::default()
        };
        let cache = self.cache(&mut draft, &baseline);
        self.objects(&mut draft);
        let contents = self.contents();
        let data = contents.as_ref().map(|contents| Data::of(contents, self.sst_bytes));
        let scaled = data.map(|data| scale(data, cache, &baseline, machine));
        let size = scaled.as_ref().map(|scaled| scaled.data);
        draft.cache = scaled.as_ref().map_or(cache, |scaled| scaled.cache);
        let mut lost = scaled.map(|scaled| scaled.lost).unwrap_or_default();
        lost.extend(contents.as_ref().and_then(shares));
        let mut notes = match &contents {
            Some(contents) => vec![sizes(contents)],
            None => vec!["The sizes are placeholders: no LOG with properties of SST files was found.".to_owned()],
        };
        if !lost.is_empty() {
            notes.push("Different from the database:".to_owned());
        }
        notes.extend(lost.iter().map(|lost| format!("- {lost}")));
        notes.push(format!(
            "Fill in the mix of operations, the popularity of keys and the threads, which the files do not describe. {HELP}"
        ));
        let mut workload = placeholder(
            size.map_or(KEYS, |size| size.keys),
            size.map_or(KEY_BYTES, |size| size.key_bytes),
            size.map_or(VALUE_BYTES, |size| size.value_bytes),
            names(&baseline),
            MIX,
        );
        workload.compressed_percent = size.map_or(workload.compressed_percent, |size| size.compressed_percent);
        draft.scenarios.push(DraftScenario { name: "mixed".to_owned(), notes, workload });
        draft.baseline = baseline;
        Import { draft, data, scaled: size, lost }
    }

    /// The cache that the LOG shows, if it is not the default.
    fn cache(&self, draft: &mut Draft, baseline: &Baseline) -> Option<Cache> {
        if !has_cache(baseline) {
            return None;
        }
        let Some(found) = self.log.as_ref().and_then(InfoLog::cache) else {
            draft.baseline_notes.push(NO_CACHE.to_owned());
            return None;
        };
        let is_alone = baseline.families.len() == 1;
        let cache = match found {
            CacheFound::Shared(bytes) => Cache { bytes, shared: true },
            CacheFound::Private(bytes) => Cache { bytes, shared: false },
            CacheFound::Mixed(bytes) => {
                draft.baseline_notes.push(
                    "The column families have caches of different sizes; here they share one as large as all of them."
                        .to_owned(),
                );
                Cache { bytes, shared: true }
            }
        };
        let is_default = cache.bytes == DEFAULT_CACHE && (is_alone || !cache.shared);
        (!is_default && cache.bytes > 0).then_some(cache)
    }

    /// Objects that the LOG names but does not describe.
    fn objects(&self, draft: &mut Draft) {
        let Some(log) = &self.log else { return };
        if log.has_rate_limiter {
            let text = "rate limiter: its rate is in neither file; set rate_limiter_bytes_per_sec in dbOptions";
            draft.lost.push(text.to_owned());
        }
        if let Some(bytes) = log.row_cache_bytes {
            draft.lost.push(format!("row cache of {}: an option string can't create it", display(bytes)));
        }
    }
}

fn sizes(contents: &Contents) -> String {
    format!(
        "Sizes of keys and values are means of {} SST files in the LOG ({} keys of {} bytes, values of {} bytes).",
        contents.files,
        contents.entries.saturating_sub(contents.deletions),
        contents.key_bytes,
        contents.value_bytes
    )
}

/// How unevenly the data is spread.
fn shares(contents: &Contents) -> Option<String> {
    /// More would be a list that nobody reads.
    const MOST: usize = 8;
    let mut families: Vec<(&String, f64)> = contents.families.iter().map(|(name, share)| (name, *share)).collect();
    families.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<String> =
        families.iter().take(MOST).map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
    (families.len() > 1).then(|| {
        format!("Column families: keys are spread evenly; in the database the bytes are {}.", named.join(", "))
    })
}
