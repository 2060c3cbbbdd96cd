//! `assay sweep run-now`.

use std::process::ExitCode;

use assay_core::sweep::{Outcome, night};
use k8s_openapi::jiff::Timestamp;

use super::{SweepNameArgs, UNMEASURED};
use crate::cluster::{on, sweeps};
use crate::print;

/// Arguments of `assay sweep run-now`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: the night was asked for, or, with --wait, measured; 11: it measured nothing; 1: error; 2: wrong \
                  arguments. Ctrl-C ends the wait and not the night."
)]
pub struct RunNowArgs {
    #[command(flatten)]
    sweep: SweepNameArgs,
    /// Wait until the night has ended
    #[arg(long)]
    wait: bool,
}

pub fn command(args: &RunNowArgs) -> anyhow::Result<ExitCode> {
    let name = &args.sweep.name;
    let token = night::token(Timestamp::now());
    let ended = on(&args.sweep.cluster, |cluster| async move {
        cluster.sweep(name).await?;
        sweeps::run_now(&cluster, name, &token).await?;
        print::note(format_args!("assay: sweep {name} measures a night once nothing else of it runs"));
        if args.wait { sweeps::night_of(&cluster, name, &token).await.map(Some) } else { Ok(None) }
    })?;
    let Some(ended) = ended else { return Ok(ExitCode::SUCCESS) };
    let night = night::name(name, ended.night);
    if ended.outcome == Outcome::Measured {
        print::out(format_args!("{night}: measured; `assay sweep history {name}` shows all nights\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (reason, message) = (ended.reason.unwrap_or_default(), ended.message.unwrap_or_default());
    print::out(format_args!("{night}: not measured: {reason}: {message}\n"))?;
    Ok(ExitCode::from(UNMEASURED))
}
