//! The log of the operators as part of the trace.

use std::io;
use std::sync::Arc;

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::world::World;

struct Trace(Arc<World>);

struct Line(Arc<World>);

impl<'a> MakeWriter<'a> for Trace {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Arc::clone(&self.0))
    }
}

impl io::Write for Line {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.note(format!("    {}", String::from_utf8_lossy(text).trim_end()).as_str());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Until this is dropped, and on this thread.
pub fn begin(world: &Arc<World>) -> DefaultGuard {
    let writer = Trace(Arc::clone(world));
    let log = tracing_subscriber::fmt().with_ansi(false).without_time().with_target(false).with_writer(writer);
    tracing::subscriber::set_default(log.with_max_level(tracing::Level::INFO).finish())
}
