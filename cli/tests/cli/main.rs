//! The binary as users meet it: output, exit codes, and termination on a signal.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

mod bad_input;
mod chart;
mod check;
mod cluster;
mod commands;
mod docs;
mod faults;
mod identity;
mod manual;
mod notify;
mod preflight;
mod readme;
mod record;
mod replay;
mod replicas;
mod runs;
mod secrets;
mod servers;
mod up;
mod verify_install;
