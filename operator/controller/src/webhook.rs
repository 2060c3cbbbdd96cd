//! Sends messages to endpoints that teams have chosen. Whoever runs such an endpoint, or the DNS of its name, may be hostile: it gets one
//! request to a place that the administrator allows, a limited time, and nothing that it says is kept or shown except a status code.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use assay_core::sweep::notify::{Allowed, Host, Target, is_forbidden};
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_rustls::ConfigBuilderExt as _;
use hyper_util::rt::TokioIo;
use ring::hmac;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tracing::info;

/// For all of a try: name, connection, request and answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that the head of an answer may have. Its body is not read.
const HEAD_BYTES: usize = 16 << 10;
/// Addresses of a name that are tried.
const ADDRESSES: usize = 4;
/// The one answer to whatever goes wrong before there is a status code. Which of them it was would show who asks what is behind an address;
/// the log of the operator has it.
const UNREACHABLE: &str =
    "can't reach the endpoint: no address that is allowed, no connection, or an untrusted certificate";

/// A message as its endpoint gets it.
pub struct Message {
    pub body: String,
    /// Of the body, as Flux, GitHub and others write it.
    pub signature: String,
}

/// The way to endpoints.
pub trait Mail: Send + Sync {
    /// Posts a message, and returns the status of the answer.
    fn post<'a>(&'a self, target: &'a Target, message: Message) -> BoxFuture<'a, anyhow::Result<StatusCode>>;
}

/// What may be posted to where, by whichever way.
pub struct Webhooks {
    allowed: Vec<Allowed>,
    mail: Arc<dyn Mail>,
    patience: Duration,
}

impl Webhooks {
    pub fn new(allowed: &[Allowed], mail: Arc<dyn Mail>) -> Self {
        Self { allowed: allowed.to_vec(), mail, patience: PATIENCE }
    }

    /// Whether messages may go there. The error says who can change that.
    pub fn check(&self, target: &Target) -> Result<(), String> {
        if self.allowed.iter().any(|allowed| allowed.allows(target)) {
            return Ok(());
        }
        let scheme = if target.is_tls { "" } else { "http://" };
        Err(format!(
            "the operator may not send to {scheme}{}: its administrator has to add this to sweeps.webhooks.allowedHosts of the chart",
            target.authority()
        ))
    }

    /// Posts a message, signed with a key. The error is fit to be shown to whoever chose the endpoint.
    pub async fn post(&self, target: &Target, key: &[u8], body: String) -> Result<(), String> {
        self.check(target)?;
        let signature = signature(key, body.as_bytes());
        match tokio::time::timeout(self.patience, self.mail.post(target, Message { body, signature })).await {
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) if status.is_redirection() => {
                Err(format!("the endpoint answered {}, and redirects are not followed", status.as_u16()))
            }
            Ok(Ok(status)) => Err(format!("the endpoint answered {}", status.as_u16())),
            Ok(Err(error)) => {
                info!(error = format!("{error:#}"), endpoint = target.authority(), "can't reach a webhook");
                Err(UNREACHABLE.to_owned())
            }
            Err(_) => Err(format!("the endpoint did not answer within {} s", self.patience.as_secs())),
        }
    }
}

/// The network.
pub struct Network(TlsConnector);

impl Default for Network {
    fn default() -> Self {
        let tls = ClientConfig::builder().with_webpki_roots().with_no_client_auth();
        Self(TlsConnector::from(Arc::new(tls)))
    }
}

impl Network {
    async fn ask(&self, target: &Target, message: Message) -> anyhow::Result<StatusCode> {
        let request = Request::post(&target.path)
            .header(HOST, target.authority())
            .header(CONTENT_TYPE, "application/cloudevents+json; charset=utf-8")
            .header(CONNECTION, "close")
            .header("X-Signature", message.signature)
            .body(Full::new(Bytes::from(message.body)))?;
        let stream = connect(target).await?;
        if !target.is_tls {
            return exchange(stream, request).await;
        }
        let name = match &target.host {
            Host::Name(name) => ServerName::try_from(name.clone())?,
            Host::Address(address) => ServerName::from(*address),
        };
        exchange(self.0.connect(name, stream).await?, request).await
    }
}

impl Mail for Network {
    fn post<'a>(&'a self, target: &'a Target, message: Message) -> BoxFuture<'a, anyhow::Result<StatusCode>> {
        Box::pin(self.ask(target, message))
    }
}

fn signature(key: &[u8], body: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), body);
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("sha256={}", digits.collect::<String>())
}

/// A connection to an address that was checked: whoever answers for the name is asked once. An address instead of a name was allowed as it is.
async fn connect(target: &Target) -> anyhow::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match &target.host {
        Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
        Host::Name(name) => {
            let found =
                tokio::net::lookup_host((name.as_str(), target.port)).await.context("can't resolve its name")?;
            found.filter(|address| !is_forbidden(address.ip())).take(ADDRESSES).collect()
        }
    };
    anyhow::ensure!(!addresses.is_empty(), "its name has no address that is allowed");
    TcpStream::connect(&*addresses).await.context("can't connect")
}

