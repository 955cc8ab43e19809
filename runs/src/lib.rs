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

mod challenge_request;
mod error;
mod host_check;
mod judge;
mod limit;
mod live_run;
mod metrics;
mod name_request;
mod options;
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

pub use host_check::{
    CA_SUFFIX, CheckObservations, HostCheck, HostCheckError, NAMES_SUFFIX, SELF_CHECK_SUFFIX,
};
pub use live_run::LogReader;
pub use metrics::RunMetrics;
pub use options::RunOptions;
use parallax_api::runs::{PreflightRun, RunRequest, RunState};
use parallax_history::store::{DocumentKind, QueryError, StoreHandle, StoredDocument};
use parallax_kubernetes::replicas::ReplicaState;
use parallax_runtime::Clock;
pub use scope::probe_scope as scope_of;
pub use subject::MESH_SUBJECT;
use subject::{RunSubject, reporting_vantages};

/// The interval between rounds of a run.
const ROUND_INTERVAL: Micros = Micros::from_secs(1);
/// The default and the maximum number of rounds.
const DEFAULT_AND_MAX_ROUNDS: (u32, u32) = (3, 20);
const TIMEOUT_RANGE_MS: (u64, u64) = (50, 60_000);
/// The maximum number of concurrent runs.
const MAX_CONCURRENT_RUNS: usize = 8;
/// The maximum number of runs kept in memory; the oldest is dropped first.
const MAX_KEPT_RUNS: usize = 100;
/// The maximum number of vantages per run in the store; failing ones are kept first.
const MAX_STORED_VANTAGES: usize = 200;
/// The maximum number of probes per run, over all vantages and rounds.
pub(crate) const MAX_PROBES: u64 = 60_000;
/// The time after the last probe's deadline in which reports may still arrive.
const REPORT_GRACE: Micros = Micros::from_secs(1);

/// An order to the vantages, delivered by the plan streams.
#[derive(Debug, Clone)]
pub struct ProbeOrder {
    /// Increases with each run, so that a stream delivers each order once.
    pub number: u64,
    id: RunId,
    rounds: u32,
    /// The order is not delivered after this time.
    expires: EventTime,
    assignments: Arc<BTreeMap<Vantage, Vec<Assignment>>>,
}

