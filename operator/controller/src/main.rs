//! `assay-operator`: runs `TuningExperiments` on the nodes of a cluster.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use assay_controller::{Args, Network, Operator, Stop, System};
use clap::Parser as _;
use kube::{Client, Config};
use tracing::error;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(error) = assay_log::init() {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    match Box::pin(run(args)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let mut config = Config::infer().await.context("no kubeconfig found, and not running in a pod")?;
    // Who asked has to know that an answer was an error: the next reconcile tries again, with what is true by then.
    config.default_retry = false;
    let client = Client::try_from(config.clone()).context("can't use the kubeconfig")?;
    let operator = Operator::new(args, config, client, Arc::new(System), Arc::new(Network::default()));
    operator.serve().await?;
    operator.run(Stop::on_signals()?).await
}
