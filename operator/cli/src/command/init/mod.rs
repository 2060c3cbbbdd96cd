//! `assay init`.

mod questions;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use assay_core::adopt::{self, Draft, OptionsFile};

use super::drafted::{self, FileArgs};
use crate::machine;
use crate::text::plural;

/// More than any OPTIONS file: one of a thousand column families has 6 MB.
const MOST_BYTES: u64 = 64 << 20;

/// Arguments of `assay init`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Without a flag it asks for the size of the data, the share of reads, the cache and the option to try. The file has \
                  comments on what to fill in and on what could not be carried over. It is checked as `assay validate` does; options \
                  are checked with the assay-bench next to assay, or the one that ASSAY_BENCH names, if there is one."
)]
pub struct InitArgs {
    /// Make the OPTIONS file of a RocksDB database the baseline
    #[arg(long, value_name = "FILE", conflicts_with = "from_db_bench")]
    pub from_options: Option<PathBuf>,
    /// Make benchmarks of a `db_bench` command scenarios, and its flags the baseline
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    pub from_db_bench: Option<String>,
    #[command(flatten)]
    pub output: FileArgs,
}

pub fn command(args: &InitArgs) -> anyhow::Result<ExitCode> {
    args.output.refuse_to_overwrite()?;
    let draft = draft(args)?;
    drafted::write(draft, &args.output)
}

fn draft(args: &InitArgs) -> anyhow::Result<Draft> {
    let (name, cpus) = (args.output.name(), machine::cpus());
    if let Some(path) = &args.from_options {
        let label = path.file_name().unwrap_or_default().to_string_lossy();
        return Ok(adopt::from_options(&name, &label, &options_file(path)?, cpus));
    }
    if let Some(command) = &args.from_db_bench {
        return adopt::from_command(&name, command, cpus).map_err(|problems| match problems.as_slice() {
            [only] => anyhow!("--from-db-bench: {only}"),
            all => anyhow!("--from-db-bench has {}:\n  {}", plural(all.len(), "error"), all.join("\n  ")),
        });
    }
    if !std::io::stdin().is_terminal() {
        bail!(
            "nothing to start from: use --from-options FILE or --from-db-bench \"COMMAND\"; without a flag, init asks questions and \
             needs a terminal"
        );
    }
    let answers = questions::ask(&mut std::io::stdin().lock(), &mut std::io::stdout().lock())?;
    Ok(answers.draft(&name, cpus))
}

/// Reads an OPTIONS file.
pub fn options_file(path: &Path) -> anyhow::Result<OptionsFile> {
    let file = path.display();
    if path.is_dir() {
        bail!("{file} is a folder: give its OPTIONS file, or use `assay import {file}`");
    }
    let size = path.metadata().with_context(|| format!("can't read {file}"))?.len();
    if size > MOST_BYTES {
        bail!("{file} is too large for an OPTIONS file");
    }
    let bytes = std::fs::read(path).with_context(|| format!("can't read {file}"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{file} is not text: not an OPTIONS file of RocksDB"))?;
    adopt::parse_options(&text).map_err(|malformed| anyhow!("{file}: {malformed}"))
}
