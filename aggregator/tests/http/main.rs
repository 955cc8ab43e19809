//! A whole aggregator on a free port, talked to as probers, scrapers and browsers do.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
mod facts;
mod ingest;
mod plan;
mod record;
mod serve;
mod store;
