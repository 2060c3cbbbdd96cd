//! From runs to a report: each session against its baseline, then the claims.

use std::collections::{BTreeMap, BTreeSet};

use super::advisory;
use super::blocked;
use super::comparison::{Comparison, Kind, in_session, shown};
use super::data::{Data, DataProblem, Name};
use super::gates;
use super::policy::{Claim, Policy};
use super::report::{ClaimReport, ComparisonReport, ImportReport, Layout, VERSION};
use crate::report::RULES;
use crate::stats::ALPHA;
use crate::validate::did_you_mean;
use crate::verdict::MetricRule;

/// Judges everything that was read. The same data and policy always give the same report.
pub fn judge(data: &Data, policy: &Policy) -> Result<ImportReport, Vec<DataProblem>> {
    let rules = policy.rules();
    if rules.iter().all(|rule| !rule.purpose.is_required()) || policy.objectives.is_empty() {
        return Err(vec![DataProblem::new(
            "no objective declared: pass --objective NAME:higher or NAME:lower, or add objectives to the policy",
        )]);
    }
    let sessions: BTreeSet<Name> = data.runs.keys().map(|key| key.session).collect();
    if sessions.is_empty() {
        return Err(vec![DataProblem::new("the data has no runs: nothing to judge")]);
    }
    let mut problems = Vec::new();
    let mut wanted: Vec<(Name, String)> = Vec::new();
    for &session in &sessions {
        match policy.baseline_of(Some(data.names.text(session))) {
            Some(baseline) => wanted.push((session, baseline.to_owned())),
            None => problems.push(no_baseline(data, session)),
        }
    }
    let mut claimed = Vec::new();
    for (index, claim) in policy.claims.iter().enumerate() {
        match claim_session(data, &sessions, index, claim) {
            Ok(session) => {
                let own = session.and_then(|session| wanted.iter().find(|(other, _)| *other == session));
                let baseline = claim.baseline.clone().or_else(|| own.map(|(_, baseline)| baseline.clone()));
                claimed.push((session, baseline));
            }
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    for (session, baseline) in &claimed {
        let pair = session.zip(baseline.clone());
        wanted.extend(pair.filter(|pair| !wanted.contains(pair)));
    }
    let comparisons: BTreeMap<(Name, String), ComparisonReport> = wanted
        .iter()
        .map(|(session, baseline)| {
            Ok(((*session, baseline.clone()), compare(data, policy, &rules, *session, baseline)?))
        })
        .collect::<Result<_, DataProblem>>()
        .map_err(|problem| vec![problem])?;
    let claims = policy.claims.iter().zip(&claimed).map(|(claim, (session, baseline))| {
        let found = session.zip(baseline.clone()).and_then(|pair| comparisons.get(&pair));
        claim_report(&rules, claim, found)
    });
    let claims = claims.collect();
    let mut comparisons: Vec<ComparisonReport> =
        wanted.iter().filter_map(|pair| comparisons.get(pair).cloned()).collect();
    guarantee_together(&mut comparisons);
    Ok(ImportReport {
        version: VERSION,
        rules: RULES,
        produced_by: crate::PRODUCED_BY.to_owned(),
        title: policy.title.clone().unwrap_or_else(|| "Imported results".to_owned()),
        metrics: rules,
        comparisons,
        claims,
        notes: data.notes.clone(),
    })
}

fn compare(
    data: &Data,
    policy: &Policy,
    rules: &[MetricRule],
    session: Name,
    baseline: &str,
) -> Result<ComparisonReport, DataProblem> {
    let comparison = Comparison::new(data, policy, rules, session, baseline)?;
    let gated = gates::check(&comparison);
    match comparison.kind {
        Kind::Blocked => blocked::judge(&comparison, &gated),
        Kind::Unblocked => Ok(advisory::judge(&comparison, &gated)),
    }
}

/// Says what the guarantees of several comparisons are worth together: each has an error of its own, so that no session changes the verdict of
/// another.
fn guarantee_together(comparisons: &mut [ComparisonReport]) {
    let blocked = comparisons.iter_mut().filter(|comparison| comparison.design == Layout::Blocked);
    let blocked: Vec<&mut ComparisonReport> = blocked.collect();
    let count = blocked.len();
    if count < 2 {
        return;
    }
    let any = 100.0 * (1.0 - (1.0 - ALPHA).powi(count.try_into().unwrap_or(i32::MAX)));
    for comparison in blocked {
        comparison.guarantees.push(format!(
            "Sessions: all this applies to this comparison alone. The report has {count}, each with an error of its own: the \
             chance that any of them has a false Win is at most {any:.0} % if they are independent, and likewise for \
             harm."
        ));
    }
}

fn configs_of(data: &Data, session: Name) -> Vec<&str> {
    let names: BTreeSet<Name> = data.runs.keys().filter(|key| key.session == session).map(|key| key.config).collect();
    names.into_iter().map(|name| data.names.text(name)).collect()
}

fn no_baseline(data: &Data, session: Name) -> DataProblem {
    let how = if data.names.text(session).is_empty() {
        "set --baseline, or baseline in the policy"
    } else {
        "set baseline in the policy, or under sessions"
    };
    let configs = shown(&configs_of(data, session));
    let (place, naming) = (in_session(data, session), data.naming());
    DataProblem::new(format!("baseline is missing{place}: {how}; configs are {configs}{naming}"))
}

/// The session that a claim is about; `None` where nothing of it was published.
fn claim_session(
    data: &Data,
    sessions: &BTreeSet<Name>,
    index: usize,
    claim: &Claim,
) -> Result<Option<Name>, DataProblem> {
    let problem = |message: String| Err(DataProblem::new(format!("claims[{index}] of the policy: {message}")));
    let names: Vec<&str> =
        sessions.iter().map(|&session| data.names.text(session)).filter(|name| !name.is_empty()).collect();
    let session = match (&claim.session, sessions.len()) {
        (Some(name), _) => data.names.find(name).filter(|session| sessions.contains(session)),
        (None, 1) => sessions.first().copied(),
        (None, _) if claim.unpublished => None,
        (None, _) => return problem(format!("session is required; sessions are {}", shown(&names))),
    };
    let runs = session.is_some_and(|session| configs_of(data, session).contains(&claim.config.as_str()));
    match (claim.unpublished, session) {
        (true, _) if runs => problem(format!("{} has runs: remove unpublished", claim.config)),
        (true, _) => Ok(None),
        (false, None) => {
            let name = claim.session.as_deref().unwrap_or_default();
            problem(format!("session {name} has no runs{}", did_you_mean(name, names.iter().copied())))
        }
        (false, Some(session)) if !runs => {
            let hint = did_you_mean(&claim.config, configs_of(data, session));
            problem(format!("{} has no runs{}{hint}", claim.config, in_session(data, session)))
        }
        (false, session) => Ok(session),
    }
}

fn claim_report(rules: &[MetricRule], claim: &Claim, comparison: Option<&ComparisonReport>) -> ClaimReport {
    let found =
        comparison.and_then(|comparison| comparison.configs.iter().find(|config| config.config == claim.config));
    let metric = claim.metric.as_deref().or(rules.first().map(|rule| rule.name.as_str()));
    let cells: Vec<_> =
        comparison.iter().flat_map(|comparison| &comparison.cells).filter(|cell| cell.config == claim.config).collect();
    let numbers = match cells.as_slice() {
        [only] => only.numbers.iter().find(|numbers| Some(numbers.metric.as_str()) == metric).cloned(),
        _ => None,
    };
    ClaimReport {
        text: claim.text.clone(),
        session: claim.session.clone(),
        config: claim.config.clone(),
        baseline: comparison.map(|comparison| comparison.baseline.clone()),
        claimed: claim.claimed,
        supported: found.map(|config| config.ruling.verdict),
        reason: found.map_or("no runs published".to_owned(), |config| config.ruling.reason.clone()),
        numbers,
    }
}
