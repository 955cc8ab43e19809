//! Runs: on-demand probes with an end and an outcome.
//!
//! ```text
//! POST /v1/runs ─▶ RunManager (scope, limit, plan) ─▶ plan streams ─▶ probers ─▶ ingest ─┐
//!                      ▲                                                                   │
//!                      └───────────────────────── observations ───────────────────────────┘
//!                  RunManager ─▶ judge (a separate engine) ─▶ GET /v1/runs/{id}
//! ```
//!
//! Observations of a run never enter the cells of the main engine: users choose their time and number, so they
//! would outweigh the scheduled probes.
#![forbid(unsafe_code)]

mod challenge;
mod error;
mod judge;
mod limit;
mod live_run;
mod metrics;
mod names;
mod options;
mod replies;
mod scope;
mod subject;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parallax_diagnosis::{Settings, plan::PlanConfig, topology::Topology, view::View};
use parallax_model::{Assignment, AssignmentId, EventTime, Micros, Recorded, RunId, RunOrder, Vantage};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub use error::RunRefusedError;
use live_run::LiveRun;

pub use live_run::LogReader;
pub use metrics::RunMetrics;
pub use options::RunOptions;
use parallax_api::runs::{PreflightRun, RunRequest, RunState};
use parallax_history::store::{DocumentKind, QueryError, StoreHandle, StoredDocument};
use parallax_kubernetes::replicas::ReplicaState;
use parallax_runtime::Clock;
pub use replies::{CA, LookError, LookedHost, NAMES, ReplySet, SELF_CHECK};
pub use scope::scope as scope_of;
pub use subject::MESH;
use subject::{RunSubject, chosen};

/// The interval between rounds of a run.
const INTERVAL: Micros = Micros::from_secs(1);
/// The default and the maximum number of rounds.
const ROUNDS: (u32, u32) = (3, 20);
const TIMEOUT_MS: (u64, u64) = (50, 60_000);
/// The maximum number of concurrent runs.
const AT_ONCE: usize = 8;
/// The maximum number of runs kept in memory; the oldest is dropped first.
const KEPT: usize = 100;
/// The maximum number of vantages per run in the store; failing ones are kept first.
const KEPT_VANTAGES: usize = 200;
/// The maximum number of probes per run, over all vantages and rounds.
pub(crate) const MOST_PROBES: u64 = 60_000;
/// The time after the last probe's deadline in which reports may still arrive.
const GRACE: Micros = Micros::from_secs(1);

/// An order to the vantages, delivered by the plan streams.
#[derive(Debug, Clone)]
pub struct OrderedProbes {
    /// Increases with each run, so that a stream delivers each order once.
    pub number: u64,
    id: RunId,
    rounds: u32,
    /// The order is not delivered after this time.
    until: EventTime,
    parts: Arc<BTreeMap<Vantage, Vec<Assignment>>>,
}

impl OrderedProbes {
    /// Returns the assignments of one vantage, or `None` after the order's deadline.
    #[must_use]
    pub fn of(&self, vantage: &Vantage, now: EventTime) -> Option<RunOrder> {
        let assignments = self.parts.get(vantage).filter(|_| now < self.until)?;
        Some(RunOrder {
            id: self.id.clone(),
            rounds: self.rounds,
            assignments: assignments.clone(),
        })
    }
}

/// Owns all runs of this aggregator.
#[derive(Debug)]
pub struct RunManager {
    clock: Clock,
    options: RunOptions,
    config: PlanConfig,
    replica: ReplicaState,
    store: StoreHandle,
    metrics: RunMetrics,
    inner: Mutex<RunManagerState>,
    orders: watch::Sender<Arc<[OrderedProbes]>>,
    /// Signals that a run may have ended.
    bell: Notify,
}

#[derive(Debug, Default)]
struct RunManagerState {
    limit: limit::RunLimit,
    /// Oldest first.
    runs: VecDeque<LiveRun>,
    looks: BTreeMap<RunId, replies::ProbeReply>,
    number: u64,
}

impl RunManager {
    /// Creates a manager without runs.
    #[must_use]
    pub fn new(
        clock: Clock,
        options: RunOptions,
        config: PlanConfig,
        replica: ReplicaState,
        (store, metrics): (StoreHandle, RunMetrics),
    ) -> Self {
        Self {
            clock,
            options,
            config,
            replica,
            store,
            metrics,
            inner: Mutex::default(),
            orders: watch::Sender::new(Arc::from([])),
            bell: Notify::new(),
        }
    }

    /// Subscribes to the orders for the plan streams.
    pub fn orders(&self) -> watch::Receiver<Arc<[OrderedProbes]>> {
        self.orders.subscribe()
    }

    /// Plans a run and publishes its order to the plan streams.
    pub fn begin(
        &self,
        request: &RunRequest,
        by: &str,
        topology: &Arc<Topology>,
        view: &View,
    ) -> Result<PreflightRun, RunRefusedError> {
        let run = self.plan(request, by, topology, view)?;
        self.metrics.begins();
        Ok(run)
    }

