//! Objects as the API server has them, asked for by a list: of some kinds nothing else needs the right to get one.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, call};

/// The object of this name, if there is one.
pub async fn find<K>(api: &Api<K>, name: &str) -> Result<Option<K>, Error>
where
    K: DeserializeOwned + Clone + Debug,
{
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    Ok(call(api.list(&params)).await?.items.pop())
}

/// Creates an object. What is refused for a reason that may pass is tried again for a few seconds before that is believed.
pub async fn create<K>(api: &Api<K>, object: &K) -> Result<K, Error>
where
    K: Serialize + DeserializeOwned + Clone + Debug,
{
    let mut pauses = [1, 2, 4, 8].map(Duration::from_secs).into_iter();
    loop {
        let created = call(api.create(&PostParams::default(), object)).await;
        let pause = created.as_ref().is_err_and(Error::may_pass).then(|| pauses.next()).flatten();
        let Some(pause) = pause else { return created };
        tokio::time::sleep(pause).await;
    }
}

/// Deletes this very object, not one that has its name by now.
///
/// # Errors
/// Also if the answer says that the object is gone, and it is there as it was: that may be the answer of a webhook, or of an API server that
/// does not serve its kind yet.
pub async fn delete<K>(api: &Api<K>, object: &K, grace_period_seconds: Option<u32>) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let preconditions = Some(Preconditions { uid: object.uid(), resource_version: None });
    let params = DeleteParams { grace_period_seconds, preconditions, ..DeleteParams::default() };
    let name = object.name_any();
    let error = match call(api.delete(&name, &params)).await {
        Err(error) if error.is_conflict() || error.is_not_found() => error,
        done => return done.map(drop),
    };
    // One that is on its way out may still have to be ended by force.
    let stays = |there: &K| grace_period_seconds == Some(0) || there.meta().deletion_timestamp.is_none();
    match find(api, &name).await? {
        Some(there) if there.uid() == object.uid() && stays(&there) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use http_body_util::Full;
    use hyper::body::Bytes;
    use hyper::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;
    use crate::http::testing::{answering_each, server};
    use crate::lock::locked;

    fn pod() -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u1"}})).expect("a pod")
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_be_refused_in_passing_is_tried_again() {
        let refusal = |code: u16, reason: &str, message: &str| {
            (code, json!({"kind": "Status", "code": code, "reason": reason, "message": message}))
        };
        let webhook = || refusal(500, "InternalError", "failed calling webhook: no endpoints");
        let quota = || refusal(409, "Conflict", "Operation cannot be fulfilled on resourcequotas");
        for (answers, code) in [
            (vec![webhook(), quota(), webhook(), quota(), (201, json!(pod()))], None),
            (vec![webhook(), webhook(), webhook(), webhook(), webhook()], Some(500)),
            (vec![refusal(409, "AlreadyExists", "")], Some(409)),
            (vec![refusal(403, "Forbidden", "exceeded quota")], Some(403)),
        ] {
            let left = Arc::new(Mutex::new(VecDeque::from(answers)));
            let next = Arc::clone(&left);
            let server = service_fn(move |_: Request<Body>| {
                let (code, answer) = locked(&next).pop_front().expect("no more requests");
                let body = Full::new(Bytes::from(answer.to_string()));
                std::future::ready(Response::builder().status(code).body(body))
            });
            let created = create(&Api::namespaced(Client::new(server, "here"), "here"), &pod()).await;
            assert_eq!(created.err().and_then(|error| error.code()), code);
            assert!(locked(&left).is_empty());
        }
    }

    /// Another object may have the name by now: the API server is told which one is meant, and refuses otherwise.
    #[tokio::test]
    async fn what_is_deleted_is_this_very_object() {
        for (status, is_fine) in [(200, true), (403, false), (500, false)] {
            let (client, asked) = server(status);
            let deleted = delete(&Api::namespaced(client, "here"), &pod(), Some(0)).await;
            assert_eq!(deleted.is_ok(), is_fine, "{status}: {deleted:?}");
            let asked = asked.join().expect("a request");
            assert_eq!(asked.what, "DELETE /api/v1/namespaces/here/pods/p");
            assert_eq!(asked.body["preconditions"], json!({"uid": "u1"}));
            assert_eq!(asked.body["gracePeriodSeconds"], json!(0));
        }
    }

    /// Whatever a refusal says, and whoever says it.
    #[tokio::test]
    async fn an_object_has_gone_if_it_is_not_there() {
        let list = |items: Value| (200, json!({"kind": "PodList", "metadata": {}, "items": items}));
        let there = |metadata: Value| list(json!([{"metadata": metadata}]));
        let going = || there(json!({"name": "p", "uid": "u1", "deletionTimestamp": "2026-01-02T03:04:05Z"}));
        let cases = [
            (there(json!({"name": "p", "uid": "u1"})), None, false),
            (there(json!({"name": "p", "uid": "u1"})), Some(0), false),
            (going(), Some(0), false),
            ((500, json!({"kind": "Status", "code": 500})), None, false),
            (going(), None, true),
            (there(json!({"name": "p", "uid": "u2"})), Some(0), true),
            (list(json!([])), Some(0), true),
        ];
        for (code, ((status, body), grace, is_fine)) in
            [409, 404].into_iter().flat_map(|code| cases.clone().map(|case| (code, case)))
        {
            let refusal = json!({"kind": "Status", "code": code, "reason": ""});
            let (client, asked) = answering_each(vec![(code, refusal.to_string()), (status, body.to_string())]);
            let deleted = delete(&Api::namespaced(client, "here"), &pod(), grace).await;
            assert_eq!(deleted.is_ok(), is_fine, "{code}, {body}: {deleted:?}");
            let asked = asked.join().expect("two requests").pop().expect("the second");
            assert_eq!(asked.what, "GET /api/v1/namespaces/here/pods");
            assert_eq!(asked.query, ["fieldSelector=metadata.name%3Dp".to_owned()].into());
        }
    }
}
