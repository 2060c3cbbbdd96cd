//! Requests to the API of GitHub. Whoever answers there gets the token, so it is asked by HTTPS alone, redirects are not followed, and no more
//! of an answer is read or shown than is needed.

use std::error::Error as StdError;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use assay_core::status::shorten;
use assay_core::sweep::notify::{Host, Target};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// For one request with its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most bytes of an answer: a page of comments, each as long as GitHub allows.
const ANSWER: usize = 32 << 20;
/// The most characters of what GitHub says that are shown.
const SHOWN: usize = 200;
/// Entries of a page.
const PAGE: usize = 100;
/// Pages that are looked through.
const PAGES: usize = 100;

pub struct GitHub {
    api: Target,
    token: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    patience: Duration,
}

impl GitHub {
    /// Of the API at an address.
    pub fn new(api: &str, token: &str) -> anyhow::Result<Self> {
        let target = Target::parse(api).map_err(|why| anyhow!("GITHUB_API_URL: {api}: {why}"))?;
        let is_here = match &target.host {
            Host::Name(name) => name == "localhost",
            Host::Address(address) => address.is_loopback(),
        };
        ensure!(
            target.is_tls || is_here,
            "GITHUB_API_URL: {api}: must begin with https://, because the token is sent there"
        );
        ensure!(!target.path.contains('?'), "GITHUB_API_URL: {api}: must end with a path: remove the query");
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1();
        // There are few requests, and a connection that was kept may be gone when the next one comes.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector.build());
        Ok(Self { api: target, token: token.to_owned(), client, patience: PATIENCE })
    }

    /// The first entry of a list that is wanted. `path` has no query yet.
    pub async fn find<T>(
        &self,
        path: &str,
        failed: &str,
        wanted: impl Fn(&Value) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        for page in 1..=PAGES {
            let path = format!("{path}?per_page={PAGE}&page={page}");
            let (answer, has_next) = self.ask(Method::GET, &path, None, failed).await?;
            let entries = answer.as_array().with_context(|| format!("{failed}: the answer is no list"))?;
            if let Some(found) = entries.iter().find_map(&wanted) {
                return Ok(Some(found));
            }
            if entries.is_empty() || (entries.len() < PAGE && !has_next) {
                return Ok(None);
            }
        }
        bail!("{failed}: there are more than {PAGES} pages")
    }

    /// Sends something.
    pub async fn write(&self, method: Method, path: &str, body: &Value, failed: &str) -> anyhow::Result<()> {
        self.ask(method, path, Some(body), failed).await.map(drop)
    }

    /// An answer, and whether a further page follows it.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        failed: &str,
    ) -> anyhow::Result<(Value, bool)> {
        let authority = self.api.authority();
        let answered = tokio::time::timeout(self.patience, self.exchange(method, path, body)).await;
        let (status, headers, bytes) = match answered {
            Ok(answered) => answered.with_context(|| failed.to_owned())?,
            Err(_) => bail!("{failed}: {authority} did not answer within {} s", self.patience.as_secs()),
        };
        let value = serde_json::from_slice::<Value>(&bytes);
        if !status.is_success() {
            let said = value.ok().and_then(|value| Some(value["message"].as_str()?.to_owned()));
            bail!("{failed}: {}", self.words(status, &headers, said.as_deref()));
        }
        let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
        let has_next = links.flat_map(|link| link.split(',')).any(|link| link.contains("rel=\"next\""));
        Ok((value.with_context(|| format!("{failed}: {authority} did not answer with JSON"))?, has_next))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
        let (scheme, authority) = (if self.api.is_tls { "https" } else { "http" }, self.api.authority());
        let uri = format!("{scheme}://{authority}{}{path}", self.api.path.trim_end_matches('/'));
        let token = HeaderValue::from_str(&format!("Bearer {}", self.token));
        let mut token = token.map_err(|_| anyhow!("GITHUB_TOKEN has characters that no token has"))?;
        token.set_sensitive(true);
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header(AUTHORIZATION, token)
            .header(ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", "2022-11-28")
            .header(USER_AGENT, concat!("assay/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.map_or(String::new(), Value::to_string))))?;
        let unreachable = |why: &dyn StdError| anyhow!("can't reach {authority} ({})", root(why));
        let (head, body) = self.client.request(request).await.map_err(|why| unreachable(&why))?.into_parts();
        let body = Limited::new(body, ANSWER).collect().await;
        let body = body.map_err(|why| anyhow!("can't read the answer of {authority} ({why})"))?;
        Ok((head.status, head.headers, body.to_bytes()))
    }

    /// Why a request was refused, and what to do.
    fn words(&self, status: StatusCode, headers: &HeaderMap, said: Option<&str>) -> String {
        let plain = |text: &str| text.replace(&self.token, "***").replace(char::is_control, " ");
        let said = said.map_or(String::new(), |said| format!(" ({})", shorten(&plain(said), SHOWN)));
        let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
        let code = status.as_u16();
        let is_limit = code == 429 || number("x-ratelimit-remaining") == Some(0) || headers.contains_key(RETRY_AFTER);
        match code {
            403 | 429 if is_limit => {
                let reset = number("x-ratelimit-reset").and_then(|reset| Timestamp::from_second(reset).ok());
                let later = number(RETRY_AFTER.as_str()).map(|seconds| format!("in {seconds} s"));
                let when = later.or_else(|| reset.map(|reset| format!("after {reset}")));
                format!("the rate limit is reached{said}: try again {}", when.as_deref().unwrap_or("later"))
            }
            401 => format!("GitHub rejected GITHUB_TOKEN{said}: set a valid token"),
            403 => format!(
                "GITHUB_TOKEN may not do that{said}: it needs write access to commit statuses, and to pull requests and issues \
                 (in a workflow, `permissions: {{statuses: write, pull-requests: write, issues: write}}`)"
            ),
            404 => format!(
                "not found{said}: check --repository, --commit and --pull-request, and that GITHUB_TOKEN can see the repository"
            ),
            422 => format!("GitHub rejected it{said}: check --commit and --pull-request"),
            300..=399 => format!("GitHub answered {code}, and redirects are not followed: was the repository renamed?"),
            _ => format!("GitHub answered {code}{said}: try again later"),
        }
    }
}

/// The innermost cause: the outer ones only say that there is one.
fn root(error: &dyn StdError) -> String {
    error.source().map_or_else(|| error.to_string(), root)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn who_does_not_answer_is_left_after_a_while() {
        let (silent, slow) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [&silent, &slow].map(|listener| listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = slow.accept().unwrap();
            // An answer that comes before the question is refused at once.
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n[").unwrap();
            while stream.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        });
        for address in addresses {
            let github = GitHub::new(&format!("http://{address}"), "token").unwrap();
            let github = GitHub { patience: Duration::from_secs(1), ..github };
            let refused = github.find("/x", "can't read x", |_| Some(())).await.unwrap_err();
            assert_eq!(refused.to_string(), format!("can't read x: {address} did not answer within 1 s"));
        }
    }
}