    /// Counts a rejected run. A run that waits for capacity does not count as rejected.
    pub fn refused(&self) {
        self.metrics.refused();
    }

    fn plan(
        &self,
        request: &RunRequest,
        by: &str,
        topology: &Arc<Topology>,
        view: &View,
    ) -> Result<PreflightRun, RunRefusedError> {
        let (_, nonce) = self.replica.part().planning().ok_or(RunRefusedError::StandsBy)?;
        let asked = self.clock.now();
        let rounds = within("rounds", (1, ROUNDS.1.into()), request.rounds.map(u64::from))?;
        let once = request.challenge.is_some() || request.names.is_some();
        let usual = if once { 1 } else { ROUNDS.0 };
        let rounds = rounds.map_or(usual, |rounds| u32::try_from(rounds).unwrap_or(ROUNDS.1));
        let timeout = within("timeout_ms", TIMEOUT_MS, request.timeout_ms)?.map(Micros::from_millis);
        let subject = match (&request.challenge, &request.names) {
            (Some(_), Some(_)) => return Err(names::InvalidNames::Both.into()),
            (Some(ask), None) => RunSubject::challenge(&request.url, ask, topology, &self.options)?,
            (None, Some(ask)) => RunSubject::names(&request.url, ask, topology, &self.options)?,
            (None, None) => RunSubject::of(&request.url, topology, &self.options)?,
        };
        let timeout = timeout.or(subject.timeout).unwrap_or(self.config.timeout);
        let longest = subject.longest(timeout);
        let vantages = subject.asked_of(chosen(&subject.topology, view, request.from));
        if vantages.is_empty() {
            return Err(RunRefusedError::Nobody(request.from));
        }
        let config = PlanConfig {
            interval: INTERVAL,
            timeout,
            echo_nonce: nonce.to_string(),
        };
        let id = new_id();
        let parts = subject.parts(&id, &vantages, &config);
        if parts.is_empty() && subject.of_the_mesh {
            let nodes = subject.topology.nodes().values();
            let probers = nodes.filter(|node| node.prober.is_some()).count();
            return Err(RunRefusedError::NoMesh(probers));
        }
        if parts.is_empty() {
            return Err(RunRefusedError::NotFromThere {
                from: request.from,
                target: request.url.clone(),
            });
        }
        let probes = parts.values().map(|own| own.len() as u64).sum::<u64>() * u64::from(rounds);
        if probes > MOST_PROBES {
            return Err(RunRefusedError::TooLarge(probes));
        }
        let deadline = asked
            .plus(Micros(INTERVAL.0 * u64::from(rounds - 1)))
            .plus(longest)
            .plus(GRACE);
        let run = PreflightRun {
            id: id.clone(),
            target: subject.id,
            challenge: subject.challenge.as_ref().map(|probe| probe.client),
            nameservers: subject.challenge.map_or_else(Vec::new, |probe| probe.nameservers),
            names: None,
            from: request.from,
            rounds,
            interval: INTERVAL,
            timeout,
            by: by.to_owned(),
            asked,
            deadline,
            state: RunState::Running,
            first_probe: None,
            expected: probes,
            answered: 0,
            vantages: live_run::planned(&parts, rounds, subject.of_the_mesh),
            ended: None,
            outcome: None,
            sentence: String::new(),
            verdict: None,
        };
        let settings = Settings {
            interval: INTERVAL,
            timeout,
        };
        let names = subject.names.zip(request.names.clone());
        self.enter((run.clone(), names), subject.topology, settings, parts)?;
        self.bell.notify_one();
        Ok(run)
    }

    /// Checks the limits, stores the run, and publishes its order.
    fn enter(
        &self,
        (run, names): (PreflightRun, Option<live_run::NameAudience>),
        topology: Arc<Topology>,
        settings: Settings,
        parts: BTreeMap<Vantage, Vec<Assignment>>,
    ) -> Result<(), RunRefusedError> {
        let mut inner = self.inner.lock();
        let running = inner.runs.iter().filter(|live| live.is_running()).count();
        if running >= AT_ONCE {
            return Err(RunRefusedError::TooMany(INTERVAL));
        }
        inner
            .limit
            .take(&run.by, run.asked)
            .map_err(RunRefusedError::TooMany)?;
        inner.number += 1;
        let ordered = OrderedProbes {
            number: inner.number,
            id: run.id.clone(),
            rounds: run.rounds,
            until: run.deadline,
            parts: Arc::new(parts),
        };
        if inner.runs.len() >= KEPT {
            inner.runs.pop_front();
        }
        inner
            .runs
            .push_back(LiveRun::new((run, names), topology, settings));
        self.tell(ordered);
        Ok(())
    }

