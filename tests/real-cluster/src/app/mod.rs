//! The test application: an HTTP server whose behaviour can be changed at runtime, without a rollout.
//!
//! It has two ports. Clients use the first one; readiness probes and the suite use the second one. So an application
//! that answers 503 to every client can still be ready, as in a real outage.

mod behaviour;

use std::{
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderName, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, put},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{Instant, sleep},
};

pub use behaviour::Behaviour;

/// Options of the application.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Port for clients.
    #[arg(long, default_value_t = 8088)]
    port: u16,
    /// Port for readiness probes and changes of behaviour.
    #[arg(long, default_value_t = 8081)]
    control_port: u16,
    /// Seconds from the start until it is ready.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    ready_after: u64,
    /// Seconds for which it keeps serving after SIGTERM.
    #[arg(long, default_value_t = 8, value_name = "SECONDS")]
    grace: u64,
    /// Exit with code 0 after this many seconds, like a Job.
    #[arg(long, value_name = "SECONDS")]
    lifetime: Option<u64>,
    /// Directory that outlives the container, such as an emptyDir: remembers that the application must crash.
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Name included in each response.
    #[arg(long, env = "POD_NAME", default_value = "app")]
    name: String,
}

/// State shared by both ports.
#[derive(Debug)]
struct App {
    options: Options,
    start: Instant,
    behaviour: watch::Sender<Behaviour>,
}

/// Serves until SIGTERM, the end of the lifetime, or a crash.
///
/// # Errors
/// A port that cannot be bound, or a requested crash.
pub async fn run(options: Options) -> anyhow::Result<()> {
    if let Some(marker) = options.state.as_ref().map(|folder| folder.join("crash"))
        && marker.exists()
    {
        anyhow::bail!("{} exists: crashing as requested", marker.display());
    }
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let app = Arc::new(App {
        start: Instant::now(),
        behaviour: watch::Sender::new(Behaviour::default()),
        options: options.clone(),
    });
    let clients = listen(options.port).await?;
    let control = listen(options.control_port).await?;
    let for_clients = Router::new().fallback(answer).with_state(Arc::clone(&app));
    let for_control = Router::new()
        .route("/ready", get(ready))
        .route("/behaviour", put(change).get(show))
        .with_state(Arc::clone(&app));
    let lifetime = async {
        match options.lifetime {
            Some(seconds) => sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    let terminated = async {
        terminate.recv().await;
        // Endpoints are withdrawn while this Pod still serves, like an application with a grace period.
        sleep(Duration::from_secs(options.grace)).await;
    };
    let mut behaviour = app.behaviour.subscribe();
    let crashed = behaviour.wait_for(|behaviour| behaviour.crash);
    tokio::select! {
        ended = axum::serve(clients, for_clients) => ended.context("serving clients"),
        ended = axum::serve(control, for_control) => ended.context("serving the control port"),
        () = lifetime => Ok(()),
        () = terminated => Ok(()),
        _ = crashed => anyhow::bail!("crashing as requested"),
    }
}

async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}"))
}

async fn answer(State(app): State<Arc<App>>, _: Request) -> Response {
    let Behaviour { status, delay_ms, .. } = *app.behaviour.borrow();
    sleep(Duration::from_millis(delay_ms)).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = [(HeaderName::from_static("app-pod"), app.options.name.clone())];
    (status, headers, format!("the shop, from {}\n", app.options.name)).into_response()
}

async fn ready(State(app): State<Arc<App>>) -> StatusCode {
    if app.start.elapsed() < Duration::from_secs(app.options.ready_after) {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    }
}

async fn show(State(app): State<Arc<App>>) -> Json<Behaviour> {
    Json(app.behaviour.borrow().clone())
}

async fn change(State(app): State<Arc<App>>, Json(wanted): Json<Behaviour>) -> (StatusCode, String) {
    if wanted.crash {
        let Some(folder) = &app.options.state else {
            return (StatusCode::CONFLICT, "a crash needs --state".to_owned());
        };
        if let Err(error) = std::fs::write(folder.join("crash"), "") {
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
        }
    }
    app.behaviour.send_replace(wanted);
    (StatusCode::OK, String::new())
}
