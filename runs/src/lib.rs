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
mod known_failures;
mod limit;
mod live_run;
mod metrics;
mod name_request;
mod options;
mod order;
mod planning;
mod scope;
mod stored_runs;
mod subject;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parallax_diagnosis::{plan::PlanConfig, topology::Topology, view::View};
use parallax_model::{AssignmentId, EventTime, Recorded, RunId};
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
pub use order::ProbeOrder;
use parallax_api::runs::{PreflightRun, RunRequest};
use parallax_history::store::StoreHandle;
use parallax_kubernetes::replicas::ReplicaState;
use parallax_runtime::Clock;
use planning::{REPORT_GRACE, ROUND_INTERVAL, new_id};
pub use scope::probe_scope as scope_of;
pub use subject::MESH_SUBJECT;

/// The maximum number of probes per run, over all vantages and rounds.
pub(crate) const MAX_PROBES: u64 = 60_000;

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

#[cfg(test)]
mod tests;
