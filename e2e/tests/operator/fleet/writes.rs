//! Who wrote what, by the audit log. It has everybody's writes only on a cluster for fleets.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use assay_api::names::NODE_LEASE_PREFIX;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;

use crate::machine::audit_log;

/// Writes by the name of a client and by kind, such as `create pods`.
pub type Writes = BTreeMap<(String, String), usize>;

/// What the log tells.
#[derive(Default)]
pub struct Seen {
    pub writes: Writes,
    /// The longest that an experiment held a node without its Lease being written. It may be taken for abandoned after three minutes.
    pub lease_unwritten: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    stage: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    stage_timestamp: MicroTime,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    name: String,
    subresource: Option<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// What these lines tell. What was refused is a kind of its own: it cost as much.
fn seen(lines: &str) -> serde_json::Result<Seen> {
    let mut seen = Seen::default();
    let mut written = BTreeMap::new();
    for line in lines.lines() {
        let entry: Entry = serde_json::from_str(line)?;
        let Some(object) = entry.object_ref.filter(|_| entry.stage == "ResponseComplete") else { continue };
        let user = entry.impersonated_user.unwrap_or(entry.user).username;
        let mut kind = format!("{} {}", entry.verb, object.resource);
        if let Some(part) = object.subresource {
            kind = format!("{kind}/{part}");
        }
        if let Some(code) = entry.response_status.map(|status| status.code).filter(|code| *code >= 400) {
            kind = format!("{kind} {code}");
        } else if object.resource == "leases" && object.name.starts_with(NODE_LEASE_PREFIX) {
            let last = match entry.verb.as_str() {
                "delete" => written.remove(&object.name),
                _ => written.insert(object.name, entry.stage_timestamp.0),
            };
            let since = last.and_then(|last| Duration::try_from(entry.stage_timestamp.0.duration_since(last)).ok());
            seen.lease_unwritten = seen.lease_unwritten.max(since.unwrap_or_default());
        }
        // Kubernetes' own clients have names of many parts.
        let client = user.rsplit(':').next().unwrap_or_default().to_owned();
        *seen.writes.entry((client, kind)).or_default() += 1;
    }
    Ok(seen)
}

/// Reads the log from where it was.
pub struct Audit(u64);

impl Audit {
    pub fn begin() -> Self {
        Self(std::fs::metadata(audit_log()).expect("the cluster keeps an audit log").len())
    }

    pub async fn end(self) -> Seen {
        // What was just answered is written a little later.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut log = std::fs::File::open(audit_log()).expect("the cluster keeps an audit log");
        let mut lines = String::new();
        log.seek(SeekFrom::Start(self.0)).expect("it only grows");
        log.read_to_string(&mut lines).expect("it is text");
        // The last line may be half of one.
        seen(lines.rsplit_once('\n').map_or("", |(whole, _)| whole)).expect("a line is JSON")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(stage: &str, verb: &str, user: &str, object: &Value, code: u16) -> Value {
        json!({
            "kind": "Event", "level": "Metadata", "stage": stage, "verb": verb, "user": {"username": user},
            "objectRef": object, "responseStatus": {"code": code}, "stageTimestamp": "2026-01-01T00:00:00.000000Z",
        })
    }

    #[test]
    fn writes_are_counted_by_client_and_kind() {
        let (pods, status) = (json!({"resource": "pods"}), json!({"resource": "pods", "subresource": "status"}));
        let mut as_another = entry("ResponseComplete", "create", "admin", &pods, 201);
        as_another["impersonatedUser"] = json!({"username": "assay-e2e", "groups": []});
        let lines = [
            as_another.clone(),
            as_another,
            entry("ResponseComplete", "delete", "system:serviceaccount:kube-system:job-controller", &pods, 200),
            entry("ResponseComplete", "patch", "kwok", &status, 409),
            entry("ResponseComplete", "patch", "kwok", &status, 200),
            // Not the answer, and about no object.
            entry("ResponseStarted", "patch", "kwok", &status, 200),
            entry("ResponseComplete", "post", "kwok", &Value::Null, 200),
        ];
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let counted = seen(&lines.join("\n")).expect("lines").writes;
        let counted: Vec<_> = counted.iter().map(|((client, kind), n)| (client.as_str(), kind.as_str(), *n)).collect();
        assert_eq!(
            counted,
            [
                ("assay-e2e", "create pods", 2),
                ("job-controller", "delete pods", 1),
                ("kwok", "patch pods/status", 1),
                ("kwok", "patch pods/status 409", 1),
            ]
        );
        assert!(seen("no JSON").is_err());
    }

    #[test]
    fn a_lease_is_held_from_write_to_write() {
        let line = |second: u32, verb: &str, name: &str, code: u16| {
            let mut entry =
                entry("ResponseComplete", verb, "assay", &json!({"resource": "leases", "name": name}), code);
            entry["stageTimestamp"] = format!("2026-01-01T00:00:{second:02}.500000Z").into();
            entry.to_string()
        };
        let longest = |lines: &[String]| seen(&lines.join("\n")).expect("lines").lease_unwritten.as_secs_f64();
        let (a, b) = (&format!("{NODE_LEASE_PREFIX}a"), &format!("{NODE_LEASE_PREFIX}b"));
        let held = [line(1, "create", a, 201), line(2, "create", b, 201), line(9, "update", a, 409)];
        assert_eq!(longest(&held), 0.0, "both may be held still");
        assert_eq!(longest(&[&held[..], &[line(11, "update", a, 200), line(14, "delete", b, 200)]].concat()), 12.0);
        // Nobody holds what was given back.
        assert_eq!(longest(&[line(1, "create", a, 201), line(2, "delete", a, 200), line(40, "create", a, 201)]), 1.0);
        assert_eq!(longest(&[line(1, "update", "node", 200), line(40, "update", "node", 200)]), 0.0);
    }
}
