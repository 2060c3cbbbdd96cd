//! What the server holds, and what it answers.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::path;

/// An answer that the next requests get whose line holds a text.
pub struct Fault {
    pub on: String,
    pub times: usize,
    pub code: u16,
    pub body: String,
}

#[derive(Default)]
pub struct State {
    version: u64,
    /// By path.
    pub objects: BTreeMap<String, Value>,
    /// What watches send: version, path of the object, what happened to it.
    events: Vec<(u64, String, Value)>,
    pub faults: Vec<Fault>,
    /// Requests that change something, and their bodies.
    pub changes: Vec<(String, Value)>,
    pub requests: Vec<String>,
}

impl State {
    fn put(&mut self, mut object: Value) {
        let path = path(&object);
        self.version += 1;
        let version = self.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let kind = if self.objects.contains_key(&path) { "MODIFIED" } else { "ADDED" };
        self.events.push((version, path.clone(), json!({"type": kind, "object": object})));
        self.objects.insert(path, object);
    }
}

#[derive(Clone, Default)]
pub struct Shared(pub Arc<(Mutex<State>, Condvar)>);

impl Shared {
    pub fn put(&self, object: Value) {
        self.0.0.lock().unwrap().put(object);
        self.0.1.notify_all();
    }

    pub fn put_unheard(&self, object: Value) {
        let mut state = self.0.0.lock().unwrap();
        state.put(object);
        state.events.pop();
    }

    pub fn remove(&self, path: &str) -> bool {
        let mut state = self.0.0.lock().unwrap();
        let Some(object) = state.objects.remove(path) else { return false };
        state.version += 1;
        let version = state.version;
        state.events.push((version, path.to_owned(), json!({"type": "DELETED", "object": object})));
        self.0.1.notify_all();
        true
    }

