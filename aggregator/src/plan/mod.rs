//! Plan streams: each vantage's assignments as a stream of lines.
//!
//! A stream starts with a snapshot, followed by changes, and heartbeats while nothing changes. The stream is
//! pull-based: a slow reader costs one socket and skips to the latest topology when it reads again; nothing is queued
//! for it.

mod epoch;
mod questions;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Bytes;
use futures_util::{Stream, stream};
use parallax_diagnosis::{
    plan::{PlanConfig, diff, with_asks},
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

use parallax_kubernetes::topology_state::{ProbeTiming, ScopedTargets, TopologyState};
use parallax_runs::OrderedProbes;
use parallax_runtime::Clock;

/// Maximum time between two lines.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);

/// Probes requested by the diagnosis, in addition to the base plan.
#[derive(Debug, Clone)]
pub(crate) struct PlanRequests {
    pub(crate) asks: Arc<[ProbeRequest]>,
    /// Number of changes; part of a plan's revision.
    pub(crate) number: u64,
}

impl Default for PlanRequests {
    fn default() -> Self {
        Self {
            asks: Arc::from([]),
            number: 0,
        }
    }
}

impl PlanRequests {
    /// Replaces the requests by those of the last judged round. Returns whether the probes differ; a repeated request
    /// changes no plan.
    pub(crate) fn renew(&mut self, asks: &[ProbeRequest]) -> bool {
        let same = |(old, new): (&ProbeRequest, &ProbeRequest)| {
            old.vantage == new.vantage && old.id == new.id && old.to == new.to
        };
        if self.asks.len() == asks.len() && self.asks.iter().zip(asks).all(same) {
            return false;
        }
        self.asks = Arc::from(asks);
        self.number += 1;
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
    asks: Arc<[ProbeRequest]>,
    scoped: Arc<ScopedTargets>,
}

/// The plan stream of one reader.
pub(crate) struct PlanStream {
    planner: Arc<Planner>,
    epoch: PlanEpoch,
    vantage: Vantage,
    /// Whether the reader is a responder, whose plan is always empty.
    only_answers: bool,
    topology: watch::Receiver<TopologyState>,
    asks: watch::Receiver<PlanRequests>,
    runs: watch::Receiver<Arc<[OrderedProbes]>>,
    clock: Clock,
    /// Number of the last run that was sent to the reader or does not concern it.
    told: u64,
    stopping: CancellationToken,
    /// When the reader's token expires. The reader reconnects with a new one.
    until: Option<Instant>,
    /// The plan that the reader has; `None` before the snapshot.
    known: Option<(PlanRevision, Vec<Assignment>)>,
    /// The fact requests that the reader has.
    asked_of_node: FactQuestions,
    heartbeat: Interval,
}

impl PlanStream {
    pub(crate) fn new(
        (planner, epoch): (Arc<Planner>, PlanEpoch),
        (vantage, only_answers): (Vantage, bool),
        topology: watch::Receiver<TopologyState>,
        asks: watch::Receiver<PlanRequests>,
        (runs, clock): (watch::Receiver<Arc<[OrderedProbes]>>, Clock),
        stopping: CancellationToken,
    ) -> Self {
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            planner,
            epoch,
            vantage,
            only_answers,
            topology,
            asks,
            runs,
            clock,
            told: 0,
            stopping,
            until: None,
            known: None,
            asked_of_node: FactQuestions::default(),
            heartbeat,
        }
    }

    /// Ends the stream when the reader's token expires.
    pub(crate) fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(self, |mut feed| async move {
            let lines = feed.next().await?;
            Some((Ok(written(&lines)), feed))
        })
    }

    /// Returns the next lines; `None` when the aggregator stops or the vantage leaves the topology.
    async fn next(&mut self) -> Option<Vec<PlanLine>> {
        loop {
            let Some((revision, _)) = self.known else {
                return Some(self.snapshot());
            };
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                () = self.epoch.end() => return None,
                () = sleep_until(self.until.unwrap_or_else(Instant::now)), if self.until.is_some() => return None,
                // Runs come before other changes: a user waits for the result.
                changed = self.runs.changed() => changed.ok()?,
                changed = self.topology.changed() => changed.ok()?,
                changed = self.asks.changed() => changed.ok()?,
                _ = self.heartbeat.tick() => return Some(vec![PlanLine::Heartbeat { revision }]),
            }
            let mut lines = self.changes(revision)?;
            lines.extend(self.orders());
            if !lines.is_empty() {
                self.heartbeat.reset();
                return Some(lines);
            }
        }
    }

    fn current(&mut self) -> PlanInput {
        let state = self.topology.borrow_and_update();
        let asked = self.asks.borrow_and_update();
        // Both grow monotonically, so their sum grows whenever one of them changes.
        let revision = PlanRevision {
            epoch: self.epoch.number,
            n: state.revision + asked.number,
        };
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
            asks: Arc::clone(&asked.asks),
            scoped: Arc::clone(&state.scoped),
        }
    }

    fn plan(&self, current: &PlanInput) -> Vec<Assignment> {
        if self.only_answers {
            Vec::new()
        } else {
            let plan = with_asks(&current.topology, &current.config, &self.vantage, &current.asks);
            plan.into_iter()
                .map(|assignment| current.scoped.restrict(assignment))
                .collect()
        }
    }

    fn snapshot(&mut self) -> Vec<PlanLine> {
        let current = self.current();
        let (revision, plan) = (current.revision, self.plan(&current));
        self.known = Some((revision, plan.clone()));
        self.heartbeat.reset();
        let snapshot = PlanLine::Snapshot {
            revision,
            settings: PlanSettings {
                echo_nonce: self.epoch.nonce.to_string(),
                heartbeat: Micros::from(HEARTBEAT),
            },
            assignments: plan,
        };
        let questions = self.questions(&current.topology);
        std::iter::once(snapshot)
            .chain(questions)
            .chain(self.orders())
            .collect()
    }

    /// Returns the runs that the reader has not received. A new stream repeats active runs; the prober deduplicates
    /// them.
    fn orders(&mut self) -> Vec<PlanLine> {
        let orders = self.runs.borrow_and_update().clone();
        let (now, told) = (self.clock.now(), self.told);
        let new = orders.iter().filter(|order| order.number > told);
        self.told = orders.iter().map(|order| order.number).fold(told, u64::max);
        if self.only_answers {
            return Vec::new();
        }
        new.filter_map(|order| order.of(&self.vantage, now))
            .map(|order| PlanLine::Run { order })
            .collect()
    }

    /// Returns the fact requests if they have changed.
    fn questions(&mut self, topology: &Topology) -> Option<PlanLine> {
        let questions = questions::questions(topology, &self.vantage);
        if questions == self.asked_of_node {
            return None;
        }
        self.asked_of_node = questions.clone();
        Some(PlanLine::Facts { questions })
    }

    /// Returns the changes of this vantage's plan since revision `known`; empty if only other plans changed. `None`
    /// if the vantage has left the topology.
    fn changes(&mut self, known: PlanRevision) -> Option<Vec<PlanLine>> {
        let current = self.current();
        let revision = current.revision;
        if revision == known {
            return Some(Vec::new());
        }
        if !current.topology.vantages().contains(&self.vantage) {
            return None;
        }
        let plan = self.plan(&current);
        let (_, before) = self.known.take()?;
        let mut lines = diff(&before, &plan, revision);
        lines.extend(self.questions(&current.topology));
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
            // Cannot happen: plan lines consist of strings and numbers.
            Err(_) => text.truncate(before),
        }
    }
    text.into()
}

#[cfg(test)]
mod tests;
