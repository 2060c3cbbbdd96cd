//! A registry of images: the one that most are made of, as a process of this machine that the cluster reaches like any other registry.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::lab::{Lab, SOON};
use crate::machine::{self, address, cluster};
use crate::operator::free_port;

/// Who may use a registry that asks.
pub const USER: &str = "lab";
pub const PASSWORD: &str = "night-watch";
/// The password as htpasswd files have it, and both as HTTP sends them.
const HASHED: &str = "$2b$04$he/sPcDbh1bnYsklVDguCOjhh8pSlJ3AH2.8ibCDGaVZT.9yHzr6O";
const ENCODED: &str = "bGFiOm5pZ2h0LXdhdGNo";

/// It serves as long as this is kept.
pub struct Registry {
    process: Child,
    /// As images begin that are in it.
    pub address: String,
    asks: bool,
    /// Where the node reads how to reach it.
    hosts: PathBuf,
}

impl Registry {
    /// For everybody.
    pub async fn open(lab: &Lab) -> Self {
        Self::start(lab, "open", false).await
    }

    /// For those who know the password.
    pub async fn asking(lab: &Lab) -> Self {
        Self::start(lab, "asking", true).await
    }

    async fn start(lab: &Lab, name: &str, asks: bool) -> Self {
        let address = format!("{}:{}", address(), free_port());
        let folder = lab.folder.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": folder.join("images")}, "delete": {"enabled": true}},
            "http": {"addr": address},
        });
        if asks {
            let users = folder.join("users");
            std::fs::write(&users, format!("{USER}:{HASHED}\n")).expect("a file");
            config["auth"] = json!({"htpasswd": {"realm": "lab", "path": users}});
        }
        let hosts = machine::registries().join(&address);
        std::fs::create_dir_all(&hosts).expect("a folder");
        let reached = format!(
            "server = \"http://{address}\"\n[host.\"http://{address}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
        );
        std::fs::write(hosts.join("hosts.toml"), reached).expect("a file");
        let registry = Self { process: serve(&folder, &config), address, asks, hosts };
        lab.until("the registry answers", SOON, async || registry.ask("GET", "/v2/").await.map(drop)).await;
        registry
    }

    /// An image in it.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Pushes an image of `test.sh` to a tag, as whoever builds it would, and returns its digest.
    pub async fn push(&self, tagged: &str, image: &str) -> String {
        let login = format!("{USER}:{PASSWORD}");
        let mut push = vec!["exec", "ctr", "--namespace", "k8s.io", "images", "push", "--plain-http"];
        if self.asks {
            push.extend(["--user", &login]);
        }
        let (remote, local) = (self.image(tagged), machine::image(image));
        push.extend([remote.as_str(), &local]);
        cluster(&push).await;
        let (repository, tag) = tagged.split_once(':').expect("a tag");
        let answer = self.ask("HEAD", &manifest(repository, tag)).await.expect("the registry answers");
        let digest = answer.lines().find_map(|line| line.strip_prefix("Docker-Content-Digest: "));
        digest.unwrap_or_else(|| panic!("{tagged} has no digest: {answer}")).trim().to_owned()
    }

    /// Deletes a tag, or an image by its digest with all of its tags.
    pub async fn delete(&self, repository: &str, reference: &str) {
        let answer = self.ask("DELETE", &manifest(repository, reference)).await.expect("the registry answers");
        assert!(answer.starts_with("HTTP/1.1 202"), "{repository}, {reference}: {answer}");
    }

    /// What it answers, headers and all.
    async fn ask(&self, method: &str, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).await.ok()?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic {ENCODED}\r\nConnection: close\r\n\
             Accept: application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        (!answer.is_empty()).then_some(answer)
    }
}

fn manifest(repository: &str, reference: &str) -> String {
    format!("/v2/{repository}/manifests/{reference}")
}

fn serve(folder: &Path, config: &Value) -> Child {
    let program = std::env::var("ASSAY_REGISTRY").expect("ASSAY_REGISTRY is the path of the registry");
    let file = folder.join("config.yaml");
    std::fs::write(&file, config.to_string()).expect("a configuration");
    let log = File::create(folder.join("log")).expect("a log");
    Command::new(program)
        .arg("serve")
        .arg(file)
        // It talks to nobody of its own accord.
        .env("OTEL_TRACES_EXPORTER", "none")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("ASSAY_REGISTRY can be started")
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.hosts);
        // A node tells only a few names of each image, and these mean nothing any more.
        let remove = "ctr -n k8s.io images list -q | grep -F \"$1/\" | xargs -r ctr -n k8s.io images remove";
        let _ = Command::new(machine::script())
            .args(["exec", "sh", "-c", remove, "sh", &self.address])
            .stdout(Stdio::null())
            .status();
    }
}
