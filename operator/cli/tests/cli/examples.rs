//! Every example is read, validated and planned.

use std::path::Path;

use crate::common::{assay, examples, stderr, stdout, sweeps};
use assay_core::plan::Plan;
use serde_json::Value;

#[test]
fn every_example_is_valid_and_planned() {
    let files = examples();
    assert!(files.len() >= 2);
    for file in files {
        let path = file.display().to_string();
        let validated = assay(&["validate", &path]);
        assert!(validated.status.success(), "{}", stdout(&validated));
        let planned = assay(&["plan", &path, "--output", "json"]);
        assert!(planned.status.success(), "{}", stderr(&planned));
        let plan: Plan = serde_json::from_slice(&planned.stdout).expect("a plan is JSON");
        plan.check().expect("a plan has its digest");
        assert_eq!(plan.trials().count() as u64, plan.experiment.trials());
        let again = assay(&["plan", &path, "--output", "json"]);
        assert_eq!(planned.stdout, again.stdout, "{path} has two plans");
        assert!(assay(&["plan", &path]).status.success());
    }
}

#[test]
fn every_sweep_is_valid_and_planned() {
    let files = sweeps();
    assert_eq!(files.len(), 2);
    for file in files {
        let path = file.display().to_string();
        let validated = assay(&["validate", &path]);
        assert!(validated.status.success(), "{}", stdout(&validated));
        let planned = assay(&["sweep", "plan", &path]);
        assert!(planned.status.success(), "{}", stderr(&planned));
        assert!(stdout(&planned).contains(" a night\n"), "{}", stdout(&planned));
        // Either command says which one is meant.
        let refused = assay(&["plan", &path]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains("`assay sweep plan "), "{}", stderr(&refused));
    }
    let experiment = examples().remove(0).display().to_string();
    let refused = assay(&["sweep", "plan", &experiment]);
    assert!(!refused.status.success() && stderr(&refused).contains("`assay run "), "{}", stderr(&refused));
}

/// What `kubectl patch --type merge` does: maps key by key, everything else as a whole.
pub fn merge(into: &mut Value, patch: Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch,
    }
}

#[test]
fn every_fleet_size_is_a_patch_of_its_example() {
    let read = |path: &Path| -> Value {
        serde_yaml::from_str(&std::fs::read_to_string(path).expect("a file")).expect("a document of YAML")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut patched = 0;
    for example in examples() {
        let name = example.file_name().expect("a name");
        let patch = example.with_file_name("fleet").join(name);
        if !patch.exists() {
            continue;
        }
        let mut document = read(&example);
        merge(&mut document, read(&patch));
        let path = folder.path().join(name);
        std::fs::write(&path, serde_yaml::to_string(&document).expect("YAML")).expect("a file");
        let validated = assay(&["validate", &path.display().to_string()]);
        assert!(validated.status.success(), "{}{}", stdout(&validated), stderr(&validated));
        assert!(assay(&["plan", &path.display().to_string()]).status.success());
        patched += 1;
    }
    // One for each seed, and both of those that ethrex has.
    assert_eq!(patched, 4);
}
