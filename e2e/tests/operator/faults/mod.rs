//! One fault each, in the middle of an experiment that has to end as if nothing had happened.

mod clock;
mod cluster;
mod life;
mod nodes;
mod pods;
mod queue;
mod quota;
mod records;
mod refusals;
