//! What a command line says of results, instead of a policy or in addition to one.

use std::str::FromStr;

use super::columns::Meaning;
use super::policy::{JudgedMetric, MOST_METRICS, Policy};
use crate::stats::Direction;
use crate::validate::fraction;

/// A metric to judge, written as `NAME:DIRECTION` or `NAME:DIRECTION:MARGIN`, where `:quantile` may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricFlag {
    pub metric: String,
    pub direction: Direction,
    pub margin: Option<String>,
    pub quantile: bool,
}

/// What a column means, written as `ROLE=COLUMN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnFlag {
    meaning: Meaning,
    column: String,
}

/// Everything together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags<'a> {
    pub baseline: Option<&'a str>,
    pub objectives: &'a [MetricFlag],
    pub guardrails: &'a [MetricFlag],
    pub columns: &'a [ColumnFlag],
    pub ignored: &'a [String],
}

impl FromStr for MetricFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write NAME:higher or NAME:lower, and a margin if it is not 5%: ops_per_sec:higher:3%";
        let (text, quantile) = text.strip_suffix(":quantile").map_or((text, false), |rest| (rest, true));
        // A name may contain colons; what follows it does not.
        let (rest, last) = text.rsplit_once(':').ok_or(FORM)?;
        let (metric, direction, margin) = match (direction(last), rest.rsplit_once(':')) {
            (Some(_), Some((_, margin))) if margin.ends_with('%') => return Err(FORM.to_owned()),
            (Some(direction), _) => (rest, direction, None),
            (None, Some((metric, word))) if direction(word).is_some() || last.ends_with('%') => {
                let direction = direction(word).ok_or(format!("{word:?} is not a direction: use higher or lower"))?;
                (metric, direction, Some(last))
            }
            _ => return Err(format!("{last:?} is not a direction: use higher or lower")),
        };
        if metric.is_empty() {
            return Err(FORM.to_owned());
        }
        if let Some(margin) = margin.filter(|margin| !fraction(margin).is_some_and(|size| size > 0.0 && size < 1.0)) {
            return Err(format!(
                "the margin must be above 0 % and below 100 %, such as 5%, not {margin:?}; differences need a policy \
                 with scale: linear"
            ));
        }
        Ok(Self { metric: metric.to_owned(), direction, margin: margin.map(str::to_owned), quantile })
    }
}

fn direction(word: &str) -> Option<Direction> {
    match word {
        "higher" => Some(Direction::Higher),
        "lower" => Some(Direction::Lower),
        _ => None,
    }
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Higher => "higher",
        Direction::Lower => "lower",
    }
}

impl FromStr for ColumnFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Meaning::ALL.map(Meaning::name).join(", ");
        let (role, column) = text
            .split_once('=')
            .filter(|(_, column)| !column.is_empty())
            .ok_or_else(|| format!("write ROLE=COLUMN, such as block=round; roles are {}", known()))?;
        let meaning = Meaning::ALL.into_iter().find(|meaning| meaning.name() == role);
        let meaning = meaning.ok_or_else(|| format!("{role:?} is not a role; roles are {}", known()))?;
        Ok(Self { meaning, column: column.to_owned() })
    }
}

