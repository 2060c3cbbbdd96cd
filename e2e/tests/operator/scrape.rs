//! The metrics of an installed operator, asked for as the `ServiceMonitor` of the chart has Prometheus ask.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use tokio::process::Command;

use crate::lab::{Lab, SOON};

/// Values of the chart.
pub const SECURED: [&str; 4] = ["--set", "metrics.tls.secretName=metrics", "--set", "metrics.authorization=true"];

fn server_name(lab: &Lab) -> String {
    format!("assay-metrics.{}.svc", lab.namespace)
}

/// The Secret that these values name.
pub async fn certify(lab: &Lab) {
    let [certificate, key] = ["metrics.crt", "metrics.key"].map(|name| lab.folder.join(name).display().to_string());
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=metrics -addext";
    let names = format!("subjectAltName=DNS:{}", server_name(lab));
    let more = ["-addext", "basicConstraints=critical,CA:FALSE", "-out", &certificate, "-keyout", &key];
    let made = Command::new("openssl").args(request.split(' ')).arg(names).args(more).output().await;
    let made = made.expect("openssl can be started");
    lab.check(made.status.success(), &String::from_utf8_lossy(&made.stderr)).await;
    let files = [format!("tls.crt={certificate}"), format!("tls.key={key}"), format!("ca.crt={certificate}")];
    let files = files.iter().flat_map(|file| ["--from-file", file]);
    let create = ["create", "secret", "generic", "metrics", "--type", "kubernetes.io/tls"];
    lab.kubectl(&create.into_iter().chain(files).collect::<Vec<_>>()).await;
}

/// Each of the replicas answers who may read, over TLS.
pub async fn is_for_those_who_may(lab: &Lab) {
    // Of the whole cluster, so that it has to go before the release does.
    let role = format!("{}-reader", lab.namespace);
    let account = format!("{}:reader", lab.namespace);
    for name in ["reader", "stranger"] {
        lab.kubectl(&["create", "serviceaccount", name]).await;
    }
    lab.kubectl(&["create", "clusterrole", &role, "--verb", "get", "--non-resource-url", "/metrics"]).await;
    lab.kubectl(&["create", "clusterrolebinding", &role, "--clusterrole", &role, "--serviceaccount", &account]).await;
    let (mut tokens, authority) = (Vec::new(), lab.folder.join("metrics.crt").display().to_string());
    for name in ["reader", "stranger"] {
        tokens.push(lab.kubectl(&["create", "token", name]).await.trim().to_owned());
    }
    let operators = ListParams::default().labels("app.kubernetes.io/name=assay-operator");
    let pods = lab.api::<Pod>().list(&operators).await.expect("a list").items;
    let is_there = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
    let addresses: Vec<String> =
        pods.iter().filter(is_there).filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect();
    lab.check(addresses.len() == 2, &format!("two replicas: {addresses:?}")).await;
    for address in addresses {
        let server = format!("https://{address}:8080");
        let get = async |path: &str, more: &[&str]| {
            let trusted =
                ["--server", &server, "--certificate-authority", &authority, "--tls-server-name", &server_name(lab)];
            lab.kubectl(&[&trusted[..], more, &["get", "--raw", path]].concat()).await
        };
        // Rights that were just given are known soon.
        lab.until("who may read gets metrics", SOON, async || {
            get("/metrics", &["--token", &tokens[0]]).await.contains("\nassay_leader ").then_some(())
        })
        .await;
        for (path, more, expected) in [
            ("/metrics", &["--token", &tokens[1]][..], "may not get the nonResourceURL /metrics"),
            ("/metrics", &["--token", "invented"], "must be logged in"),
            ("/metrics", &[], "must be logged in"),
            ("/healthz", &[], "ok"),
            ("/readyz", &[], "ok"),
        ] {
            let said = get(path, more).await;
            lab.check(said.contains(expected), &format!("{path} {expected}: {said}")).await;
        }
    }
    lab.kubectl(&["delete", "clusterrole,clusterrolebinding", &role]).await;
}
