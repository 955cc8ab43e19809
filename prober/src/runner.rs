//! Runs the schedule: starts the probes that are due, at most one per assignment, and records their results.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parallax_model::{Assignment, EventTime, OwnFault, PlanLine, Vantage};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::{self, Instant},
};

use crate::{
    clock::Deadline,
    context::ProbeContext,
    evidence::{Evidence, patience},
    governor::ConcurrencyLimiter,
    on_demand::RequestQueue,
    probe,
    result::ProbeResult,
    schedule::{ProbeSchedule, ProbeStart},
    status::Status,
    ttl,
};

/// Maximum number of concurrent probes, whatever the plan: each holds one or two file descriptors.
const AT_ONCE: usize = 400;

/// Time for running probes to end when the prober stops.
const LAST_PROBES: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct ProbeRunner {
    schedule: ProbeSchedule,
    orders: RequestQueue,
    vantage: Vantage,
    governor: ConcurrencyLimiter,
    probes: JoinSet<()>,
    running: HashMap<Id, RunningProbes>,
    desk: Arc<ProbeDispatch>,
}

#[derive(Debug)]
struct RunningProbes {
    assignment: Arc<Assignment>,
    /// A time not later than the start that the probe reports.
    since: EventTime,
    /// Part of an on-demand run: no round waits for it.
    aside: bool,
}

/// The state that all probe tasks share.
#[derive(Debug)]
struct ProbeDispatch {
    context: Arc<ProbeContext>,
    status: Arc<Status>,
    bell: watch::Sender<()>,
    evidence: Mutex<Evidence>,
}

impl ProbeRunner {
    pub(crate) fn new(
        context: Arc<ProbeContext>,
        status: Arc<Status>,
        bell: watch::Sender<()>,
        vantage: &Vantage,
    ) -> Self {
        Self {
            schedule: ProbeSchedule::new(Instant::now(), vantage),
            orders: RequestQueue::default(),
            vantage: vantage.clone(),
            governor: ConcurrencyLimiter::default(),
            probes: JoinSet::new(),
            running: HashMap::new(),
            desk: Arc::new(ProbeDispatch {
                context,
                status,
                bell,
                evidence: Mutex::default(),
            }),
        }
    }

    /// Applies a line of the plan.
    pub(crate) fn apply(&mut self, line: PlanLine, now: Instant) {
        self.schedule.heard(now);
        match line {
            PlanLine::Snapshot {
                revision,
                assignments,
                ..
            } => {
                tracing::info!(?revision, assignments = assignments.len(), "received a new plan");
                self.schedule.replace(assignments, now);
            }
            PlanLine::Upsert { assignment, .. } => self.schedule.upsert(assignment, now),
            PlanLine::Remove { id, .. } => self.schedule.remove(&id),
            PlanLine::Run { order } => {
                let (id, probes) = (order.id.clone(), order.assignments.len());
                if self.orders.take(order, &self.vantage, now) {
                    tracing::info!(run = %id, probes, "received an on-demand run");
                }
                return;
            }
            // The agent handles facts itself.
            PlanLine::Heartbeat { .. } | PlanLine::Facts { .. } | PlanLine::Unknown => return,
        }
        self.desk.status.planned(self.schedule.len());
    }

    /// Waits for the next start or end of a probe and handles it. Without a plan it waits for ever.
    pub(crate) async fn turn(&mut self) {
        let (plan, runs) = (self.schedule.next_due(), self.orders.next_due());
        let due = due(plan.into_iter().chain(runs).min());
        tokio::select! {
            () = due => self.start(Instant::now()),
            Some(ended) = self.probes.join_next_with_id() => self.settle(ended),
        }
    }

