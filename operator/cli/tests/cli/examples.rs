//! Every example is read, validated and planned.

use crate::common::{assay, examples, stderr, stdout};
use assay_core::plan::Plan;

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
