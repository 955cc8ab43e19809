//! Parallax on a real cluster: installed as users install it, through ordinary days and faults, and judged by what it says.
//!
//! The suite needs the kubeconfig of a cluster that may be broken, and an executable, the hook, that does to it what kubectl
//! cannot. An ordinary client on every node, which shares no code with the probers, says what users feel; a real Prometheus
//! with the shipped rules says who would have been called. docs/contributing/testing.md describes all of it.

pub mod app;
pub mod client;
pub mod cluster;
mod exchange;
pub mod image;
pub mod install;
pub mod judge;
pub mod observe;
pub mod report;
pub mod run;
pub mod step;

/// Says something on the terminal, past the capture of a test harness.
pub fn say(text: &str) {
    use std::io::Write as _;
    // An output that is gone is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}