    /// Publishes an order to the plan streams.
    fn tell(&self, ordered: OrderedProbes) {
        let now = self.clock.now();
        self.orders.send_modify(|orders| {
            let standing = orders.iter().filter(|order| order.until > now).cloned();
            *orders = standing.chain([ordered]).collect();
        });
    }

    /// Records an observation that belongs to a run. Observations of runs that are not in progress are dropped.
    pub fn observed(&self, recorded: &Recorded) {
        let Some(id) = recorded
            .observation
            .assignment
            .as_ref()
            .and_then(AssignmentId::run)
        else {
            return;
        };
        let mut inner = self.inner.lock();
        if let Some(look) = RunId::new(id).ok().and_then(|id| inner.looks.get_mut(&id)) {
            look.take(recorded);
            return;
        }
        let live = inner.runs.iter_mut().find(|live| live.run().id.as_str() == id);
        if live.is_some_and(|live| live.take(recorded)) {
            self.bell.notify_one();
        }
    }

    /// Returns one run.
    pub fn get(&self, id: &str) -> Option<PreflightRun> {
        let inner = self.inner.lock();
        inner
            .runs
            .iter()
            .find(|live| live.run().id.as_str() == id)
            .map(|live| live.run().clone())
    }

    /// Follows the events of one run from the first one.
    pub fn follow(&self, id: &str) -> Option<LogReader> {
        let inner = self.inner.lock();
        inner
            .runs
            .iter()
            .find(|live| live.run().id.as_str() == id)
            .map(LiveRun::follow)
    }

    /// Returns all runs, newest first.
    pub fn list(&self) -> Vec<PreflightRun> {
        let inner = self.inner.lock();
        inner.runs.iter().rev().map(|live| live.run().clone()).collect()
    }

    /// Judges ended runs, until cancelled.
    pub async fn run(self: Arc<Self>, cancelled: CancellationToken) {
        loop {
            let (over, next) = self.over();
            for (id, case) in over {
                // Takes milliseconds for a small cluster and up to a second for thousands of nodes, so it runs off
                // the serving threads.
                let judged = tokio::task::spawn_blocking(move || judge::judge(&case)).await;
                let ended = {
                    let mut inner = self.inner.lock();
                    let live = inner.runs.iter_mut().find(|live| live.run().id == id);
                    live.map(|live| live.end(judged.ok(), self.clock.now()).clone())
                };
                if let Some(run) = ended {
                    if let (Some(outcome), Some(ended)) = (run.outcome, run.ended) {
                        self.metrics.ends(outcome, ended - run.asked, run.first_probe);
                    }
                    self.keep(run).await;
                }
            }
            let wait = next.map_or(Duration::from_hours(1), |at| (at - self.clock.now()).into());
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = self.bell.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Writes an ended run to the store, with a limited number of vantages.
    async fn keep(&self, mut run: PreflightRun) {
        run.vantages.truncate(KEPT_VANTAGES);
        let Ok(value) = serde_json::to_value(&run) else {
            return;
        };
        let document = StoredDocument {
            sort: DocumentKind::Run,
            id: run.id.to_string(),
            at: self.clock.now(),
            value,
        };
        match self.store.ask(move |store| store.put(&document)).await {
            Ok(()) | Err(QueryError::Off) => {}
            Err(error) => {
                tracing::warn!(run = %run.id, %error, "cannot write the run to the store; it is kept in memory only");
            }
        }
    }

    /// Returns one run from the store, as it was written.
    pub async fn kept(&self, id: &str) -> Option<serde_json::Value> {
        let id = id.to_owned();
        let kept = self
            .store
            .ask(move |store| store.document(DocumentKind::Run, &id))
            .await;
        kept.ok().flatten().map(|document| document.value)
    }

    /// Returns the runs to judge now, and the next deadline.
    fn over(&self) -> (Vec<(RunId, judge::JudgementInput)>, Option<EventTime>) {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        let over = inner
            .runs
            .iter_mut()
            .filter_map(|live| Some((live.run().id.clone(), live.case(now)?)))
            .collect();
        let next = inner
            .runs
            .iter()
            .filter(|live| live.is_waiting())
            .map(|live| live.run().deadline)
            .min();
        (over, next)
    }
}

fn within(
    field: &'static str,
    (low, high): (u64, u64),
    found: Option<u64>,
) -> Result<Option<u64>, RunRefusedError> {
    match found {
        Some(found) if !(low..=high).contains(&found) => Err(RunRefusedError::Value {
            field,
            low,
            high,
            found,
        }),
        found => Ok(found),
    }
}

/// Returns an unguessable id. Read access covers all runs, but links to a run are shared.
fn new_id() -> RunId {
    let random = parallax_runtime::random();
    RunId::new(format!("r-{:012x}", random >> 16))
        .unwrap_or_else(|error| unreachable!("hexadecimal digits are a valid id: {error}"))
}

#[cfg(test)]
mod tests;
