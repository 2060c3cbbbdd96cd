//! A small client for what is not the API server: a running bench, and Prometheus.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Uri;
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// The most that an answer may have.
const MOST_BYTES: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Http(Client<HttpsConnector<HttpConnector>, Empty<Bytes>>);

impl Http {
    pub fn new() -> Self {
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1();
        Self(Client::builder(TokioExecutor::new()).build(connector.build()))
    }

    /// The body of a page, whatever its status; the error says what went wrong.
    pub async fn get(&self, uri: &str) -> Result<(u16, String), String> {
        let uri: Uri = uri.parse().map_err(|error| format!("{uri} is not an address: {error}"))?;
        let answer = async {
            let response = self.0.get(uri.clone()).await.map_err(|error| deepest(&error))?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
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
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use serde_json::{Value, json};

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
        let answer = answer.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = thread::spawn(move || {
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
            write!(
                stream,
                "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{answer}"
            )
            .unwrap();
            let asked = head[0].trim_end_matches(" HTTP/1.1");
            let (what, query) = asked.split_once('?').unwrap_or((asked, ""));
            let query = query.split('&').filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect();
            Asked { what: what.to_owned(), query, body: serde_json::from_slice(&body).unwrap_or_default() }
        });
        let client = kube::Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
        (client, asked)
    }
}