/// The status of the answer. What else there is of it goes with the connection.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> anyhow::Result<StatusCode>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut client = http1::Builder::new();
    client.max_buf_size(HEAD_BYTES);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await?;
    let (mut connection, mut answer) = (pin!(connection), pin!(sender.send_request(request)));
    tokio::select! {
        biased;
        answer = &mut answer => return Ok(answer?.status()),
        ended = &mut connection => ended?,
    }
    Ok(answer.await?.status())
}

#[expect(clippy::disallowed_methods, reason = "endpoints that dawdle have threads of their own")]
#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::{self, Receiver};
    use std::thread;

    use assay_core::sweep::notify::{due, tried};
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    /// What an endpoint saw: the lines of a request's head, and its body.
    type Seen = (Vec<String>, String);

    /// An endpoint that reads a request, and does to whoever sent it what this says.
    fn endpoint(then: impl Fn(&mut std::net::TcpStream, usize) + Send + 'static) -> (String, Receiver<Seen>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, seen) = mpsc::channel();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let head = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
                let head: Vec<String> = head.collect();
                let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                reader.read_exact(&mut body).unwrap();
                let _ = tell.send((head, String::from_utf8(body).unwrap()));
                then(&mut stream, number);
            }
        });
        (address, seen)
    }

    fn answers(text: &'static str) -> impl Fn(&mut std::net::TcpStream, usize) + Send {
        move |stream, _| stream.write_all(text.as_bytes()).unwrap()
    }

    fn webhooks(allowed: &str, patience: Duration) -> Webhooks {
        Webhooks { patience, ..Webhooks::new(&[allowed.parse().unwrap()], Arc::new(Network::default())) }
    }

    async fn post(address: &str, patience: Duration) -> Result<(), String> {
        let url = format!("http://{address}/hook?team=storage");
        let webhooks = webhooks(&format!("http://{address}"), patience);
        webhooks.post(&Target::parse(&url).unwrap(), b"Jefe", "what do ya want for nothing?".to_owned()).await
    }

    const LONG: Duration = Duration::from_mins(5);

    #[tokio::test]
    async fn a_message_is_posted_with_the_signature_of_its_body() {
        let (address, seen) = endpoint(answers("HTTP/1.1 204 No Content\r\n\r\n"));
        assert_eq!(post(&address, LONG).await, Ok(()));
        let (head, body) = seen.recv().unwrap();
        assert_eq!(
            (head[0].as_str(), body.as_str()),
            ("POST /hook?team=storage HTTP/1.1", "what do ya want for nothing?")
        );
        // RFC 4231, test case 2.
        let signature = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        for line in [
            format!("host: {address}"),
            "content-type: application/cloudevents+json; charset=utf-8".to_owned(),
            format!("x-signature: sha256={signature}"),
        ] {
            assert!(head.contains(&line), "{line}: {head:?}");
        }
        assert_ne!(self::signature(b"Jeff", body.as_bytes()), format!("sha256={signature}"));
    }

    #[tokio::test]
    async fn an_endpoint_that_never_answers_is_left_after_a_while() {
        let (address, seen) = endpoint(|_, _| thread::sleep(LONG));
        let refused = post(&address, Duration::from_secs(1)).await;
        assert_eq!(refused, Err("the endpoint did not answer within 1 s".to_owned()));
        assert!(seen.recv().is_ok());
        // Nor one that takes the connection, and nothing else.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = post(&silent.local_addr().unwrap().to_string(), Duration::from_secs(1)).await;
        assert_eq!(refused, Err("the endpoint did not answer within 1 s".to_owned()));
    }

    #[tokio::test]
    async fn an_endpoint_that_answers_drop_by_drop_is_left_too() {
        let (address, _seen) = endpoint(|stream, _| {
            stream.write_all(b"HTTP/1.1 200 OK\r\na: ").unwrap();
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        });
        let refused = post(&address, Duration::from_secs(1)).await;
        assert_eq!(refused, Err("the endpoint did not answer within 1 s".to_owned()));
    }

    #[tokio::test]
    async fn an_endpoint_that_fails_at_first_gets_the_same_message_later() {
        let (address, seen) = endpoint(|stream, number| {
            let status = if number < 2 { 500 } else { 200 };
            write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        let begin = Timestamp::UNIX_EPOCH;
        let mut notified = due(None, None, "Regressed", begin).unwrap();
        let mut errors = Vec::new();
        while let Some(next) = notified.next_try_time.clone() {
            notified = tried(&notified, next.0, &post(&address, LONG).await);
            errors.extend(notified.error.clone());
        }
        assert_eq!(errors, ["the endpoint answered 500"; 2]);
        let delivered = notified.delivered_time.map(|time| time.0.duration_since(begin).as_mins());
        assert_eq!((notified.tries, delivered), (3, Some(6)));
        let messages: Vec<Seen> = seen.try_iter().collect();
        assert!(messages.len() == 3 && messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    }

    #[tokio::test]
    async fn redirects_are_not_followed() {
        let (other, asked) = endpoint(answers("HTTP/1.1 200 OK\r\n\r\n"));
        let (address, _seen) = endpoint(move |stream, number| {
            let place = if number == 0 { "169.254.169.254/latest/meta-data" } else { &other };
            write!(stream, "HTTP/1.1 307 x\r\nlocation: http://{place}/\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        for _ in 0..2 {
            let refused = post(&address, LONG).await;
            assert_eq!(refused, Err("the endpoint answered 307, and redirects are not followed".to_owned()));
        }
        assert!(asked.try_recv().is_err(), "it was asked");
    }

    #[tokio::test]
    async fn nothing_is_read_of_an_answer_but_its_status() {
        // More than what is on its way at any time.
        const MUCH: usize = 1 << 30;
        let (tell, written) = mpsc::channel();
        let (address, _seen) = endpoint(move |stream, number| {
            let head = if number == 0 {
                "HTTP/1.1 500 secret\r\ncontent-length: 1073741824\r\n\r\n"
            } else {
                "HTTP/1.1 500 x\r\na: "
            };
            let _ = stream.write_all(head.as_bytes());
            let block = vec![b'x'; 64 << 10];
            let mut sent = 0;
            while sent < MUCH && stream.write_all(&block).is_ok() {
                sent += block.len();
            }
            tell.send(sent).unwrap();
        });
        assert_eq!(post(&address, LONG).await, Err("the endpoint answered 500".to_owned()), "a body without an end");
        assert!(written.recv().unwrap() < MUCH / 8, "it was read");
        assert_eq!(post(&address, LONG).await, Err(UNREACHABLE.to_owned()), "a head without an end");
        assert!(written.recv().unwrap() < MUCH / 8, "it was read");
    }

    #[tokio::test]
    async fn what_is_behind_an_address_can_not_be_told_apart() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = unused.local_addr().unwrap().to_string();
        drop(unused);
        assert_eq!(post(&closed, LONG).await, Err(UNREACHABLE.to_owned()), "nobody listens");
        let (address, _seen) = endpoint(answers("SSH-2.0-OpenSSH_9.9\r\n\r\n"));
        assert_eq!(post(&address, LONG).await, Err(UNREACHABLE.to_owned()), "no HTTP");
        let (address, _seen) = endpoint(|_, _| {});
        assert_eq!(post(&address, LONG).await, Err(UNREACHABLE.to_owned()), "hung up");
        let (plain, _seen) = endpoint(answers("HTTP/1.1 200 OK\r\n\r\n"));
        let target = Target::parse(&format!("https://{plain}/")).unwrap();
        let refused = webhooks(&plain, LONG).post(&target, b"k", String::new()).await;
        assert_eq!(refused, Err(UNREACHABLE.to_owned()), "no TLS");
    }

    #[tokio::test]
    async fn a_certificate_of_nobodys_is_not_trusted() {
        let (address, asked) = crate::http::testing::pages("", true);
        let target = Target::parse(&format!("https://{address}/")).unwrap();
        let refused = webhooks(&address.to_string(), LONG).post(&target, b"k", String::new()).await;
        assert_eq!(refused, Err(UNREACHABLE.to_owned()));
        assert!(asked.try_recv().is_err(), "it got the message");
    }

    #[tokio::test]
    async fn a_name_that_leads_to_the_machine_itself_is_not_connected_to() {
        let (address, seen) = endpoint(answers("HTTP/1.1 200 OK\r\n\r\n"));
        let port = address.rsplit_once(':').unwrap().1;
        let url = format!("http://localhost:{port}/");
        let webhooks = webhooks(&format!("http://localhost:{port}"), LONG);
        let refused = webhooks.post(&Target::parse(&url).unwrap(), b"k", String::new()).await;
        assert_eq!(refused, Err(UNREACHABLE.to_owned()));
        assert!(seen.try_recv().is_err(), "it was asked");
    }

    #[tokio::test]
    async fn what_is_not_allowed_is_not_asked() {
        let (address, seen) = endpoint(answers("HTTP/1.1 200 OK\r\n\r\n"));
        let webhooks = Webhooks::new(&["hooks.example.com".parse().unwrap()], Arc::new(Network::default()));
        let target = Target::parse(&format!("http://{address}/")).unwrap();
        let refused = webhooks.post(&target, b"k", String::new()).await.expect_err("refused");
        assert!(refused.starts_with(&format!("the operator may not send to http://{address}: ")), "{refused}");
        assert!(seen.try_recv().is_err(), "it was asked");
    }
}
