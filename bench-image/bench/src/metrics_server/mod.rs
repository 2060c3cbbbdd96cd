//! `GET /metrics` for Prometheus while a trial runs: one thread, one connection at a time.
//!
//! By hand because it runs beside a measurement: it sleeps in `accept` until somebody asks, and no client, however
//! slow or confused, can make it use more than a few kilobytes and a few seconds.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use assay_protocol::output::METRICS_PATH;

/// Renders the body in the `OpenMetrics` format. Called on the server's thread.
pub type Render = Arc<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For one whole request, so that a client that sends a byte now and then doesn't hold the server.
    request: Duration,
    response: Duration,
}

const PATIENCE: Patience = Patience { request: Duration::from_secs(2), response: Duration::from_secs(5) };
const MAX_REQUEST_BYTES: usize = 8 * 1024;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stopping: AtomicBool,
    /// The connection being served, so that stopping doesn't wait for a slow client.
    current: Mutex<Option<TcpStream>>,
}

impl MetricsServer {
    /// Port 0 takes a free port, which [`Self::local_addr`] tells.
    pub fn start(address: SocketAddr, render: Render) -> io::Result<Self> {
        Self::start_with(address, render, PATIENCE)
    }

    fn start_with(address: SocketAddr, render: Render, patience: Patience) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("metrics".to_owned())
                .spawn(move || serve(&listener, &shared, &render, patience))?
        };
        Ok(Self { address, shared, thread: Some(thread) })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        if let Some(stream) = &*self.shared.current.lock().unwrap_or_else(PoisonError::into_inner) {
            // Fails if the client is gone, which is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the thread from `accept`. If even that fails, the thread ends with the process.
        let woken = TcpStream::connect_timeout(&reachable(self.address), Duration::from_secs(1)).is_ok();
        if woken && let Some(thread) = self.thread.take() {
            // Only a renderer that panicked; there is nothing left to save here.
            let _ = thread.join();
        }
    }
}

/// An address to connect to for one to listen on.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

fn serve(listener: &TcpListener, shared: &Shared, render: &Render, patience: Patience) {
    let current = || shared.current.lock().unwrap_or_else(PoisonError::into_inner);
    while !shared.stopping.load(Ordering::SeqCst) {
        let Ok((mut stream, _)) = listener.accept() else {
            // Out of file descriptors, most likely: don't spin on the CPUs that are being measured.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let handle = stream.try_clone().ok();
        {
            let mut current = current();
            // Decided under the lock: whoever stops us either finds this connection here or has set the flag.
            if shared.stopping.load(Ordering::SeqCst) {
                break;
            }
            *current = handle;
        }
        // A client that fails has only itself to tell.
        let _ = answer(&mut stream, render, patience);
        *current() = None;
    }
}

fn answer(stream: &mut TcpStream, render: &Render, patience: Patience) -> io::Result<()> {
    let (status, content_type, body) = match read_request(stream, patience.request)? {
        Request::Malformed => ("400 Bad Request", "text/plain", "not HTTP\n".to_owned()),
        Request::TooLarge => ("431 Request Header Fields Too Large", "text/plain", "request too large\n".to_owned()),
        Request::OtherMethod => ("405 Method Not Allowed", "text/plain", "only GET\n".to_owned()),
        Request::Get(path) if path == METRICS_PATH => match render() {
            Ok(body) => ("200 OK", CONTENT_TYPE, body),
            Err(_) => ("500 Internal Server Error", "text/plain", "can't encode metrics\n".to_owned()),
        },
        Request::Get(_) => ("404 Not Found", "text/plain", "see /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let deadline = Instant::now() + patience.response;
    write_before(stream, head.as_bytes(), deadline)?;
    write_before(stream, body.as_bytes(), deadline)?;
    stream.shutdown(Shutdown::Write)?;
    drain(stream);
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Get(String),
    OtherMethod,
    Malformed,
    TooLarge,
}

fn read_request(stream: &mut TcpStream, patience: Duration) -> io::Result<Request> {
    let deadline = Instant::now() + patience;
    let mut bytes = Vec::with_capacity(1024);
    let mut chunk = [0; 1024];
    loop {
        stream.set_read_timeout(Some(remaining(deadline)?))?;
        let count = match stream.read(&mut chunk) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result?,
        };
        bytes.extend_from_slice(&chunk[..count]);
        if bytes.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(parse_request(&bytes));
        }
        if bytes.len() >= MAX_REQUEST_BYTES {
            return Ok(Request::TooLarge);
        }
        // Cut off before the empty line: whatever it was, it wasn't a request.
        if count == 0 {
            return Ok(Request::Malformed);
        }
    }
}

fn parse_request(bytes: &[u8]) -> Request {
    let line = bytes.split(|byte| *byte == b'\r').next().and_then(|line| std::str::from_utf8(line).ok());
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    match words.as_slice() {
        [method, target, version] if version.starts_with("HTTP/1.") && target.starts_with('/') => {
            let path = target.split('?').next().unwrap_or_default();
            if *method == "GET" { Request::Get(path.to_owned()) } else { Request::OtherMethod }
        }
        _ => Request::Malformed,
    }
}

fn write_before(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(remaining(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Closing with unread input resets the connection, and the client may lose the answer. A little patience for the
/// usual case; a client that keeps sending gets its reset.
fn drain(stream: &mut TcpStream) {
    let mut chunk = [0; 1024];
    let deadline = Instant::now() + Duration::from_millis(200);
    for _ in 0..64 {
        let Ok(rest) = remaining(deadline) else { return };
        if stream.set_read_timeout(Some(rest)).is_err() || !matches!(stream.read(&mut chunk), Ok(1..)) {
            return;
        }
    }
}

/// Never zero, which would mean to wait for ever.
fn remaining(deadline: Instant) -> io::Result<Duration> {
    let rest = deadline.saturating_duration_since(Instant::now());
    if rest.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(rest) }
}

#[cfg(test)]
mod tests;