    pub fn answer(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((method, target)) = line.split_once(' ') else { return };
        let target = target.split(' ').next().unwrap().to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            if header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let request = format!("{method} {target}");
        if let Some((code, body)) = self.fault(&request) {
            return send(stream, code, &body);
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let query: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        if method == "GET" && query.contains_key("watch") {
            return self.watch(stream, path, &query);
        }
        let (code, answer) = match method {
            "GET" => self.read(path, &query),
            "PATCH" => self.patch(&request, path, &body),
            "POST" | "PUT" => self.write(&request, path, body),
            "DELETE" => {
                self.0.0.lock().unwrap().changes.push((request.clone(), body));
                if self.remove(path) { (200, json!({"kind": "Status", "status": "Success"})) } else { missing(path) }
            }
            other => unreachable!("{other}"),
        };
        send(stream, code, &answer.to_string());
    }

    fn fault(&self, request: &str) -> Option<(u16, String)> {
        let mut state = self.0.0.lock().unwrap();
        state.requests.push(request.to_owned());
        let fault = state.faults.iter_mut().find(|fault| fault.times > 0 && request.contains(&fault.on))?;
        fault.times -= 1;
        Some((fault.code, fault.body.clone()))
    }

    fn read(&self, path: &str, query: &BTreeMap<&str, &str>) -> (u16, Value) {
        let state = self.0.0.lock().unwrap();
        if let Some(object) = state.objects.get(path) {
            return (200, object.clone());
        }
        let plurals = ["tuningexperiments", "tuningtrials", "tuningsweeps", "tuninghistories", "configmaps"];
        let is_list = plurals.iter().any(|plural| path.ends_with(plural));
        if !is_list {
            return missing(path);
        }
        let all: Vec<&Value> =
            state.objects.iter().filter(|(p, o)| selects(path, query, p, o)).map(|(_, o)| o).collect();
        // Pages are smaller than anybody asks for.
        let start = query.get("continue").map_or(0, |token| token.parse().unwrap());
        let end = if query.contains_key("limit") { (start + 5).min(all.len()) } else { all.len() };
        let token = if end < all.len() { json!(end.to_string()) } else { Value::Null };
        let metadata = json!({"resourceVersion": state.version.to_string(), "continue": token});
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": all[start..end]}))
    }

    /// An object as a whole: a new one, or another version of the one that is there.
    fn write(&self, request: &str, path: &str, mut body: Value) -> (u16, Value) {
        let namespace = path.split('/').skip_while(|part| *part != "namespaces").nth(1).unwrap().to_owned();
        body["metadata"]["namespace"] = json!(namespace);
        let mut state = self.0.0.lock().unwrap();
        state.changes.push((request.to_owned(), body.clone()));
        let known = state.objects.get(&super::path(&body)).map(|known| known["metadata"]["resourceVersion"].clone());
        if known.unwrap_or_default() != body["metadata"]["resourceVersion"] {
            return conflict();
        }
        state.put(body.clone());
        self.0.1.notify_all();
        (200, body)
    }

    fn patch(&self, request: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut state = self.0.0.lock().unwrap();
        state.changes.push((request.to_owned(), body.clone()));
        let mut object = state.objects.get(path).cloned().unwrap_or(json!({"metadata": {"generation": 1}}));
        let read = &body["metadata"]["resourceVersion"];
        if !read.is_null() && *read != object["metadata"]["resourceVersion"] {
            return conflict();
        }
        merge(&mut object, body);
        object["metadata"]["namespace"] = json!(path.split('/').rev().nth(2).unwrap());
        object["metadata"]["uid"] = json!("one");
        state.put(object.clone());
        self.0.1.notify_all();
        (200, object)
    }

    fn watch(&self, mut stream: &TcpStream, path: &str, query: &BTreeMap<&str, &str>) {
        let mut seen: u64 = query["resourceVersion"].parse().unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n").unwrap();
        let mut state = self.0.0.lock().unwrap();
        loop {
            let news: Vec<_> = state.events.iter().filter(|(version, ..)| *version > seen).cloned().collect();
            for (version, of, event) in news {
                seen = version;
                if selects(path, query, &of, &event["object"]) && writeln!(stream, "{event}").is_err() {
                    return;
                }
            }
            state = self.0.1.wait_timeout(state, Duration::from_mins(1)).unwrap().0;
        }
    }
}

/// Whether a list or watch of a path is about an object.
fn selects(list: &str, query: &BTreeMap<&str, &str>, path: &str, object: &Value) -> bool {
    let plural = list.rsplit('/').next().unwrap();
    let here =
        if list.contains("/namespaces/") { path.starts_with(&format!("{list}/")) } else { path.contains(plural) };
    let label = query.get("labelSelector").and_then(|selector| selector.split_once("%3D"));
    let field = query.get("fieldSelector").and_then(|selector| selector.split_once("%3D"));
    here && label.is_none_or(|(name, value)| {
        object["metadata"]["labels"][name.replace("%2F", "/").as_str()].as_str() == Some(value)
    }) && field.is_none_or(|(_, name)| object["metadata"]["name"].as_str() == Some(name))
}

fn merge(object: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !object.is_object() {
                *object = json!({});
            }
            for (key, value) in fields {
                merge(&mut object[key], value);
            }
        }
        other => *object = other.clone(),
    }
}

fn conflict() -> (u16, Value) {
    let message = "the object has been modified";
    (409, json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": message}))
}

fn missing(path: &str) -> (u16, Value) {
    let mut parts = path.rsplit('/');
    let (name, kind) = (parts.next().unwrap(), parts.next().unwrap());
    let message = format!("{kind}.assay.rocks \"{name}\" not found");
    let details = json!({"name": name, "kind": kind});
    (
        404,
        json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": message, "details": details}),
    )
}

fn send(mut stream: &TcpStream, code: u16, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    // Whoever asked may be gone.
    let _ = stream.write_all((head + body).as_bytes());
}
