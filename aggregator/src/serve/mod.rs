//! HTTP server: API, page, metrics.

mod accept;
mod actions;
mod api;
mod baseline;
mod challenges;
mod connection_limit;
mod connections;
mod forecasts;
mod form_body;
mod forms;
mod forward;
mod gate;
mod history;
mod installation;
mod metrics;
mod observations;
pub(crate) mod openapi;
mod page;
mod plan;
mod report_slots;
mod runs;
mod scrapes;
mod summary;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::Response,
    routing::{any, get, post},
};
use parallax_diagnosis::view::View;
use parallax_model::{Micros, Vantage};
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tower_http::{
    compression::CompressionLayer, decompression::RequestDecompressionLayer, limit::RequestBodyLimitLayer,
    timeout::TimeoutLayer,
};

pub(crate) use connections::serve;
pub(crate) use forms::FormKey;
pub(crate) use forward::LeaderProxy;
pub(crate) use gate::ProberGate;
use parallax_acme::cert_manager::{CertManagerKind, CertManagerState};
use parallax_api::{
    challenges::WaitingChallenge, forecasts::RenewalForecastList, installation::CaPublication,
    links::ExternalLinks,
};
use parallax_history::store::StoreHandle;
use parallax_kubernetes::{
    objects::resource::WatchSource,
    replicas::{ReplicaState, ReplicaView},
    topology_state::TopologyState,
    watch::WatchHealth,
};
use parallax_notify::{self, incident_actions};
use parallax_runs::RunManager;
use parallax_runtime::Clock;
pub(crate) use report_slots::ReportSlots;
pub(crate) use scrapes::ScrapeLog;
use summary::StatusSummary;

use crate::{
    access::{AccessControl, Permission},
    api_error::{self, ApiError},
    catch_up::is_catching_up,
    engine_task::{BaselineReset, EngineSnapshot},
    ingest::{self, IngestMetrics, Report},
    own_permissions::PermissionReviewer,
    plan::{OpenPlanStreams, Planner},
};

/// Timeout of a request (for the plan stream: of its response headers).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// State shared by the handlers.
#[derive(Debug, Clone)]
pub(crate) struct ServerState {
    pub(crate) clock: Clock,
    pub(crate) gate: ProberGate,
    pub(crate) access: AccessControl,
    pub(crate) runs: Arc<RunManager>,
    pub(crate) actions: Arc<incident_actions::ActionManager>,
    pub(crate) form_key: FormKey,
    pub(crate) links: Arc<ExternalLinks>,
    pub(crate) notifications: Arc<parallax_notify::NotificationState>,
    pub(crate) replica: ReplicaState,
    pub(crate) leader_proxy: LeaderProxy,
    pub(crate) engine_snapshot: EngineSnapshot,
    pub(crate) topology: watch::Receiver<TopologyState>,
    pub(crate) cert_manager: watch::Receiver<CertManagerState>,
    pub(crate) challenges: watch::Receiver<Arc<[WaitingChallenge]>>,
    pub(crate) store: StoreHandle,
    pub(crate) reports: mpsc::Sender<Report>,
    /// Requests to reset baselines.
    pub(crate) resets: mpsc::Sender<BaselineReset>,
    pub(crate) report_slots: ReportSlots,
    pub(crate) plan_streams: OpenPlanStreams,
    pub(crate) ingest_metrics: IngestMetrics,
    pub(crate) registry: Arc<Registry>,
    pub(crate) planner: Arc<Planner>,
    /// Renewal forecasts.
    pub(crate) forecasts: watch::Receiver<Arc<RenewalForecastList>>,
    /// The last request for the metrics.
    pub(crate) scrapes: ScrapeLog,
    pub(crate) permission_reviewer: PermissionReviewer,
    pub(crate) installation: InstallationSources,
    pub(crate) stopping: CancellationToken,
}

/// What is known about the installation and shown nowhere else.
#[derive(Debug, Clone)]
pub(crate) struct InstallationSources {
    /// Whether the topology comes from an API server.
    pub(crate) in_cluster: bool,
    /// Namespaces of the prober Pods.
    pub(crate) prober_namespaces: Vec<String>,
    pub(crate) ca_publication: watch::Receiver<CaPublication>,
    pub(crate) watch_health: watch::Receiver<WatchHealth<WatchSource>>,
    pub(crate) cert_manager_watches: watch::Receiver<WatchHealth<CertManagerKind>>,
}

impl ServerState {
    /// Returns the current view.
    pub(crate) async fn view(&self) -> Arc<View> {
        self.engine_snapshot.views.current().await
    }

    /// Returns the overall status that page and API show.
    fn summary(&self, view: &View) -> StatusSummary {
        let evidence = *self.engine_snapshot.evidence_since.borrow();
        let now = self.clock.now();
        let catching_up = is_catching_up(view, now, self.clock.start(), evidence);
        StatusSummary::of(view, now, catching_up)
    }

    /// Returns the state of this replica.
    fn replica_view(&self, interval: Micros) -> ReplicaView {
        self.replica.view(
            self.clock.now(),
            *self.engine_snapshot.evidence_since.borrow(),
            interval,
        )
    }

    /// Returns for how long the engine has closed no round, if that is too long.
    pub(crate) fn stalled_for(&self) -> Option<Micros> {
        let interval = self.planner.config.interval;
        self.engine_snapshot.stalled_for(self.clock.now(), interval)
    }

