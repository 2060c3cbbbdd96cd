//! The operator as a process of this machine.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::lab::{Lab, SOON};
use crate::machine;

/// What fake nodes pretend to run.
pub const IMAGE: &str = "localhost/assay-bench:e2e";

/// The program under test.
pub fn program() -> String {
    std::env::var("ASSAY_OPERATOR").expect("ASSAY_OPERATOR is the path of the operator")
}

/// What its image sets.
fn environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../../../operator/Containerfile").lines();
    let set = lines.filter_map(|line| line.strip_prefix("ENV ")).flat_map(str::split_whitespace);
    set.filter_map(|set| set.split_once('='))
}

pub struct Operator {
    command: Command,
    log: PathBuf,
    process: Child,
    port: u16,
}

impl Operator {
    pub fn start(program: &str, identity: &str, args: &[&str], kubeconfig: &PathBuf, log: PathBuf) -> Self {
        let port = free_port();
        let mut command = Command::new(program);
        command
            .args(["--listen", &format!("127.0.0.1:{port}"), "--identity", identity])
            .args(args)
            .envs(environment())
            // Arguments may name another one.
            .env("ASSAY_BENCH_IMAGE", IMAGE)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null());
        let process = spawn(&mut command, &log);
        Self { command, log, process, port }
    }

    /// As the kernel does it when memory runs out.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// As Kubernetes does it when a Deployment is updated; returns whether it ended with 0.
    pub fn terminate(&mut self) -> bool {
        let _ = kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGTERM);
        self.process.wait().is_ok_and(|status| status.success())
    }

    /// Again, under the same name, as the kubelet starts a container anew.
    pub fn start_again(&mut self) {
        self.process = spawn(&mut self.command, &self.log);
    }

    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_none())
    }

    /// The most memory that it had so far.
    pub fn peak_mib(&self) -> u64 {
        self.memory_kib("VmHWM") / 1024
    }

    /// The CPU time that it has used so far.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it is running");
        // Its own name may be anything, spaces and all.
        let (_, fields) = stat.rsplit_once(')').expect("the name of the program");
        machine::ticks(fields.split_whitespace().skip(11).take(2))
    }

    /// What the kernel counts under a name, such as `VmRSS`.
    pub fn memory_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it is running");
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(known, _)| *known == name).expect("the kernel counts memory");
        value.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Where it answers.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it answers to a request, headers and all.
    pub async fn get(&self, path: &str) -> String {
        get(self.port, path).await
    }

    /// Waits until it watches for the second time, after it was started again.
    pub async fn is_back(&self, lab: &Lab) {
        let watches = async || (self.said().matches(r#""message":"watching""#).count() == 2).then_some(());
        lab.until("the operator watches again", SOON, watches).await;
    }

    /// How often it has reconciled anything.
    pub async fn reconciles(&self) -> u64 {
        let metrics = self.get("/metrics").await;
        let counts = metrics.lines().filter(|line| line.starts_with("assay_reconcile_duration_seconds_count"));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The same by lines, each of which is JSON.
    pub fn lines(&self) -> Vec<Value> {
        let parsed = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.said().lines().map(parsed).collect()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What an operator answers there.
pub async fn get(port: u16, path: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
        let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).await;
        let _ = stream.read_to_string(&mut answer).await;
    }
    answer
}

fn spawn(command: &mut Command, log: &PathBuf) -> Child {
    let file = File::options().create(true).append(true).open(log).expect("a log");
    command.stdout(file.try_clone().expect("a log")).stderr(file);
    command.spawn().expect("the operator can be started")
}

/// Free at the moment: whoever binds next gets another one.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}
