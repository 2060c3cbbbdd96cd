//! What this process prints.
//!
//! Whoever reads it may have gone: `| head` has seen enough, `| tee` ends with the same Ctrl-C as we do. That must not end a run
//! in the middle, so the macros of the standard library, which panic then, are forbidden here.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::Context as _;

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
    fn a_reader_that_has_gone_is_no_error_and_a_full_disk_is() {
        assert!(to(&mut Failing(ErrorKind::BrokenPipe), "text").is_ok());
        assert_eq!(to(&mut Failing(ErrorKind::StorageFull), "text").unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
