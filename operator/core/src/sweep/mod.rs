//! Nightly sweeps: when a night is due and what runs in it, what it leaves behind, how long that is kept, and what it looks like over time.
//! Pure: what a cluster and a single machine do alike.

pub mod child;
pub mod confirm;
pub mod culprit;
pub mod detect;
mod failing;
mod history;
mod kept;
mod level;
pub mod next;
pub mod night;
pub mod notify;
mod point;
pub mod report;
mod ring;
mod schedule;
mod series;
mod settings;
#[cfg(test)]
mod simulation;
mod standing;
#[cfg(test)]
mod testing;
mod told;
pub mod validate;

pub use failing::{Counts, Failing, Failures};
pub use history::{History, HistoryError, Imported, LineError};
pub use kept::surplus;
pub use level::{LEARNED, Level};
pub use point::{
    Acceptance, Fingerprint, Gap, MOST_SERIES, Night, Outcome, Point, Reference, Refused, Series, Subject, Trigger,
    VERSION,
};
pub use ring::{Change, Damaged, Object, Ring, RingError};
pub use schedule::{Schedule, Unscheduled};
pub use series::{Entry, Link, Seen, Segment, SeriesView};
pub use standing::{Standing, standings, worst};
pub use told::Moved;
