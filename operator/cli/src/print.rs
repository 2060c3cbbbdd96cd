//! What this process prints.
//!
//! Whoever reads it may have gone: `| head` has seen enough, `| tee` ends with the same Ctrl-C as we do. That must not end a run
//! in the middle, so the macros of the standard library, which panic then, are forbidden here.

use std::env;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::Context as _;
use assay_core::report::WIDTH;
use console::Term;

/// Prints to standard output.
pub fn out(text: impl Display) -> anyhow::Result<()> {
    to(&mut io::stdout().lock(), text).context("can't write to standard output")
}

/// Prints to standard error. Where that fails there is nobody left who could be told.
pub fn err(text: impl Display) {
    let _ = to(&mut io::stderr().lock(), text);
}

/// Prints a line to standard error.
pub fn note(line: impl Display) {
    err(format_args!("{line}\n"));
}

/// In fewer columns a table has more breaks than cells.
const NARROWEST: usize = 80;

/// Columns for what is printed: as many as the terminal has.
pub fn width() -> usize {
    let terminal = Term::stdout();
    if !terminal.is_term() {
        // A file or a pipe: the same everywhere.
        return WIDTH;
    }
    let size = terminal.size_checked().map(|(_, columns)| columns.into());
    width_of(size, env::var("COLUMNS").ok().as_deref())
}

/// What somebody asks for in COLUMNS comes first.
fn width_of(size: Option<usize>, asked: Option<&str>) -> usize {
    let asked = asked.and_then(|columns| columns.trim().parse().ok()).filter(|columns| *columns > 0);
    asked.or(size).unwrap_or(WIDTH).max(NARROWEST)
}

fn to(stream: &mut impl Write, text: impl Display) -> io::Result<()> {
    match write!(stream, "{text}").and_then(|()| stream.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails whatever is written.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn text_is_as_wide_as_the_terminal() {
        assert_eq!(width_of(Some(132), None), 132);
        assert_eq!(width_of(Some(132), Some("90")), 90);
        assert_eq!(width_of(Some(132), Some("0")), 132);
        assert_eq!(width_of(Some(132), Some("wide")), 132);
        assert_eq!(width_of(Some(40), None), NARROWEST);
        assert_eq!(width_of(None, None), WIDTH);
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error_and_a_full_disk_is() {
        assert!(to(&mut Failing(ErrorKind::BrokenPipe), "text").is_ok());
        assert_eq!(to(&mut Failing(ErrorKind::StorageFull), "text").unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
