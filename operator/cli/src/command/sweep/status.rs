//! `assay sweep status`.

use std::fmt::Write as _;
use std::process::ExitCode;

use assay_api::{Config, TuningSweep};
use assay_core::sweep::night;
use assay_core::sweep::validate::validate;
use k8s_openapi::jiff::Timestamp;

use super::SweepNameArgs;
use super::table::{levels, local};
use crate::cluster::{age, on};
use crate::machine::unix_ms;
use crate::print;
use crate::text::table;

pub fn command(args: &SweepNameArgs) -> anyhow::Result<ExitCode> {
    let text = on(&args.cluster, |cluster| async move {
        let sweep = cluster.sweep(&args.name).await?;
        let (ring, _) = cluster.ring(&args.name).await?;
        let now = Timestamp::now();
        let watch = validate(&args.name, &sweep.spec, now).watch(now);
        Ok(detail(&sweep, unix_ms()) + &levels(ring.history(), &watch))
    })?;
    print::out(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Everything that the cluster says about one sweep.
fn detail(sweep: &TuningSweep, now_ms: u64) -> String {
    let (metadata, spec) = (&sweep.metadata, &sweep.spec);
    let name = metadata.name.as_deref().unwrap_or_default();
    let status = sweep.status.clone().unwrap_or_default();
    let time = |time: Option<&assay_api::Time>| time.map(|time| local(spec, time.0));
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "{name} in namespace {}, {} old: {}",
        metadata.namespace.as_deref().unwrap_or_default(),
        age(metadata.creation_timestamp.as_ref(), now_ms),
        status.state.as_deref().unwrap_or("the operator has not seen it yet")
    );
    let mut line = |what: &str, text: Option<String>| {
        if let Some(text) = text {
            let _ = writeln!(out, "{what:<10} {text}");
        }
    };
    line("schedule", Some(format!("{} in {}", spec.schedule, spec.time_zone)));
    line("reference", Some(arm(&spec.reference)));
    for subject in night::experiment(spec).configs.iter().skip(1) {
        line("subject", Some(arm(subject)));
    }
    line("series", Some(status.series.to_string()));
    line("nights", Some(format!("{} measured", status.nights_measured)));
    line("last", time(status.last_measured_time.as_ref()));
    line(
        "without",
        status
            .last_skipped
            .as_ref()
            .map(|skipped| format!("{}: {}: {}", local(spec, skipped.time.0), skipped.reason, skipped.message)),
    );
    line(
        "running",
        status.active.as_ref().map(|active| {
            let experiment = active.experiment.as_deref().unwrap_or("looking up its images");
            format!("{}: {experiment}", local(spec, active.time.0))
        }),
    );
    line("next", time(status.next_schedule_time.as_ref()));
    let rows: Vec<Vec<String>> = status
        .conditions
        .iter()
        .map(|condition| {
            let since = age(Some(&condition.last_transition_time), now_ms);
            [&condition.type_, &condition.status, &condition.reason, &since, &condition.message]
                .map(Clone::clone)
                .to_vec()
        })
        .collect();
    if !rows.is_empty() {
        let _ = writeln!(out, "\nConditions");
        for row in table(&rows).lines() {
            let _ = writeln!(out, "  {row}");
        }
    }
    out
}

fn arm(config: &Config) -> String {
    let image = config.image.as_ref().map_or(String::new(), |image| format!(", {image}"));
    let revision = config.revision.as_ref().map_or(String::new(), |revision| format!(", revision {revision}"));
    format!("{}{image}{revision}", config.name)
}
