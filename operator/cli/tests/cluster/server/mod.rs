//! As much of an API server as the cluster commands use.

mod answers;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lab::Ran;
use answers::{Fault, Shared};

pub const NAMESPACE: &str = "perf";

/// The server, with a kubeconfig that leads to it.
pub struct Server {
    shared: Shared,
    dir: Arc<TempDir>,
    url: String,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dir = Arc::new(TempDir::new().unwrap());
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        });
        std::fs::write(dir.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let shared = Shared::default();
        let served = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (served, stream) = (served.clone(), stream.unwrap());
                std::thread::spawn(move || served.answer(&stream));
            }
        });
        Self { shared, dir, url }
    }

    /// The same server, for another thread.
    pub fn beside(&self) -> Self {
        Self { shared: self.shared.clone(), dir: Arc::clone(&self.dir), url: self.url.clone() }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds an object, or changes it.
    pub fn put(&self, object: Value) {
        self.shared.put(object);
    }

    /// As `put`, but no watch ever tells of it.
    pub fn put_unheard(&self, object: Value) {
        self.shared.put_unheard(object);
    }

    pub fn remove(&self, path: &str) {
        self.shared.remove(path);
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.shared.0.0.lock().unwrap().objects.get(path).cloned()
    }

    /// All objects of a kind, by name.
    pub fn all(&self, plural: &str) -> Vec<Value> {
        let state = self.shared.0.0.lock().unwrap();
        let own = state.objects.iter().filter(|(path, _)| path.split('/').rev().nth(1) == Some(plural));
        own.map(|(_, object)| object.clone()).collect()
    }

    /// The next requests whose method and path hold a text get this answer.
    pub fn fail(&self, on: &str, times: usize, code: u16, body: &str) {
        let fault = Fault { on: on.to_owned(), times, code, body: body.to_owned() };
        self.shared.0.0.lock().unwrap().faults.push(fault);
    }

    pub fn changes(&self) -> Vec<(String, Value)> {
        self.shared.0.0.lock().unwrap().changes.clone()
    }

    pub fn requests(&self, holding: &str) -> usize {
        self.shared.0.0.lock().unwrap().requests.iter().filter(|request| request.contains(holding)).count()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assay"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("KUBECONFIG", self.kubeconfig())
            .env_remove("ASSAY_BENCH")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn assay(&self, args: &[&str]) -> Ran {
        Ran(self.command(args).output().unwrap())
    }

    pub fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }
}

/// The path of an object.
pub fn path(object: &Value) -> String {
    let of = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    let (prefix, plural) = match object["kind"].as_str().unwrap() {
        "TuningExperiment" => ("/apis/assay.rocks/v1alpha1", "tuningexperiments"),
        "TuningTrial" => ("/apis/assay.rocks/v1alpha1", "tuningtrials"),
        "TuningSweep" => ("/apis/assay.rocks/v1alpha1", "tuningsweeps"),
        "TuningHistory" => ("/apis/assay.rocks/v1alpha1", "tuninghistories"),
        "ConfigMap" => ("/api/v1", "configmaps"),
        other => unreachable!("{other}"),
    };
    format!("{prefix}/namespaces/{}/{plural}/{}", of("namespace"), of("name"))
}

pub fn experiment_path(name: &str) -> String {
    format!("/apis/assay.rocks/v1alpha1/namespaces/{NAMESPACE}/tuningexperiments/{name}")
}
