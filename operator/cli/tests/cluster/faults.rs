//! What goes wrong between us and a cluster is told with what to do about it.

use serde_json::json;

use crate::server::{NAMESPACE, Server};

fn status(code: u16, reason: &str, message: &str) -> String {
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}).to_string()
}

#[test]
fn clusters_that_are_not_there() {
    let server = Server::start();
    let refused = server.assay(&["status", "--kubeconfig", "nowhere.yaml"]);
    refused.refused("can't choose a cluster (failed to read kubeconfig from '\"nowhere.yaml\"'");
    refused.refused("set KUBECONFIG, or pass a kubeconfig with --kubeconfig and one of its contexts with --context");
    server.assay(&["status", "--context", "mars"]).refused("can't choose a cluster");
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let mut kubeconfig: serde_json::Value = serde_json::from_str(&kubeconfig).unwrap();
    kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("http://127.0.0.1:{port}"));
    std::fs::write(server.dir().join("away"), kubeconfig.to_string()).unwrap();
    let away = server.assay(&["status", "--kubeconfig", "away"]);
    away.refused("can't read the experiments: can't reach the cluster (Connection refused");
    away.refused("is it running? Use --context or --kubeconfig to choose another");
}

#[test]
fn answers_that_say_no() {
    let table = [
        (401, status(401, "Unauthorized", "Unauthorized"), "rejected your credentials: log in again"),
        (403, status(403, "Forbidden", "user x cannot list"), "not allowed (user x cannot list): ask for access"),
        (
            404,
            "404 page not found\n".to_owned(),
            "has no Assay custom resource definitions: install the Helm chart charts/assay",
        ),
        (
            404,
            status(404, "NotFound", "the server could not find the requested resource"),
            "has no Assay custom resource definitions",
        ),
        (500, status(500, "InternalError", "etcd is away"), "the cluster returned 500 (etcd is away): try again"),
        (
            500,
            status(500, "", "failed to create typed patch object: .spec.planted: field not declared in schema"),
            "definitions are older than this assay (failed to create typed patch object: .spec.planted: field not declared",
        ),
        (200, "{\"items\": 3}".to_owned(), "can't parse the cluster's answer"),
    ];
    for (code, body, message) in table {
        let server = Server::start();
        server.fail("tuningexperiments", 9, code, &body);
        server.assay(&["status"]).refused(message);
        server.assay(&["status", "buffers"]).refused(message);
        assert!(server.requests(NAMESPACE) > 0);
    }
}

#[test]
fn commands_for_this_machine_need_no_cluster() {
    let server = Server::start();
    let mut crd = server.command(&["crd"]);
    let output = crd.env("KUBECONFIG", "/nowhere").env("HOME", "/nowhere").output().unwrap();
    assert!(output.status.success());
}

#[test]
fn names_are_names() {
    let server = Server::start();
    for name in ["../pods", "Upper", "-x", ""] {
        let ran = server.assay(&["suspend", "--", name]);
        assert_eq!(ran.code(), 2, "{name:?}: {}", ran.stderr());
        assert!(ran.stderr().contains("must be the name of an experiment"), "{}", ran.stderr());
    }
    // What is no name may be a folder.
    for name in ["../pods", "Upper", "-x"] {
        server
            .assay(&["report", "--", name])
            .refused(&format!("{name} is neither a folder nor the name of an experiment"));
    }
    assert_eq!(server.requests(""), 0);
}
