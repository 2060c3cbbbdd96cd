//! A small client for what is not the API server: a running bench, and Prometheus.

use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::header::AUTHORIZATION;
use hyper::{Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// The most that a page of metrics may have: that of a bench with 21 column families has a quarter.
const PAGE_BYTES: usize = 1 << 20;
/// The most that an answer with a few numbers may have.
const ANSWER_BYTES: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Http(Client<HttpsConnector<HttpConnector>, Empty<Bytes>>);

impl Http {
    pub fn new() -> Self {
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1();
        Self::by(connector.build())
    }

    /// Trusts the authorities of a file instead.
    pub fn trusting(authorities: &Path) -> Result<Self, String> {
        let unusable = |error: &dyn std::fmt::Display| format!("{}: {error}", authorities.display());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authorities).map_err(|error| unusable(&error))? {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            roots.add(certificate).map_err(|error| unusable(&error))?;
        }
        if roots.is_empty() {
            return Err(unusable(&"has no certificate"));
        }
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        Ok(Self::by(connector.build()))
    }

    /// Each request has a connection of its own. A host is asked rarely, and most are pods that are soon gone: one that was kept for the next
    /// request would stay for as long as the operator does.
    fn by(connector: HttpsConnector<HttpConnector>) -> Self {
        Self(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
    }

    /// The body of a page, whatever its status; the error says what went wrong.
    pub async fn get(&self, uri: &str) -> Result<(u16, String), String> {
        self.ask(uri, None, PAGE_BYTES).await
    }

    /// An answer that is short, with a bearer token.
    pub async fn get_as(&self, uri: &str, token: Option<&str>) -> Result<(u16, String), String> {
        self.ask(uri, token, ANSWER_BYTES).await
    }

    async fn ask(&self, uri: &str, token: Option<&str>, most: usize) -> Result<(u16, String), String> {
        let uri: Uri = uri.parse().map_err(|error| format!("{uri} is not an address: {error}"))?;
        let mut request = Request::get(uri.clone());
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::new()).map_err(|error| format!("can't ask {uri}: {error}"))?;
        let answer = async {
            let response = self.0.request(request).await.map_err(|error| deepest(&error))?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), most).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok((status, String::from_utf8_lossy(&body).into_owned()))
        };
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(format!(
                "{} did not answer within {} s",
                uri.authority().map_or("it", |a| a.as_str()),
                PATIENCE.as_secs()
            )),
        }
    }
}

/// What really happened, behind the layers that only pass it on.
pub fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
pub mod testing {
    use std::collections::BTreeSet;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::{Arc, mpsc};
    use std::thread::{self, JoinHandle};

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use serde_json::{Value, json};

    /// What `pages` has its certificate from. Its key was thrown away.
    pub const TEST_AUTHORITY: &[u8] = include_bytes!("../testdata/ca.pem");

    pub fn test_tls() -> ServerConfig {
        let certificate = CertificateDer::from_pem_slice(include_bytes!("../testdata/server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("../testdata/server.key")).unwrap();
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
    }

    /// A server that gives everybody this page, and tells with which lines it was asked.
    pub fn pages(page: &'static str, tls: bool) -> (SocketAddr, mpsc::Receiver<Vec<String>>) {
        trait Stream: std::io::Read + std::io::Write {}
        impl<T: std::io::Read + std::io::Write> Stream for T {}

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, asked) = mpsc::channel();
        let tls = tls.then(|| Arc::new(test_tls()));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut stream: Box<dyn Stream> = match &tls {
                    Some(tls) => Box::new(StreamOwned::new(ServerConnection::new(Arc::clone(tls)).unwrap(), stream)),
                    None => Box::new(stream),
                };
                let lines: Vec<String> = BufReader::new(&mut stream)
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                // Who does not trust it has not asked.
                if lines.is_empty() {
                    continue;
                }
                let _ = tell.send(lines);
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", page.len());
                let _ = stream.write_all((head + page).as_bytes()).and_then(|()| stream.flush());
            }
        });
        (address, asked)
    }

    /// What an API server was asked.
    pub struct Asked {
        /// Such as `DELETE /api/v1/namespaces/here/pods/p`.
        pub what: String,
        /// Its parameters, such as `tailLines=20`.
        pub query: BTreeSet<String>,
        pub body: Value,
    }

    /// An API server that answers one request, with this status.
    pub fn server(status: u16) -> (kube::Client, JoinHandle<Asked>) {
        let reason = match status {
            404 => "NotFound",
            409 => "Conflict",
            _ => "",
        };
        let answer = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": status, "reason": reason});
        answering(status, &answer.to_string())
    }

    /// An API server that answers one request with this body.
    pub fn answering(status: u16, answer: &str) -> (kube::Client, JoinHandle<Asked>) {
        let (client, asked) = answering_each(vec![(status, answer.to_owned())]);
        (client, thread::spawn(|| asked.join().unwrap().remove(0)))
    }

    /// An API server that answers one request after the other with these bodies.
    pub fn answering_each(answers: Vec<(u16, String)>) -> (kube::Client, JoinHandle<Vec<Asked>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answer = move |(status, answer): (u16, String)| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head: Vec<String> = Vec::new();
            while head.last().is_none_or(|line| !line.is_empty()) {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                head.push(line.trim().to_owned());
            }
            let length =
                head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let length = answer.len();
            let start = format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close");
            write!(stream, "{start}\r\ncontent-length: {length}\r\n\r\n{answer}").unwrap();
            let asked = head[0].trim_end_matches(" HTTP/1.1");
            let (what, query) = asked.split_once('?').unwrap_or((asked, ""));
            let query = query.split('&').filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect();
            Asked { what: what.to_owned(), query, body: serde_json::from_slice(&body).unwrap_or_default() }
        };
        let asked = thread::spawn(|| answers.into_iter().map(answer).collect());
        let client = kube::Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
        (client, asked)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Thousands of pods are asked, and few of them twice.
    #[tokio::test]
    async fn no_connection_is_kept() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.expect("a request"));
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.expect("it listens");
            stream.read(&mut [0]).await.expect("nothing goes wrong")
        });
        let http = Http::new();
        assert_eq!(http.get(&format!("http://{address}/metrics")).await, Ok((200, "ok".to_owned())));
        let rest = tokio::time::timeout(Duration::from_mins(1), served).await.expect("the connection ends");
        assert_eq!(rest.expect("no panic"), 0);
        drop(http);
    }
}
