//! The task that owns the engine: takes reports and topologies, publishes views. A single task needs no locks.

use std::{sync::Arc, time::Duration};

use parallax_diagnosis::{
    Checkpoint, Engine, Settings, replay::RecordProgress, topology::Topology, verdict::IncidentState,
    view::View,
};
use parallax_history::{recording::Recorder, store::HistoryWriter};
use parallax_kubernetes::topology_state::{ProbeTiming, TopologyState};
use parallax_model::{EventTime, Incarnation, Micros, Recorded, ReportAnswer, TargetId};
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
    ingest::{
        IngestAnswer, IngestMetrics, ObservationCounters, ProberSessions, ProberView, Report, ReportBatch,
        ReportReceipt,
    },
    plan::PlanRequests,
    startup_buffer::{RoundsReleased, StartupBuffer},
};

/// Interval at which rounds are closed even if no report arrives.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum time between two checkpoints, unless an incident opens, changes or closes.
const MIN_CHECKPOINT_INTERVAL: Micros = Micros::from_secs(5);

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
    /// Probes requested in addition to the base plan.
    pub(crate) plan_requests: watch::Receiver<PlanRequests>,
    /// Time from which the probers' observations are known.
    pub(crate) evidence_since: watch::Receiver<EventTime>,
    /// Whether the engine has restored the checkpoint.
    pub(crate) restored: watch::Receiver<bool>,
}

