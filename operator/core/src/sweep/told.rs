//! What is told of nights in words: what is new in one, what has moved, which nights count, and what is open.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use assay_api::TuningExperimentSpec;
use assay_protocol::EngineConfig;
use jiff::Timestamp;

use super::confirm::Stage;
use super::detect::Watch;
use super::failing::Failures;
use super::history::History;
use super::night::workloads;
use super::point::{Fingerprint, Night, Outcome, Point, Reference, Series};
use super::series::{BRIDGE_NIGHTS, SeriesView, Setting};
use super::settings;
use crate::report::html::plural;
use crate::report::number;
use crate::stats::Scale;
use crate::validate::over;
use crate::verdict::Verdict;

/// Nights before one by which it shows whether a series has moved.
const FEWEST: usize = 2;
/// Subjects of a night that are named for one verdict.
const NAMED: usize = 3;

impl Night {
    /// What makes a measured night incomparable with one before it: of `reference`, `machine`, `protocol` and `workload`.
    pub fn news(&self, before: &Self) -> Vec<&'static str> {
        let scenarios = self.fingerprint.iter().flat_map(|own| own.workloads.keys());
        let both = scenarios.filter_map(|name| Some((Setting::of(self, name)?, Setting::of(before, name)?)));
        let mut news: Vec<&str> = both.flat_map(|(now, before)| now.changes(&before)).collect();
        news.sort_unstable();
        news.dedup();
        news
    }

    /// Whether programs, options and workloads are those of a night before it.
    pub fn is_same(&self, before: &Self) -> bool {
        self.news(before).is_empty() && self.subjects.iter().all(|subject| subject.unchanged)
    }

    /// A measured night in a line, `before` being the measured one before it.
    pub fn summary(&self, before: Option<&Self>, moved: Option<&Moved<'_>>) -> String {
        let mut parts = vec![format!("{} series", self.points.len())];
        if !self.gaps.is_empty() {
            parts.push(format!("{} missing", self.gaps.len()));
        }
        match moved {
            Some(moved) => parts.push(format!(
                "moved most {}, to {}",
                shown(moved.series, moved.scale, moved.shift),
                number::effect(moved.scale, moved.effect)
            )),
            None => parts.extend(
                self.most_certain_loss()
                    .map(|point| format!("most certain loss {}", shown(&point.series, point.scale, point.effect))),
            ),
        }
        parts.extend(self.failed_runs());
        parts.extend(self.losses());
        parts.extend(self.named("Win", |point| point.verdict == Some(Verdict::Win)));
        if let Some(before) = before {
            let news = self.news(before);
            if !news.is_empty() {
                parts.push(format!("new {}", news.join(" and ")));
            } else if self.is_same(before) {
                parts.push("same programs and options".to_owned());
            }
        }
        parts.join(", ")
    }

    /// What is worse than the reference, and least likely by chance.
    fn most_certain_loss(&self) -> Option<&Point> {
        let in_errors =
            |point: &&Point| if point.standard_error > 0.0 { point.effect / point.standard_error } else { 0.0 };
        let losses = self.points.iter().filter(|point| point.effect < 0.0);
        losses.min_by(|a, b| in_errors(a).total_cmp(&in_errors(b)))
    }

    /// Failed runs of subjects in the scenario where a subject has most of them, and of how many more that is true.
    fn failed_runs(&self) -> Option<String> {
        let mut failed: Vec<&Failures> = self.failures.iter().filter(|own| own.own.failed > 0).collect();
        failed.sort_by_key(|own| Reverse((own.own.damaged, own.own.failed)));
        let Failures { subject, scenario, own, .. } = failed.first()?;
        let damaged =
            if own.damaged > 0 { format!(", {} of them with damaged data", own.damaged) } else { String::new() };
        let more = if failed.len() > 1 { format!(" and {} more", failed.len() - 1) } else { String::new() };
        Some(format!("{} of {} runs failed{damaged} ({subject}, {scenario}){more}", own.failed, own.runs))
    }

    /// Losses that the night's experiment alone proves or suspects, in words.
    pub fn losses(&self) -> impl Iterator<Item = String> {
        let rejected = self.named("Reject", |point| point.verdict == Some(Verdict::Reject));
        rejected.into_iter().chain(self.named("LikelyHarm", |point| point.is_likely_harm))
    }

    /// Subjects that the night's experiment called this.
    fn named(&self, outcome: &str, has: impl Fn(&Point) -> bool) -> Option<String> {
        let own = self.points.iter().filter(|point| has(point));
        let mut names: Vec<String> =
            own.map(|point| format!("{} ({})", point.series.subject, point.series.scenario)).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("this night alone: {outcome} {}{more}", names.join(", ")))
    }
}