impl ProbeOrder {
    /// Returns the assignments of one vantage, or `None` after the order's deadline.
    #[must_use]
    pub fn for_vantage(&self, vantage: &Vantage, now: EventTime) -> Option<RunOrder> {
        let assignments = self.assignments.get(vantage).filter(|_| now < self.expires)?;
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
    orders: watch::Sender<Arc<[ProbeOrder]>>,
    /// Signals that a run may have ended.
    run_may_have_ended: Notify,
}

#[derive(Debug, Default)]
struct RunManagerState {
    limit: limit::RunLimit,
    /// Oldest first.
    runs: VecDeque<LiveRun>,
    host_checks: BTreeMap<RunId, host_check::PendingCheck>,
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
            run_may_have_ended: Notify::new(),
        }
    }

    /// Subscribes to the orders for the plan streams.
    pub fn orders(&self) -> watch::Receiver<Arc<[ProbeOrder]>> {
        self.orders.subscribe()
    }

    /// Plans a run and publishes its order to the plan streams.
    pub fn start(
        &self,
        request: &RunRequest,
        by: &str,
        topology: &Arc<Topology>,
        view: &View,
    ) -> Result<PreflightRun, RunRefusedError> {
        let run = self.plan(request, by, topology, view)?;
        self.metrics.run_started();
        Ok(run)
    }

    /// Counts a rejected run. A run that waits for capacity does not count as rejected.
    pub fn count_rejected(&self) {
        self.metrics.run_rejected();
    }

    fn plan(
        &self,
        request: &RunRequest,
        by: &str,
        topology: &Arc<Topology>,
        view: &View,
    ) -> Result<PreflightRun, RunRefusedError> {
        let (_, nonce) = self
            .replica
            .role()
            .plan_identity()
            .ok_or(RunRefusedError::NotLeader)?;
        let asked = self.clock.now();
        let rounds = check_range(
            "rounds",
            (1, DEFAULT_AND_MAX_ROUNDS.1.into()),
            request.rounds.map(u64::from),
        )?;
        let once = request.challenge.is_some() || request.names.is_some();
        let usual = if once { 1 } else { DEFAULT_AND_MAX_ROUNDS.0 };
        let rounds = rounds.map_or(usual, |rounds| {
            u32::try_from(rounds).unwrap_or(DEFAULT_AND_MAX_ROUNDS.1)
        });
        let timeout =
            check_range("timeout_ms", TIMEOUT_RANGE_MS, request.timeout_ms)?.map(Micros::from_millis);
        let subject = match (&request.challenge, &request.names) {
            (Some(_), Some(_)) => return Err(name_request::InvalidNames::BothRequests.into()),
            (Some(ask), None) => RunSubject::challenge(&request.url, ask, topology, &self.options)?,
            (None, Some(ask)) => RunSubject::names(&request.url, ask, topology, &self.options)?,
            (None, None) => RunSubject::from_url(&request.url, topology, &self.options)?,
        };
        let timeout = timeout.or(subject.timeout).unwrap_or(self.config.timeout);
        let longest = subject.max_duration(timeout);
        let vantages = subject.select_vantages(reporting_vantages(&subject.topology, view, request.from));
        if vantages.is_empty() {
            return Err(RunRefusedError::NoReportingVantage(request.from));
        }
        let config = PlanConfig {
            interval: ROUND_INTERVAL,
            timeout,
            echo_nonce: nonce.to_string(),
        };
        let id = new_id();
        let parts = subject.assignments(&id, &vantages, &config);
        if parts.is_empty() && subject.is_mesh {
            let nodes = subject.topology.nodes().values();
            let probers = nodes.filter(|node| node.prober.is_some()).count();
            return Err(RunRefusedError::MeshTooSmall(probers));
        }
        if parts.is_empty() {
            return Err(RunRefusedError::Unreachable {
                from: request.from,
                target: request.url.clone(),
            });
        }
        let probes = parts.values().map(|own| own.len() as u64).sum::<u64>() * u64::from(rounds);
        if probes > MAX_PROBES {
            return Err(RunRefusedError::TooLarge(probes));
        }
        let deadline = asked
            .plus(Micros(ROUND_INTERVAL.0 * u64::from(rounds - 1)))
            .plus(longest)
            .plus(REPORT_GRACE);
        let run = PreflightRun {
            id: id.clone(),
            target: subject.id,
            challenge: subject.challenge.as_ref().map(|probe| probe.client),
            nameservers: subject.challenge.map_or_else(Vec::new, |probe| probe.nameservers),
            names: None,
            from: request.from,
            rounds,
            interval: ROUND_INTERVAL,
            timeout,
            requested_by: by.to_owned(),
            requested_at: asked,
            deadline,
            state: RunState::Running,
            first_probe: None,
            expected: probes,
            completed: 0,
            vantages: live_run::planned_results(&parts, rounds, subject.is_mesh),
            ended: None,
            outcome: None,
            sentence: String::new(),
            verdict: None,
        };
        let settings = Settings {
            interval: ROUND_INTERVAL,
            timeout,
        };
        let names = subject.names.zip(request.names.clone());
        self.admit((run.clone(), names), subject.topology, settings, parts)?;
        self.run_may_have_ended.notify_one();
        Ok(run)
    }

    /// Checks the limits, stores the run, and publishes its order.
    fn admit(
        &self,
        (run, names): (PreflightRun, Option<live_run::NameRequest>),
        topology: Arc<Topology>,
        settings: Settings,
        parts: BTreeMap<Vantage, Vec<Assignment>>,
    ) -> Result<(), RunRefusedError> {
        let mut inner = self.inner.lock();
        let running = inner.runs.iter().filter(|live| live.is_running()).count();
        if running >= MAX_CONCURRENT_RUNS {
            return Err(RunRefusedError::RateLimited(ROUND_INTERVAL));
        }
        inner
            .limit
            .take(&run.requested_by, run.requested_at)
            .map_err(RunRefusedError::RateLimited)?;
        inner.number += 1;
        let ordered = ProbeOrder {
            number: inner.number,
            id: run.id.clone(),
            rounds: run.rounds,
            expires: run.deadline,
            assignments: Arc::new(parts),
        };
        if inner.runs.len() >= MAX_KEPT_RUNS {
            inner.runs.pop_front();
        }
        inner
            .runs
            .push_back(LiveRun::new((run, names), topology, settings));
        self.publish_order(ordered);
        Ok(())
    }

    /// Publishes an order to the plan streams.
    fn publish_order(&self, ordered: ProbeOrder) {
        let now = self.clock.now();
        self.orders.send_modify(|orders| {
            let standing = orders.iter().filter(|order| order.expires > now).cloned();
            *orders = standing.chain([ordered]).collect();
        });
    }

    /// Records an observation that belongs to a run. Observations of runs that are not in progress are dropped.
    pub fn record(&self, recorded: &Recorded) {
        let Some(id) = recorded
            .observation
            .assignment
            .as_ref()
            .and_then(AssignmentId::run_id)
        else {
            return;
        };
        let mut inner = self.inner.lock();
        if let Some(look) = RunId::new(id).ok().and_then(|id| inner.host_checks.get_mut(&id)) {
            look.record(recorded);
            return;
        }
        let live = inner.runs.iter_mut().find(|live| live.run().id.as_str() == id);
        if live.is_some_and(|live| live.record(recorded)) {
            self.run_may_have_ended.notify_one();
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
            let (over, next) = self.due_runs();
            for (id, case) in over {
                // Takes milliseconds for a small cluster and up to a second for thousands of nodes, so it runs off
                // the serving threads.
                let judged = tokio::task::spawn_blocking(move || judge::judge_run(&case)).await;
                let ended = {
                    let mut inner = self.inner.lock();
                    let live = inner.runs.iter_mut().find(|live| live.run().id == id);
                    live.map(|live| live.finish(judged.ok(), self.clock.now()).clone())
                };
                if let Some(run) = ended {
                    if let (Some(outcome), Some(ended)) = (run.outcome, run.ended) {
                        self.metrics
                            .run_ended(outcome, ended - run.requested_at, run.first_probe);
                    }
                    self.store_run(run).await;
                }
            }
            let wait = next.map_or(Duration::from_hours(1), |at| (at - self.clock.now()).into());
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = self.run_may_have_ended.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Writes an ended run to the store, with a limited number of vantages.
    async fn store_run(&self, mut run: PreflightRun) {
        run.vantages.truncate(MAX_STORED_VANTAGES);
        let Ok(value) = serde_json::to_value(&run) else {
            return;
        };
        let document = StoredDocument {
            kind: DocumentKind::Run,
            id: run.id.to_string(),
            changed_at: self.clock.now(),
            value,
        };
        match self.store.query(move |store| store.put_document(&document)).await {
            Ok(()) | Err(QueryError::NotConfigured) => {}
            Err(error) => {
                tracing::warn!(run = %run.id, %error, "cannot write the run to the store; it is kept in memory only");
            }
        }
    }

    /// Returns one run from the store, as it was written.
    pub async fn stored_run(&self, id: &str) -> Option<serde_json::Value> {
        let id = id.to_owned();
        let kept = self
            .store
            .query(move |store| store.document(DocumentKind::Run, &id))
            .await;
        kept.ok().flatten().map(|document| document.value)
    }

    /// Returns the runs to judge now, and the next deadline.
    fn due_runs(&self) -> (Vec<(RunId, judge::JudgementInput)>, Option<EventTime>) {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        let over = inner
            .runs
            .iter_mut()
            .filter_map(|live| Some((live.run().id.clone(), live.judgement_input(now)?)))
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

fn check_range(
    field: &'static str,
    (low, high): (u64, u64),
    found: Option<u64>,
) -> Result<Option<u64>, RunRefusedError> {
    match found {
        Some(found) if !(low..=high).contains(&found) => Err(RunRefusedError::OutOfRange {
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
