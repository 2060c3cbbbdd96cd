//! The committed definitions are what the types say.

use crate::common::{assay, golden, stdout};

#[test]
fn committed_definitions_are_fresh() {
    let output = assay(&["crd"]);
    assert!(output.status.success());
    let text = stdout(&output);
    let definitions: Vec<&str> = text.split("---\n").collect();
    for (definition, plural) in
        definitions.iter().zip(["tuningexperiments", "tuningsweeps", "tuninghistories", "tuningtrials"])
    {
        assert!(definition.contains(&format!("\n  name: {plural}.assay.rocks\n")), "{plural}");
        golden(&format!("../../../../crds/assay.rocks_{plural}.yaml"), definition);
    }
    assert_eq!(definitions.len(), 4);
}
