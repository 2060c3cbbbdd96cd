//! What a sweep knows, told to GitHub: a status of a commit, and one comment. Nothing is written that is there already.

mod client;

use anyhow::Context as _;
use assay_core::sweep::notify::Told;
use hyper::Method;
use serde_json::json;

use client::GitHub;

/// Where to tell it.
pub struct Place<'a> {
    pub api: &'a str,
    pub token: &'a str,
    /// OWNER/NAME.
    pub repository: &'a str,
    pub commit: &'a str,
    /// The pull request or issue that gets the comment.
    pub pull_request: Option<u64>,
}

/// Tells it, and says what was written.
pub fn tell(place: &Place<'_>, sweep: &str, told: &Told) -> anyhow::Result<String> {
    let github = GitHub::new(place.api, place.token)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("can't start the runtime")?.block_on(async {
        let mut said = status(&github, place, sweep, told).await?;
        if let Some(number) = place.pull_request {
            said += &comment(&github, place, number, told).await?;
        }
        Ok(said)
    })
}

async fn status(github: &GitHub, place: &Place<'_>, sweep: &str, told: &Told) -> anyhow::Result<String> {
    let Place { repository, commit, .. } = place;
    let (context, state) = (format!("assay/{sweep}"), told.state.to_string());
    let failed = format!("can't read the statuses of commit {commit} in {repository}");
    // The latest comes first.
    let path = format!("/repos/{repository}/commits/{commit}/statuses");
    let latest = github.find(&path, &failed, |status| (status["context"] == context).then(|| status.clone())).await?;
    let line = |how: &str| format!("status {context} of {commit}: {state}: {}{how}\n", told.description);
    if latest.is_some_and(|latest| latest["state"] == state && latest["description"] == told.description) {
        return Ok(line(" (unchanged)"));
    }
    let body = json!({"state": state, "description": told.description, "context": context});
    let failed = format!("can't set the status of commit {commit} in {repository}");
    github.write(Method::POST, &format!("/repos/{repository}/statuses/{commit}"), &body, &failed).await?;
    Ok(line(""))
}

async fn comment(github: &GitHub, place: &Place<'_>, number: u64, told: &Told) -> anyhow::Result<String> {
    let Place { repository, .. } = place;
    let path = format!("/repos/{repository}/issues/{number}/comments");
    let failed = format!("can't read the comments of #{number} in {repository}");
    let own = github
        .find(&path, &failed, |comment| {
            let body = comment["body"].as_str()?.replace("\r\n", "\n");
            Some((comment["id"].as_u64()?, body)).filter(|(_, body)| body.starts_with(&told.marker))
        })
        .await?;
    let body = json!({"body": told.comment});
    let (how, written) = match own {
        Some((_, own)) if own.trim_end() == told.comment.trim_end() => ("unchanged", Ok(())),
        Some((id, _)) => {
            let path = format!("/repos/{repository}/issues/comments/{id}");
            let failed = format!("can't edit comment {id} of #{number} in {repository}");
            ("edited", github.write(Method::PATCH, &path, &body, &failed).await)
        }
        // Nobody wants to hear that there is nothing.
        None if told.is_quiet => ("not needed", Ok(())),
        None => {
            let failed = format!("can't comment on #{number} in {repository}");
            ("written", github.write(Method::POST, &path, &body, &failed).await)
        }
    };
    written.map(|()| format!("comment on #{number}: {how}\n"))
}
