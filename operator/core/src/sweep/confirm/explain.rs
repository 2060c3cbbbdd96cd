//! Why a change is believed, in a few lines.

use std::collections::BTreeMap;

use assay_api::Bisect;
use assay_protocol::Digest;
use jiff::Timestamp;

use super::answer::{Answered, Confirmation};
use super::change::{Change, Stage};
use super::visit::Visit;
use crate::report::html::plural;
use crate::report::number;
use crate::stats::{Scale, WORST, measured_losses};
use crate::sweep::culprit::unlisted;
use crate::sweep::detect::{Decision, Watched};
use crate::sweep::failing::Counts;
use crate::sweep::history::History;
use crate::sweep::level::Level;
use crate::sweep::point::{Night, Subject};

impl History {
    /// Why the change is believed, or is not: a line each. `bisect` is among what its culprit is looked for.
    pub fn explain(&self, change: &Change, watched: &[Watched<'_>], bisect: Option<&Bisect>) -> Vec<String> {
        let mut lines = vec![format!("{}: {}", change.name, change.said())];
        if !change.failing.is_empty() {
            lines.extend(self.versions(change, change.bad));
            lines.extend(self.recovering(change));
            lines.push(advice(change, false));
            return lines;
        }
        lines.push(format!("suspected in the night of {}, in {} series", minute(change.raised), change.series.len()));
        let first = change.series.iter().map(|(own, _)| own.asked.first).min().unwrap_or(change.bad);
        lines.extend(self.versions(change, first));
        for (own, scale) in &change.series {
            lines.push(self.nights_of(own, *scale));
            lines.push(tested(own, *scale));
        }
        let confirmations = self.confirmations();
        let own = confirmations.get(&(change.raised, change.subject.as_str()));
        for (time, visit) in own.iter().flat_map(|own| &own.visits) {
            let of = |(asked, (_, scale)): (&super::Asked, &(Answered, Scale))| {
                let failed = asked.losses.iter().filter(|loss| **loss >= WORST).count();
                let failed = if failed > 0 { format!(" ({} failed)", plural(failed, "run")) } else { String::new() };
                mean(&asked.losses).map(|mean| number::effect(*scale, -mean) + &failed)
            };
            let said: Vec<String> = visit.series.iter().zip(&change.series).filter_map(of).collect();
            let blocks = visit.series.iter().map(|asked| asked.losses.len()).max().unwrap_or(0);
            lines.push(format!(
                "visit {} at {}: {} in {}",
                visit.number,
                minute(*time),
                said.join(", "),
                plural(blocks, "block")
            ));
        }
        if let Some(own) = own {
            let chance = 100.0 * own.visit.alpha;
            lines.push(format!(
                "if nothing had changed, visits would confirm it with a chance of at most {chance:.3} %"
            ));
        }
        lines.extend(self.recovering(change));
        lines.extend(own.into_iter().flat_map(|own| self.searched(own)));
        let unlisted = bisect.and_then(|bisect| unlisted(self, change, bisect));
        let will_be_searched = bisect.is_some() && unlisted.is_none();
        lines.extend(unlisted.map(|why| format!("search: none: {why}")));
        let others = watched.iter().filter(|own| {
            own.series.subject == change.subject && change.series.iter().all(|(asked, _)| asked.series != *own.series)
        });
        let other_changes: Vec<Change> = self
            .changes(watched)
            .into_iter()
            .filter(|own| own.subject == change.subject && own.name != change.name)
            .collect();
        let is_in = |own: &&Watched<'_>| {
            other_changes.iter().any(|other| other.series.iter().any(|(asked, _)| asked.series == *own.series))
        };
        let (elsewhere, others): (Vec<_>, Vec<_>) = others.partition(is_in);
        let suspected = others.iter().filter(|own| own.suspicion.is_some()).count();
        lines.push(format!(
            "the subject's other series: {} in other changes, {suspected} suspected, {} quiet",
            elsewhere.len(),
            others.len() - suspected
        ));
        // Series that cross the line in different nights are changes of their own, also where one version has moved both.
        let same = other_changes.iter().filter(|other| other.good == change.good);
        lines.extend(same.map(|other| format!("begins in the same night: {}: {}", other.name, other.said())));
        lines.push(advice(change, will_be_searched));
        lines
    }

