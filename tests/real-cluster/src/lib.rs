//! Parallax on a real cluster: installed as users install it, and judged by its reports during ordinary events and
//! faults.
//!
//! The suite needs the kubeconfig of a cluster that may be broken, and an executable, the hook, for what kubectl
//! cannot do. An ordinary client on every node, which shares no code with the probers, records what users experience;
//! a real Prometheus with the shipped rules records which alerts fire. docs/contributing/testing.md describes all of
//! it.

pub mod app;
pub mod client;
pub mod cluster;
mod exchange;
pub mod image;
pub mod install;
pub mod judge;
pub mod observe;
pub mod record;
pub mod report;
pub mod run;
pub mod step;

/// Prints a message on the terminal, past the capture of a test harness.
pub fn print_uncaptured(text: &str) {
    use std::io::Write as _;
    // A closed stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}
