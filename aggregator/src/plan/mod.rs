//! `GET /v1/plan`: each vantage's assignments as one long answer.
//!
//! A snapshot first, then what changes, and a heartbeat when nothing does. The stream is pulled: a reader that does not
//! read costs one socket and skips to the newest topology when it reads again; nothing is queued for it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{Query, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use futures_util::{Stream, stream};
use parallax_diagnosis::plan::{PlanConfig, assignments, diff};
use parallax_model::{Assignment, Incarnation, Micros, PlanLine, PlanRevision, PlanSettings, Vantage};
use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    serve::{ApiError, Shared},
    watch::TopologyState,
};

/// Longest time between two lines.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);

/// What every plan of this aggregator has in common.
#[derive(Debug)]
pub(crate) struct Planner {
    pub(crate) config: PlanConfig,
    /// Start of this aggregator in seconds: a restarted one counts on.
    pub(crate) epoch: u64,
}

/// Who asks.
#[derive(Debug, Deserialize)]
pub(crate) struct Asks {
    vantage: String,
    incarnation: Option<String>,
}

/// Answers with the plan of one vantage, for as long as it listens.
pub(crate) async fn stream_plan(
    State(shared): State<Shared>,
    Query(asks): Query<Asks>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !shared.admits(&headers) {
        return Err(ApiError::unauthorized());
    }
    let vantage: Vantage = asks.vantage.parse().map_err(ApiError::bad_request)?;
    let incarnation = asks
        .incarnation
        .map(Incarnation::new)
        .transpose()
        .map_err(ApiError::bad_request)?;
    shared.expect_vantage(&vantage)?;
    tracing::debug!(%vantage, incarnation = incarnation.as_ref().map(tracing::field::display), "plan asked for");
    let feed = Feed::new(
        shared.planner.clone(),
        vantage,
        shared.topology.clone(),
        shared.stopping.clone(),
    );
    let body = Body::from_stream(feed.into_stream());
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// One reader's plan.
struct Feed {
    planner: Arc<Planner>,
    vantage: Vantage,
    topology: watch::Receiver<TopologyState>,
    stopping: CancellationToken,
    /// What the reader knows; nothing before the snapshot.
    known: Option<(PlanRevision, Vec<Assignment>)>,
    heartbeat: Interval,
}

impl Feed {
    fn new(
        planner: Arc<Planner>,
        vantage: Vantage,
        topology: watch::Receiver<TopologyState>,
        stopping: CancellationToken,
    ) -> Self {
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            planner,
            vantage,
            topology,
            stopping,
            known: None,
            heartbeat,
        }
    }

    fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(self, |mut feed| async move {
            let lines = feed.next().await?;
            Some((Ok(written(&lines)), feed))
        })
    }

    /// The next lines; nothing when the aggregator stops or the vantage is expected no more.
    async fn next(&mut self) -> Option<Vec<PlanLine>> {
        loop {
            let Some((revision, _)) = self.known else {
                return Some(vec![self.snapshot()]);
            };
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                changed = self.topology.changed() => {
                    changed.ok()?;
                    let lines = self.changes(revision)?;
                    if !lines.is_empty() {
                        self.heartbeat.reset();
                        return Some(lines);
                    }
                }
                _ = self.heartbeat.tick() => return Some(vec![PlanLine::Heartbeat { revision }]),
            }
        }
    }

    fn current(&mut self) -> (PlanRevision, Arc<parallax_diagnosis::topology::Topology>) {
        let state = self.topology.borrow_and_update();
        let revision = PlanRevision {
            epoch: self.planner.epoch,
            n: state.number,
        };
        (revision, state.topology.clone())
    }

    fn snapshot(&mut self) -> PlanLine {
        let (revision, topology) = self.current();
        let plan = assignments(&topology, &self.planner.config, &self.vantage);
        self.known = Some((revision, plan.clone()));
        self.heartbeat.reset();
        PlanLine::Snapshot {
            revision,
            settings: PlanSettings {
                echo_nonce: self.planner.config.echo_nonce.clone(),
                heartbeat: Micros::from(HEARTBEAT),
            },
            assignments: plan,
        }
    }

    /// What the newest topology changes for this vantage; nothing of it where it changes others only.
    fn changes(&mut self, known: PlanRevision) -> Option<Vec<PlanLine>> {
        let (revision, topology) = self.current();
        if revision == known {
            return Some(Vec::new());
        }
        if !topology.vantages().contains(&self.vantage) {
            return None;
        }
        let plan = assignments(&topology, &self.planner.config, &self.vantage);
        let (_, before) = self.known.take()?;
        let lines = diff(&before, &plan, revision);
        self.known = Some((revision, plan));
        Some(lines)
    }
}

fn written(lines: &[PlanLine]) -> Bytes {
    let mut text = Vec::new();
    for line in lines {
        let before = text.len();
        match serde_json::to_writer(&mut text, line) {
            Ok(()) => text.push(b'\n'),
            // A plan line holds strings and numbers only, which JSON can always write.
            Err(_) => text.truncate(before),
        }
    }
    text.into()
}

#[cfg(test)]
mod tests;