    /// Starts the probes that are due.
    fn start(&mut self, now: Instant) {
        let before = self.schedule.len();
        let starts = self.schedule.take_due(now);
        self.desk.status.metrics.overrun(self.schedule.take_overrun());
        if self.schedule.len() < before {
            tracing::warn!(
                forgotten = before - self.schedule.len(),
                "the plan stream has been silent for ten minutes; dropping the assignments to addresses of Pods"
            );
            self.desk.status.planned(self.schedule.len());
        }
        for start in starts {
            match start {
                ProbeStart::TooLate { assignment, late } => {
                    self.desk.not_asked(&assignment, OwnFault::Late, late);
                }
                ProbeStart::Run { assignment, late }
                    if self.probes.len() >= AT_ONCE || !self.governor.allows(&assignment.target, now) =>
                {
                    self.schedule.finished(&assignment.id);
                    self.desk.not_asked(&assignment, OwnFault::Throttled, late);
                }
                ProbeStart::Run { assignment, late } => self.spawn(assignment, late, false),
            }
        }
        for (assignment, late) in self.orders.take_due(now) {
            if self.probes.len() >= AT_ONCE || !self.governor.allows(&assignment.target, now) {
                self.desk.not_asked(&assignment, OwnFault::Throttled, late);
            } else {
                self.spawn(assignment, late, true);
            }
        }
    }

    fn spawn(&mut self, assignment: Arc<Assignment>, late: Duration, aside: bool) {
        let desk = Arc::clone(&self.desk);
        let since = if aside {
            desk.context.clock.now()
        } else {
            desk.status.started(desk.context.clock)
        };
        let task = self.probes.spawn({
            let assignment = Arc::clone(&assignment);
            async move { desk.probe(&assignment, late).await }
        });
        let running = RunningProbes {
            assignment,
            since,
            aside,
        };
        self.running.insert(task.id(), running);
    }

    fn settle(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "a probe panicked");
                }
                error.id()
            }
        };
        if let Some(running) = self.running.remove(&id)
            && !running.aside
        {
            self.schedule.finished(&running.assignment.id);
            self.desk.status.settled(running.since);
        }
    }

    /// Starts no more probes. Probes that do not end in time are aborted and reported as a fault of the prober.
    pub(crate) async fn stop(mut self) {
        let all = async {
            while let Some(ended) = self.probes.join_next_with_id().await {
                self.settle(ended);
            }
        };
        let _ = time::timeout(LAST_PROBES, all).await;
        self.probes.shutdown().await;
        for running in self.running.into_values() {
            let result = ProbeResult::not_asked(&running.assignment, running.since, OwnFault::Stopping);
            self.desk.book(&running.assignment, result);
            if !running.aside {
                self.desk.status.settled(running.since);
            }
        }
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl ProbeDispatch {
    async fn probe(&self, assignment: &Assignment, late: Duration) {
        let begun = Instant::now();
        let mut result = probe::run(assignment, &self.context).await;
        result.times.late = Some(late.into());
        self.status.metrics.late(late);
        let interval = assignment.interval.into();
        if let Some(patience) = patience(interval, late + begun.elapsed()) {
            let wanted = self.evidence.lock().wanted(&result, interval, Instant::now());
            if let Some(address) = wanted {
                match ttl::ask(address, Deadline::within(patience)).await {
                    Ok(evidence) => result.ttl = Some(evidence),
                    Err(reason) => tracing::debug!(%address, %reason, "no TTL evidence"),
                }
            }
        }
        if let Some(detail) = &result.detail {
            tracing::debug!(target = %result.target, outcome = ?result.outcome, detail, "a probe did not succeed");
        }
        self.book(assignment, result);
    }

    fn not_asked(&self, assignment: &Assignment, own: OwnFault, late: Duration) {
        let mut result = ProbeResult::not_asked(assignment, self.context.clock.now(), own);
        result.times.late = Some(late.into());
        self.status.metrics.late(late);
        self.book(assignment, result);
    }

    fn book(&self, assignment: &Assignment, result: ProbeResult) {
        self.status.metrics.probed(&assignment.probe, &result.outcome);
        if self.status.push(result) {
            self.bell.send_replace(());
        }
    }
}