fn shown(series: &Series, scale: Scale, effect: f64) -> String {
    format!("{} {} ({}, {})", number::effect(scale, effect), series.metric, series.subject, series.scenario)
}

/// A series in a night, against the nights before it in its segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved<'a> {
    pub series: &'a Series,
    pub scale: Scale,
    /// As an effect: positive is better.
    pub shift: f64,
    /// Where it is now, against the reference.
    pub effect: f64,
    /// The same in its standard errors.
    certainty: f64,
}

impl History {
    /// What has moved most in each night, where nights before it show by how much chance moves its series.
    pub fn moved(&self) -> BTreeMap<Timestamp, Moved<'_>> {
        let mut most: BTreeMap<Timestamp, Moved<'_>> = BTreeMap::new();
        for view in self.series().filter_map(|series| self.view(series)) {
            for segment in &view.segments {
                let (mut count, mut mean, mut scatter) = (0.0, 0.0, 0.0);
                for (night, point) in &segment.points {
                    let shift = point.effect - mean;
                    if count >= FEWEST as f64 {
                        let variance: f64 = f64::max(scatter / (count - 1.0), point.standard_error.powi(2));
                        let certainty = shift.abs() / (variance * (1.0 + 1.0 / count)).sqrt();
                        let own =
                            Moved { series: view.series, scale: point.scale, shift, effect: point.effect, certainty };
                        if most.get(&night.night).is_none_or(|other| certainty > other.certainty) {
                            most.insert(night.night, own);
                        }
                    }
                    count += 1.0;
                    mean += shift / count;
                    scatter += shift * (point.effect - mean);
                }
            }
        }
        most
    }

    /// Which nights of series count, where not all do, with the number of series of which that is true.
    pub fn segments_told(&self) -> Vec<(String, usize)> {
        let mut told: Vec<(String, usize)> = Vec::new();
        let last = self.last_measured();
        let named = self.series().filter(|series| last.is_some_and(|last| last.names(series)));
        for said in named.filter_map(|series| self.view(series)?.told()) {
            match told.iter_mut().find(|(known, _)| *known == said) {
                Some((_, count)) => *count += 1,
                None => told.push((said, 1)),
            }
        }
        told
    }

    /// What a night of this experiment makes new, and what that means for the series; nothing if it continues them. Without the image of
    /// the reference, it is taken for that of the last night.
    pub fn foreseen(&self, spec: &TuningExperimentSpec, image: Option<&str>) -> Result<Vec<String>, serde_json::Error> {
        let Some(last) = self.last_measured() else { return Ok(Vec::new()) };
        let (Some(former), Some(fingerprint)) = (&last.reference, &last.fingerprint) else { return Ok(Vec::new()) };
        let Some(reference) = spec.configs.iter().find(|config| config.name == spec.baseline) else {
            return Ok(Vec::new());
        };
        let base = over(&EngineConfig::default(), reference);
        let tonight = Night {
            fingerprint: Some(Fingerprint {
                protocol: assay_protocol::VERSION,
                workloads: workloads(spec)?,
                ..fingerprint.clone()
            }),
            reference: Some(Reference {
                name: reference.name.clone(),
                image: image.map(str::to_owned).or_else(|| former.image.clone()),
                config: settings::digest(&base)?,
            }),
            ..last.clone()
        };
        let news = tonight.news(last);
        if news.is_empty() {
            return Ok(Vec::new());
        }
        let concerned: Vec<&Series> = last
            .points
            .iter()
            .map(|point| &point.series)
            .filter(|series| setting(&tonight, series) != setting(last, series))
            .collect();
        let is_back = |series: &&Series| {
            let same = |night: &Night| {
                night.outcome == Outcome::Measured && setting(night, series) == setting(&tonight, series)
            };
            self.nights().any(same)
        };
        let back = concerned.iter().copied().filter(is_back).count();
        let news = format!("new {} since the night of {}", news.join(" and "), minute(last.night));
        let mut lines = Vec::new();
        if back > 0 {
            lines.push(format!("{news}: for {back} series the segment of earlier nights with the same continues"));
        }
        if back < concerned.len() {
            lines.push(format!(
                "{news}: a new segment begins for {} series, and nights before it no longer count; undo it, and they count again",
                concerned.len() - back
            ));
        }
        for config in spec.configs.iter().filter(|config| config.name != spec.baseline) {
            let image = config.image.as_deref().or(image);
            let is_program = image.is_none() || image == former.image.as_deref();
            if is_program && settings::digest(&over(&base, config))? == former.config {
                lines.push(format!(
                    "{} is the former reference: a bridge, which carries levels over after {BRIDGE_NIGHTS} nights",
                    config.name
                ));
            }
        }
        Ok(lines)
    }

    /// Changes that are being confirmed or have regressed, and what is suspected, a line each.
    pub fn open(&self, watch: &Watch) -> Vec<String> {
        let watched = self.watched(watch);
        let changes = self.changes(&watched);
        let is_open = |stage: Stage| matches!(stage, Stage::Confirming | Stage::Regressed);
        let open = changes.iter().filter(|change| is_open(change.stage));
        let mut lines: Vec<String> = open.map(|change| format!("{}: {}", change.name, change.said())).collect();
        for own in &watched {
            lines.extend(own.said().into_iter().chain(own.accumulated()).map(|said| format!("{}: {said}", own.name())));
        }
        lines
    }
}

