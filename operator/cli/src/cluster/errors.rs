//! What went wrong between us and a cluster, with what to do about it.

use std::error::Error as StdError;
use std::fmt;

use kube::Error;
use kube::client::AuthError;

/// Words for results of a client.
pub trait Explain<T> {
    /// `failed` says what could not be done.
    fn explain(self, failed: &str) -> anyhow::Result<T>;
}

impl<T> Explain<T> for Result<T, Error> {
    fn explain(self, failed: &str) -> anyhow::Result<T> {
        self.map_err(|error| {
            let said = format!("{failed}: {}", words(&error));
            if matches!(error, Error::Api(_) | Error::SerdeError(_)) {
                anyhow::Error::msg(said)
            } else {
                Unreachable { said, is_chosen: true }.into()
            }
        })
    }
}

/// There is no cluster, or none that answers. What lies on this machine may do as well.
#[derive(Debug)]
pub struct Unreachable {
    pub said: String,
    /// Whether it is known which cluster is meant.
    pub is_chosen: bool,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl StdError for Unreachable {}

/// The object is not there, though its kind is known.
pub fn not_found(error: &Error) -> bool {
    let Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

/// Asking again may help.
pub fn passes(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code == 410 || status.code == 429 || status.code >= 500,
        // An object of another version stays one.
        Error::BuildRequest(_) | Error::InferConfig(_) | Error::InferKubeconfig(_) | Error::SerdeError(_) => false,
        _ => no_login(error).is_none(),
    }
}

pub fn words(error: &Error) -> String {
    let Error::Api(status) = error else { return unreachable_words(error) };
    let said = status.message.trim().trim_end_matches('.');
    match status.code {
        401 => "the cluster rejected your credentials: log in again, or use another --context".to_owned(),
        403 => format!("not allowed ({said}): ask for access, or use another --context or --namespace"),
        404 if not_found(error) => said.to_owned(),
        404 => "the cluster has no Assay custom resource definitions: install the Helm chart charts/assay (see \
                docs/install.md)"
            .to_owned(),
        409 => format!("someone else changed it ({said}): check it with `assay status`, then try again"),
        400 | 422 => format!("the cluster rejected it: {said}"),
        429 => format!("the cluster is busy ({said}): try again later"),
        500 if said.contains("field not declared in schema") => format!(
            "the cluster's custom resource definitions are older than this assay ({said}): upgrade the Helm chart \
             charts/assay (see docs/install.md)"
        ),
        code => format!("the cluster returned {code} ({said}): try again, or check its API server"),
    }
}

/// Of an object that this version can't read, why not and what to do.
pub fn another_version(why: &impl fmt::Display) -> String {
    format!("{why}. Another version of assay wrote it: use the assay of the operator's version (see docs/install.md)")
}

/// Why there are no credentials. A token that is asked for with each request fails inside that request.
fn no_login(error: &Error) -> Option<&AuthError> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

fn unreachable_words(error: &Error) -> String {
    if let Some(cause) = no_login(error) {
        return no_login_words(cause);
    }
    let reached = "can't reach the cluster";
    match error {
        Error::Service(cause) => format!(
            "{reached} ({}): is it running? Use --context or --kubeconfig to choose another",
            cause.source().map_or_else(|| cause.to_string(), root)
        ),
        Error::HyperError(cause) => format!("{reached} ({}): try again", root(cause)),
        Error::SerdeError(cause) => format!("can't parse the cluster's answer: {}", another_version(cause)),
        other => root(other),
    }
}

fn no_login_words(cause: &AuthError) -> String {
    let said = match cause {
        // Its command line may hold secrets.
        AuthError::AuthExecRun { out, .. } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            format!("the login command in your kubeconfig failed with {}: {}", out.status, stderr.trim())
        }
        other => root(other),
    };
    format!("can't log in to the cluster ({said}): log in again, or fix the kubeconfig")
}

/// The innermost cause: the outer ones only say that there is one.
fn root(error: &(dyn StdError + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