impl Policy {
    /// The policy with what the command line says. The baseline may be another one there; whatever else is said twice must be the same.
    pub fn with(mut self, flags: &Flags<'_>) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        if let Some(baseline) = flags.baseline {
            self.baseline = Some(baseline.to_owned());
            self.sessions.clear();
        }
        for ColumnFlag { meaning, column } in flags.columns {
            match self.columns.given(*meaning) {
                Some(other) if other != column => problems
                    .push(format!("--column {0}={column} contradicts {0}={other}: remove one of them", meaning.name())),
                _ => self.columns.set(*meaning, column),
            }
        }
        for column in flags.ignored {
            if !self.ignore_columns.contains(column) {
                self.ignore_columns.push(column.clone());
            }
        }
        for (flag, other, asked, own) in
            [("objective", "guardrail", flags.objectives, true), ("guardrail", "objective", flags.guardrails, false)]
        {
            for metric in asked {
                let (mine, others) = if own {
                    (&mut self.objectives, &self.guardrails)
                } else {
                    (&mut self.guardrails, &self.objectives)
                };
                let named = |judged: &&JudgedMetric| judged.metric == metric.metric;
                if others.iter().any(|judged| named(&judged)) {
                    problems.push(format!(
                        "--{flag} {}: it is already {}: remove one of them",
                        metric.metric,
                        a(other)
                    ));
                } else if let Some(known) = mine.iter().find(named) {
                    problems.extend(metric.contradicts(flag, known));
                } else {
                    let judged = JudgedMetric::new(&metric.metric, metric.direction, metric.margin.as_deref());
                    mine.push(JudgedMetric { quantile: metric.quantile, ..judged });
                }
            }
        }
        for (list, what) in [(&self.objectives, "objectives"), (&self.guardrails, "guardrails")] {
            if list.len() > MOST_METRICS {
                problems.push(format!("{} {what}, at most {MOST_METRICS} allowed", list.len()));
            }
        }
        if problems.is_empty() {
            problems.extend(self.problems().iter().map(ToString::to_string));
        }
        if problems.is_empty() { Ok(self) } else { Err(problems) }
    }
}

fn a(purpose: &str) -> String {
    let article = if purpose == "objective" { "an" } else { "a" };
    format!("{article} {purpose}")
}

