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
    probe,
    rate_limiter::RateLimiter,
    result::ProbeResult,
    run_queue::RunQueue,
    schedule::{ProbeSchedule, ProbeStart},
    scheduling_lag::SchedulingLag,
    shared_state::Status,
    ttl,
    ttl_schedule::{EvidenceSchedule, max_wait},
};

/// Maximum number of concurrent probes, whatever the plan: each holds one or two file descriptors.
const MAX_CONCURRENT_PROBES: usize = 400;

/// Time for running probes to end when the prober stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct ProbeRunner {
    schedule: ProbeSchedule,
    run_queue: RunQueue,
    vantage: Vantage,
    rate_limiter: RateLimiter,
    probes: JoinSet<()>,
    running: HashMap<Id, RunningProbe>,
    dispatch: Arc<ProbeDispatch>,
}

#[derive(Debug)]
struct RunningProbe {
    assignment: Arc<Assignment>,
    /// A time not later than the start that the probe reports.
    started: EventTime,
    /// Part of an on-demand run: no round waits for it.
    on_demand: bool,
}

/// The state that all probe tasks share.
#[derive(Debug)]
struct ProbeDispatch {
    context: Arc<ProbeContext>,
    status: Arc<Status>,
    urgent_signal: watch::Sender<()>,
    evidence: Mutex<EvidenceSchedule>,
    lag: SchedulingLag,
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
            run_queue: RunQueue::default(),
            vantage: vantage.clone(),
            rate_limiter: RateLimiter::default(),
            probes: JoinSet::new(),
            running: HashMap::new(),
            dispatch: Arc::new(ProbeDispatch {
                context,
                status,
                urgent_signal: bell,
                evidence: Mutex::default(),
                lag: SchedulingLag::default(),
            }),
        }
    }

    /// Applies a line of the plan.
    pub(crate) fn apply(&mut self, line: PlanLine, now: Instant) {
        self.schedule.record_line(now);
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
                if self.run_queue.enqueue(order, &self.vantage, now) {
                    tracing::info!(run = %id, probes, "received an on-demand run");
                }
                return;
            }
            // The agent handles facts itself.
            PlanLine::Heartbeat { .. } | PlanLine::Facts { .. } | PlanLine::Unknown => return,
        }
        self.dispatch.status.set_assignments(self.schedule.len());
    }

    /// Waits for the next start or end of a probe and handles it. Without a plan it waits for ever.
    pub(crate) async fn next_event(&mut self) {
        let (plan, runs) = (self.schedule.next_due(), self.run_queue.next_due());
        let due = sleep_until(plan.into_iter().chain(runs).min());
        tokio::select! {
            () = due => self.start_due(Instant::now()),
            Some(ended) = self.probes.join_next_with_id() => self.finish(ended),
        }
    }

    /// Starts the probes that are due.
    fn start_due(&mut self, now: Instant) {
        let before = self.schedule.len();
        let starts = self.schedule.take_due(now);
        self.dispatch
            .status
            .metrics
            .record_overrun(self.schedule.take_overrun());
        if self.schedule.len() < before {
            tracing::warn!(
                forgotten = before - self.schedule.len(),
                "the plan stream has been silent for ten minutes; dropping the assignments to addresses of Pods"
            );
            self.dispatch.status.set_assignments(self.schedule.len());
        }
        for start in starts {
            match start {
                ProbeStart::TooLate { assignment, late } => {
                    self.dispatch.record_not_made(&assignment, OwnFault::Late, late);
                }
                ProbeStart::Run { assignment, late }
                    if self.probes.len() >= MAX_CONCURRENT_PROBES
                        || !self.rate_limiter.try_acquire(&assignment.target, now) =>
                {
                    self.schedule.finished(&assignment.id);
                    self.dispatch
                        .record_not_made(&assignment, OwnFault::Throttled, late);
                }
                ProbeStart::Run { assignment, late } => self.spawn(assignment, late, false),
            }
        }
        for (assignment, late) in self.run_queue.take_due(now) {
            if self.probes.len() >= MAX_CONCURRENT_PROBES
                || !self.rate_limiter.try_acquire(&assignment.target, now)
            {
                self.dispatch
                    .record_not_made(&assignment, OwnFault::Throttled, late);
            } else {
                self.spawn(assignment, late, true);
            }
        }
    }

    fn spawn(&mut self, assignment: Arc<Assignment>, late: Duration, aside: bool) {
        let dispatch = Arc::clone(&self.dispatch);
        let since = if aside {
            dispatch.context.clock.now()
        } else {
            dispatch.status.probe_started(dispatch.context.clock)
        };
        let task = self.probes.spawn({
            let assignment = Arc::clone(&assignment);
            async move { dispatch.probe(&assignment, late).await }
        });
        let running = RunningProbe {
            assignment,
            started: since,
            on_demand: aside,
        };
        self.running.insert(task.id(), running);
    }

    fn finish(&mut self, ended: Result<(Id, ()), JoinError>) {
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
            && !running.on_demand
        {
            self.schedule.finished(&running.assignment.id);
            self.dispatch.status.probe_ended(running.started);
        }
    }

    /// Starts no more probes. Probes that do not end in time are aborted and reported as a fault of the prober.
    pub(crate) async fn stop(mut self) {
        let all = async {
            while let Some(ended) = self.probes.join_next_with_id().await {
                self.finish(ended);
            }
        };
        let _ = time::timeout(STOP_TIMEOUT, all).await;
        self.probes.shutdown().await;
        for running in self.running.into_values() {
            let result = ProbeResult::not_made(&running.assignment, running.started, OwnFault::Stopping);
            self.dispatch.record(&running.assignment, result);
            if !running.on_demand {
                self.dispatch.status.probe_ended(running.started);
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl ProbeDispatch {
    async fn probe(&self, assignment: &Assignment, late: Duration) {
        let begun = Instant::now();
        self.lag.record(begun.into_std(), late);
        let mut result = probe::run(assignment, &self.context).await;
        result.times.delay = Some(late.into());
        self.status.metrics.record_delay(late);
        let ended = Instant::now();
        self.lag
            .disown_timeout((begun.into_std(), ended.into_std()), assignment, &mut result);
        let interval = assignment.interval.into();
        if let Some(patience) = max_wait(interval, late + begun.elapsed()) {
            let wanted = self
                .evidence
                .lock()
                .address_to_check(&result, interval, Instant::now());
            if let Some(address) = wanted {
                match ttl::collect(address, Deadline::within(patience)).await {
                    Ok(evidence) => result.ttl = Some(evidence),
                    Err(reason) => tracing::debug!(%address, %reason, "no TTL evidence"),
                }
            }
        }
        if let Some(detail) = &result.detail {
            tracing::debug!(target = %result.target, outcome = ?result.outcome, detail, "a probe did not succeed");
        }
        self.record(assignment, result);
    }

    fn record_not_made(&self, assignment: &Assignment, own: OwnFault, late: Duration) {
        let mut result = ProbeResult::not_made(assignment, self.context.clock.now(), own);
        result.times.delay = Some(late.into());
        self.status.metrics.record_delay(late);
        self.lag.record(Instant::now().into_std(), late);
        self.record(assignment, result);
    }

    fn record(&self, assignment: &Assignment, result: ProbeResult) {
        self.status
            .metrics
            .record_probe(&assignment.probe, &result.outcome);
        if self.status.push(result) {
            self.urgent_signal.send_replace(());
        }
    }
}
