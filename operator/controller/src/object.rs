//! Objects as the API server has them, asked for by a list: of some kinds nothing else needs the right to get one.

use std::fmt::Debug;

use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use kube::{Resource, ResourceExt as _};
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

/// Deletes this very object, not one that has its name by now.
///
/// # Errors
/// Also if the API server answers with a conflict, and the object is there as it was: the answer may be that of a webhook.
pub async fn delete<K>(api: &Api<K>, object: &K, grace_period_seconds: Option<u32>) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let preconditions = Some(Preconditions { uid: object.uid(), resource_version: None });
    let params = DeleteParams { grace_period_seconds, preconditions, ..DeleteParams::default() };
    let name = object.name_any();
    match call(api.delete(&name, &params)).await {
        Err(error) if error.is_conflict() => match find(api, &name).await? {
            Some(there) if there.uid() == object.uid() && there.meta().deletion_timestamp.is_none() => Err(error),
            _ => Ok(()),
        },
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::http::testing::{answering_each, server};

    fn pod() -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u1"}})).expect("a pod")
    }

    /// Another object may have the name by now: the API server is told which one is meant, and refuses otherwise.
    #[tokio::test]
    async fn what_is_deleted_is_this_very_object() {
        for (status, is_fine) in [(200, true), (404, true), (403, false), (500, false)] {
            let (client, asked) = server(status);
            let deleted = delete(&Api::namespaced(client, "here"), &pod(), Some(0)).await;
            assert_eq!(deleted.is_ok(), is_fine, "{status}: {deleted:?}");
            let asked = asked.join().expect("a request");
            assert_eq!(asked.what, "DELETE /api/v1/namespaces/here/pods/p");
            assert_eq!(asked.body["preconditions"], json!({"uid": "u1"}));
            assert_eq!(asked.body["gracePeriodSeconds"], json!(0));
        }
    }

    #[tokio::test]
    async fn a_conflict_is_believed_if_the_object_is_gone() {
        let there =
            |metadata: Value| (200, json!({"kind": "PodList", "metadata": {}, "items": [{"metadata": metadata}]}));
        for ((status, body), is_fine) in [
            ((200, json!({"kind": "PodList", "metadata": {}, "items": []})), true),
            (there(json!({"name": "p", "uid": "u2"})), true),
            (there(json!({"name": "p", "uid": "u1", "deletionTimestamp": "2026-01-02T03:04:05Z"})), true),
            (there(json!({"name": "p", "uid": "u1"})), false),
            ((500, json!({"kind": "Status", "code": 500})), false),
        ] {
            let conflict = json!({"kind": "Status", "code": 409, "reason": "Conflict"});
            let (client, asked) = answering_each(vec![(409, conflict.to_string()), (status, body.to_string())]);
            let deleted = delete(&Api::namespaced(client, "here"), &pod(), None).await;
            assert_eq!(deleted.is_ok(), is_fine, "{body}: {deleted:?}");
            let asked = asked.join().expect("two requests").pop().expect("the second");
            assert_eq!(asked.what, "GET /api/v1/namespaces/here/pods");
            assert_eq!(asked.query, ["fieldSelector=metadata.name%3Dp".to_owned()].into());
        }
    }
}
