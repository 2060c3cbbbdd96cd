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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info};

use crate::health::Health;
use crate::metrics::Metrics;
use crate::readers::Readers;
use crate::tls::Tls;

/// The most connections at a time. Others wait: each may take a page of metrics in memory.
const MOST: usize = 64;
/// How long a client may take until it has asked: once for a handshake, and once for a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection lasts at most, answer and all.
const LONGEST: Duration = Duration::from_secs(30);

/// What there is to read.
pub struct Pages {
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    /// Who may read metrics; none if everybody may.
    pub readers: Option<Readers>,
}

/// Listens from here on, and serves until the process ends.
pub async fn begin(address: SocketAddr, tls: Option<Tls>, pages: Pages) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    info!(%address, "serving /metrics");
    tokio::spawn(serve(listener, tls, pages));
    Ok(address)
}

async fn serve(listener: TcpListener, mut tls: Option<Tls>, pages: Pages) {
    let (pages, places) = (Arc::new(pages), Arc::new(Semaphore::new(MOST)));
    loop {
        // It is never closed.
        let place = Arc::clone(&places).acquire_owned().await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, or somebody who has gone already.
                debug!(%error, "can't accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (pages, acceptor) = (Arc::clone(&pages), tls.as_mut().map(Tls::acceptor));
        tokio::spawn(async move {
            let served = timeout(LONGEST, talk(stream, acceptor, &pages)).await;
            if let Err(why) = served.unwrap_or_else(|_| Err("it took too long".to_owned())) {
                debug!(why, "a connection broke");
            }
            drop(place);
        });
    }
}

async fn talk(stream: TcpStream, acceptor: Option<TlsAcceptor>, pages: &Pages) -> Result<(), String> {
    let Some(acceptor) = acceptor else { return answer_on(stream, pages).await };
    let handshake = timeout(PATIENCE, acceptor.accept(stream)).await;
    let stream = handshake.map_err(|_| "the handshake took too long")?.map_err(|error| error.to_string())?;
    answer_on(stream, pages).await
}

/// Answers one request.
async fn answer_on(stream: impl AsyncRead + AsyncWrite + Unpin, pages: &Pages) -> Result<(), String> {
    let service =
        service_fn(|request: Request<Incoming>| async move { Ok::<_, Infallible>(pages.answer(&request).await) });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    connection.await.map_err(|error| error.to_string())
}

impl Pages {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        const TEXT: &str = "text/plain";
        let (status, kind, body) = match request.uri().path() {
            "/metrics" => {
                let may = match &self.readers {
                    Some(readers) => readers.may(request.headers()).await,
                    None => Ok(()),
                };
                match may.map(|()| self.metrics.render()) {
                    Ok(Ok(body)) => (200, "application/openmetrics-text; version=1.0.0; charset=utf-8", body),
                    Ok(Err(error)) => (500, TEXT, error.to_string()),
                    Err(refused) => (refused.status, TEXT, refused.why + "\n"),
                }
            }
            "/healthz" if !self.health.is_well() => (503, TEXT, "a reconcile hangs\n".to_owned()),
            // A replica that waits to lead is ready as well: there is nothing that it would do better later.
            "/healthz" | "/readyz" => (200, TEXT, "ok\n".to_owned()),
            _ => (404, TEXT, "not found; use /metrics, /healthz or /readyz\n".to_owned()),
        };
        let response = Response::builder().status(status).header("content-type", kind);
        response.body(Full::new(Bytes::from(body))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::pin::pin;

    use k8s_openapi::api::authentication::v1::TokenReview;
    use k8s_openapi::api::authorization::v1::SubjectAccessReview;

    use super::*;
    use crate::clock::testing::Manual;
    use crate::http::Http;
    use crate::http::testing::answering_each;
    use crate::readers::testing::said;

    const SOME: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    fn pages(readers: Option<Readers>) -> Pages {
        Pages { metrics: Arc::new(Metrics::new()), health: Arc::new(Health::new(Manual::new())), readers }
    }

    fn testdata(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
    }

    /// As the kubelet replaces the files of a Secret.
    fn put(folder: &Path, certificate: &str, key: &str) {
        std::fs::copy(testdata(certificate), folder.join("tls.crt")).unwrap();
        std::fs::copy(testdata(key), folder.join("tls.key")).unwrap();
    }

    #[tokio::test]
    async fn metrics_are_for_those_who_may_read_them_and_probes_for_everybody() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "server.pem", "server.key");
        let known = || said::<TokenReview>(&serde_json::json!({"authenticated": true, "user": {"username": "u"}}));
        let may = |allowed: bool| said::<SubjectAccessReview>(&serde_json::json!({"allowed": allowed}));
        let (client, _asked) = answering_each(vec![known(), may(true), known(), may(false)]);
        let readers = Readers::new(client, Manual::new());
        let tls = Tls::read(folder.path().to_owned()).unwrap();
        let address = begin(SOME, Some(tls), pages(Some(readers))).await.unwrap();
        let http = Http::trusting(&testdata("ca.pem")).unwrap();
        let ask = async |path: &str, token| http.get_as(&format!("https://{address}{path}"), token).await;
        for (path, token, status, words) in [
            ("/metrics", None, 401, "send a bearer token"),
            ("/metrics", Some("right"), 200, "assay_leader 0"),
            ("/metrics", Some("no right"), 403, "u may not get"),
            ("/healthz", None, 200, "ok"),
            ("/readyz", None, 200, "ok"),
            ("/other", None, 404, "not found"),
        ] {
            let (found, body) = ask(path, token).await.unwrap();
            assert!(found == status && body.contains(words), "{path} {token:?}: {found} {body}");
        }
        let plain = http.get(&format!("http://{address}/healthz")).await;
        assert!(plain.is_err(), "{plain:?}");
    }

    #[tokio::test]
    async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Tls::read(folder.path().to_owned()).err().unwrap().contains("tls.crt"));
        put(folder.path(), "server.pem", "server.key");
        let address = begin(SOME, Some(Tls::read(folder.path().to_owned()).unwrap()), pages(None)).await.unwrap();
        let [old, new] = ["ca.pem", "renewed.pem"].map(|name| Http::trusting(&testdata(name)).unwrap());
        let ask = async |http: &Http| http.get(&format!("https://{address}/metrics")).await;
        // Who says nothing, and who has gone, are in nobody's way.
        let _silent = TcpStream::connect(address).await.unwrap();
        drop(TcpStream::connect(address).await.unwrap());
        assert_eq!(ask(&old).await.unwrap().0, 200);
        assert!(ask(&new).await.unwrap_err().contains("certificate"));
        put(folder.path(), "renewed.pem", "renewed.key");
        assert_eq!(ask(&new).await.unwrap().0, 200);
        assert!(ask(&old).await.unwrap_err().contains("certificate"));
        // One file is there before the other.
        put(folder.path(), "server.pem", "renewed.key");
        assert_eq!(ask(&new).await.unwrap().0, 200);
        std::fs::remove_file(folder.path().join("tls.key")).unwrap();
        assert_eq!(ask(&new).await.unwrap().0, 200);
        put(folder.path(), "server.pem", "server.key");
        assert_eq!(ask(&old).await.unwrap().0, 200);
    }

    #[tokio::test]
    async fn connections_are_bounded_and_who_comes_later_waits() {
        let address = begin(SOME, None, pages(None)).await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..MOST {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let (http, uri) = (Http::new(), format!("http://{address}/metrics"));
        let mut page = pin!(http.get(&uri));
        // Much less than the silent ones have.
        assert!(timeout(Duration::from_millis(200), &mut page).await.is_err());
        silent.pop();
        assert_eq!(page.await.unwrap().0, 200);
    }
}
