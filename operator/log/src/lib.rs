//! How the programs that run in a cluster log: a JSON document a line on standard error, how much by `RUST_LOG`.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use tracing::{Subscriber, error};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Where `RUST_LOG` is not set.
const DEFAULT: &str = "info,kube=warn";

/// From here on everything is logged so, a panic too.
pub fn init() -> Result<(), String> {
    let set = std::env::var_os("RUST_LOG").map(|set| set.to_string_lossy().into_owned());
    let log = subscriber(filter(set.as_deref())?, std::io::stderr);
    tracing::subscriber::set_global_default(log).map_err(|error| error.to_string())?;
    std::panic::set_hook(Box::new(panicked));
    Ok(())
}

fn filter(set: Option<&str>) -> Result<EnvFilter, String> {
    let directives = set.filter(|set| !set.is_empty()).unwrap_or(DEFAULT);
    EnvFilter::builder()
        .parse(directives)
        .map_err(|error| format!("RUST_LOG: {directives:?} is not a valid filter: {error}. The default is {DEFAULT:?}"))
}

fn subscriber<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let log = tracing_subscriber::fmt().json().flatten_event(true).with_span_list(false);
    log.with_env_filter(filter).with_writer(writer).finish()
}

/// What reads the logs would take a panic's own lines for somebody else's.
fn panicked(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        error!(%backtrace, "{panic}");
    } else {
        error!("{panic}");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing::{info, info_span};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic while it is held").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged meanwhile.
    fn logged(levels: Option<&str>, work: impl FnOnce()) -> Vec<Value> {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = subscriber(filter(levels).expect("levels"), move || writer.clone());
        tracing::subscriber::with_default(log, work);
        let bytes = lines.0.lock().expect("no panic while it was held");
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    #[test]
    fn levels_that_are_none_are_refused() {
        for bad in ["info,kube=loud", "kube=warn=info", "[span"] {
            let refused = filter(Some(bad)).expect_err(bad);
            assert!(refused.contains("RUST_LOG") && refused.contains(DEFAULT), "{refused}");
        }
        let said = |levels| logged(levels, || info!("hello")).len();
        assert_eq!([said(None), said(Some("")), said(Some("info")), said(Some("warn"))], [1, 1, 1, 0]);
    }

    #[test]
    fn a_panic_is_a_line_with_its_span() {
        let lines = logged(None, || {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(panicked));
            let looked = std::panic::catch_unwind(|| {
                let _span = info_span!("look", experiment = "nightly").entered();
                let none: Vec<u32> = Vec::new();
                none.into_iter().next().expect("a number")
            });
            std::panic::set_hook(before);
            assert!(looked.is_err());
        });
        let [line] = &lines[..] else { panic!("one line and not {lines:?}") };
        assert_eq!((&line["level"], &line["span"]["experiment"]), (&"ERROR".into(), &"nightly".into()));
        assert!(line["message"].as_str().is_some_and(|message| message.contains("a number")), "{line}");
    }
}