    /// Returns the condition of the heartbeat: this process leads, and its engine closes rounds.
    pub(crate) fn into_heartbeat_condition(self) -> impl Fn() -> bool + Send {
        move || {
            let leads = self.replica.role().plan_identity().is_some();
            leads && self.expect_restored().is_ok() && self.stalled_for().is_none()
        }
    }

    /// Rejects a request until the engine has restored the checkpoint, since the response would be wrong.
    pub(crate) fn expect_restored(&self) -> Result<(), ApiError> {
        if *self.engine_snapshot.restored.borrow() {
            return Ok(());
        }
        Err(ApiError::unavailable(
            "the aggregator is starting and has not restored its checkpoint yet; retry the request"
                .to_owned(),
        ))
    }

    /// Rejects a vantage that is not in the topology. An authenticated prober may be ahead of the topology, so it is
    /// asked to retry.
    pub(crate) fn expect_vantage(&self, vantage: &Vantage) -> Result<(), ApiError> {
        let expected = self.topology.borrow().topology.vantages();
        if expected.contains(vantage) {
            Ok(())
        } else if self.gate.authenticates_probers() {
            Err(ApiError::unavailable(format!(
                "vantage {vantage} is not in the topology yet; retry the request"
            )))
        } else {
            Err(ApiError::unknown_vantage(vantage, &expected))
        }
    }
}

/// Routes of the TLS listener: plans and reports only.
pub(crate) fn prober_router(shared: ServerState) -> Router {
    with_limits(prober_routes()).with_state(shared)
}

fn prober_routes() -> Router<ServerState> {
    let ingest = Router::new()
        .route("/v1/observations", post(observations::receive_report))
        .layer(RequestDecompressionLayer::new());
    Router::new()
        .route("/v1/plan", get(plan::stream_plan))
        .merge(ingest)
}

/// Routes that reject probers on the plaintext port if they authenticate by token: tokens must not travel unencrypted.
fn tls_only_routes() -> Router<ServerState> {
    let reject = || async {
        ApiError::new(
            StatusCode::FORBIDDEN,
            "plans and reports are served over TLS only; use the port of tls.listen",
        )
    };
    Router::new()
        .route("/v1/observations", any(reject))
        .route("/v1/plan", any(reject))
}

/// Adds the limits of API requests: body size, timeout, JSON errors.
fn with_limits(routes: Router<ServerState>) -> Router<ServerState> {
    routes
        .fallback(|| async { ApiError::new(StatusCode::NOT_FOUND, "no such path") })
        .layer(RequestBodyLimitLayer::new(ingest::MAX_BODY_BYTES))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::REQUEST_TIMEOUT,
            REQUEST_TIMEOUT,
        ))
        .layer(middleware::map_response(api_error::convert_to_json))
}

/// Middleware that authorizes reads. Handlers of writes authorize their own permission.
async fn authorize_read(
    State(shared): State<ServerState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if request.method().is_safe() {
        shared.access.allow(request.headers(), Permission::Read).await?;
    }
    Ok(next.run(request).await)
}

/// All routes.
pub(crate) fn router(shared: ServerState) -> Router {
    let timeout = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, REQUEST_TIMEOUT);
    let probers = if shared.gate.authenticates_probers() {
        tls_only_routes()
    } else {
        prober_routes()
    };
    let reading = middleware::from_fn_with_state(shared.clone(), authorize_read);
    let forwarding = middleware::from_fn_with_state(shared.clone(), forward::forward_to_leader);
    let api = Router::new()
        .route("/v1/state", get(api::state).layer(CompressionLayer::new()))
        .route("/v1/incidents", get(history::incidents))
        .route("/v1/incidents/{id}", get(history::incident))
        .route("/v1/incidents/{id}/verdicts", get(history::verdicts))
        .route("/v1/incidents/{id}/acknowledge", post(actions::acknowledge))
        .route("/v1/incidents/{id}/silence", post(actions::silence))
        .route("/v1/incidents/{id}/verify", post(actions::verify))
        .route("/v1/baselines/reset", post(baseline::reset))
        .route("/v1/notifications", get(api::notifications))
        .route(
            "/v1/maintenance",
            get(actions::list_windows).post(actions::open_window),
        )
        .route("/v1/maintenance/{id}/end", post(actions::end_window))
        .route("/v1/challenges", get(challenges::list))
        .route(
            "/v1/installation",
            get(installation::facts).layer(CompressionLayer::new()),
        )
        .route("/v1/openapi.json", get(openapi::serve_document))
        .route("/v1/runs", get(runs::list).post(runs::start))
        .route("/v1/runs/{id}", get(runs::get))
        .route(
            "/v1/forecasts",
            get(forecasts::list).layer(CompressionLayer::new()),
        )
        .route("/v1/history/rollups", get(history::rollups))
        .route("/v1/history/failures", get(history::failures))
        // Before authorization nothing larger is read.
        .route_layer(RequestBodyLimitLayer::new(actions::MAX_BODY_BYTES))
        .route_layer(reading.clone())
        // After forwarding, so that the leader authorizes.
        .route_layer(forwarding.clone())
        .route("/healthz", get(api::healthz))
        .route("/readyz", get(api::readyz))
        .merge(probers);
    let people = page::router()
        .route_layer(RequestBodyLimitLayer::new(actions::MAX_BODY_BYTES))
        .route_layer(reading)
        .route_layer(forwarding)
        .merge(page::assets())
        .layer(CompressionLayer::new())
        .layer(timeout);
    Router::new()
        .route(
            "/metrics",
            get(metrics::exposition).layer(CompressionLayer::new()),
        )
        .merge(people)
        .merge(with_limits(api))
        .with_state(shared)
}
