//! Plan streams: each vantage's assignments as a stream of lines.
//!
//! A stream starts with a snapshot, followed by changes, and heartbeats while nothing changes. The stream is
//! pull-based: a slow reader costs one socket and skips to the latest topology when it reads again; nothing is queued
//! for it.

mod epoch;
mod open_streams;
mod questions;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Bytes;
use futures_util::{Stream, stream};
use parallax_diagnosis::{
    plan::{PlanConfig, diff, with_requests},
    requests::ProbeRequest,
    topology::Topology,
};
use parallax_model::{Assignment, FactQuestions, Micros, PlanLine, PlanRevision, PlanSettings, Vantage};
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};
use tokio_util::sync::CancellationToken;

pub(crate) use epoch::PlanEpoch;
pub(crate) use open_streams::{OpenPlanStream, OpenPlanStreams, SentPlan};

use parallax_kubernetes::topology_state::{ProbeTiming, ScopedTargets, TopologyState};
use parallax_runs::ProbeOrder;
use parallax_runtime::Clock;

/// Maximum time between two lines.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Probes requested by the diagnosis, in addition to the base plan.
#[derive(Debug, Clone)]
pub(crate) struct PlanRequests {
    pub(crate) probe_requests: Arc<[ProbeRequest]>,
    /// Number of changes; part of a plan's revision.
    pub(crate) version: u64,
}

impl Default for PlanRequests {
    fn default() -> Self {
        Self {
            probe_requests: Arc::from([]),
            version: 0,
        }
    }
}

impl PlanRequests {
    /// Replaces the requests by those of the last judged round. Returns whether the probes differ; a repeated request
    /// changes no plan.
    pub(crate) fn update(&mut self, asks: &[ProbeRequest]) -> bool {
        let same = |(old, new): (&ProbeRequest, &ProbeRequest)| {
            old.vantage == new.vantage && old.id == new.id && old.destination == new.destination
        };
        if self.probe_requests.len() == asks.len() && self.probe_requests.iter().zip(asks).all(same) {
            return false;
        }
        self.probe_requests = Arc::from(asks);
        self.version += 1;
        true
    }
}

/// Settings shared by all plans of this aggregator.
#[derive(Debug)]
pub(crate) struct Planner {
    /// Settings at the start; the state of the topology overrides them if the configuration changes.
    pub(crate) config: PlanConfig,
}

/// Inputs of a plan.
struct PlanInput {
    revision: PlanRevision,
    topology: Arc<Topology>,
    config: PlanConfig,
    probe_requests: Arc<[ProbeRequest]>,
    scoped_targets: Arc<ScopedTargets>,
}

/// The plan stream of one reader.
pub(crate) struct PlanStream {
    planner: Arc<Planner>,
    epoch: PlanEpoch,
    vantage: Vantage,
    /// Whether the reader is a responder, whose plan is always empty.
    is_responder: bool,
    topology: watch::Receiver<TopologyState>,
    plan_requests: watch::Receiver<PlanRequests>,
    run_orders: watch::Receiver<Arc<[ProbeOrder]>>,
    clock: Clock,
    /// Number of the last run that was sent to the reader or does not concern it.
    last_run_sent: u64,
    stopping: CancellationToken,
    /// When the reader's token expires. The reader reconnects with a new one.
    expires: Option<Instant>,
    /// Its place among the streams of the vantage.
    place: OpenPlanStream,
    /// The plan that the reader has; `None` before the snapshot.
    sent_plan: Option<(PlanRevision, Vec<Assignment>)>,
    /// The fact requests that the reader has.
    sent_questions: FactQuestions,
    heartbeat: Interval,
}

