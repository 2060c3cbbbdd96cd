//! Messages about changes, to a webhook or to GitHub: which stages are told, what a message says, where it may go, and when it is sent again.
//! Who sends it is another matter.

mod address;
mod allowed;
mod delivery;
mod event;
mod github;
mod target;

pub use address::is_forbidden;
pub use allowed::Allowed;
pub use delivery::{TRIES, due, tried, wait};
pub use event::{Source, event, id};
pub use github::{State, Told};
pub use target::{Host, Target};
