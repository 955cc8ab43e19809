//! The control client: what the users of the cluster experience.
//!
//! It runs in a Pod on every node and sends a request to each destination once a second: a new connection, one
//! HTTP/1.1 request, name resolution by the C library like any program. It shares no code with the prober. The suite
//! reads its log and compares Parallax's results with it.

mod destination;
mod log;
mod request;

use std::{
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::{
    Json, Router,
    extract::{Query, State},
    routing::get,
};
use serde::Deserialize;
use tokio::net::TcpListener;

pub use destination::Destination;
use log::Log;
pub use log::{Entry, Page};

/// Interval between two requests to one destination.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// Options of the client.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// A destination, as NAME=URL; can be repeated.
    #[arg(long = "ask", value_name = "NAME=URL", required = true)]
    destinations: Vec<Destination>,
    /// PEM file with CAs to trust.
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// Timeout of a request in milliseconds.
    #[arg(long, default_value_t = 3000, value_name = "MS")]
    timeout_ms: u64,
    /// Port that serves the log.
    #[arg(long, default_value_t = 8082)]
    port: u16,
}

/// Sends requests until the process is killed.
///
/// # Errors
/// CAs that cannot be read, or a port that cannot be bound.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let tls = request::trust(options.roots.as_deref())?;
    let log = Arc::new(Log::new());
    let timeout = Duration::from_millis(options.timeout_ms);
    for destination in options.destinations {
        let (tls, log) = (Arc::clone(&tls), Arc::clone(&log));
        thread::Builder::new()
            .name(destination.name.clone())
            .spawn(move || send_requests(&destination, &tls, &log, timeout))
            .context("starting a thread")?;
    }
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, options.port));
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}"))?;
    let router = Router::new().route("/log", get(page)).with_state(log);
    axum::serve(listener, router).await.context("serving the log")
}

/// The requested part of the log.
#[derive(Debug, Deserialize)]
struct LogRange {
    #[serde(default)]
    after: u64,
}

async fn page(State(log): State<Arc<Log>>, Query(LogRange { after }): Query<LogRange>) -> Json<Page> {
    Json(log.page(after))
}

/// Sends each request on its own thread, so that a hanging one delays no other.
fn send_requests(
    destination: &Destination,
    tls: &Arc<rustls::ClientConfig>,
    log: &Arc<Log>,
    timeout: Duration,
) {
    let mut next = Instant::now();
    loop {
        let (destination, tls, log) = (destination.clone(), Arc::clone(tls), Arc::clone(log));
        let started = thread::Builder::new().spawn(move || {
            let at = log::unix_ms();
            let begin = Instant::now();
            let answer = request::send_request(&destination, &tls, timeout);
            let took = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
            log.push(at, &destination.name, took, answer);
        });
        // Without a free thread the log has a gap, and the suite counts requests.
        drop(started);
        next += REQUEST_INTERVAL;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
