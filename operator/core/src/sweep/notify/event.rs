//! What a message says: a `CloudEvent` in JSON.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::report::number;
use crate::sweep::confirm::Change;
use crate::sweep::culprit::Finding;

/// Series that a message lists. Its sentence counts all.
const MOST_SERIES: usize = 50;

/// Whose message it is.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub namespace: &'a str,
    pub sweep: &'a str,
}

/// The id of a message: the same at each try, and another one if the change is in that stage again.
pub fn id(change: &str, stage: &str, since: Timestamp) -> String {
    format!("{change}.{}.{}", stage.to_lowercase(), since.strftime("%Y%m%dT%H%M%SZ"))
}

/// The message that a change has reached a stage.
pub fn event(source: Source<'_>, change: &Change, stage: &str, since: Timestamp) -> Value {
    let shown = change.shown();
    let series = shown.iter().take(MOST_SERIES).map(|(own, scale)| {
        let effect = number::effect(*scale, own.shift.unwrap_or(own.asked.shift));
        let bound = own.bound.map(|bound| number::effect(*scale, bound));
        json!({"scenario": own.series.scenario, "metric": own.series.metric, "effect": effect, "bound": bound})
    });
    let accepted = change.accepted.as_ref();
    json!({
        "specversion": "1.0",
        "id": id(&change.name, stage, since),
        "source": format!("/apis/assay.rocks/v1alpha1/namespaces/{}/tuningsweeps/{}", source.namespace, source.sweep),
        "type": format!("rocks.assay.sweep.change.{}.v1", stage.to_lowercase()),
        "subject": change.name,
        "time": since,
        "datacontenttype": "application/json",
        "data": {
            "namespace": source.namespace,
            "sweep": source.sweep,
            "change": change.name,
            "subject": change.subject,
            "stage": stage,
            "message": change.said(),
            "good": change.good,
            "bad": change.bad,
            "series": series.collect::<Value>(),
            "culprit": change.finding.as_ref().map(Finding::said),
            "accepted": accepted.map(|(reason, expires)| json!({"reason": reason, "expires": expires})),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Scale;
    use crate::sweep::confirm::{Answered, Asked, Stage};
    use crate::sweep::detect::Decision;
    use crate::sweep::testing::series;

    fn change(series_count: usize) -> Change {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let first = time("2026-12-01T01:17:00Z");
        let answered = |number: usize| Answered {
            series: series("tonight", &format!("fill-{number}"), "throughput"),
            decision: Some(Decision::Confirmed),
            shift: Some(-0.05),
            bound: Some(-0.04),
            p: 0.001,
            limit: -0.005,
            blocks: 12,
            asked: Asked {
                scenario: format!("fill-{number}"),
                metric: "throughput".to_owned(),
                first,
                shift: -0.06,
                margin: 0.03,
                losses: Vec::new(),
            },
        };
        Change {
            finding: None,
            name: "tonight-20261201-0117".to_owned(),
            subject: "tonight".to_owned(),
            stage: Stage::Regressed,
            raised: first,
            good: time("2026-11-30T01:17:00Z"),
            bad: first,
            visits: 2,
            failed: 0,
            is_sum: false,
            failing: Vec::new(),
            series: (0..series_count).map(|number| (answered(number), Scale::Log)).collect(),
            accepted: None,
        }
    }

    #[test]
    fn a_message_is_a_cloud_event_that_says_what_is_known() {
        let since = "2026-12-01T13:30:00Z".parse().unwrap();
        let source = Source { namespace: "team", sweep: "nightly" };
        let expected = json!({
            "specversion": "1.0",
            "id": "tonight-20261201-0117.regressed.20261201T133000Z",
            "source": "/apis/assay.rocks/v1alpha1/namespaces/team/tuningsweeps/nightly",
            "type": "rocks.assay.sweep.change.regressed.v1",
            "subject": "tonight-20261201-0117",
            "time": "2026-12-01T13:30:00Z",
            "datacontenttype": "application/json",
            "data": {
                "namespace": "team",
                "sweep": "nightly",
                "change": "tonight-20261201-0117",
                "subject": "tonight",
                "stage": "Regressed",
                "message": "Regressed -4.9 %, surely below -3.9 % in throughput (fill-0) since 2026-12-01; 2 visits",
                "good": "2026-11-30T01:17:00Z",
                "bad": "2026-12-01T01:17:00Z",
                "series": [{"scenario": "fill-0", "metric": "throughput", "effect": "-4.9 %", "bound": "-3.9 %"}],
                "culprit": null,
                "accepted": null,
            },
        });
        assert_eq!(event(source, &change(1), "Regressed", since), expected);
        let accepted = Change { accepted: Some(("as planned".to_owned(), Some(since))), ..change(1) };
        let accepted = event(source, &accepted, "Accepted", since);
        assert_eq!(accepted["type"], "rocks.assay.sweep.change.accepted.v1");
        assert_eq!(accepted["data"]["accepted"], json!({"reason": "as planned", "expires": since}));
        assert_ne!(accepted["id"], expected["id"]);
    }

    #[test]
    fn a_message_has_an_end() {
        let source = Source { namespace: "team", sweep: "nightly" };
        let body = event(source, &change(500), "Regressed", Timestamp::UNIX_EPOCH);
        assert_eq!(body["data"]["series"].as_array().map(Vec::len), Some(MOST_SERIES));
        assert!(body.to_string().len() < 64 << 10, "receivers take a CloudEvent of 64 KiB");
    }
}
