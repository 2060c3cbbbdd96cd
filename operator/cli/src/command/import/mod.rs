//! `assay import`.

mod folder;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use assay_core::adopt::{BUNDLED, Data, Database, Difference, Import, Machine};
use assay_core::quantity;

use super::drafted::{self, FileArgs};
use crate::machine;
use crate::print;
use crate::text::{plural, table};

/// Arguments of `assay import`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Reads the newest OPTIONS file, the LOG and the sizes of SST files, once and without opening the database: it may be \
                  in use. Nothing in its folder is changed. The experiment has as many keys as this machine can hold."
)]
pub struct ImportArgs {
    /// The folder of a RocksDB database
    pub dir: PathBuf,
    #[command(flatten)]
    pub output: FileArgs,
}

pub fn command(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    args.output.refuse_to_overwrite()?;
    let database = folder::read(&args.dir)?;
    let import = database.import(&args.output.name(), &this_machine(&args.output.file));
    print::out(shown(&database, &import))?;
    drafted::write(import.draft, &args.output)
}

/// Trials write below the folder that the user is in, where the file will be as a rule.
fn this_machine(file: &Path) -> Machine {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Machine {
        free_bytes: machine::free_bytes(folder).ok(),
        memory_bytes: machine::memory_bytes(),
        cpus: machine::cpus(),
    }
}

/// What was found, for people.
fn shown(database: &Database, import: &Import) -> String {
    let baseline = &import.draft.baseline;
    let families: Vec<&str> = baseline.families.iter().map(|(family, _)| family.as_str()).collect();
    let count =
        if families.len() == 1 { "1 column family".to_owned() } else { format!("{} column families", families.len()) };
    let version = &BUNDLED.version;
    let mut parts = vec![format!(
        "{}: RocksDB {} ({}, {}); this build has {version}\n{count}: {}\n{}",
        database.folder,
        database.version(),
        database.options_name,
        if database.log.is_some() { "LOG" } else { "no LOG" },
        families.join(", "),
        data(database, import),
    )];
    let differences = baseline.differences();
    parts.push(if differences.is_empty() {
        format!("All options are at the defaults of RocksDB {version}.\n")
    } else {
        format!("\nDifferent from the defaults of RocksDB {version}:\n{}", rows(differences, families.len()))
    });
    if !import.lost.is_empty() {
        parts.push("\nDifferent from the database:\n".to_owned());
        parts.extend(import.lost.iter().map(|lost| format!("  {lost}\n")));
    }
    parts.concat() + "\n"
}

fn data(database: &Database, import: &Import) -> String {
    let files = format!("{}, {}", plural(database.sst_files, "SST file"), quantity::display(database.sst_bytes));
    let Some(Data { keys, key_bytes, value_bytes, .. }) = import.data else {
        let why = if database.log.is_some() { "the LOG has no properties of SST files" } else { "there is no LOG" };
        return format!("{files}; {why}, so sizes of keys and values are placeholders\n");
    };
    format!("{files}: about {keys} keys of {key_bytes} bytes with values of {value_bytes} bytes\n")
}

/// A row for each option, with the column families that have the value.
fn rows(differences: Vec<Difference>, families: usize) -> String {
    let mut merged: Vec<(Difference, Vec<String>)> = Vec::new();
    for difference in differences {
        let same = merged.iter_mut().find(|(other, scopes)| {
            other.option == difference.option && other.value == difference.value && scopes[0] != "db"
        });
        if let Some((_, scopes)) = same {
            scopes.push(difference.scope);
        } else {
            let scope = difference.scope.clone();
            merged.push((difference, vec![scope]));
        }
    }
    let rows = merged.into_iter().map(|(difference, scopes)| {
        let scope = if scopes.len() == families && families > 1 { "all".to_owned() } else { scopes.join(", ") };
        let default = if difference.default.is_empty() { "none".to_owned() } else { difference.default };
        [format!("  {scope}"), difference.option, difference.value, format!("default {default}")].to_vec()
    });
    table(&rows.collect::<Vec<_>>())
}
