//! The plan of an experiment on a cluster.

use anyhow::bail;
use assay_api::TuningExperiment;
use assay_core::plan::Plan;
use assay_core::validate::{Problem, validate};

/// The plan of an experiment, drawn anew from its spec: it must be the one that the trials were run by.
pub fn plan_of(experiment: &TuningExperiment) -> anyhow::Result<Plan> {
    let name = experiment.metadata.name.as_deref().unwrap_or_default();
    let Some(kept) = experiment.status.as_ref().and_then(|status| status.plan.as_ref()) else {
        bail!(
            "experiment {name} has no plan yet, so it has no trials: `assay status {name}` shows what it is waiting for"
        );
    };
    let (own, theirs) = (assay_core::PRODUCED_BY, &kept.produced_by);
    let validation = validate(name, &experiment.spec);
    let problem = validation.problems.iter().find(|problem| problem.is_error()).map(Problem::to_string);
    let Some(sound) = validation.experiment else {
        bail!(
            "{own} refuses experiment {name}, planned by {theirs} ({}): use that version of assay",
            problem.unwrap_or_default()
        );
    };
    let plan = Plan::new(sound)?;
    if plan.digest.as_str() != kept.digest {
        bail!(
            "{own} plans experiment {name} differently ({}) from {theirs}, which runs it ({}): use that version of \
             assay",
            plan.digest,
            kept.digest
        );
    }
    Ok(plan)
}
