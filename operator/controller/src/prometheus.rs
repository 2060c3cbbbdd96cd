//! `spec.metrics`: a Prometheus server's view of the measured window of a trial.

use assay_api::QueriedMetric;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::http::Http;

/// Where and when a trial was measured.
pub struct Window<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    pub node: &'a str,
    pub started_unix_ms: u64,
    pub seconds: f64,
}

/// The value of a metric over a window. The error says why there is none.
pub async fn value(http: &Http, server: &str, metric: &QueriedMetric, window: &Window<'_>) -> Result<f64, String> {
    for selector in selectors(&metric.query) {
        // One sample says nothing about a window, and some functions give a number all the same.
        let counted = scalar(http, server, &format!("min(count_over_time({selector}[$window]))"), window).await?;
        if counted.is_none_or(|samples| samples < 2.0) {
            return Err(format!("{} has fewer than two samples in the window", filled(selector, window)));
        }
    }
    let value = scalar(http, server, &metric.query, window).await?;
    value.filter(|value| value.is_finite()).ok_or_else(|| "the query returns no number".to_owned())
}

/// The selectors that ranges are taken of.
fn selectors(query: &str) -> Vec<&str> {
    query.match_indices("[$window]").map(|(end, _)| &query[selector_start(&query[..end])..end]).collect()
}

/// Where the selector begins that a text ends with: a name, and labels in braces, in which a string may have any character.
fn selector_start(text: &str) -> usize {
    let mut start = text.len();
    if text.ends_with('}') {
        let mut quoted = false;
        for (at, character) in text.char_indices().rev() {
            // A quote that is escaped belongs to the string.
            let escaped = text[..at].chars().rev().take_while(|c| *c == '\\').count() % 2 == 1;
            quoted ^= matches!(character, '"') && !escaped;
            if character == '{' && !quoted {
                start = at;
                break;
            }
        }
    }
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text[..start].char_indices().rev().take_while(|(_, c)| name(*c)).last().map_or(start, |(at, _)| at)
}

/// A query with the trial's window and place put in.
fn filled(query: &str, window: &Window<'_>) -> String {
    // A name that is a part of a regular expression stays one: Kubernetes' names have no quotes.
    query
        .replace("$window", &format!("{}ms", (window.seconds * 1000.0).round().max(1.0)))
        .replace("$namespace", window.namespace)
        .replace("$node", window.node)
        .replace("$pod", window.pod)
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Sample>),
    Scalar((f64, String)),
    Matrix(IgnoredAny),
    String(IgnoredAny),
}

#[derive(Deserialize)]
struct Sample {
    value: (f64, String),
}

/// One number at the end of the window; `None` where there is nothing.
async fn scalar(http: &Http, server: &str, query: &str, window: &Window<'_>) -> Result<Option<f64>, String> {
    let end = window.started_unix_ms as f64 / 1000.0 + window.seconds;
    let query = filled(query, window);
    let uri = format!("{}/api/v1/query?time={end:.3}&query={}", server.trim_end_matches('/'), encoded(&query));
    let (status, body) = http.get(&uri).await?;
    let answer: Answer = serde_json::from_str(&body).map_err(|_| format!("Prometheus answered {status}"))?;
    if let Some(error) = answer.error {
        return Err(format!("Prometheus rejects {query:?}: {error}"));
    }
    let number = |text: &str| text.parse().map_err(|_| format!("Prometheus returned {text:?}, which is not a number"));
    match answer.data {
        Some(Data::Vector(samples)) if samples.len() > 1 => {
            Err(format!("the query returns {} series: aggregate them, for example with sum()", samples.len()))
        }
        Some(Data::Vector(samples)) => samples.first().map(|sample| number(&sample.value.1)).transpose(),
        Some(Data::Scalar((_, value))) => number(&value).map(Some),
        Some(Data::Matrix(_) | Data::String(_)) => Err("the query does not return a single number".to_owned()),
        None => Err(format!("Prometheus answered {status} without data")),
    }
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_found_before_ranges() {
        for (query, expected) in [
            ("rate(a_total[$window])", vec!["a_total"]),
            ("sum(rate(a:b{x=\"1\",y=~\"a{2}\\\"}.*\"}[$window]))", vec!["a:b{x=\"1\",y=~\"a{2}\\\"}.*\"}"]),
            ("rate(a[$window]) / rate({__name__=\"b\"}[$window])", vec!["a", "{__name__=\"b\"}"]),
            ("1", vec![]),
        ] {
            assert_eq!(selectors(query), expected, "{query}");
        }
    }

    #[test]
    fn a_query_says_where_and_when() {
        let window = Window { namespace: "team", pod: "p-a0", node: "n1", started_unix_ms: 0, seconds: 12.3456 };
        assert_eq!(
            filled("x{instance=\"$node\",pod=\"$pod\",namespace=\"$namespace\"}[$window]", &window),
            "x{instance=\"n1\",pod=\"p-a0\",namespace=\"team\"}[12346ms]"
        );
        assert_eq!(encoded("a b+é"), "a%20b%2B%C3%A9");
    }
}
