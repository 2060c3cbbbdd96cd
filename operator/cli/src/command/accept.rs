//! `assay accept`.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use assay_api::{Accept, Time};
use assay_core::sweep::confirm::Stage;
use assay_core::sweep::next::Unmeasured;
use k8s_openapi::jiff::civil::Date;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::sweep::{ChangeArgs, found, kept, read};
use crate::cluster::{on, sweeps};
use crate::folder::Nights;
use crate::print;

/// Arguments of `assay accept`.
#[derive(Clone, Debug, clap::Args)]
pub struct AcceptArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// Why it is taken as it is; kept in the history
    #[arg(long)]
    reason: String,
    /// A day or time from which it counts as a regression again, such as 2027-03-31
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires: Option<Timestamp>,
}

/// A time, or the beginning of a day in UTC.
fn time(text: &str) -> Result<Timestamp, String> {
    // A time without its zone is no day.
    let is_day = text.len() == "2027-03-31".len();
    let day = || Some(text.parse::<Date>().ok().filter(|_| is_day)?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let time = text.parse().ok().or_else(day);
    time.ok_or_else(|| "must be a day such as 2027-03-31, or a time such as 2027-03-31T12:00:00Z".to_owned())
}

pub fn command(args: &AcceptArgs) -> anyhow::Result<ExitCode> {
    let ChangeArgs { history: dir, cluster, .. } = &args.change;
    let (sweep, name) = args.change.names()?;
    ensure!(!args.reason.trim().is_empty(), "--reason is empty: say why, for people who read the history");
    ensure!(args.expires.is_none_or(|expires| expires > Timestamp::now()), "--expires is in the past");
    let (history, watch) = read(dir.as_deref(), sweep, cluster)?;
    let change = found(&history, &history.watched(&watch), name)?;
    ensure!(
        matches!(change.stage, Stage::Regressed | Stage::SmallRegression | Stage::Accepted),
        "{name} can't be accepted, because it is {}: only a confirmed change for the worse that is still there can",
        change.stage
    );
    let accept = Accept { change: name.to_owned(), reason: args.reason.clone(), expires: args.expires.map(Time) };
    match (dir, sweep) {
        (Some(dir), _) => {
            let mut nights = Nights::open(dir, &kept(dir)?)?;
            let mut minute = Timestamp::from_second(Timestamp::now().as_second() / 60 * 60)?;
            while nights.history.get(minute).is_some() {
                minute += SignedDuration::from_mins(1);
            }
            let entry = Unmeasured::accepting(minute, &accept).night(&nights.begun.sweep);
            nights.add(entry)?;
            let until = args.expires.map_or("for good".to_owned(), |expires| format!("until {expires}"));
            print::out(format_args!("{name}: accepted {until}\n"))?;
        }
        (None, sweep) => {
            let sweep = sweep.context("name the sweep")?;
            on(cluster, |cluster| async move { sweeps::accept(&cluster, sweep, &accept).await })?;
            print::out(format_args!("sweep {sweep}: {name} is accepted once the operator has read it\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
