//! What watches ask for is not waited for without end. kube ends a watch that says nothing for five minutes, but waits for a list, and for the
//! beginning of a watch: a connection that broke without a word would stop a watch for ever.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;
use tower::{BoxError, service_fn};

/// An API server itself ends what is no watch after a minute, and answers a watch at once.
const PATIENCE: Duration = Duration::from_secs(65);

/// A client for lists and watches.
pub fn impatient(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(service_fn(move |request| ask(client.clone(), request)), namespace)
}

async fn ask(client: Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.split('&').any(|parameter| parameter == "watch=true");
    let answer = async {
        let answer = client.send(request).await?;
        if is_watch && answer.status().is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        Ok(Response::from_parts(parts, body.collect_bytes().await?.into()))
    };
    let silent = || format!("the API server did not answer within {} s", PATIENCE.as_secs());
    timeout(PATIENCE, answer).await.map_err(|_| Error::new(ErrorKind::TimedOut, silent()))?
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::{ListParams, WatchParams};

    use super::*;

    /// Pods of an API server that says this with this status, or does not begin to answer, and is silent from then on.
    fn pods(says: Option<&'static str>, status: u16) -> Api<Pod> {
        let server = service_fn(move |_: Request<Body>| async move {
            let Some(says) = says else { return std::future::pending().await };
            let begin = stream::iter([Ok::<_, Error>(Frame::data(Bytes::from(says)))]);
            Response::builder().status(status).body(StreamBody::new(begin.chain(stream::pending())))
        });
        Api::all(impatient(Client::new(server, "here")))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_silent_is_an_error() {
        let says = "did not answer within 65 s";
        for list in [None, Some(r#"{"kind": "PodList", "metadata": {}, "it"#)] {
            let listed = pods(list, 200).list(&ListParams::default()).await;
            assert!(listed.as_ref().is_err_and(|error| error.to_string().contains(says)), "{listed:?}");
        }
        for (watch, status) in [(None, 200), (Some(r#"{"kind": "Status", "co"#), 503)] {
            let watched = pods(watch, status).watch(&WatchParams::default(), "1").await.err();
            assert!(watched.as_ref().is_some_and(|error| error.to_string().contains(says)), "{watched:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_say_nothing_once_it_has_begun() {
        let line = "{\"type\": \"ADDED\", \"object\": {\"metadata\": {\"name\": \"p\"}}}\n";
        let watched = pods(Some(line), 200).watch(&WatchParams::default(), "1").await.expect("an answer");
        let mut watched = std::pin::pin!(watched);
        assert!(matches!(watched.next().await, Some(Ok(_))));
        assert!(timeout(2 * PATIENCE, watched.next()).await.is_err());
    }
}
