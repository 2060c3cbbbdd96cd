//! One gRPC call without a parameter, on a socket: HTTP/2 with a message of five bytes before the message.

use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;

const PATIENCE: Duration = Duration::from_secs(3);
/// The most that an answer may have: pods of a node by the hundred have a tenth of it.
const MOST_BYTES: usize = 16 << 20;
/// Before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The message with which a method answers an empty one.
pub async fn call(socket: &Path, method: &str) -> Result<Vec<u8>, String> {
    tokio::time::timeout(PATIENCE, ask(socket, method)).await.unwrap_or_else(|_| Err("no answer".to_owned()))
}

async fn ask(socket: &Path, method: &str) -> Result<Vec<u8>, String> {
    let stream = UnixStream::connect(socket).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends with the sender.
    tokio::spawn(connection);
    let request = Request::post(format!("http://localhost{method}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Full::new(Bytes::from_static(&[0; PREFIX])))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MOST_BYTES).collect().await.map_err(|error| error.to_string())?;
    // Where there is no message the status is in the header.
    let trailers = body.trailers().cloned().unwrap_or_default();
    let said = |name: &str| {
        let value = trailers.get(name).or_else(|| head.headers.get(name));
        value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    if head.status != StatusCode::OK || said("grpc-status") != "0" {
        return Err(format!("{} {} {}", head.status, said("grpc-status"), said("grpc-message")));
    }
    message(&body.to_bytes()).ok_or_else(|| "the answer is not a single message".to_owned())
}

fn message(body: &[u8]) -> Option<Vec<u8>> {
    let (prefix, message) = body.split_at_checked(PREFIX)?;
    let length = u32::from_be_bytes(prefix[1..].try_into().ok()?);
    (prefix[0] == 0 && length as usize == message.len()).then(|| message.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_message_is_unpacked() {
        assert_eq!(message(&[0, 0, 0, 0, 0]), Some(vec![]));
        assert_eq!(message(&[0, 0, 0, 0, 2, 8, 9]), Some(vec![8, 9]));
        for broken in [&[][..], &[0, 0, 0, 0], &[1, 0, 0, 0, 1, 8], &[0, 0, 0, 0, 2, 8], &[0, 0, 0, 0, 1, 8, 9]] {
            assert_eq!(message(broken), None, "{broken:?}");
        }
    }

    #[tokio::test]
    async fn a_socket_without_a_kubelet_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("kubelet.sock");
        assert!(call(&socket, "/x").await.unwrap_err().contains("No such file"));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(call(&socket, "/x").await.unwrap_err(), "no answer");
    }
}
