//! Plans: each vantage's assignments as one stream of lines.
//!
//! A snapshot first, then what changes, and a heartbeat when nothing does. The stream is pulled: a reader that does not
//! read costs one socket and skips to the newest topology when it reads again; nothing is queued for it.

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

/// Longest time between two lines.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);

/// What the diagnosis asks for beyond the base plan.
#[derive(Debug, Clone)]
pub(crate) struct PlanRequests {
    pub(crate) asks: Arc<[ProbeRequest]>,
    /// Counts the changes; part of a plan's revision.
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
    /// Takes the asks of the last judged round; whether they are other probes than before. One that is asked again
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

/// What every plan of this aggregator has in common.
#[derive(Debug)]
pub(crate) struct Planner {
    /// As at the start; a changed configuration says otherwise in the state of the topology.
    pub(crate) config: PlanConfig,
}

/// What a plan is made from.
struct PlanInput {
    revision: PlanRevision,
    topology: Arc<Topology>,
    config: PlanConfig,
    asks: Arc<[ProbeRequest]>,
    scoped: Arc<ScopedTargets>,
}

/// One reader's plan.
pub(crate) struct PlanStream {
    planner: Arc<Planner>,
    epoch: PlanEpoch,
    vantage: Vantage,
    /// Whether it only answers, so that its plan is always empty.
    only_answers: bool,
    topology: watch::Receiver<TopologyState>,
    asks: watch::Receiver<PlanRequests>,
    runs: watch::Receiver<Arc<[OrderedProbes]>>,
    clock: Clock,
    /// The number of the last run that the reader was told, or that was not its business.
    told: u64,
    stopping: CancellationToken,
    /// When the reader's token ends. It comes again with a new one, or not at all.
    until: Option<Instant>,
    /// What the reader knows; nothing before the snapshot.
    known: Option<(PlanRevision, Vec<Assignment>)>,
    /// What it was told to ask of its node.
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

    /// Ends with the reader's token.
    pub(crate) fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold(self, |mut feed| async move {
            let lines = feed.next().await?;
            Some((Ok(written(&lines)), feed))
        })
    }

    /// The next lines; nothing when the aggregator stops or the vantage is expected no more.
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
                // Before anything else that changes: somebody waits for it.
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
        // Both only ever grow, so their sum does, and it changes whenever one of them does.
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

    /// Runs that the reader has not been told. A stream that begins while one is under way tells it: the prober knows
    /// whether it has heard of it.
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

    /// What is to be asked of the node, where that is not known yet.
    fn questions(&mut self, topology: &Topology) -> Option<PlanLine> {
        let questions = questions::questions(topology, &self.vantage);
        if questions == self.asked_of_node {
            return None;
        }
        self.asked_of_node = questions.clone();
        Some(PlanLine::Facts { questions })
    }

    /// What the newest topology and the newest asks change for this vantage; nothing of it where it changes others only.
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
            // A plan line holds strings and numbers only, which JSON can always write.
            Err(_) => text.truncate(before),
        }
    }
    text.into()
}

#[cfg(test)]
mod tests;
