//! Who may read the metrics: who shows a token of an account that may `get` `/metrics`. The API server knows both.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use assay_protocol::Digest;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tracing::warn;

use crate::clock::SharedClock;
use crate::error::{Error, call};
use crate::lock::locked;

/// How long an answer counts: a right that was taken away is gone after that.
const KEPT: Duration = Duration::from_mins(1);
/// The most answers that are kept. Who shows more tokens than that gets each of them asked about.
const MOST_KEPT: usize = 64;
/// How many tokens the API server is asked about at a time: it has more important work.
const AT_A_TIME: usize = 4;

pub struct Readers {
    tokens: Api<TokenReview>,
    rights: Api<SubjectAccessReview>,
    clock: SharedClock,
    turns: Semaphore,
    known: Mutex<HashMap<Digest, Known>>,
}

/// What an API server said of a token, and when.
type Known = (Instant, Result<(), Refused>);

/// Why somebody gets no metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub status: u16,
    pub why: String,
}

impl Refused {
    fn new(status: u16, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }
}

impl Readers {
    pub fn new(client: Client, clock: SharedClock) -> Self {
        let (tokens, rights) = (Api::all(client.clone()), Api::all(client));
        Self { tokens, rights, clock, turns: Semaphore::new(AT_A_TIME), known: Mutex::default() }
    }

    /// Whether who sent these headers may read metrics.
    pub async fn may(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '));
        let Some((_, token)) = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
            return Err(Refused::new(401, "send a bearer token of an account that may get /metrics"));
        };
        let digest = Digest::of(token.as_bytes());
        if let Some(answer) = self.known(&digest) {
            return answer;
        }
        let Ok(_turn) = self.turns.acquire().await else { return Err(silent()) };
        let answer = match self.ask(token).await {
            Ok(answer) => answer,
            Err(error) => {
                warn!(why = error.message(), "can't ask who wants to read metrics");
                return Err(silent());
            }
        };
        self.keep(digest, answer.clone());
        answer
    }

    fn known(&self, digest: &Digest) -> Option<Result<(), Refused>> {
        let known = locked(&self.known);
        known.get(digest).filter(|(at, _)| self.clock.since(*at) < KEPT).map(|(_, answer)| answer.clone())
    }

    fn keep(&self, digest: Digest, answer: Result<(), Refused>) {
        let mut known = locked(&self.known);
        known.retain(|_, (at, _)| self.clock.since(*at) < KEPT);
        if known.len() < MOST_KEPT {
            known.insert(digest, (self.clock.instant(), answer));
        }
    }

    async fn ask(&self, token: &str) -> Result<Result<(), Refused>, Error> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let said = call(self.tokens.create(&PostParams::default(), &review)).await?.status.unwrap_or_default();
        let Some(user) = said.user.filter(|_| said.authenticated == Some(true)) else {
            return Ok(Err(Refused::new(401, "the API server does not know this token")));
        };
        let name = user.username.clone().unwrap_or_default();
        let metrics = NonResourceAttributes { path: Some("/metrics".to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(metrics),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let said = call(self.rights.create(&PostParams::default(), &review)).await?.status;
        if said.is_some_and(|said| said.allowed) {
            return Ok(Ok(()));
        }
        Ok(Err(Refused::new(403, format!("{name} may not get the nonResourceURL /metrics: bind it to a ClusterRole"))))
    }
}

fn silent() -> Refused {
    Refused::new(503, "the API server does not say who you are: see the operator's log")
}

#[cfg(test)]
pub mod testing {
    use serde_json::{Value, json};

    /// A review, as an API server answers it.
    pub fn said<K: k8s_openapi::Resource>(status: &Value) -> (u16, String) {
        let object =
            json!({"apiVersion": K::API_VERSION, "kind": K::KIND, "metadata": {}, "spec": {}, "status": status});
        (201, object.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::testing::said;
    use super::*;
    use crate::clock::testing::Manual;
    use crate::http::testing::{answering_each, server};

    fn showing(token: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {token}").parse().unwrap())])
    }

    #[tokio::test]
    async fn the_api_server_says_who_may_and_is_asked_once_a_minute() {
        let user = json!({"username": "prometheus", "uid": "7", "groups": ["a"], "extra": {"b": ["c"]}});
        let known = || said::<TokenReview>(&json!({"authenticated": true, "user": user}));
        let (client, asked) = answering_each(vec![
            known(),
            said::<SubjectAccessReview>(&json!({"allowed": true})),
            known(),
            said::<SubjectAccessReview>(&json!({"allowed": false})),
            // Whoever it says it is.
            said::<TokenReview>(&json!({"authenticated": false, "user": user})),
        ]);
        let clock = Manual::new();
        let readers = Readers::new(client, clock.clone());
        for headers in [HeaderMap::new(), HeaderMap::from_iter([(AUTHORIZATION, "Basic one".parse().unwrap())])] {
            assert_eq!(readers.may(&headers).await.unwrap_err().status, 401);
        }
        assert_eq!(readers.may(&showing("one")).await, Ok(()));
        clock.pass(KEPT.checked_sub(Duration::from_millis(1)).unwrap());
        assert_eq!(readers.may(&showing("one")).await, Ok(()));
        clock.pass(Duration::from_millis(1));
        for _ in 0..2 {
            let refused = readers.may(&showing("one")).await.unwrap_err();
            assert!(refused.status == 403 && refused.why.starts_with("prometheus may not"), "{refused:?}");
            assert_eq!(readers.may(&showing("two")).await.unwrap_err().status, 401);
        }
        let asked = asked.join().unwrap();
        let reviews = "POST /apis/authentication.k8s.io/v1/tokenreviews";
        assert_eq!((asked[0].what.as_str(), &asked[0].body["spec"]["token"]), (reviews, &json!("one")));
        assert_eq!(asked[1].what, "POST /apis/authorization.k8s.io/v1/subjectaccessreviews");
        let expected = json!({
            "user": "prometheus", "uid": "7", "groups": ["a"], "extra": {"b": ["c"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(asked[1].body["spec"], expected);
    }

    #[tokio::test]
    async fn an_api_server_that_does_not_answer_lets_nobody_in_and_is_asked_again() {
        let (client, _asked) = server(500);
        let readers = Readers::new(client, Manual::new());
        assert_eq!(readers.may(&showing("one")).await.unwrap_err().status, 503);
        assert!(locked(&readers.known).is_empty());
    }

    #[tokio::test]
    async fn tokens_that_somebody_invents_take_no_more_memory() {
        let (clock, (client, _asked)) = (Manual::new(), server(500));
        let readers = Readers::new(client, clock.clone());
        let digest = |number: usize| Digest::of(&number.to_le_bytes());
        for number in 0..2 * MOST_KEPT {
            readers.keep(digest(number), Err(Refused::new(401, "")));
        }
        assert_eq!(locked(&readers.known).len(), MOST_KEPT);
        clock.pass(KEPT);
        readers.keep(digest(0), Ok(()));
        assert_eq!(readers.known(&digest(0)), Some(Ok(())));
        assert_eq!(locked(&readers.known).len(), 1);
    }
}
