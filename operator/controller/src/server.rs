//! `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tracing::{debug, info};

use crate::health::Health;
use crate::metrics::Metrics;

/// Serves until the process ends.
pub async fn serve(address: SocketAddr, metrics: Arc<Metrics>, health: Arc<Health>) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    info!(address = %listener.local_addr()?, "serving /metrics");
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, or somebody who has gone already.
                debug!(%error, "can't accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (metrics, health) = (Arc::clone(&metrics), Arc::clone(&health));
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(request.uri().path(), &metrics, &health);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(5))
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                debug!(%error, "a connection broke");
            }
        });
    }
}

fn answer(path: &str, metrics: &Metrics, health: &Health) -> Response<Full<Bytes>> {
    let (status, kind, body) = match path {
        "/metrics" => match metrics.render() {
            Ok(body) => (200, "application/openmetrics-text; version=1.0.0; charset=utf-8", body),
            Err(error) => (500, "text/plain", error.to_string()),
        },
        "/healthz" if !health.is_well() => (503, "text/plain", "a reconcile hangs\n".to_owned()),
        // A replica that waits to lead is ready as well: there is nothing that it would do better later.
        "/healthz" | "/readyz" => (200, "text/plain", "ok\n".to_owned()),
        _ => (404, "text/plain", "not found; use /metrics, /healthz or /readyz\n".to_owned()),
    };
    let response = Response::builder().status(status).header("content-type", kind);
    response.body(Full::new(Bytes::from(body))).unwrap_or_default()
}
