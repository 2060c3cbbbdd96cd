//! `spec.metrics`: a Prometheus server's view of the measured window of a trial.

use std::path::PathBuf;

use assay_api::QueriedMetric;
use assay_core::promql::Query;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::args::Args;
use crate::http::Http;

/// Where and when a trial was measured.
pub struct Window<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    pub node: &'a str,
    pub started_unix_ms: u64,
    pub seconds: f64,
}

/// What stands in a query for the trial's namespace.
pub const NAMESPACE: &str = "$namespace";

/// A Prometheus server, as one namespace may ask it.
pub struct Server<'a> {
    http: Http,
    url: &'a str,
    token: Option<String>,
    /// Confines queries to the series of the namespace.
    label: Option<&'a str>,
}

impl<'a> Server<'a> {
    /// Reads certificates and token anew, as both are replaced from time to time. `None` where there is no server.
    pub fn find(args: &'a Args, http: &Http, namespace: &str) -> Result<Option<Self>, String> {
        let Some(url) = &args.prometheus else { return Ok(None) };
        let http = args.prometheus_ca.as_deref().map_or_else(|| Ok(http.clone()), Http::trusting)?;
        let read = |path: &PathBuf| {
            let token = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>(token.trim().to_owned())
        };
        let token = args.prometheus_token.as_ref().map(read).transpose()?;
        Ok(Some(Self { http, url: url.trim_end_matches('/'), token, label: args.confining_label(namespace) }))
    }

    /// The value of a metric over a window. The error says why there is none.
    pub async fn value(&self, metric: &QueriedMetric, window: &Window<'_>) -> Result<f64, String> {
        let mut query = Query::parse(&metric.query)?;
        if let Some(label) = self.label {
            // In words of the query, which are filled in later.
            query = query.confined(label, NAMESPACE, window.namespace)?;
        }
        for selector in query.ranges() {
            // One sample says nothing about a window, and some functions give a number all the same.
            let counted = self.scalar(&format!("min(count_over_time({selector}[$window]))"), window).await?;
            if counted.is_none_or(|samples| samples < 2.0) {
                return Err(format!("{} has fewer than two samples in the window", filled(&selector, window)));
            }
        }
        let value = self.scalar(&query.to_string(), window).await?;
        value.filter(|value| value.is_finite()).ok_or_else(|| "the query returns no number".to_owned())
    }

    /// One number at the end of the window; `None` where there is nothing.
    async fn scalar(&self, query: &str, window: &Window<'_>) -> Result<Option<f64>, String> {
        let end = window.started_unix_ms as f64 / 1000.0 + window.seconds;
        let query = filled(query, window);
        let uri = format!("{}/api/v1/query?time={end:.3}&query={}", self.url, encoded(&query));
        let (status, body) = self.http.get_as(&uri, self.token.as_deref()).await?;
        number(status, &body, &query)
    }
}

