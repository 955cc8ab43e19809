//! Compares the prober's ACME profiles with Pebble in network namespaces. Needs Debian's `pebble`, `iproute2` and
//! `util-linux`, and root or user namespaces; `PARALLAX_ACME=skip` skips these tests with a message.
#![allow(clippy::too_many_lines, reason = "tables, and tests that tell all they found")]
#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

mod agreement;
mod challtestsrv;
mod generated;
mod names;
mod written;
