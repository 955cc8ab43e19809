//! `GET /v1/installation`: what the aggregator knows about its installation.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use parallax_api::installation::{
    DeliveredPlan, InstallationFacts, InstalledNode, InstalledProber, ReportState, TopologyFreshness,
    WatchProgress, WatchStatus,
};
use parallax_diagnosis::{
    topology::{Node, NodeReadiness},
    view::{VantageState, VantageView, View},
};
use parallax_kubernetes::{
    topology_state::TopologyState,
    watch::{WatchCondition, WatchFailureReason, WatchState},
};
use parallax_model::{EventTime, Vantage};

use super::ServerState;
use crate::{
    api_error::ApiError,
    catch_up::is_catching_up,
    plan::{SentPlan, current_revision},
};

/// Responds with the facts.
pub(crate) async fn facts(State(shared): State<ServerState>) -> Result<Response, ApiError> {
    shared.expect_restored()?;
    let view = shared.view().await;
    let permissions = shared.permission_reviewer.review().await;
    let topology = shared.topology.borrow().clone();
    let now = shared.clock.now();
    let interval = view.interval;
    let evidence = *shared.engine_snapshot.evidence_since.borrow();
    let echoes = shared.engine_snapshot.zone_echoes.borrow().clone();
    let installation = &shared.installation;
    let nodes = topology.topology.nodes().values();
    Ok(Json(InstallationFacts {
        at: now,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: shared.replica_view(interval).role.to_owned(),
        interval,
        last_round_end: view.last_judged_round.map(|round| round.end(interval)),
        catching_up: is_catching_up(&view, now, shared.clock.start(), evidence),
        in_cluster: installation.in_cluster,
        prober_namespaces: installation.prober_namespaces.clone(),
        topology: TopologyFreshness {
            error: topology.error.as_ref().map(|error| error.message.clone()),
            age: topology.age(now),
            watches: watches(&shared),
        },
        permissions,
        nodes: nodes.map(installed_node).collect(),
        probers: probers(&shared, &view, &topology),
        ca_publication: installation.ca_publication.borrow().clone(),
        zone_echoes: echoes.planned_pairs(&topology.topology),
        notifications: shared.notifications.status(),
        last_scrape: shared.scrapes.last(),
    })
    .into_response())
}

fn installed_node(node: &Node) -> InstalledNode {
    InstalledNode {
        name: node.name.to_string(),
        zone: node.zone.as_ref().map(ToString::to_string),
        is_ready: match node.readiness {
            NodeReadiness::Ready => Some(true),
            NodeReadiness::NotReady => Some(false),
            NodeReadiness::Unknown => None,
        },
        prober_pod: node.prober.as_ref().map(|prober| prober.pod.to_string()),
    }
}

/// Returns the watches of topology and certificates.
fn watches(shared: &ServerState) -> Vec<WatchStatus> {
    let installation = &shared.installation;
    let mut kinds = installation.watch_health.borrow().by_kind();
    kinds.extend(installation.cert_manager_watches.borrow().by_kind());
    kinds.into_iter().map(watch_status).collect()
}

fn watch_status((resource, state): (&'static str, WatchState)) -> WatchStatus {
    let (progress, reason) = match state.condition {
        WatchCondition::Starting => (WatchProgress::Starting, None),
        WatchCondition::Live => (WatchProgress::Live, None),
        WatchCondition::Absent => (WatchProgress::Absent, None),
        WatchCondition::Failing {
            reason: WatchFailureReason::Forbidden,
            message,
            ..
        } => (WatchProgress::Forbidden, Some(message)),
        WatchCondition::Failing { message, .. } => (WatchProgress::Failing, Some(message)),
    };
    WatchStatus {
        resource: resource.to_owned(),
        state: progress,
        reason,
    }
}

/// Returns the expected vantages, with the plans that they were sent.
fn probers(shared: &ServerState, view: &View, topology: &TopologyState) -> Vec<InstalledProber> {
    let requests = shared.engine_snapshot.plan_requests.borrow().clone();
    let identity = shared.replica.role().plan_identity();
    let current = identity.map(|(epoch, _)| current_revision(epoch, topology, &requests));
    let sent = shared.plan_streams.sent_plans();
    let sessions = shared.engine_snapshot.probers.borrow().clone();
    // The latest incarnation comes first, and is the one to keep.
    let mut reported: BTreeMap<&Vantage, (EventTime, Option<u64>)> = BTreeMap::new();
    for session in sessions.iter() {
        let latest = (session.last_report, session.assignments);
        reported.entry(&session.vantage).or_insert(latest);
    }
    let delivered = |SentPlan {
                         revision,
                         assignments,
                     }: SentPlan| DeliveredPlan {
        is_current: current.is_some_and(|current| revision >= current),
        assignments,
    };
    let prober = |VantageView { vantage, state, .. }: &VantageView| {
        let session = reported.get(vantage).copied();
        InstalledProber {
            vantage: vantage.clone(),
            state: match state {
                VantageState::Waiting => ReportState::Waiting,
                VantageState::Reporting => ReportState::Reporting,
                VantageState::Silent => ReportState::Silent,
            },
            last_report: session.map(|(last, _)| last),
            assignments: session.and_then(|(_, assignments)| assignments),
            plan: sent.get(vantage).copied().map(delivered),
        }
    };
    view.vantages.iter().map(prober).collect()
}
