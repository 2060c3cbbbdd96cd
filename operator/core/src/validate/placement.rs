//! Where trials run: what the schema knows only as texts, and what the API server would say of the pods.

use assay_api::{NodeToleration, Placement, TolerationOperator};

use super::problem::{FieldPath, Problem};
use crate::quantity;

pub(super) fn check(placement: &Placement) -> Vec<Problem> {
    let path = FieldPath::root().keys("spec.placement");
    let mut problems: Vec<Problem> = storage(placement, &path).into_iter().collect();
    problems.extend(sizes(placement, &path));
    for (key, value) in &placement.node_selector {
        let path = path.keys("nodeSelector").key(key);
        problems.extend(wrong_key(key).map(|why| Problem::error(path.clone(), why).at_key()));
        problems.extend(wrong_value(value).map(|why| Problem::error(path, why)));
    }
    for (index, toleration) in placement.tolerations.iter().enumerate() {
        problems.extend(self::toleration(toleration, &path.keys("tolerations").index(index)));
    }
    problems
}

/// The API server has a rule for it.
fn storage(placement: &Placement, path: &FieldPath) -> Option<Problem> {
    let storage = placement.storage.as_ref()?;
    let set = [storage.persistent_volume_claim.is_some(), storage.empty_dir.is_some(), storage.host_path.is_some()];
    let count = set.into_iter().filter(|set| *set).count();
    (count != 1).then(|| {
        let set = if count == 0 { "none is".to_owned() } else { format!("{count} are") };
        let message = format!("set exactly one of persistentVolumeClaim, emptyDir and hostPath ({set} set)");
        Problem::error(path.keys("storage"), message).at_key()
    })
}

fn sizes(placement: &Placement, path: &FieldPath) -> Vec<Problem> {
    let storage = placement.storage.as_ref();
    let claim = storage.and_then(|storage| storage.persistent_volume_claim.as_ref()).map(|claim| &claim.size);
    let limit = storage.and_then(|storage| storage.empty_dir.as_ref()).and_then(|folder| folder.size_limit.as_ref());
    let sizes = [
        ("memory", placement.memory.as_ref()),
        ("storage.persistentVolumeClaim.size", claim),
        ("storage.emptyDir.sizeLimit", limit),
    ];
    let wrong = sizes.into_iter().filter_map(|(field, size)| Some((field, quantity::bytes(&size?.0).err()?)));
    wrong.map(|(field, error)| Problem::error(path.keys(field), error.to_string())).collect()
}

fn toleration(toleration: &NodeToleration, path: &FieldPath) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        wrong_key(&toleration.key).map(|why| Problem::error(path.key("key"), why)).into_iter().collect();
    if let Some(value) = &toleration.value {
        let path = path.key("value");
        // Kubernetes refuses it; experiments that have it already go on.
        if toleration.operator == TolerationOperator::Exists && !value.is_empty() {
            problems
                .push(Problem::warning(path.clone(), "is ignored: operator Exists tolerates every value; use Equal"));
        }
        problems.extend(wrong_value(value).map(|why| Problem::error(path, why)));
    }
    problems
}

/// Why no node can have such a label or taint: `name`, or `prefix/name` with a prefix like the name of a host.
fn wrong_key(key: &str) -> Option<&'static str> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_part = |part: &str| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(is_plain) && part.ends_with(is_plain) && part.chars().all(|c| is_plain(c) || c == '-')
    };
    if prefix.is_some_and(|prefix| prefix.len() > 253 || !prefix.split('.').all(is_part)) {
        return Some(
            "is no key of Kubernetes: before the / comes a name like example.com, of lowercase letters, digits, '-' and '.'",
        );
    }
    (!is_name(name)).then_some(
        "is no key of Kubernetes: use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    )
}

fn wrong_value(value: &str) -> Option<&'static str> {
    (!value.is_empty() && !is_name(value)).then_some(
        "is no value of Kubernetes: use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    )
}

fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(is_plain)
        && text.ends_with(is_plain)
        && text.chars().all(|c| is_plain(c) || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn messages(placement: &Value) -> Vec<String> {
        let placement: Placement = serde_json::from_value(placement.clone()).unwrap();
        check(&placement).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn labels_and_taints_are_those_that_a_node_can_have() {
        let long = "n".repeat(63);
        let prefix = format!("{}.a", "p".repeat(251));
        for key in ["disk", "a", "A.b_c-d", "assay.rocks/pool", "a-1.b/C", &long, &format!("{prefix}/{long}")] {
            let placement = json!({"nodeSelector": {key: ""}, "tolerations": [{"key": key, "operator": "Exists"}]});
            assert_eq!(messages(&placement), Vec::<String>::new(), "{key}");
        }
        for key in [
            "a b",
            "-a",
            "a-",
            "a/",
            "/a",
            "a/b/c",
            "A.b/c",
            "a..b/c",
            "-a/b",
            "a_b/c",
            "é",
            &format!("{long}n"),
            &format!("{prefix}p/a"),
        ] {
            let found = messages(&json!({"nodeSelector": {key: "x"}, "tolerations": [{"key": key}]}));
            let [selector, toleration] = found.as_slice() else { panic!("{key}: {found:?}") };
            assert!(selector.contains("nodeSelector[") || selector.contains("nodeSelector."), "{selector}");
            assert!(selector.contains("is no key"), "{selector}");
            assert!(toleration.starts_with("spec.placement.tolerations[0].key: is no key"), "{toleration}");
        }
        for value in ["a b", "-a", "a.", "a/b"] {
            let found = messages(&json!({"nodeSelector": {"k": value}, "tolerations": [{"key": "k", "value": value}]}));
            let [selector, toleration] = found.as_slice() else { panic!("{value}: {found:?}") };
            assert!(selector.starts_with("spec.placement.nodeSelector.k: is no value"), "{selector}");
            assert!(toleration.starts_with("spec.placement.tolerations[0].value: is no value"), "{toleration}");
        }
    }

    #[test]
    fn a_value_that_nothing_looks_at_is_named() {
        let ignored = "warning: spec.placement.tolerations[0].value: is ignored: operator Exists tolerates every value; use Equal";
        for (value, expected) in [(json!("x"), &[ignored][..]), (json!(""), &[]), (json!(null), &[])] {
            let toleration = json!({"key": "k", "operator": "Exists", "value": value});
            assert_eq!(messages(&json!({"tolerations": [toleration]})), expected);
        }
        assert_eq!(messages(&json!({"tolerations": [{"key": "k", "value": "x"}]})), Vec::<String>::new());
    }
}