/// A query with the trial's window and place put in.
fn filled(query: &str, window: &Window<'_>) -> String {
    // A name that is a part of a regular expression stays one: Kubernetes' names have no quotes.
    query
        .replace("$window", &format!("{}ms", (window.seconds * 1000.0).round().max(1.0)))
        .replace(NAMESPACE, window.namespace)
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

fn number(status: u16, body: &str, query: &str) -> Result<Option<f64>, String> {
    let answer: Answer = serde_json::from_str(body).map_err(|_| format!("Prometheus answered {status}"))?;
    if let Some(error) = answer.error {
        return Err(format!("Prometheus rejects {query:?}: {error}"));
    }
    let parsed = |text: &str| text.parse().map_err(|_| format!("Prometheus returned {text:?}, which is not a number"));
    match answer.data {
        Some(Data::Vector(samples)) if samples.len() > 1 => {
            Err(format!("the query returns {} series: aggregate them, for example with sum()", samples.len()))
        }
        Some(Data::Vector(samples)) => samples.first().map(|sample| parsed(&sample.value.1)).transpose(),
        Some(Data::Scalar((_, value))) => parsed(&value).map(Some),
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
    use clap::Parser as _;

    use super::*;
    use crate::http::testing::{TEST_AUTHORITY, pages};

    const WINDOW: Window<'_> =
        Window { namespace: "team", pod: "p-a0", node: "n1", started_unix_ms: 0, seconds: 12.3456 };

    fn decoded(text: &str) -> String {
        let mut parts = text.split('%');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |text, part| {
            text + &char::from(u8::from_str_radix(&part[..2], 16).unwrap()).to_string() + &part[2..]
        })
    }

    /// A private authority, and a token that is replaced between two trials.
    #[tokio::test]
    async fn queries_of_a_team_are_confined_and_carry_the_token_of_the_moment() {
        let answer = r#"{"data":{"resultType":"scalar","result":[0,"5"]}}"#;
        let (address, asked) = pages(answer, true);
        let folder = tempfile::tempdir().unwrap();
        let (ca, token) = (folder.path().join("ca.pem"), folder.path().join("token"));
        std::fs::write(&ca, TEST_AUTHORITY).unwrap();
        std::fs::write(&token, "first\n").unwrap();
        let metric = QueriedMetric {
            name: "m".to_owned(),
            query: "max(rate(a{pod=\"$pod\"}[$window])) / ignoring (x) secret".to_owned(),
            better: assay_api::Better::Lower,
        };
        let url = format!("https://{address}/");
        let start = ["assay-operator", "--bench-image", "bench", "--prometheus", &url, "--unconfined-queries", "lab"];
        let files = ["--prometheus-ca", ca.to_str().unwrap(), "--prometheus-token", token.to_str().unwrap()];
        let args = Args::parse_from([&start[..], &files].concat());

        for (namespace, bearer) in [("team", "first"), ("lab", "second")] {
            std::fs::write(&token, bearer).unwrap();
            let server = Server::find(&args, &Http::new(), namespace).unwrap().unwrap();
            assert_eq!(server.value(&metric, &Window { namespace, ..WINDOW }).await, Ok(5.0));
        }
        let heads: Vec<Vec<String>> = asked.try_iter().collect();
        let bearers: Vec<&str> =
            heads.iter().flatten().filter_map(|line| line.strip_prefix("authorization: Bearer ")).collect();
        assert_eq!(bearers, ["first", "first", "second", "second"]);
        let queries: Vec<String> = heads
            .iter()
            .map(|head| decoded(head[0].split("&query=").nth(1).unwrap().trim_end_matches(" HTTP/1.1")))
            .collect();
        assert_eq!(
            queries,
            [
                r#"min(count_over_time(a{pod="p-a0",namespace="team"}[12346ms]))"#,
                r#"max ( rate ( a{pod="p-a0",namespace="team"}[12346ms] ) ) / ignoring ( x ) secret{namespace="team"}"#,
                r#"min(count_over_time(a{pod="p-a0"}[12346ms]))"#,
                r#"max ( rate ( a{pod="p-a0"}[12346ms] ) ) / ignoring ( x ) secret"#,
            ]
        );

        // Public authorities do not vouch for it.
        let args = Args::parse_from(start);
        let server = Server::find(&args, &Http::new(), "team").unwrap().unwrap();
        let error = server.value(&metric, &WINDOW).await.unwrap_err();
        assert!(error.contains("certificate"), "{error}");
        std::fs::remove_file(&token).unwrap();
        let args = Args::parse_from([&start[..], &files].concat());
        let error = Server::find(&args, &Http::new(), "team").err().unwrap();
        assert!(error.starts_with(token.to_str().unwrap()), "{error}");
    }

    #[test]
    fn a_query_says_where_and_when() {
        assert_eq!(
            filled("x{instance=\"$node\",pod=\"$pod\",namespace=\"$namespace\"}[$window]", &WINDOW),
            "x{instance=\"n1\",pod=\"p-a0\",namespace=\"team\"}[12346ms]"
        );
        assert_eq!(encoded("a b+é"), "a%20b%2B%C3%A9");
    }
}
