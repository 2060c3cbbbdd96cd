//! Requests and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use assay_api::names::CONTAINER;
use serde_json::{Value, json};

use super::{Key, Kind, Refusal, Selector, Server, kind_of, merge, refusal};

/// What somebody asks of the API server.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub plural: &'static str,
    pub namespace: String,
    /// Empty: of all of them.
    pub name: String,
    pub subresource: String,
    pub query: BTreeMap<String, String>,
    pub content_type: String,
    pub body: Value,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn refusal(Refusal { code, reason, message }: &Refusal) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": reason, "message": message, "code": code});
        Self { code: *code, body: status.to_string().into_bytes() }
    }

    fn object(code: u16, object: &Value) -> Self {
        Self { code, body: object.to_string().into_bytes() }
    }
}

impl Asked {
    /// `None` for what this API server does not know.
    pub fn new(method: &str, path: &str, query: &str, content_type: &str, body: Value) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = parts.as_slice() else { return None };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return None,
        };
        let query = query.split('&').filter_map(|part| part.split_once('='));
        Some(Self {
            method: method.to_owned(),
            plural: kind_of(plural)?.plural,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query: query.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
            content_type: content_type.to_owned(),
            body,
        })
    }

    pub fn query(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    pub fn is_watch(&self) -> bool {
        matches!(self.query("watch"), "true" | "1")
    }

    pub fn is_write(&self) -> bool {
        self.method != "GET"
    }

    pub fn key(&self) -> Key {
        let name =
            if self.name.is_empty() { self.body["metadata"]["name"].as_str().unwrap_or_default() } else { &self.name };
        Key::new(self.plural, &self.namespace, name)
    }

    pub fn selector(&self) -> Selector {
        Selector::new(&self.namespace, self.query("labelSelector"), self.query("fieldSelector"))
    }
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(code)) => {
                decoded.push(code);
                at += 2;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn conflict(key: &Key, what: &str) -> Refusal {
    refusal(409, "Conflict", format!("Operation cannot be fulfilled on {key}: {what}"))
}

fn missing(key: &Key) -> Refusal {
    refusal(404, "NotFound", format!("{key} not found"))
}

impl Server {
    /// Everything but watches.
    pub fn answer(&mut self, asked: &Asked) -> Answer {
        let answer = match (asked.method.as_str(), asked.name.is_empty(), asked.subresource.as_str()) {
            ("GET", false, "log") => return self.log_of(asked),
            ("GET", false, _) => self.get(&asked.key()).cloned().ok_or_else(|| missing(&asked.key())),
            ("GET", true, _) => return Answer::object(200, &self.list(asked)),
            ("POST", ..) => self.create(asked.plural, &asked.namespace, asked.body.clone()),
            ("PUT", ..) => self.replace(asked),
            ("PATCH", ..) => self.patch(asked),
            ("DELETE", false, _) => self.delete_asked(asked),
            _ => Err(refusal(405, "MethodNotAllowed", asked.method.clone())),
        };
        match answer {
            Ok(object) => Answer::object(if asked.method == "POST" { 201 } else { 200 }, &object),
            Err(refusal) => Answer::refusal(&refusal),
        }
    }

    pub fn list(&self, asked: &Asked) -> Value {
        let Some(Kind { name: kind, version, .. }) = kind_of(asked.plural) else { return Value::Null };
        let selector = asked.selector();
        let items: Vec<&Value> =
            self.all(asked.plural).map(|(_, object)| &**object).filter(|object| selector.matches(object)).collect();
        json!({"kind": format!("{kind}List"), "apiVersion": version,
            "metadata": {"resourceVersion": self.revision.to_string()}, "items": items})
    }

    fn replace(&mut self, asked: &Asked) -> Result<Arc<Value>, Refusal> {
        let key = asked.key();
        let Some(there) = self.get(&key) else { return Err(missing(&key)) };
        let metadata = &asked.body["metadata"];
        if metadata["resourceVersion"].is_string()
            && metadata["resourceVersion"] != there["metadata"]["resourceVersion"]
        {
            return Err(conflict(&key, "the object has been modified"));
        }
        if metadata["uid"].is_string() && metadata["uid"] != there["metadata"]["uid"] {
            return Err(conflict(&key, "Precondition failed: UID in precondition"));
        }
        let body = asked.body.clone();
        self.change(&key, |object| {
            let mut body = body;
            for kept in ["uid", "creationTimestamp", "generation", "namespace", "resourceVersion"] {
                body["metadata"][kept] = object["metadata"][kept].clone();
            }
            for kept in ["apiVersion", "kind"] {
                body[kept] = object[kept].clone();
            }
            *object = body;
        })
        .ok_or_else(|| missing(&key))
    }

    fn patch(&mut self, asked: &Asked) -> Result<Arc<Value>, Refusal> {
        let key = asked.key();
        let is_apply = asked.content_type.contains("apply-patch");
        let is_status = asked.subresource == "status";
        let metadata = &asked.body["metadata"];
        let Some(there) = self.get(&key) else {
            // An apply makes what is not there, unless it is meant for somebody.
            if is_apply && !is_status && !metadata["uid"].is_string() {
                return self.create(asked.plural, &asked.namespace, asked.body.clone());
            }
            return Err(if is_apply && !is_status { conflict(&key, "uid mismatch") } else { missing(&key) });
        };
        for given in ["uid", "resourceVersion"] {
            if metadata[given].is_string() && metadata[given] != there["metadata"][given] {
                return Err(conflict(&key, &format!("Precondition failed: {given}")));
            }
        }
        let mut body = asked.body.clone();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            for given in ["uid", "resourceVersion", "name", "namespace"] {
                metadata.remove(given);
            }
        }
        let parts = body.as_object_mut();
        if let Some(parts) = parts {
            let has_status = kind_of(asked.plural).is_some_and(|kind| kind.has_status);
            parts.retain(|part, _| !matches!(part.as_str(), "apiVersion" | "kind"));
            parts.retain(|part, _| if is_status { part == "status" } else { !has_status || part != "status" });
        }
        let before = is_apply.then(|| {
            let manager = (key.clone(), asked.query("fieldManager").to_owned(), is_status);
            self.applied.insert(manager, body.clone())
        });
        let changed = self.change(&key, |object| match before {
            Some(before) => merge::apply(object, before.as_ref(), &body),
            None if asked.content_type.contains("strategic") => merge::strategic(object, &body),
            None => merge::merge(object, &body),
        });
        changed.ok_or_else(|| missing(&key))
    }

    fn delete_asked(&mut self, asked: &Asked) -> Result<Arc<Value>, Refusal> {
        let key = asked.key();
        let Some(there) = self.get(&key) else { return Err(missing(&key)) };
        for given in ["uid", "resourceVersion"] {
            let wanted = &asked.body["preconditions"][given];
            if wanted.is_string() && *wanted != there["metadata"][given] {
                return Err(conflict(&key, &format!("Precondition failed: {given}")));
            }
        }
        self.delete(&key, asked.body["gracePeriodSeconds"].as_u64()).ok_or_else(|| missing(&key))
    }

    fn log_of(&self, asked: &Asked) -> Answer {
        let key = asked.key();
        let Some(pod) = self.get(&key) else { return Answer::refusal(&missing(&key)) };
        if !pod["spec"]["nodeName"].is_string() {
            let message = format!("container \"{CONTAINER}\" in pod is waiting to start");
            return Answer::refusal(&refusal(400, "BadRequest", message));
        }
        let log = pod["metadata"]["uid"].as_str().and_then(|uid| self.logs.get(uid));
        Answer { code: 200, body: log.cloned().unwrap_or_default().into_bytes() }
    }
}