    /// Versions of the subject around a change, and the options in which they differ.
    fn versions(&self, change: &Change, first: Timestamp) -> Vec<String> {
        let named = |(what, night): (&str, Timestamp)| {
            let subject = self.get(night).and_then(|night| night.subject(&change.subject));
            let version = subject.map_or("no longer in the history".to_owned(), version);
            format!("{what:<6} {} ({})", version, minute(night))
        };
        let nights = [("before", change.good), ("first", first), ("after", change.bad)];
        nights.map(named).into_iter().chain(self.options(change)).collect()
    }

    /// Lists the recovery visits of a change.
    fn recovering(&self, change: &Change) -> Vec<String> {
        let recoveries = self.recoveries();
        let own = recoveries.iter().filter(|((name, _), _)| *name == change.name);
        let visits = own.flat_map(|(_, recovery)| &recovery.visits);
        let of = |(time, visit): &(Timestamp, &Visit)| {
            let night = self.get(*time);
            let failed = night.into_iter().flat_map(|night| &night.failures).map(|own| {
                let Counts { runs, failed, .. } = own.own;
                format!("{failed} of {runs} runs failed in {}", own.scenario)
            });
            let losses = visit.series.iter().map(|asked| {
                let mean = mean(&asked.losses)
                    .map_or("unknown".to_owned(), |mean| number::effect(self.scale(&visit.series(asked)), -mean));
                format!("{mean} {} ({})", asked.metric, asked.scenario)
            });
            let said: Vec<String> = failed.chain(losses).collect();
            format!("asked whether it is gone at {}: {}", minute(*time), said.join(", "))
        };
        visits.map(of).collect()
    }

    /// What the subject sets after the change, and what it set before, where the history knows both.
    fn options(&self, change: &Change) -> Option<String> {
        let config = |night: Timestamp| Some(&self.get(night)?.subject(&change.subject)?.config);
        let (before, after) = (config(change.good)?, config(change.bad)?);
        if before == after {
            return Some("options the same before and after".to_owned());
        }
        let set = |digest: &Digest| {
            let subjects = self.nights().flat_map(|night| &night.subjects);
            let own = subjects.filter(|own| own.config == *digest).find_map(|own| own.settings.as_ref())?;
            serde_json::to_value(own).ok()
        };
        let (Some(before), Some(after)) = (set(before), set(after)) else {
            return Some("options another set, which the history does not have".to_owned());
        };
        let mut differing = Vec::new();
        difference("", &before, &after, &mut differing);
        Some(format!("options {}", differing.join("; ")))
    }

    /// What the visits of the search have measured: each candidate once, in order.
    fn searched(&self, confirmation: &Confirmation<'_>) -> Vec<String> {
        let Some(hunt) = self.hunt(confirmation) else { return Vec::new() };
        let scale = self.scale(&hunt.series);
        let mut seen: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for visit in hunt.bisection.visits() {
            seen.entry((visit.candidate, visit.reference)).or_default().extend(&visit.losses);
        }
        let named = |place: usize| hunt.candidates[place].name();
        let of = |((candidate, reference), losses): ((usize, usize), Vec<f64>)| {
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            let (effect, blocks) = (number::effect(scale, -mean), plural(losses.len(), "block"));
            format!("search: {} against {}: {effect} in {blocks}", named(candidate), named(reference))
        };
        let avoided = hunt.unusable.iter().map(|which| format!("search: {} can't be measured: avoided", named(*which)));
        seen.into_iter().map(of).chain(avoided).collect()
    }

