//! Tests of a whole aggregator over HTTP, as probers, scrapers and browsers use it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod challenges;
mod common;
mod facts;
mod handle;
mod hostile;
mod ingest;
mod installation;
mod kubernetes;
mod plan;
mod proxied;
mod record;
mod resources;
mod routes;
mod runs;
mod serve;
mod store;