impl MetricFlag {
    /// What it says otherwise than the policy, or than the same flag before.
    fn contradicts(&self, flag: &str, known: &JudgedMetric) -> Option<String> {
        let Self { metric, direction, margin, quantile } = self;
        let (own, other) = if *quantile && !known.quantile {
            ("quantile", "none")
        } else if *direction == known.direction {
            let margin = margin.as_ref().filter(|margin| **margin != known.margin)?;
            (margin.as_str(), known.margin.as_str())
        } else {
            (word(*direction), word(known.direction))
        };
        Some(format!("--{flag} {metric} says {own}, but it is already declared with {other}: remove one of them"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metric(text: &str) -> MetricFlag {
        text.parse().expect(text)
    }

    #[test]
    fn metrics_have_a_direction_and_perhaps_a_margin() {
        let flag = |metric: &str, direction, margin: Option<&str>| MetricFlag {
            metric: metric.to_owned(),
            direction,
            margin: margin.map(str::to_owned),
            quantile: false,
        };
        let quantile = |flag: MetricFlag| MetricFlag { quantile: true, ..flag };
        assert_eq!(metric("p99:lower:quantile"), quantile(flag("p99", Direction::Lower, None)));
        assert_eq!(metric("p99:lower:5%:quantile"), quantile(flag("p99", Direction::Lower, Some("5%"))));
        assert_eq!(metric("ops:higher"), flag("ops", Direction::Higher, None));
        assert_eq!(metric("p99:lower:2.5%"), flag("p99", Direction::Lower, Some("2.5%")));
        assert_eq!(metric("read:p99:lower:10%"), flag("read:p99", Direction::Lower, Some("10%")));
        assert_eq!(metric("read:p99:lower"), flag("read:p99", Direction::Lower, None));
        for (text, words) in [
            ("ops", "write NAME:higher"),
            (":higher", "write NAME:higher"),
            ("ops:up", "\"up\" is not a direction"),
            ("ops:up:5%", "\"up\" is not a direction"),
            ("ops:5%", "\"5%\" is not a direction"),
            ("ops:5%:higher", "write NAME:higher"),
            ("ops:quantile", "write NAME:higher"),
            ("ops:higher:5", "such as 5%, not \"5\""),
            ("ops:higher:0%", "above 0 %"),
            ("ops:higher:100%", "below 100 %"),
        ] {
            let refused = text.parse::<MetricFlag>().expect_err(text);
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }

    #[test]
    fn columns_have_roles() {
        let refused = |text: &str| text.parse::<ColumnFlag>().expect_err(text);
        assert!(refused("block").starts_with("write ROLE=COLUMN, such as block=round; roles are session, scenario,"));
        assert!(refused("block=").starts_with("write ROLE=COLUMN"));
        assert!(refused("metrics=x").starts_with("\"metrics\" is not a role"));
        // A name may contain whatever it likes.
        let column: ColumnFlag = "config=a=b".parse().expect("a column");
        assert_eq!(column.column, "a=b");
    }

    fn policy() -> Policy {
        let policy = json!({
            "baseline": "a",
            "columns": {"block": "round"},
            "objectives": [{"metric": "ops", "direction": "higher", "margin": "3%"}],
            "guardrails": [{"metric": "p99", "direction": "lower", "margin": "5%"}],
            "sessions": [{"name": "s", "baseline": "z"}],
        });
        Policy::read(&policy).expect("the policy is valid")
    }

    #[test]
    fn flags_make_a_policy() {
        let (objectives, guardrails) = ([metric("ops:higher")], [metric("p99:lower:10%:quantile")]);
        let columns = ["config=variant".parse().expect("a column")];
        let ignored = ["host".to_owned()];
        let flags = Flags {
            baseline: Some("old"),
            objectives: &objectives,
            guardrails: &guardrails,
            columns: &columns,
            ignored: &ignored,
        };
        let made = Policy::default().with(&flags).expect("nothing contradicts it");
        let same = json!({
            "baseline": "old",
            "columns": {"config": "variant"},
            "ignoreColumns": ["host"],
            "objectives": [{"metric": "ops", "direction": "higher", "margin": "5%"}],
            "guardrails": [{"metric": "p99", "direction": "lower", "margin": "10%", "quantile": true}],
        });
        assert_eq!(made, Policy::read(&same).expect("the policy is valid"));
    }

    #[test]
    fn the_baseline_wins_and_the_rest_must_agree() {
        let agreeing = [metric("ops:higher"), metric("ops:higher:3%"), metric("more:higher")];
        let flags = Flags { baseline: Some("b"), objectives: &agreeing, ..Flags::default() };
        let made = policy().with(&flags).expect("nothing contradicts it");
        assert_eq!((made.baseline.as_deref(), made.sessions.len(), made.objectives.len()), (Some("b"), 0, 2));
        assert_eq!(made.objectives[0].margin, "3%");
        let objectives =
            [metric("ops:lower"), metric("ops:higher:5%"), metric("ops:higher:quantile"), metric("p99:lower")];
        let guardrails = [metric("ops:higher")];
        let columns = ["block=rnd".parse().expect("a column")];
        let flags = Flags { objectives: &objectives, guardrails: &guardrails, columns: &columns, ..Flags::default() };
        assert_eq!(
            policy().with(&flags).expect_err("contradictions"),
            [
                "--column block=rnd contradicts block=round: remove one of them",
                "--objective ops says lower, but it is already declared with higher: remove one of them",
                "--objective ops says 5%, but it is already declared with 3%: remove one of them",
                "--objective ops says quantile, but it is already declared with none: remove one of them",
                "--objective p99: it is already a guardrail: remove one of them",
                "--guardrail ops: it is already an objective: remove one of them",
            ]
        );
        let ignored = ["round".to_owned()];
        let refused = policy().with(&Flags { ignored: &ignored, ..Flags::default() }).expect_err("a contradiction");
        assert_eq!(refused, ["columns.block: \"round\" is also in ignoreColumns: remove it there or here"]);
        let many: Vec<MetricFlag> = (0..9).map(|i| metric(&format!("m{i}:higher"))).collect();
        let refused = Policy::default().with(&Flags { objectives: &many, ..Flags::default() });
        assert_eq!(refused.expect_err("too many"), ["9 objectives, at most 8 allowed"]);
    }
}