impl SeriesView<'_> {
    /// Since when nights count, if others don't.
    fn told(&self) -> Option<String> {
        let (last, others) = self.segments.split_last().filter(|(_, others)| !others.is_empty())?;
        let since = match last.resumed {
            Some(night) => format!("since {} as it was before", minute(night)),
            None => format!("new {} since {}", last.changed.join(" and "), minute(last.first()?)),
        };
        let lost: usize = others.iter().filter(|own| own.chained.is_none()).map(|segment| segment.points.len()).sum();
        if lost == 0 {
            return Some(format!("{since}; a bridge carries over the nights before"));
        }
        let bridge = last.link.as_ref().filter(|link| link.changed == ["reference"] && link.bridge.is_none());
        let bridge = bridge.filter(|_| last.resumed.is_none());
        let bridge = bridge.map_or(String::new(), |link| {
            format!("; the bridge to them has {} of {BRIDGE_NIGHTS} nights", link.nights)
        });
        Some(format!("{since}; left out: {} measured otherwise{bridge}", plural(lost, "night")))
    }
}

fn setting<'a>(night: &'a Night, series: &Series) -> Option<Setting<'a>> {
    Setting::of(night, &series.scenario)
}

fn minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use assay_protocol::Digest;
    use serde_json::json;

    use super::*;
    use crate::sweep::testing::{night, reference, series, subject, time};
    use crate::sweep::{Counts, Subject};

    fn history(nights: impl IntoIterator<Item = Night>) -> History {
        let mut history = History::new("nightly");
        for night in nights {
            assert_eq!(history.add(night), Ok(true));
        }
        history
    }

    #[test]
    fn a_night_says_what_is_new_in_it() {
        let unchanged = |day| {
            let mut night = night(day, -0.02);
            night.subjects[0].unchanged = true;
            night
        };
        let before = unchanged(0);
        assert_eq!(
            unchanged(1).summary(Some(&before), None),
            "1 series, most certain loss -2.0 % throughput (main, fill), same programs and options"
        );
        let mut other = Night { reference: Some(reference("v2")), ..unchanged(1) };
        assert!(other.summary(Some(&before), None).ends_with(", new reference"));
        other.fingerprint.as_mut().unwrap().workloads.insert("fill".to_owned(), Digest::of(b"more"));
        assert!(other.summary(Some(&before), None).ends_with(", new reference and workload"));
        assert_eq!(night(1, 0.02).summary(Some(&before), None), "1 series");
        let mut failing = night(1, 0.02);
        let ended = |failed, damaged| Counts { runs: 8, failed, damaged };
        for (scenario, own) in [("read", ended(3, 0)), ("fill", ended(2, 1)), ("scan", ended(0, 0))] {
            let (subject, scenario) = ("main".to_owned(), scenario.to_owned());
            failing.failures.push(Failures { subject, scenario, own, reference: ended(1, 0) });
        }
        let said = "1 series, 2 of 8 runs failed, 1 of them with damaged data (main, fill) and 1 more";
        assert_eq!(failing.summary(None, None), said);
        // Verdicts of the night itself.
        let mut proven = night(1, 0.02);
        proven.points[0].verdict = Some(Verdict::Reject);
        assert_eq!(proven.summary(None, None), "1 series, this night alone: Reject main (fill)");
        proven.points[0].verdict = Some(Verdict::Inconclusive);
        assert_eq!(proven.summary(None, None), "1 series");
        proven.points[0].is_likely_harm = true;
        assert_eq!(proven.summary(None, None), "1 series, this night alone: LikelyHarm main (fill)");
    }

    /// A subject that is known to be bad hides nothing that is new.
    #[test]
    fn what_has_moved_is_named_before_what_is_worst() {
        let with = |day: u32, worst: f64, other: f64| {
            let mut night = night(day, worst);
            let name = series("other", "fill", "throughput");
            night.subjects.push(subject("other"));
            night.points.push(Point::new(name, Scale::Log, other, 0.01, 6, None));
            night
        };
        let own = |day: u32| with(day, -0.4 + 0.001 * f64::from(day % 2), 0.0);
        let nights: Vec<Night> = (0..4).map(own).chain([with(4, -0.4, -0.06)]).collect();
        let history = history(nights);
        let moved = history.moved();
        assert_eq!(moved.keys().copied().collect::<Vec<_>>(), [2, 3, 4].map(time));
        let night = history.nights().last().unwrap();
        assert!(
            night.summary(None, moved.get(&time(4))).contains("moved most -5.8 % throughput (other, fill), to -5.8 %")
        );
        assert!(night.summary(None, None).contains("most certain loss -33.0 % throughput (main, fill)"));
        // In a new segment nothing is known yet.
        let anew =
            self::history((0..4).map(|day| Night { reference: Some(reference("v2")), ..own(day) }).chain([own(4)]));
        assert!(!anew.moved().contains_key(&time(4)));
    }

    #[test]
    fn nights_that_do_not_count_are_told() {
        let of = |until: u32| {
            history((0..until).map(|day| {
                let name = if (3..5).contains(&day) { "v2" } else { "v1" };
                Night { reference: Some(reference(name)), ..night(day, 0.01) }
            }))
        };
        assert!(of(3).segments_told().is_empty());
        let told = |history: &History| {
            let mut told = history.segments_told();
            assert_eq!(told.len(), 1);
            told.remove(0).0
        };
        assert_eq!(
            told(&of(5)),
            "new reference since 2026-01-04 02:00; left out: 3 nights measured otherwise; the bridge to them has 0 of 7 nights"
        );
        assert_eq!(told(&of(6)), "since 2026-01-06 02:00 as it was before; left out: 2 nights measured otherwise");
    }

    #[test]
    fn a_new_reference_is_told_before_its_first_night() {
        let spec = |reference: serde_json::Value, subject: serde_json::Value, keys: u32| -> TuningExperimentSpec {
            serde_json::from_value(json!({
                "baseline": "release",
                "configs": [
                    {"name": "release", "dbOptions": reference},
                    {"name": "main", "dbOptions": subject},
                ],
                "scenarios": [{"name": "fill", "workload": {"keyValue": {"keys": keys, "valueBytes": {"fixed": 100},
                    "roles": [{"name": "writer", "steps": 10000, "mix": {"put": 1}}]}}}],
                "repetitions": 6,
                "objectives": [{"metric": "throughput", "margin": "3%"}],
            }))
            .unwrap()
        };
        let (two, four) = (json!({"max_background_jobs": 2}), json!({"max_background_jobs": 4}));
        let own = json!({"max_open_files": 100});
        let as_of = |day: u32, spec: &TuningExperimentSpec| {
            let mut night = night(day, 0.01);
            let base = over(&EngineConfig::default(), &spec.configs[0]);
            night.reference.as_mut().unwrap().config = settings::digest(&base).unwrap();
            let fingerprint = night.fingerprint.as_mut().unwrap();
            (fingerprint.protocol, fingerprint.workloads) = (assay_protocol::VERSION, workloads(spec).unwrap());
            night.subjects = vec![Subject { image: None, ..subject("main") }];
            night
        };
        let before = spec(two.clone(), own.clone(), 1000);
        let mut history = history((0..3).map(|day| as_of(day, &before)));
        assert_eq!(history.foreseen(&before, None).unwrap(), Vec::<String>::new());
        // The program counts where it is known.
        let other = history.foreseen(&before, Some("assay-bench@other")).unwrap();
        assert!(
            other[0]
                .starts_with("new reference since the night of 2026-01-03 02:00: a new segment begins for 1 series"),
            "{other:?}"
        );
        let larger = history.foreseen(&spec(two.clone(), own.clone(), 2000), None).unwrap();
        assert!(larger[0].starts_with("new workload since ") && larger.len() == 1, "{larger:?}");
        let bridge = history.foreseen(&spec(four.clone(), two.clone(), 1000), None).unwrap();
        assert!(bridge[0].starts_with("new reference ") && bridge[1].starts_with("main is the former"), "{bridge:?}");
        history.add(as_of(3, &spec(four, own, 1000))).unwrap();
        let back = history.foreseen(&before, None).unwrap();
        assert!(back[0].ends_with("for 1 series the segment of earlier nights with the same continues"), "{back:?}");
    }
}
