//! `assay sweep candidates`.

use std::path::PathBuf;
use std::process::ExitCode;

use assay_api::Candidate;
use assay_core::sweep::culprit::with_candidate;

use super::SweepNameArgs;
use crate::cluster::{on, sweeps};
use crate::file::read_versions;
use crate::print;
use crate::text::plural;

/// Arguments of `assay sweep candidates`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Without an image and a file, the list is printed, from old to new.")]
pub struct CandidatesArgs {
    #[command(flatten)]
    sweep: SweepNameArgs,
    /// The image of the newest version, for the end of the list; a revision that is there already keeps its place
    #[arg(value_name = "IMAGE")]
    image: Option<String>,
    /// The commit or version that the image was built from
    #[arg(long, value_name = "REVISION", requires = "image")]
    revision: Option<String>,
    /// The subject that it is a version of; of all of them by default
    #[arg(long, value_name = "SUBJECT", requires = "image")]
    subject: Option<String>,
    /// How likely it is to be the culprit, compared with one of weight 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "image", value_parser = clap::value_parser!(u32).range(1..=1000))]
    weight: u32,
    /// A YAML file with the whole list, as spec.bisect.candidates has it, instead of what is there; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "image")]
    file: Option<PathBuf>,
}

pub fn command(args: &CandidatesArgs) -> anyhow::Result<ExitCode> {
    let name = &args.sweep.name;
    let all = args.file.as_deref().map(read_versions).transpose()?;
    let new = args.image.as_ref().map(|image| Candidate {
        image: image.clone(),
        revision: args.revision.clone(),
        subject: args.subject.clone(),
        weight: args.weight,
    });
    let listed = on(&args.sweep.cluster, |cluster| async move {
        match (all, new) {
            (Some(all), _) => sweeps::list_candidates(&cluster, name, |_| all.clone()).await?,
            (None, Some(new)) => {
                sweeps::list_candidates(&cluster, name, |before| with_candidate(before, new.clone())).await?;
            }
            (None, None) => {}
        }
        Ok(cluster.sweep(name).await?.spec.bisect.map(|bisect| bisect.candidates).unwrap_or_default())
    })?;
    if args.image.is_some() || args.file.is_some() {
        let newest = listed.last().map_or(String::new(), |own| format!(", the newest {}", said(own)));
        print::out(format_args!("sweep {name}: {}{newest}\n", plural(listed.len(), "candidate")))?;
    } else {
        print::out(listed.iter().map(|own| said(own) + "\n").collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn said(candidate: &Candidate) -> String {
    let Candidate { image, revision, subject, weight } = candidate;
    let revision = revision.as_ref().map_or(String::new(), |revision| format!("{revision} "));
    let subject = subject.as_ref().map_or(String::new(), |subject| format!(" for {subject}"));
    let weight = if *weight == 1 { String::new() } else { format!(", weight {weight}") };
    format!("{revision}{image}{subject}{weight}")
}