/// Properties of an incident whose change triggers a checkpoint at once: id, state and number of occurrences.
type IncidentKeys = (String, IncidentState, u32);

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
    plan_requests: watch::Sender<PlanRequests>,
    evidence_since: watch::Sender<EventTime>,
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
            let unread = state.error.as_ref().map(|trouble| trouble.since);
            (state.topology.clone(), unread)
        };
        let mut counters = ObservationCounters::new(metrics);
        counters.set_targets(&current);
        let mut engine = Engine::new(settings, Arc::clone(&current));
        engine.set_topology_unreadable(unread);
        let (views, views_out) = snapshot_channel(engine.view(clock.now()));
        let (probers, probers_out) = watch::channel(Arc::new(Vec::new()));
        let (asks, asks_out) = watch::channel(PlanRequests::default());
        let (evidence, evidence_out) = watch::channel(clock.start());
        let restored = checkpoint.restored_flag.subscribe();
        let hub = Self {
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
            plan_requests: asks,
            evidence_since: evidence,
            startup_buffer: StartupBuffer::new(generate_incarnation(), clock.start()),
            checkpoint,
            last_checkpoint: None,
        };
        let outlook = EngineSnapshot {
            views: views_out,
            probers: probers_out,
            plan_requests: asks_out,
            evidence_since: evidence_out,
            restored,
        };
        (hub, outlook)
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

    /// Restores the checkpoint of the previous process.
    fn restore(&mut self, checkpoint: Checkpoint) {
        let now = self.clock.now();
        self.engine.restore(&checkpoint, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.record_restore(now, checkpoint, &self.joined_topology);
        }
        self.publish(now);
        self.checkpoint.restored_flag.send_replace(true);
    }

    /// Sends a checkpoint to the task that persists it.
    fn send_checkpoint(&self, now: EventTime) {
        if !self.checkpoint.latest.is_closed() {
            let checkpoint = self.engine.checkpoint(now);
            self.checkpoint.latest.send_replace(Some(Arc::new(checkpoint)));
        }
    }

    /// Sends a checkpoint if the minimum time has passed or an incident changed.
    fn send_checkpoint_if_due(&mut self, view: &View) {
        let standing = || {
            let incidents = view.incidents.iter();
            incidents.map(|incident| (incident.id.as_str(), incident.state, incident.occurrences))
        };
        let due = self.last_checkpoint.as_ref().is_none_or(|(at, before)| {
            let before = before
                .iter()
                .map(|(id, state, times)| (id.as_str(), *state, *times));
            view.at - *at >= MIN_CHECKPOINT_INTERVAL || !before.eq(standing())
        });
        if due {
            let standing = standing().map(|(id, state, times)| (id.to_owned(), state, times));
            self.last_checkpoint = Some((view.at, standing.collect()));
            self.send_checkpoint(view.at);
        }
    }

    fn replace_topology(&mut self) {
        let now = self.clock.now();
        let (topology, timing, unread) = {
            let state = self.topology_state.borrow_and_update();
            let unread = state.error.as_ref().map(|trouble| trouble.since);
            (state.topology.clone(), state.timing, unread)
        };
        self.update_source_state(unread, now);
        if let Some(ProbeTiming { interval, timeout }) = timing {
            self.replace_settings(Settings { interval, timeout }, now);
        }
        if Arc::ptr_eq(&topology, &self.joined_topology) {
            return;
        }
        self.counters.set_targets(&topology);
        let vantages = topology.vantages();
        self.sessions.retain(&vantages);
        self.facts.retain(&vantages);
        let joined = self.facts.join(&topology, now).map_or(topology, Arc::new);
        self.apply_topology(joined, now);
        self.publish(now);
    }

    /// Passes a change of the topology source's readability to engine and recorder.
    fn update_source_state(&mut self, unread: Option<EventTime>, now: EventTime) {
        if unread == self.source_failing_since {
            return;
        }
        self.source_failing_since = unread;
        self.engine.set_topology_unreadable(unread);
        if let Some(recorder) = &mut self.recorder {
            recorder.record_topology_unread(now, unread, &self.joined_topology);
        }
    }

    /// Passes changed settings of rounds to engine and recorder.
    fn replace_settings(&mut self, settings: Settings, now: EventTime) {
        if settings == self.settings {
            return;
        }
        tracing::info!(interval = %settings.interval, timeout = %settings.timeout, "changed interval and timeout of rounds");
        // Closed rounds keep the settings they were opened with.
        let released = self.startup_buffer.release_now();
        self.apply_released(released);
        self.advance(now);
        self.engine.replace_settings(settings, now);
        self.settings = settings;
        if let Some(recorder) = &mut self.recorder {
            recorder.record_settings(now, settings, &self.joined_topology);
        }
        self.publish(now);
    }

    /// Rebuilds the topology if node facts have changed.
    fn apply_facts(&mut self, now: EventTime) {
        let topology = Arc::clone(&self.topology_state.borrow().topology);
        if self.facts.update(&topology, now) {
            let joined = self.facts.join(&topology, now).map_or(topology, Arc::new);
            self.apply_topology(joined, now);
        }
    }

    /// Passes a topology to engine and recorder.
    fn apply_topology(&mut self, topology: Arc<Topology>, now: EventTime) {
        self.engine.replace_topology(Arc::clone(&topology), now);
        self.joined_topology = topology;
        if let Some(recorder) = &mut self.recorder {
            recorder.record_topology(now, &self.joined_topology);
        }
    }

    /// Releases held-back rounds if the probers' buffered observations have arrived.
    fn release_rounds(&mut self, now: EventTime) {
        let released = self
            .startup_buffer
            .release(now, || self.joined_topology.vantages());
        self.apply_released(released);
    }

    /// Applies the progress that was reported while rounds were held back.
    fn apply_released(&mut self, released: Option<RoundsReleased>) {
        let Some(RoundsReleased {
            progress: complete,
            evidence_since: from,
        }) = released
        else {
            return;
        };
        for progress in complete {
            self.engine.record_progress(&progress.vantage, progress.complete);
            if let Some(recorder) = &mut self.recorder {
                recorder.record_report(
                    self.clock.now(),
                    &self.joined_topology,
                    Vec::new(),
                    Some(progress),
                );
            }
        }
        self.evidence_since.send_replace(from);
    }

    /// Closes rounds that have ended; returns whether any was judged. Does nothing while rounds are held back.
    fn advance(&mut self, now: EventTime) -> bool {
        if self.startup_buffer.is_holding() {
            return false;
        }
        let judged = self.engine.advance(now);
        if let Some(recorder) = &mut self.recorder {
            recorder.record_advance(now, judged, &self.joined_topology);
        }
        judged
    }

    fn handle_report(&mut self, report: Report) {
        let Report {
            batch,
            received,
            reply: answer,
        } = report;
        let ingested = self.ingest(batch, received);
        // The client may have disconnected. The report is still counted, and a retransmission will be a duplicate.
        let _ = answer.send(ingested);
        let now = self.clock.now();
        self.release_rounds(now);
        if self.advance(now) {
            self.publish(now);
        }
    }

    fn ingest(&mut self, batch: ReportBatch, received: EventTime) -> IngestAnswer {
        let ReportBatch {
            header,
            observations,
            malformed_lines: malformed,
        } = batch;
        let state = Arc::clone(&self.topology_state.borrow().topology);
        let mut kept = Vec::new();
        let session = self.sessions.update(&header, received);
        let resend = self.startup_buffer.process_header(
            &header,
            (received, session.offset.offset_micros()),
            (|| self.joined_topology.vantages().len(), self.settings.interval),
        );
        let mut receipt = ReportReceipt {
            malformed,
            ..ReportReceipt::default()
        };
        for mut observation in observations {
            if !session.sequences.insert(observation.seq) {
                receipt.duplicates += 1;
                continue;
            }
            receipt.accepted += 1;
            observation.started = session.offset.to_event_time(observation.started);
            // Names are shared: neither clone copies text.
            let recorded = Recorded {
                vantage: header.vantage.clone(),
                incarnation: header.incarnation.clone(),
                observation,
            };
            // Observations of runs stay out of cells, history and recording: runs probe at other times and rates.
            if recorded
                .observation
                .assignment
                .as_ref()
                .is_some_and(|id| id.run_id().is_some())
            {
                if let Some(runs) = &self.runs {
                    runs.record(&recorded);
                }
                continue;
            }
            let result = self.engine.observe(&recorded);
            if header.is_resend {
                // A resent observation: an earlier process or the other replica has counted and stored it.
                self.counters.count_resent(result);
            } else {
                self.counters.count_observation(&recorded, result, &state);
                if let Some(history) = &mut self.history {
                    history.record_observation(&recorded, result, &state);
                }
            }
            if self.recorder.is_some() {
                kept.push(recorded);
            }
        }
        if let Some(facts) = &header.facts {
            self.facts.record(&header.vantage, facts, received);
        }
        let progress = header.complete_until.map(|complete| RecordProgress {
            vantage: header.vantage.clone(),
            complete: session.offset.to_event_time(complete),
        });
        let progress = progress.and_then(|progress| self.startup_buffer.hold_progress(progress));
        if let Some(progress) = &progress {
            self.engine.record_progress(&progress.vantage, progress.complete);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.record_report(received, &self.joined_topology, kept, progress);
        }
        self.counters.count_report(receipt);
        IngestAnswer {
            receipt,
            response: ReportAnswer { resend },
        }
    }

    fn publish(&mut self, now: EventTime) {
        let view = Arc::new(self.engine.view(now));
        if let Some(history) = &mut self.history {
            history.record_view(&view);
        }
        self.send_checkpoint_if_due(&view);
        self.views.publish(view);
        self.probers.send_replace(Arc::new(self.sessions.views()));
        self.plan_requests
            .send_if_modified(|asked| asked.update(self.engine.probe_requests()));
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
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn rounds_change_with_the_configuration_while_the_hub_runs() {
        let state = TopologyState::new(Arc::default());
        let (sender, topology) = watch::channel(state);
        let (_reports, reports) = mpsc::channel(REPORT_QUEUE_CAPACITY);
        let settings = Settings {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
        };
        let (restored, restored_in) = oneshot::channel();
        let checkpoint = EngineCheckpoint {
            restored: restored_in,
            latest: watch::channel(None).0,
            restored_flag: watch::channel(false).0,
        };
        let (hub, outlook) = EngineTask::new(
            settings,
            Clock::system(),
            IngestMetrics::new(),
            topology,
            reports,
            checkpoint,
        );
        restored.send(Checkpoint::default()).unwrap();
        let cancelled = CancellationToken::new();
        let running = tokio::spawn(hub.run(cancelled.clone()));
        assert_eq!(outlook.views.latest().interval, settings.interval);
        let timing = ProbeTiming {
            interval: Micros::from_secs(1),
            timeout: Micros::from_millis(500),
        };
        sender.send_modify(|state| state.timing = Some(timing));
        let view = outlook.views.wait_for(|view| view.interval == timing.interval);
        tokio::time::timeout(Duration::from_secs(20), view).await.unwrap();
        cancelled.cancel();
        running.await.unwrap();
    }
}
