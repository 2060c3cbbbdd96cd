//! The operator on a real API server, with a real scheduler and real garbage collection. `e2e/tests/operator/test.sh` starts the
//! cluster and says which programs are tested; fake nodes and their bench are played by `bench`.
//!
//! - `ASSAY_OPERATOR`, `ASSAY_AGENT` and `ASSAY` are the programs, `KUBECONFIG` the cluster.
//! - `ASSAY_ROUNDS` makes the long tests longer: how many experiments each of them does.
// Helpers outside of test functions count as production code for these lints.
#![allow(clippy::unwrap_used, clippy::panic)]

mod account;
mod agent;
mod alone;
mod bench;
mod bisection;
mod changes;
mod chart;
mod command_line;
mod experiment;
mod faults;
mod fences;
mod fleet;
mod images;
mod install;
mod kills;
mod kubelet;
mod lab;
mod limits;
mod logs;
mod machine;
mod mutations;
mod nights;
mod operator;
mod pods;
mod pretenders;
mod proxy;
mod real;
mod registry;
mod rights;
mod runbooks;
mod scene;
mod scrape;
mod size;
mod tenants;
mod unkind_api;
mod upgrade;
mod verdict;
mod versions;
mod witness;

#[path = "../../../operator/cli/tests/support/record.rs"]
mod record;
