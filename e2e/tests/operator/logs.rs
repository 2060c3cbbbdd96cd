//! What containers of fake nodes have printed, which nobody else knows: an API server that answers for it, and passes on everything
//! else. It keeps what was asked.

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::lab::Lab;

/// It answers as long as this is kept.
pub struct Logs {
    pub kubeconfig: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Logs {
    /// With what the pod of a name has printed, or how its kubelet fails.
    pub async fn start(lab: &Lab, printed: impl Fn(&str) -> Result<String, Fault> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (client, printed) = (lab.client.clone(), Arc::new(printed));
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = asked.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, printed, told) = (client.clone(), printed.clone(), told.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    told.lock().expect("requests").push(format!("{} {}", request.method(), request.uri()));
                    let pod = request.uri().path().strip_suffix("/log").and_then(|path| path.rsplit('/').next());
                    let log = pod.map(|pod| printed(pod));
                    let client = client.clone();
                    async move {
                        match log {
                            Some(Ok(log)) => Ok(Response::new(Body::from(log.into_bytes()))),
                            Some(Err(fault)) => fault.answer(),
                            None => pass_on(client, request).await,
                        }
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        let kubeconfig = lab.kubeconfig("logs", address);
        Self { kubeconfig, asked, task: task.abort_handle() }
    }

    /// Everything that was asked since this was last called, such as `GET /api/v1/nodes?watch=true`.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().expect("requests"))
    }
}

/// How a kubelet fails, and its API server therefore.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Silent,
    /// Its container runtime doesn't answer.
    NoRuntime,
}

impl Fault {
    fn answer(self) -> Answer {
        let (status, body) = match self {
            Self::Silent => (StatusCode::BAD_GATEWAY, ""),
            Self::NoRuntime => (StatusCode::OK, "unable to retrieve container logs for containerd://1234"),
        };
        Ok(Response::builder().status(status).body(Body::from(body.as_bytes().to_vec()))?)
    }
}

type Answer = Result<Response<Body>, Box<dyn Error + Send + Sync>>;

/// To the API server, with the credentials of the test.
async fn pass_on(client: Client, request: Request<Incoming>) -> Answer {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = Uri::builder().path_and_query(path).build()?;
    parts.headers.remove(HOST);
    let mut answer = client.send(Request::from_parts(parts, Body::from(body))).await?;
    // The client has unpacked it.
    for header in [CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING] {
        answer.headers_mut().remove(header);
    }
    Ok(answer)
}
