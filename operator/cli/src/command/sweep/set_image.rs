//! `assay sweep set-image`.

use std::process::ExitCode;
use std::str::FromStr;

use anyhow::bail;
use assay_core::sweep::validate::is_pinned;

use super::SweepNameArgs;
use crate::cluster::sweeps::NewImage;
use crate::cluster::{on, sweeps};
use crate::print;

/// Arguments of `assay sweep set-image`.
#[derive(Clone, Debug, clap::Args)]
pub struct SetImageArgs {
    #[command(flatten)]
    sweep: SweepNameArgs,
    /// A subject, or a named value of the matrix, and its image by digest, such as
    /// tonight=registry.example/lab/assay-bench@sha256:...
    #[arg(required = true, value_name = "SUBJECT=IMAGE")]
    images: Vec<NewImage>,
    /// The commit or version that the images were built from; shown beside each night
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// Allow an image that is named by a tag: each night looks up what the tag means then
    #[arg(long)]
    allow_tag: bool,
}

impl FromStr for NewImage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((subject, image)) if !subject.is_empty() && !image.is_empty() => {
                Ok(Self { subject: subject.to_owned(), image: image.to_owned() })
            }
            _ => Err("must be SUBJECT=IMAGE, such as tonight=registry.example/lab/assay-bench@sha256:...".to_owned()),
        }
    }
}

pub fn command(args: &SetImageArgs) -> anyhow::Result<ExitCode> {
    if let Some(tagged) = args.images.iter().find(|new| !args.allow_tag && !is_pinned(&new.image)) {
        bail!(
            "{} does not name its digest (@sha256:...), so what a night runs could change unseen: your registry client prints \
             it after a push; or pass --allow-tag",
            tagged.image
        );
    }
    let name = &args.sweep.name;
    on(&args.sweep.cluster, |cluster| async move {
        sweeps::set_images(&cluster, name, &args.images, args.revision.as_deref()).await
    })?;
    for NewImage { subject, image } in &args.images {
        print::out(format_args!("sweep {name}: {subject} runs {image} from the next night on\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
