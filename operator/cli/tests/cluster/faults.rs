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
    refused.refused("no cluster can be chosen (failed to read kubeconfig from '\"nowhere.yaml\"'");
    refused.refused("set KUBECONFIG, or name a kubeconfig with --kubeconfig and one of its contexts with --context");
    server.assay(&["status", "--context", "mars"]).refused("no cluster can be chosen");
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let mut kubeconfig: serde_json::Value = serde_json::from_str(&kubeconfig).unwrap();
    kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("http://127.0.0.1:{port}"));
    std::fs::write(server.dir().join("away"), kubeconfig.to_string()).unwrap();
    let away = server.assay(&["status", "--kubeconfig", "away"]);
    away.refused("the experiments can't be read: the cluster can't be reached (Connection refused");
    away.refused("is it running? --context and --kubeconfig choose another");
}

#[test]
fn answers_that_say_no() {
    let table = [
        (401, status(401, "Unauthorized", "Unauthorized"), "does not accept your credentials: log in again"),
        (
            403,
            status(403, "Forbidden", "user x cannot list"),
            "it is not allowed (user x cannot list): ask for this right",
        ),
        (
            404,
            "404 page not found\n".to_owned(),
            "does not know experiments of Assay: install their definitions with `kubectl apply",
        ),
        (
            404,
            status(404, "NotFound", "the server could not find the requested resource"),
            "does not know experiments of Assay",
        ),
        (500, status(500, "InternalError", "etcd is away"), "the cluster answers with 500 (etcd is away): try again"),
        (200, "{\"items\": 3}".to_owned(), "its answer can't be understood"),
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
        let ran = server.assay(&["report", "--", name]);
        assert_eq!(ran.code(), 2, "{name:?}: {}", ran.stderr());
        assert!(ran.stderr().contains("must be the name of an experiment"), "{}", ran.stderr());
    }
    assert_eq!(server.requests(""), 0);
}
