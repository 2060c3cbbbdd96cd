//! How patches change objects.

use serde_json::{Map, Value};

/// RFC 7386.
pub fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(object) = object.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// A strategic merge, as far as gates of pods need it: lists of named items, some of which are to go.
pub fn strategic(object: &mut Value, patch: &Value) {
    let mut rest = patch.clone();
    if let Some(gates) = rest.pointer_mut("/spec/schedulingGates").map(Value::take) {
        let is_deleted = |gate: &Value| {
            gates.as_array().into_iter().flatten().any(|one| one["$patch"] == "delete" && one["name"] == gate["name"])
        };
        if let Some(own) = object.pointer_mut("/spec/schedulingGates").and_then(Value::as_array_mut) {
            own.retain(|gate| !is_deleted(gate));
        }
        rest["spec"].as_object_mut().map(|spec| spec.remove("schedulingGates"));
    }
    merge(object, &rest);
}

/// Server-side apply by one manager: what it said before and says no more goes, what it says now is there. Lists are replaced as a whole,
/// since nobody else owns items of those that the operator applies.
pub fn apply(object: &mut Value, before: Option<&Value>, now: &Value) {
    if let Some(before) = before {
        forget(object, before, now);
    }
    put(object, now);
}

fn forget(object: &mut Value, before: &Value, now: &Value) {
    let (Some(object), Value::Object(before)) = (object.as_object_mut(), before) else { return };
    for (name, was) in before {
        match (now.get(name), object.get_mut(name)) {
            (None, Some(value)) if was.is_object() && value.is_object() => {
                forget(value, was, &Value::Null);
                if value.as_object().is_some_and(Map::is_empty) {
                    object.remove(name);
                }
            }
            (None, Some(_)) => drop(object.remove(name)),
            (Some(now), Some(value)) => forget(value, was, now),
            (_, None) => {}
        }
    }
}

fn put(object: &mut Value, now: &Value) {
    let Value::Object(now) = now else {
        object.clone_from(now);
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(object) = object.as_object_mut() else { return };
    for (name, value) in now {
        put(object.entry(name).or_insert(Value::Null), value);
    }
}
