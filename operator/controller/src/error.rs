use std::future::Future;
use std::time::Duration;

use crate::health;

/// How long the API server may take for an answer.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Why a reconciliation has to be tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the API server did not answer within {} s", PATIENCE.as_secs())]
    Silent,
    #[error("can't write an object as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Somebody else was faster.
    #[error("{0} has changed meanwhile")]
    Changed(String),
    /// A history that fails to parse, or that the operator may not list: retries fail until it is repaired.
    #[error("can't read the history of the sweep: {0}")]
    History(String),
    #[error("{0}")]
    Unexpected(String),
}

impl Error {
    /// The HTTP status of the API server's answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409) || matches!(self, Self::Changed(_))
    }

    /// An object of this name is there. Another conflict does not say so: where many objects are created at once, the API server answers with
    /// one if it could not write down what they take of a quota (kubernetes/kubernetes#67761).
    pub fn is_already_there(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.is_already_exists())
    }

    /// Why an object could not be created may be over in a moment: an error of the server's own, as where nobody answers for an admission rule,
    /// or others who use up the same quota.
    pub fn may_pass(&self) -> bool {
        self.code() == Some(500) || (self.is_conflict() && !self.is_already_there())
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The API server will not have this object, or not now: a quota, an admission rule, or a name that is not allowed. An admission
    /// rule that nobody answers for is reported as an error of the server's own.
    pub fn is_refusal(&self) -> bool {
        match self.code() {
            Some(500) => self.message().contains("failed calling webhook"),
            code => matches!(code, Some(400 | 403 | 422)),
        }
    }

    /// Whether a retry fails, too: the request is refused, or the answer does not parse.
    pub fn is_lasting(&self) -> bool {
        let is_refused = self.code().is_some_and(|code| (400..500).contains(&code) && ![409, 410, 429].contains(&code));
        is_refused || matches!(self, Self::Api(kube::Error::SerdeError(_)))
    }

    /// What a person should read of it.
    pub fn message(&self) -> String {
        match self {
            Self::Api(kube::Error::Api(status)) => status.message.clone(),
            other => other.to_string(),
        }
    }
}

/// A call of the API server that does not wait for ever.
pub async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    let answer = tokio::time::timeout(PATIENCE, request).await;
    health::goes_on();
    match answer {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::Silent),
    }
}
