//! What went wrong between us and a cluster, with what to do about it.

use kube::Error;

/// Words for results of a client.
pub trait Told<T> {
    /// `failed` says what could not be done.
    fn told(self, failed: &str) -> anyhow::Result<T>;
}

impl<T> Told<T> for Result<T, Error> {
    fn told(self, failed: &str) -> anyhow::Result<T> {
        self.map_err(|error| anyhow::anyhow!("{failed}: {}", words(&error)))
    }
}

/// The object is not there, though its kind is known.
pub fn lost(error: &Error) -> bool {
    let Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

/// Asking again may help.
pub fn passes(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code == 410 || status.code == 429 || status.code >= 500,
        Error::Auth(_) | Error::BuildRequest(_) | Error::InferConfig(_) | Error::InferKubeconfig(_) => false,
        _ => true,
    }
}

pub fn words(error: &Error) -> String {
    let Error::Api(status) = error else { return unreachable_words(error) };
    let said = status.message.trim().trim_end_matches('.');
    match status.code {
        401 => "the cluster does not accept your credentials: log in again, or choose another --context".to_owned(),
        403 => format!("it is not allowed ({said}): ask for this right, or choose another --context or --namespace"),
        404 if lost(error) => said.to_owned(),
        404 => "the cluster does not know experiments of Assay: install their definitions with \
                `kubectl apply --server-side -f crds`, then the operator"
            .to_owned(),
        409 => format!("somebody else has changed it ({said}): look at it with `assay status`, then try again"),
        400 | 422 => format!("the cluster refuses it: {said}"),
        429 => format!("the cluster is busy ({said}): try again later"),
        code => format!("the cluster answers with {code} ({said}): try again, or look at its API server"),
    }
}

fn unreachable_words(error: &Error) -> String {
    let reached = "the cluster can't be reached";
    match error {
        Error::Service(cause) => format!(
            "{reached} ({}): is it running? --context and --kubeconfig choose another",
            cause.source().map_or_else(|| cause.to_string(), root)
        ),
        Error::HyperError(cause) => format!("{reached} ({}): try again", root(cause)),
        Error::Auth(cause) => {
            format!("you can't log in to the cluster ({}): correct the kubeconfig", root(cause))
        }
        Error::SerdeError(cause) => format!(
            "its answer can't be understood ({cause}): are the definitions of this version of assay installed? `kubectl apply \
             --server-side -f crds`"
        ),
        other => root(other),
    }
}

/// The innermost cause: the outer ones only say that there is one.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
