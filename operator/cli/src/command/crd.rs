//! `assay crd`.

use std::process::ExitCode;

use crate::print;

/// Prints every `CustomResourceDefinition` as YAML, generated from the types.
pub fn command() -> anyhow::Result<ExitCode> {
    for (index, crd) in assay_api::crds()?.iter().enumerate() {
        if index > 0 {
            print::out("---\n")?;
        }
        print::out(serde_yaml::to_string(crd)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
