//! `assay run`.

use std::process::ExitCode;

use super::given::must_be_experiment;
use super::options::{CodeArgs, INTERRUPTED, RunArgs};
use crate::cluster::{self, ClusterArgs};
use crate::local::{self, Sound};

/// Arguments of `assay run`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: every config is Win or Neutral; 10: any Reject or Tradeoff; 11: any Invalid or Inconclusive (and no \
                        Reject or Tradeoff); 1: error; 2: wrong arguments; 130: interrupted. After an error or Ctrl-C, run the same \
                        command again to continue. An experiment on a cluster keeps running."
)]
pub struct RunCommandArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Run on a Kubernetes cluster with the Assay operator, follow the experiment, and fetch its report at the end
    #[arg(long, conflicts_with_all = ["bench", "wait_for_quiet"])]
    cluster: bool,
    #[command(flatten)]
    codes: CodeArgs,
    #[command(flatten)]
    which: ClusterArgs,
}

pub fn command(args: &RunCommandArgs) -> anyhow::Result<ExitCode> {
    let (file, out) = (args.run.file.as_path(), args.run.out.as_deref());
    must_be_experiment(file)?;
    let outcome = if args.cluster {
        let (experiment, document) = cluster::run::sound(file)?;
        cluster::run::execute(&cluster::run::Asked {
            which: &args.which,
            file,
            out,
            document: &document.value,
            source: &document.source,
            planned: experiment.trials() as usize,
        })?
    } else {
        args.which.must_be_empty()?;
        let Sound { experiment, document, benches } = local::sound(file, out, &args.run.bench)?;
        local::execute(experiment, &document.source, &benches, out, args.run.wait_for_quiet, None)?
    };
    Ok(ExitCode::from(outcome.map_or(INTERRUPTED, |outcome| args.codes.code(&outcome.report))))
}
