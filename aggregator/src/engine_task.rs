//! The task that owns the engine: takes reports and topologies, publishes views. A single task needs no locks.

mod checkpoints;
mod report_ingest;
mod rounds;
mod topology_update;

use std::{sync::Arc, time::Duration};

use parallax_diagnosis::{Engine, Settings, topology::Topology, view::View};
use parallax_history::{recording::Recorder, store::HistoryWriter};
use parallax_kubernetes::topology_state::TopologyState;
use parallax_model::{EventTime, Incarnation, Micros, TargetId};
use parallax_runs::RunManager;
use parallax_runtime::{Clock, SnapshotReader, SnapshotWriter, snapshot_channel};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    checkpoint::EngineCheckpoint,
    facts::FactCollector,
    ingest::{IngestMetrics, ObservationCounters, ProberSessions, ProberView, Report},
    plan::PlanRequests,
    startup_buffer::StartupBuffer,
    zone_echoes::ZoneEchoes,
};
use checkpoints::IncidentKeys;

/// Interval at which rounds are closed even if no report arrives.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_millis(500);

/// Capacity of the queue of reports. When it is full, requests wait and are eventually rejected for a retry.
pub(crate) const REPORT_QUEUE_CAPACITY: usize = 256;

/// Capacity of the queue of baseline resets.
pub(crate) const RESET_QUEUE_CAPACITY: usize = 16;

/// A request to reset a target's baseline.
#[derive(Debug)]
pub(crate) struct BaselineReset {
    pub(crate) target: TargetId,
    /// Receives whether there was a baseline.
    pub(crate) had_baseline: oneshot::Sender<bool>,
}

/// Outputs of the engine task.
#[derive(Debug, Clone)]
pub(crate) struct EngineSnapshot {
    pub(crate) views: SnapshotReader<View>,
    pub(crate) probers: watch::Receiver<Arc<Vec<ProberView>>>,
    /// Latest results of echo probes between zones.
    pub(crate) zone_echoes: watch::Receiver<Arc<ZoneEchoes>>,
    /// Probes requested in addition to the base plan.
    pub(crate) plan_requests: watch::Receiver<PlanRequests>,
    /// Time from which the probers' observations are known.
    pub(crate) evidence_since: watch::Receiver<EventTime>,
    /// Time of the last tick that left no round open that is over.
    pub(crate) progress: watch::Receiver<EventTime>,
    /// Whether the engine has restored the checkpoint.
    pub(crate) restored: watch::Receiver<bool>,
}

/// Number of intervals without progress after which the engine counts as dead. A restart ends a deadlock; nothing else would.
const STALLED_INTERVALS: u64 = 3;

/// Shortest time without progress after which the engine counts as dead, however short the interval: a node that is busy for
/// some seconds is no reason for a restart.
const MIN_STALLED: Micros = Micros::from_secs(30);

impl EngineSnapshot {
    /// Returns for how long the engine has closed no round, if that is too long.
    pub(crate) fn stalled_for(&self, now: EventTime, interval: Micros) -> Option<Micros> {
        let age = now - *self.progress.borrow();
        is_stalled(age, interval).then_some(age)
    }
}

/// Reports whether an engine that last advanced `age` ago counts as dead.
fn is_stalled(age: Micros, interval: Micros) -> bool {
    age > Micros(interval.0.saturating_mul(STALLED_INTERVALS)).max(MIN_STALLED)
}

/// The engine with its inputs and outputs.
#[derive(Debug)]
pub(crate) struct EngineTask {
    engine: Engine,
    /// Interval and timeout of rounds.
    settings: Settings,
    sessions: ProberSessions,
    clock: Clock,
    counters: ObservationCounters,
    /// The engine's topology, with node facts.
    joined_topology: Arc<Topology>,
    /// Since when the topology's source cannot be read; `None` while it can.
    source_failing_since: Option<EventTime>,
    recorder: Option<Recorder>,
    history: Option<HistoryWriter>,
    /// Receives observations that belong to a run.
    runs: Option<Arc<RunManager>>,
    /// Requests to reset baselines.
    resets: Option<mpsc::Receiver<BaselineReset>>,
    /// Node facts reported by probers.
    facts: FactCollector,
    topology_state: watch::Receiver<TopologyState>,
    reports: mpsc::Receiver<Report>,
    views: SnapshotWriter<View>,
    probers: watch::Sender<Arc<Vec<ProberView>>>,
    /// Collected since the start, and as last published.
    zone_echoes: (ZoneEchoes, watch::Sender<Arc<ZoneEchoes>>),
    plan_requests: watch::Sender<PlanRequests>,
    evidence_since: watch::Sender<EventTime>,
    progress: watch::Sender<EventTime>,
    startup_buffer: StartupBuffer,
    checkpoint: EngineCheckpoint,
    /// Time of the last checkpoint, and the incidents in it.
    last_checkpoint: Option<(EventTime, Vec<IncidentKeys>)>,
}

