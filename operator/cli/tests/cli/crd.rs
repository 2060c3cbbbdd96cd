//! The committed definitions are what the types say.

use crate::common::{assay, package, stdout};

#[test]
fn committed_definitions_are_fresh() {
    let path = package().join("../../crds/assay.rocks_tuningexperiments.yaml");
    let committed = std::fs::read_to_string(&path).expect("the definition is committed");
    let output = assay(&["crd"]);
    assert!(output.status.success());
    assert_eq!(stdout(&output), committed, "{} is stale: run `make generate`", path.display());
}
