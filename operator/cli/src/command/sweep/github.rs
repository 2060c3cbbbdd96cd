//! `assay sweep github`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, ensure};
use assay_core::sweep::notify::Told;

use super::history::read;
use crate::cluster::ClusterArgs;
use crate::command::options::experiment_name;
use crate::github::{Place, tell};
use crate::print;

/// Where the API of GitHub is, unless `GITHUB_API_URL` says otherwise.
const API: &str = "https://api.github.com";

/// Arguments of `assay sweep github`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Reads the token from GITHUB_TOKEN, and where the API is from GITHUB_API_URL. The status is failure if a regression is \
                  confirmed and neither accepted nor over, pending while one is being confirmed, else success. Nothing is written if nothing \
                  has changed. Exit code 0: GitHub has it all, whatever it is; 1: error; 2: wrong arguments."
)]
pub struct GitHubArgs {
    /// The name of a sweep on a cluster
    #[arg(value_parser = experiment_name)]
    name: Option<String>,
    /// The folder of a sweep that runs on one machine
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    history: Option<PathBuf>,
    /// The repository; default: `GITHUB_REPOSITORY`
    #[arg(long, value_name = "OWNER/NAME", value_parser = repository)]
    repository: Option<String>,
    /// The commit that gets the status, as its whole hash; default: `GITHUB_SHA`
    ///
    /// In a workflow for pull requests, `GITHUB_SHA` is a temporary merge commit: pass `github.event.pull_request.head.sha`.
    #[arg(long, value_name = "SHA", value_parser = commit)]
    commit: Option<String>,
    /// The pull request or issue that gets one comment, edited each time; default: no comment
    #[arg(long, value_name = "NUMBER")]
    pull_request: Option<u64>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Owner and name of a repository.
fn repository(text: &str) -> Result<String, String> {
    let is_name = |name: &str| {
        let is_of_one = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !name.is_empty() && name.chars().all(is_of_one) && name != "." && name != ".."
    };
    let is_repository = text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name));
    is_repository.then(|| text.to_owned()).ok_or_else(|| format!("must be OWNER/NAME, not {text:?}"))
}

/// The whole hash of a commit.
fn commit(text: &str) -> Result<String, String> {
    let is_hash = matches!(text.len(), 40 | 64) && text.chars().all(|c| c.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned()).ok_or_else(|| format!("must be the whole hash of a commit, not {text:?}"))
}

/// What a workflow has in its environment, unless it was named.
fn given(
    named: Option<&String>,
    flag: &str,
    variable: &str,
    read: fn(&str) -> Result<String, String>,
) -> anyhow::Result<String> {
    if let Some(named) = named {
        return Ok(named.clone());
    }
    let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
    let value = value.with_context(|| format!("pass {flag}, or set {variable}"))?;
    read(&value).map_err(|why| anyhow!("{variable}: {why}"))
}

pub fn command(args: &GitHubArgs) -> anyhow::Result<ExitCode> {
    let repository = given(args.repository.as_ref(), "--repository", "GITHUB_REPOSITORY", repository)?;
    let commit = given(args.commit.as_ref(), "--commit", "GITHUB_SHA", commit)?;
    // What is no text is no token, and is not shown.
    let token = std::env::var("GITHUB_TOKEN").ok().map(|token| token.trim().to_owned());
    let token = token.filter(|token| !token.is_empty()).context("set GITHUB_TOKEN to a token of GitHub")?;
    let api = std::env::var("GITHUB_API_URL").ok().filter(|api| !api.is_empty()).unwrap_or_else(|| API.to_owned());
    let (history, watch) = read(args.history.as_deref(), args.name.as_deref(), &args.cluster)?;
    let sweep = history.sweep();
    ensure!(experiment_name(sweep).is_ok(), "{sweep:?} is not the name of a sweep: restore the history");
    let told = Told::of(sweep, &history.changes(&history.watched(&watch)), history.last_measured());
    let place =
        Place { api: &api, token: &token, repository: &repository, commit: &commit, pull_request: args.pull_request };
    print::out(tell(&place, sweep, &told)?)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_part_of_an_address_is_checked() {
        assert!(repository("facebook/rocksdb").is_ok() && commit(&"a1".repeat(20)).is_ok());
        for wrong in ["rocksdb", "/rocksdb", "a/b/c", "a/..", "a/b?c", "a b/c", "a/%2e", ""] {
            assert!(repository(wrong).is_err(), "{wrong}");
        }
        for wrong in ["main", "a1b2c3", "../../../../../../../../../../../../..", ""] {
            assert!(commit(wrong).is_err(), "{wrong}");
        }
    }
}