    /// The nights of a series before and after the change.
    fn nights_of(&self, own: &Answered, scale: Scale) -> String {
        let name = format!("{} ({})", own.series.metric, own.series.scenario);
        let view = self.view(&own.series);
        let points = view.iter().filter_map(|view| view.segments.last()).flat_map(|segment| &segment.points);
        let (before, after): (Vec<_>, Vec<_>) = points.partition(|(night, _)| night.night < own.asked.first);
        let level = |points: Vec<&(&Night, &crate::sweep::Point)>| {
            let values: Vec<(f64, f64)> = points.iter().map(|(_, own)| (own.effect, own.standard_error)).collect();
            let mean = Level::of(&values).map_or("unknown".to_owned(), |level| number::effect(scale, level.mean));
            format!("{mean} in {}", plural(values.len(), "night"))
        };
        let (before, after) = (level(before), level(after));
        format!("{name}: {before} before, {after} since")
    }
}

fn minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Mean of the losses that were measured.
fn mean(losses: &[f64]) -> Option<f64> {
    let measured = measured_losses(losses);
    (!measured.is_empty()).then(|| measured.iter().sum::<f64>() / measured.len() as f64)
}

/// What fresh trials prove of a series.
fn tested(own: &Answered, scale: Scale) -> String {
    let name = format!("{} ({})", own.series.metric, own.series.scenario);
    let limit = number::effect(scale, own.limit);
    let shift = own.shift.map_or("nothing yet".to_owned(), |shift| number::effect(scale, shift));
    let decision = match own.decision {
        None => "open",
        Some(Decision::Confirmed) => "confirmed",
        Some(Decision::Refuted) => "refuted",
        Some(Decision::Undecided | Decision::Accepted | Decision::Recovered) => "undecided",
    };
    let (p, blocks) = (own.p, plural(own.blocks, "block"));
    format!("{name}: {shift} by fresh trials in {blocks}; p {p:.2e} for beyond {limit}: {decision}")
}

fn version(subject: &Subject) -> String {
    let image = subject.image.clone().unwrap_or_else(|| "the image of the reference".to_owned());
    subject.revision.as_ref().map_or(image.clone(), |revision| format!("revision {revision}, {image}"))
}

/// Fields in which two configs differ, each with both values.
fn difference(path: &str, before: &serde_json::Value, after: &serde_json::Value, found: &mut Vec<String>) {
    match (before.as_object(), after.as_object()) {
        (Some(old), Some(new)) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                difference(&path, &before[key], &after[key], found);
            }
        }
        _ if before != after => found.push(format!("{path} {before} to {after}")),
        _ => {}
    }
}

/// What to do about it.
fn advice(change: &Change, will_be_searched: bool) -> String {
    let name = &change.name;
    match (change.stage, &change.finding) {
        (Stage::Confirming, _) => {
            "next: wait for the other visits, or measure more with `assay sweep run-now`".to_owned()
        }
        (Stage::Regressed | Stage::SmallRegression, finding) => {
            let first = match finding {
                None if !change.failing.is_empty() => {
                    "find out why runs fail (their messages are in the night's report), and fix it"
                }
                None if change.is_sum => {
                    "find the steps with `assay bisect` between versions of your choice, or look at the levels of the nights"
                }
                None if will_be_searched => "wait until its culprit is looked for",
                None => "find the commit with `assay bisect`, or list versions in spec.bisect, and fix it",
                Some(finding) if !finding.is_over() => "wait for what is found",
                Some(finding) if finding.is_found() => "fix it, or revert it",
                Some(_) => "find the commit with `assay bisect`, and fix it",
            };
            format!(
                "next: {first}; or accept it: `assay accept SWEEP {name} --reason ...`, on one machine --history DIR for SWEEP"
            )
        }
        (Stage::Undecided, _) => {
            "next: measure more with `assay sweep run-now`; if it is there, it will be suspected again".to_owned()
        }
        (Stage::Improved | Stage::Refuted | Stage::Accepted | Stage::Recovered | Stage::Ended, _) => {
            "next: nothing".to_owned()
        }
    }
}
