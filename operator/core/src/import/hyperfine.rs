//! What `hyperfine --export-json` writes.

use serde::Deserialize;

use super::collect::Collector;
use super::data::{Place, Sample};

/// The only scenario: hyperfine knows commands, which are our configs.
pub const SCENARIO: &str = "command";
/// Objectives unless a policy declares others.
pub const DEFAULT_OBJECTIVE: &str = "time";

#[derive(Debug, Deserialize)]
struct Export {
    results: Vec<Measured>,
}

/// One command. Fields that other versions add do not matter.
#[derive(Debug, Deserialize)]
struct Measured {
    command: String,
    /// Seconds; absent where only a summary was exported.
    #[serde(default)]
    times: Vec<f64>,
    #[serde(default)]
    exit_codes: Vec<Option<i64>>,
}

/// Reads an export. With a `block` each command is one run of it, measured by the mean of its times, so that none of them is forgotten:
/// repetitions within one call share whatever that call had of luck. Without one every repetition counts as a run.
pub fn read(text: &str, file: u32, block: Option<&str>, to: &mut Collector<'_>) {
    let whole = Place { file, line: 0 };
    let export: Export = match serde_json::from_str(text) {
        Ok(export) => export,
        Err(error) => {
            let place = Place { file, line: error.line() as u64 };
            return to.problem(place, None, format!("not the output of hyperfine --export-json: {error}"));
        }
    };
    if export.results.is_empty() {
        to.problem(whole, None, "no results: run hyperfine with at least two commands");
    }
    for Measured { command, times, exit_codes } in export.results {
        if times.is_empty() {
            to.problem(whole, None, format!("no times for {command:?}: export with --export-json"));
        }
        if let Some(run) = exit_codes.iter().position(|code| *code != Some(0)) {
            let code = exit_codes[run].map_or("was killed".to_owned(), |code| format!("exited with {code}"));
            let message = format!(
                "run {} of {command:?} {code}: the time of a failed run is meaningless; repeat it without \
                 --ignore-failure",
                run + 1
            );
            to.problem(whole, None, message);
        }
        let values = match block {
            Some(_) if times.is_empty() => Vec::new(),
            Some(_) => vec![times.iter().sum::<f64>() / times.len() as f64],
            None => times,
        };
        for (run, value) in values.into_iter().enumerate() {
            let sample = Sample {
                scenario: SCENARIO.to_owned(),
                config: command.clone(),
                block: block.map(str::to_owned),
                replicate: block.is_none().then(|| (run + 1).to_string()),
                metric: DEFAULT_OBJECTIVE.to_owned(),
                value: value.to_string(),
                unit: Some("s".to_owned()),
                ..Sample::default()
            };
            to.printed(whole, &sample);
        }
    }
}
