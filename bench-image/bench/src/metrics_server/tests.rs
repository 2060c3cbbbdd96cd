#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{MetricsServer, Patience, Render, Request, parse_request};

/// What takes longer hangs.
const HANGS: Duration = Duration::from_mins(2);

fn start(render: Render) -> MetricsServer {
    MetricsServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), render).unwrap()
}

fn fixed(body: &'static str) -> MetricsServer {
    start(Arc::new(move || Ok(body.to_owned())))
}

fn connect(server: &MetricsServer) -> TcpStream {
    let stream = TcpStream::connect(server.local_addr()).unwrap();
    stream.set_read_timeout(Some(HANGS)).unwrap();
    stream
}

fn ask(server: &MetricsServer, request: &[u8]) -> String {
    let mut stream = connect(server);
    // Both may fail when the server hangs up on garbage.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(server: &MetricsServer, path: &str) -> String {
    ask(server, format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n").as_bytes())
}

#[test]
fn serves_a_registry() {
    let steps = Gauge::<u64, AtomicU64>::default();
    let mut registry = Registry::default();
    registry.register("steps", "Steps done", steps.clone());
    let registry = Arc::new(Mutex::new(registry));
    let server = start(Arc::new(move || {
        let mut body = String::new();
        let registry = registry.lock().map_err(|_| fmt::Error)?;
        encode(&mut body, &registry)?;
        Ok(body)
    }));
    for value in [7, 8] {
        steps.set(value);
        let answer = get(&server, "/metrics");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: application/openmetrics-text"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.contains(&format!("steps {value}\n")) && body.ends_with("# EOF\n"), "{body}");
    }
}

#[test]
fn other_requests_are_refused_and_the_next_is_served() {
    let server = fixed("fine\n");
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /metrics/x HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
        (b"\x16\x03\x01\xff\xfe\r\n\r\n", "400"),
        (b"GET /metrics\r\n\r\n", "400"),
        (&[b'x'; 8 * 1024], "431"),
    ] {
        let answer = ask(&server, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        assert!(get(&server, "/metrics?x=1").ends_with("\r\n\r\nfine\n"));
    }
    // Far more than the limit: an answer or a reset, but an end.
    ask(&server, &vec![b'x'; 1 << 20]);
    // Hangs up in the middle, before anything, and without reading.
    connect(&server).write_all(b"GET /met").unwrap();
    drop(connect(&server));
    connect(&server).write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut half = connect(&server);
    half.write_all(b"GET /metrics").unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    half.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(get(&server, "/metrics").ends_with("fine\n"));
}

#[test]
fn a_slow_client_does_not_hold_the_server() {
    let server = fixed("fine\n");
    let mut slow = connect(&server);
    slow.write_all(b"G").unwrap();
    let drip = std::thread::spawn(move || {
        // A byte now and then keeps every single read short of its timeout, and these are far from too many.
        let is_cut_off = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(300));
            slow.write_all(b"E").is_err()
        });
        assert!(is_cut_off, "a request may take as long as it wants to");
    });
    assert!(get(&server, "/metrics").ends_with("fine\n"));
    drip.join().unwrap();
}

#[test]
fn a_client_that_does_not_read_does_not_hold_the_server() {
    let server = start(Arc::new(|| Ok("x".repeat(64 << 20))));
    let mut deaf = connect(&server);
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(get(&server, "/").starts_with("HTTP/1.1 404 "));
    drop(deaf);
}

#[test]
fn a_body_that_cannot_be_rendered_is_an_error() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let server = start(Arc::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Err(fmt::Error)
    }));
    assert!(get(&server, "/metrics").starts_with("HTTP/1.1 500 "));
    get(&server, "/");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn stops_at_once_even_with_a_client_that_hangs() {
    // Whoever waits for the client waits for ever.
    let patience = Patience { request: Duration::from_hours(1), response: Duration::from_hours(1) };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = MetricsServer::start_with(address, Arc::new(|| Ok(String::new())), patience).unwrap();
    let address = server.local_addr();
    let hanging = connect(&server);
    std::thread::sleep(Duration::from_millis(100));
    let (stopped, waits) = mpsc::channel();
    std::thread::spawn(move || {
        drop(server);
        stopped.send(()).unwrap();
    });
    waits.recv_timeout(HANGS).expect("it stops");
    assert!(TcpStream::connect(address).is_err(), "the port is free again");
    drop(hanging);
    // Any address is reachable somehow.
    drop(MetricsServer::start(SocketAddr::from(([0, 0, 0, 0], 0)), Arc::new(|| Ok(String::new()))).unwrap());
}

#[test]
fn request_lines() {
    assert_eq!(parse_request(b"GET /metrics?a=b HTTP/1.0\r\n\r\n"), Request::Get("/metrics".to_owned()));
    assert_eq!(parse_request(b"HEAD / HTTP/1.1\r\n\r\n"), Request::OtherMethod);
    assert_eq!(parse_request(b"GET /a b HTTP/1.1\r\n\r\n"), Request::Malformed);
    assert_eq!(parse_request(b"GET x HTTP/1.1\r\n\r\n"), Request::Malformed);
    assert_eq!(parse_request(b""), Request::Malformed);
}
