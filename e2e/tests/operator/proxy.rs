//! Between the operator and its API server, and as unkind as one in trouble.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::lab::Lab;

type Answer = Response<UnsyncBoxBody<Bytes, String>>;

/// How long a watch lasts, and how long a request hangs before it is given up.
const WATCH: Duration = Duration::from_secs(3);
const HANGS: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Conflict,
    TooManyRequests,
    InternalError,
    Timeout,
    /// The API server does what it is asked, and nobody hears of it.
    LostAnswer,
    CutWatch,
}

pub const FAULTS: [Fault; 6] =
    [Fault::Conflict, Fault::TooManyRequests, Fault::InternalError, Fault::Timeout, Fault::LostAnswer, Fault::CutWatch];

#[derive(Default)]
struct State {
    random: u64,
    counts: BTreeMap<Fault, usize>,
    /// That read, and that write.
    requests: [usize; 2],
    logs: usize,
}

#[derive(Clone)]
pub struct Proxy {
    client: Client,
    state: Arc<Mutex<State>>,
    /// Of a hundred requests, this many go wrong.
    percent: u64,
    /// Logs of containers do not end.
    endless_logs: bool,
}

/// It works as long as this is kept.
pub struct Running {
    pub kubeconfig: PathBuf,
    state: Arc<Mutex<State>>,
    task: AbortHandle,
}

impl Running {
    pub fn count(&self, fault: Fault) -> usize {
        self.state.lock().expect("the proxy").counts.get(&fault).copied().unwrap_or_default()
    }

    /// How many logs were asked for.
    pub fn logs(&self) -> usize {
        self.state.lock().expect("the proxy").logs
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub async fn start(lab: &Lab, percent: u64, seed: u64) -> Running {
        Self::serve(lab, |proxy| Self { percent, ..proxy }, seed).await
    }

    /// Kind, but for logs.
    pub async fn with_endless_logs(lab: &Lab) -> Running {
        Self::serve(lab, |proxy| Self { endless_logs: true, ..proxy }, 1).await
    }

    /// Speaks plain HTTP on this machine, and to the API server with the credentials of the test.
    async fn serve(lab: &Lab, change: impl FnOnce(Self) -> Self, seed: u64) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State { random: seed | 1, ..State::default() }));
        let proxy = Self { client: lab.client.clone(), state: state.clone(), percent: 0, endless_logs: false };
        let proxy = change(proxy);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let proxy = proxy.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let proxy = proxy.clone();
                        async move { proxy.answer(request).await }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        let kubeconfig = lab.kubeconfig("proxy", address);
        Running { kubeconfig, state, task: task.abort_handle() }
    }

    /// An error ends the connection without an answer.
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, String> {
        let watches = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|part| part == "watch=true" || part == "watch=1"));
        if self.endless_logs && request.uri().path().ends_with("/log") {
            self.state.lock().expect("the proxy").logs += 1;
            let noise = Bytes::from(vec![b'.'; 65536]);
            let frames = futures::stream::repeat_with(move || Ok(Frame::data(noise.clone())));
            return Ok(Response::new(StreamBody::new(frames).boxed_unsync()));
        }
        let writes = request.method() != Method::GET;
        let Some(fault) = self.fault(watches, writes) else { return self.forward(request, watches).await };
        match fault {
            Fault::Conflict => Ok(status(StatusCode::CONFLICT, "Conflict", &[])),
            Fault::TooManyRequests => {
                Ok(status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", &[("Retry-After", "1")]))
            }
            Fault::InternalError => Ok(status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &[])),
            Fault::Timeout => {
                tokio::time::sleep(HANGS).await;
                Ok(status(StatusCode::GATEWAY_TIMEOUT, "Timeout", &[]))
            }
            Fault::LostAnswer => {
                let answer = self.forward(request, watches).await?;
                let _ = answer.into_body().collect().await;
                Err("the connection ends before the answer".into())
            }
            Fault::CutWatch => self.forward(request, watches).await,
        }
    }

    /// Which fault this request meets.
    fn fault(&self, watches: bool, writes: bool) -> Option<Fault> {
        let State { random, counts, requests, .. } = &mut *self.state.lock().expect("the proxy");
        let mut kinds = if writes { FAULTS[..5].to_vec() } else { FAULTS[1..4].to_vec() };
        let is_untried = |fault: &Fault| !counts.contains_key(fault);
        // By luck alone a few requests would not meet all of them: as long as one is untried, each second request does.
        let turn = &mut requests[usize::from(writes)];
        *turn += 1;
        let is_due = self.percent > 0 && *turn % 2 == 1 && kinds.iter().any(is_untried);
        let is_first = watches && is_untried(&Fault::CutWatch);
        // Marsaglia, "Xorshift RNGs".
        let mut draw = || {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            *random
        };
        let fault = if !is_first && (is_due || draw() % 100 < self.percent) {
            let first = draw() as usize % kinds.len();
            kinds.rotate_left(first);
            // What came least often, so that a few requests meet all of them.
            let rarest = kinds.into_iter().min_by_key(|fault| counts.get(fault).copied().unwrap_or_default());
            rarest.expect("there are kinds")
        } else if watches {
            Fault::CutWatch
        } else {
            return None;
        };
        *counts.entry(fault).or_default() += 1;
        Some(fault)
    }

    async fn forward(&self, request: Request<Incoming>, watches: bool) -> Result<Answer, String> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.map_err(text)?.to_bytes();
        // Where to is known to the client, and so is who asks.
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = Uri::builder().path_and_query(path).build().map_err(text)?;
        parts.headers.remove(http::header::HOST);
        parts.headers.remove(http::header::AUTHORIZATION);
        let answer = self.client.send(Request::from_parts(parts, Body::from(body))).await.map_err(text)?;
        let (mut parts, body) = answer.into_parts();
        // The client has unpacked it.
        parts.headers.remove(http::header::CONTENT_ENCODING);
        parts.headers.remove(http::header::CONTENT_LENGTH);
        parts.headers.remove(http::header::TRANSFER_ENCODING);
        let frames = BodyStream::new(body).map(|frame| frame.map_err(text));
        let body = if watches {
            let cut = frames.take_until(tokio::time::sleep(WATCH));
            StreamBody::new(cut).boxed_unsync()
        } else {
            StreamBody::new(frames).boxed_unsync()
        };
        Ok(Response::from_parts(parts, body))
    }
}

fn text(error: impl std::fmt::Display) -> String {
    format!("{error}")
}

/// A failure in the words of Kubernetes.
fn status(code: StatusCode, reason: &str, headers: &[(&str, &str)]) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": "injected by the proxy of a test",
    });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut answer = Response::builder().status(code).header("Content-Type", "application/json");
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(body).expect("an answer")
}