impl PlanStream {
    pub(crate) fn new(
        (planner, epoch): (Arc<Planner>, PlanEpoch),
        (vantage, only_answers, place): (Vantage, bool, OpenPlanStream),
        topology: watch::Receiver<TopologyState>,
        asks: watch::Receiver<PlanRequests>,
        (runs, clock): (watch::Receiver<Arc<[ProbeOrder]>>, Clock),
        stopping: CancellationToken,
    ) -> Self {
        let mut heartbeat = interval(HEARTBEAT_INTERVAL);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            planner,
            epoch,
            vantage,
            is_responder: only_answers,
            topology,
            plan_requests: asks,
            run_orders: runs,
            clock,
            last_run_sent: 0,
            stopping,
            expires: None,
            place,
            sent_plan: None,
            sent_questions: FactQuestions::default(),
            heartbeat,
        }
    }

    /// Ends the stream when the reader's token expires.
    pub(crate) fn with_expiry(self, until: Option<Instant>) -> Self {
        Self {
            expires: until,
            ..self
        }
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(self, |mut feed| async move {
            let lines = feed.next_lines().await?;
            Some((Ok(encode_lines(&lines)), feed))
        })
    }

    /// Returns the next lines; `None` when the aggregator stops or the vantage leaves the topology.
    async fn next_lines(&mut self) -> Option<Vec<PlanLine>> {
        loop {
            let Some((revision, _)) = self.sent_plan else {
                return Some(self.snapshot());
            };
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                () = self.epoch.ended() => return None,
                () = self.place.displaced() => return None,
                () = sleep_until(self.expires.unwrap_or_else(Instant::now)), if self.expires.is_some() => return None,
                // Runs come before other changes: a user waits for the result.
                changed = self.run_orders.changed() => changed.ok()?,
                changed = self.topology.changed() => changed.ok()?,
                changed = self.plan_requests.changed() => changed.ok()?,
                _ = self.heartbeat.tick() => return Some(vec![PlanLine::Heartbeat { revision }]),
            }
            let mut lines = self.plan_changes(revision)?;
            lines.extend(self.new_runs());
            if !lines.is_empty() {
                self.heartbeat.reset();
                return Some(lines);
            }
        }
    }

    fn current_input(&mut self) -> PlanInput {
        let state = self.topology.borrow_and_update();
        let requests = self.plan_requests.borrow_and_update();
        let revision = current_revision(self.epoch.number, &state, &requests);
        let mut config = PlanConfig {
            echo_nonce: self.epoch.nonce.to_string(),
            ..self.planner.config.clone()
        };
        if let Some(ProbeTiming { interval, timeout }) = state.timing {
            (config.interval, config.timeout) = (interval, timeout);
        }
        PlanInput {
            revision,
            topology: state.topology.clone(),
            config,
            probe_requests: Arc::clone(&requests.probe_requests),
            scoped_targets: Arc::clone(&state.scoped),
        }
    }

    fn assignments(&self, current: &PlanInput) -> Vec<Assignment> {
        if self.is_responder {
            Vec::new()
        } else {
            let plan = with_requests(
                &current.topology,
                &current.config,
                &self.vantage,
                &current.probe_requests,
            );
            plan.into_iter()
                .map(|assignment| current.scoped_targets.restrict(assignment))
                .collect()
        }
    }

    /// Records the reader's plan. A responder has none, and shares its vantage with a prober.
    fn record_sent(&self, revision: PlanRevision, plan: &[Assignment]) {
        if !self.is_responder {
            self.place.record_sent(revision, plan.len());
        }
    }

    fn snapshot(&mut self) -> Vec<PlanLine> {
        let current = self.current_input();
        let (revision, plan) = (current.revision, self.assignments(&current));
        self.record_sent(revision, &plan);
        self.sent_plan = Some((revision, plan.clone()));
        self.heartbeat.reset();
        let snapshot = PlanLine::Snapshot {
            revision,
            settings: PlanSettings {
                echo_nonce: self.epoch.nonce.to_string(),
                heartbeat: Micros::from(HEARTBEAT_INTERVAL),
            },
            assignments: plan,
        };
        let questions = self.changed_questions(&current.topology);
        std::iter::once(snapshot)
            .chain(questions)
            .chain(self.new_runs())
            .collect()
    }

    /// Returns the runs that the reader has not received. A new stream repeats active runs; the prober deduplicates
    /// them.
    fn new_runs(&mut self) -> Vec<PlanLine> {
        let orders = self.run_orders.borrow_and_update().clone();
        let (now, last_sent) = (self.clock.now(), self.last_run_sent);
        let new = orders.iter().filter(|order| order.number > last_sent);
        self.last_run_sent = orders.iter().map(|order| order.number).fold(last_sent, u64::max);
        if self.is_responder {
            return Vec::new();
        }
        new.filter_map(|order| order.for_vantage(&self.vantage, now))
            .map(|order| PlanLine::Run { order })
            .collect()
    }

    /// Returns the fact requests if they have changed.
    fn changed_questions(&mut self, topology: &Topology) -> Option<PlanLine> {
        let questions = questions::fact_questions(topology, &self.vantage);
        if questions == self.sent_questions {
            return None;
        }
        self.sent_questions = questions.clone();
        Some(PlanLine::Facts { request: questions })
    }

    /// Returns the changes of this vantage's plan since revision `known`; empty if only other plans changed. `None`
    /// if the vantage has left the topology.
    fn plan_changes(&mut self, known: PlanRevision) -> Option<Vec<PlanLine>> {
        let current = self.current_input();
        let revision = current.revision;
        if revision == known {
            return Some(Vec::new());
        }
        if !current.topology.vantages().contains(&self.vantage) {
            return None;
        }
        let plan = self.assignments(&current);
        let (_, before) = self.sent_plan.take()?;
        let mut lines = diff(&before, &plan, revision);
        lines.extend(self.changed_questions(&current.topology));
        self.record_sent(revision, &plan);
        self.sent_plan = Some((revision, plan));
        Some(lines)
    }
}

/// Returns the revision of the plans of this state. Both numbers grow monotonically, so their sum grows whenever one of them
/// changes.
pub(crate) const fn current_revision(
    epoch: u64,
    state: &TopologyState,
    requests: &PlanRequests,
) -> PlanRevision {
    PlanRevision {
        epoch,
        number: state.revision + requests.version,
    }
}

fn encode_lines(lines: &[PlanLine]) -> Bytes {
    let mut text = Vec::new();
    for line in lines {
        let before = text.len();
        match serde_json::to_writer(&mut text, line) {
            Ok(()) => text.push(b'\n'),
            // Cannot happen: plan lines consist of strings and numbers.
            Err(_) => text.truncate(before),
        }
    }
    text.into()
}

#[cfg(test)]
mod tests;