impl EngineTask {
    pub(crate) fn new(
        settings: Settings,
        clock: Clock,
        metrics: IngestMetrics,
        mut topology: watch::Receiver<TopologyState>,
        reports: mpsc::Receiver<Report>,
        checkpoint: EngineCheckpoint,
    ) -> (Self, EngineSnapshot) {
        let (current, unread) = {
            let state = topology.borrow_and_update();
            let unread = state.error.as_ref().map(|error| error.since);
            (state.topology.clone(), unread)
        };
        let mut counters = ObservationCounters::new(metrics);
        counters.set_targets(&current);
        let mut engine = Engine::new(settings, Arc::clone(&current));
        engine.set_topology_unreadable(unread);
        let (views, views_out) = snapshot_channel(engine.view(clock.now()));
        let (probers, probers_out) = watch::channel(Arc::new(Vec::new()));
        let (echoes, echoes_out) = watch::channel(Arc::default());
        let (asks, asks_out) = watch::channel(PlanRequests::default());
        let (evidence, evidence_out) = watch::channel(clock.start());
        let (progress, progress_out) = watch::channel(clock.now());
        let restored = checkpoint.restored_flag.subscribe();
        let task = Self {
            engine,
            settings,
            sessions: ProberSessions::default(),
            clock,
            counters,
            joined_topology: current,
            source_failing_since: unread,
            recorder: None,
            history: None,
            runs: None,
            resets: None,
            facts: FactCollector::default(),
            topology_state: topology,
            reports,
            views,
            probers,
            zone_echoes: (ZoneEchoes::default(), echoes),
            plan_requests: asks,
            evidence_since: evidence,
            progress,
            startup_buffer: StartupBuffer::new(generate_incarnation(), clock.start()),
            checkpoint,
            last_checkpoint: None,
        };
        let outlook = EngineSnapshot {
            views: views_out,
            probers: probers_out,
            zone_echoes: echoes_out,
            plan_requests: asks_out,
            evidence_since: evidence_out,
            progress: progress_out,
            restored,
        };
        (task, outlook)
    }

    /// Attaches a recorder that receives every input of the engine.
    pub(crate) fn attach_recorder(&mut self, mut recorder: Recorder) {
        if self.source_failing_since.is_some() {
            recorder.record_topology_unread(
                self.clock.now(),
                self.source_failing_since,
                &self.joined_topology,
            );
        }
        self.recorder = Some(recorder);
    }

    /// Attaches the writer of the history.
    pub(crate) fn attach_history(&mut self, history: HistoryWriter) {
        self.history = Some(history);
    }

    /// Attaches the receiver of observations that belong to runs.
    pub(crate) fn attach_runs(&mut self, runs: Arc<RunManager>) {
        self.runs = Some(runs);
    }

    /// Attaches the queue of baseline resets.
    pub(crate) fn attach_resets(&mut self, resets: mpsc::Receiver<BaselineReset>) {
        self.resets = Some(resets);
    }

    /// Returns the engine's topology.
    pub(crate) const fn topology(&self) -> &Arc<Topology> {
        &self.joined_topology
    }

    /// Runs until cancelled, or until an input channel is closed.
    pub(crate) async fn run(mut self, cancelled: CancellationToken) {
        // No report is taken and no round judged before the checkpoint is restored.
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                checkpoint = &mut self.checkpoint.restored => match checkpoint {
                    Ok(checkpoint) => break self.restore(checkpoint),
                    Err(_) => return,
                },
                () = self.views.wait_for_request() => self.views.answer_with_latest(),
            }
        }
        self.process_events(&cancelled).await;
        self.send_checkpoint(self.clock.now());
    }

    async fn process_events(&mut self, cancelled: &CancellationToken) {
        let mut tick = interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Topology before reports: observations for a new topology's plan must find it applied. Ticks before
                // reports: a flood of reports must not delay the closing of rounds.
                biased;
                () = cancelled.cancelled() => return,
                changed = self.topology_state.changed() => match changed {
                    Ok(()) => self.replace_topology(),
                    Err(_) => return,
                },
                _ = tick.tick() => {
                    let now = self.clock.now();
                    self.apply_facts(now);
                    self.release_rounds(now);
                    if self.advance(now) {
                        self.publish(now);
                    }
                    self.record_progress(now);
                }
                () = self.views.wait_for_request() => if self.views.is_stale() {
                    self.publish(self.clock.now());
                } else {
                    self.views.answer_with_latest();
                },
                reset = next_reset(&mut self.resets) => self.reset_baseline(reset),
                report = self.reports.recv() => match report {
                    Some(report) => self.handle_report(report),
                    None => return,
                },
            }
        }
    }

    /// Resets a target's baseline and records that.
    fn reset_baseline(&mut self, reset: BaselineReset) {
        let now = self.clock.now();
        let known = self.engine.reset_baseline(&reset.target);
        if let Some(recorder) = &mut self.recorder {
            recorder.record_baseline_reset(now, reset.target, &self.joined_topology);
        }
        self.publish(now);
        // The client may have disconnected; the baseline is reset regardless.
        let _ = reset.had_baseline.send(known);
        self.send_checkpoint(now);
    }
}

/// Returns the next baseline to reset; waits forever if there is no queue.
async fn next_reset(resets: &mut Option<mpsc::Receiver<BaselineReset>>) -> BaselineReset {
    if let Some(resets) = resets
        && let Some(reset) = resets.recv().await
    {
        return reset;
    }
    std::future::pending().await
}

/// Generates a unique name for this process lifetime of the aggregator.
fn generate_incarnation() -> Incarnation {
    Incarnation::new(format!("{:016x}", parallax_runtime::random()))
        .unwrap_or_else(|error| unreachable!("hexadecimal digits are a name: {error}"))
}

#[cfg(test)]
mod tests;
