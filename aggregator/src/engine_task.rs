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
use parallax_runtime::{Clock, SnapshotReader, SnapshotWriter, snapshot};
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
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// Minimum time between two checkpoints, unless an incident opens, changes or closes.
const CHECKPOINT_PACE: Micros = Micros::from_secs(5);

/// Capacity of the queue of reports. When it is full, requests wait and are eventually rejected for a retry.
pub(crate) const QUEUE: usize = 256;

/// Capacity of the queue of baseline resets.
pub(crate) const RESETS: usize = 16;

/// A request to reset a target's baseline.
#[derive(Debug)]
pub(crate) struct BaselineReset {
    pub(crate) target: TargetId,
    /// Receives whether there was a baseline.
    pub(crate) known: oneshot::Sender<bool>,
}

/// Outputs of the engine task.
#[derive(Debug, Clone)]
pub(crate) struct EngineSnapshot {
    pub(crate) views: SnapshotReader<View>,
    pub(crate) probers: watch::Receiver<Arc<Vec<ProberView>>>,
    /// Probes requested in addition to the base plan.
    pub(crate) asks: watch::Receiver<PlanRequests>,
    /// Time from which the probers' observations are known.
    pub(crate) evidence: watch::Receiver<EventTime>,
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
    held: Arc<Topology>,
    /// Since when the topology's source cannot be read; `None` while it can.
    unread: Option<EventTime>,
    recorder: Option<Recorder>,
    history: Option<HistoryWriter>,
    /// Receives observations that belong to a run.
    runs: Option<Arc<RunManager>>,
    /// Requests to reset baselines.
    resets: Option<mpsc::Receiver<BaselineReset>>,
    /// Node facts reported by probers.
    facts: FactCollector,
    topology: watch::Receiver<TopologyState>,
    reports: mpsc::Receiver<Report>,
    views: SnapshotWriter<View>,
    probers: watch::Sender<Arc<Vec<ProberView>>>,
    asks: watch::Sender<PlanRequests>,
    evidence: watch::Sender<EventTime>,
    catch_up: StartupBuffer,
    checkpoint: EngineCheckpoint,
    /// Time of the last checkpoint, and the incidents in it.
    handed: Option<(EventTime, Vec<IncidentKeys>)>,
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
            let unread = state.trouble.as_ref().map(|trouble| trouble.since);
            (state.topology.clone(), unread)
        };
        let mut counters = ObservationCounters::new(metrics);
        counters.admit(&current);
        let mut engine = Engine::new(settings, Arc::clone(&current));
        engine.topology_unread(unread);
        let (views, views_out) = snapshot(engine.view(clock.now()));
        let (probers, probers_out) = watch::channel(Arc::new(Vec::new()));
        let (asks, asks_out) = watch::channel(PlanRequests::default());
        let (evidence, evidence_out) = watch::channel(clock.start());
        let restored = checkpoint.ready.subscribe();
        let hub = Self {
            engine,
            settings,
            sessions: ProberSessions::default(),
            clock,
            counters,
            held: current,
            unread,
            recorder: None,
            history: None,
            runs: None,
            resets: None,
            facts: FactCollector::default(),
            topology,
            reports,
            views,
            probers,
            asks,
            evidence,
            catch_up: StartupBuffer::new(life(), clock.start()),
            checkpoint,
            handed: None,
        };
        let outlook = EngineSnapshot {
            views: views_out,
            probers: probers_out,
            asks: asks_out,
            evidence: evidence_out,
            restored,
        };
        (hub, outlook)
    }

    /// Attaches a recorder that receives every input of the engine.
    pub(crate) fn record(&mut self, mut recorder: Recorder) {
        if self.unread.is_some() {
            recorder.unread(self.clock.now(), self.unread, &self.held);
        }
        self.recorder = Some(recorder);
    }

    /// Attaches the writer of the history.
    pub(crate) fn write_history(&mut self, history: HistoryWriter) {
        self.history = Some(history);
    }

    /// Attaches the receiver of observations that belong to runs.
    pub(crate) fn follow_runs(&mut self, runs: Arc<RunManager>) {
        self.runs = Some(runs);
    }

    /// Attaches the queue of baseline resets.
    pub(crate) fn reset_baselines(&mut self, resets: mpsc::Receiver<BaselineReset>) {
        self.resets = Some(resets);
    }

    /// Returns the engine's topology.
    pub(crate) const fn topology(&self) -> &Arc<Topology> {
        &self.held
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
                () = self.views.requested() => self.views.confirm(),
            }
        }
        self.watch(&cancelled).await;
        self.hand_out(self.clock.now());
    }

    async fn watch(&mut self, cancelled: &CancellationToken) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Topology before reports: observations for a new topology's plan must find it applied. Ticks before
                // reports: a flood of reports must not delay the closing of rounds.
                biased;
                () = cancelled.cancelled() => return,
                changed = self.topology.changed() => match changed {
                    Ok(()) => self.replace_topology(),
                    Err(_) => return,
                },
                _ = tick.tick() => {
                    let now = self.clock.now();
                    self.join_facts(now);
                    self.release(now);
                    if self.advance(now) {
                        self.publish(now);
                    }
                }
                () = self.views.requested() => if self.views.is_stale() {
                    self.publish(self.clock.now());
                } else {
                    self.views.confirm();
                },
                reset = next_reset(&mut self.resets) => self.reset_baseline(reset),
                report = self.reports.recv() => match report {
                    Some(report) => self.take(report),
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
            recorder.baseline_reset(now, reset.target, &self.held);
        }
        self.publish(now);
        // The client may have disconnected; the baseline is reset regardless.
        let _ = reset.known.send(known);
        self.hand_out(now);
    }

    /// Restores the checkpoint of the previous process.
    fn restore(&mut self, checkpoint: Checkpoint) {
        let now = self.clock.now();
        self.engine.restore(&checkpoint, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.restored(now, checkpoint, &self.held);
        }
        self.publish(now);
        self.checkpoint.ready.send_replace(true);
    }

    /// Sends a checkpoint to the task that persists it.
    fn hand_out(&self, now: EventTime) {
        if !self.checkpoint.latest.is_closed() {
            let checkpoint = self.engine.checkpoint(now);
            self.checkpoint.latest.send_replace(Some(Arc::new(checkpoint)));
        }
    }

    /// Sends a checkpoint if the minimum time has passed or an incident changed.
    fn hand_out_if_due(&mut self, view: &View) {
        let standing = || {
            let incidents = view.incidents.iter();
            incidents.map(|incident| (incident.id.as_str(), incident.state, incident.occurrences))
        };
        let due = self.handed.as_ref().is_none_or(|(at, before)| {
            let before = before
                .iter()
                .map(|(id, state, times)| (id.as_str(), *state, *times));
            view.at - *at >= CHECKPOINT_PACE || !before.eq(standing())
        });
        if due {
            let standing = standing().map(|(id, state, times)| (id.to_owned(), state, times));
            self.handed = Some((view.at, standing.collect()));
            self.hand_out(view.at);
        }
    }

    fn replace_topology(&mut self) {
        let now = self.clock.now();
        let (topology, timing, unread) = {
            let state = self.topology.borrow_and_update();
            let unread = state.trouble.as_ref().map(|trouble| trouble.since);
            (state.topology.clone(), state.timing, unread)
        };
        self.mind_source(unread, now);
        if let Some(ProbeTiming { interval, timeout }) = timing {
            self.replace_settings(Settings { interval, timeout }, now);
        }
        if Arc::ptr_eq(&topology, &self.held) {
            return;
        }
        self.counters.admit(&topology);
        let vantages = topology.vantages();
        self.sessions.retain(&vantages);
        self.facts.retain(&vantages);
        let joined = self.facts.join(&topology, now).map_or(topology, Arc::new);
        self.hold(joined, now);
        self.publish(now);
    }

    /// Passes a change of the topology source's readability to engine and recorder.
    fn mind_source(&mut self, unread: Option<EventTime>, now: EventTime) {
        if unread == self.unread {
            return;
        }
        self.unread = unread;
        self.engine.topology_unread(unread);
        if let Some(recorder) = &mut self.recorder {
            recorder.unread(now, unread, &self.held);
        }
    }

    /// Passes changed settings of rounds to engine and recorder.
    fn replace_settings(&mut self, settings: Settings, now: EventTime) {
        if settings == self.settings {
            return;
        }
        tracing::info!(interval = %settings.interval, timeout = %settings.timeout, "changed interval and timeout of rounds");
        // Closed rounds keep the settings they were opened with.
        let released = self.catch_up.end();
        self.take_up(released);
        self.advance(now);
        self.engine.replace_settings(settings, now);
        self.settings = settings;
        if let Some(recorder) = &mut self.recorder {
            recorder.settings(now, settings, &self.held);
        }
        self.publish(now);
    }

    /// Rebuilds the topology if node facts have changed.
    fn join_facts(&mut self, now: EventTime) {
        let topology = Arc::clone(&self.topology.borrow().topology);
        if self.facts.renew(&topology, now) {
            let joined = self.facts.join(&topology, now).map_or(topology, Arc::new);
            self.hold(joined, now);
        }
    }

    /// Passes a topology to engine and recorder.
    fn hold(&mut self, topology: Arc<Topology>, now: EventTime) {
        self.engine.replace_topology(Arc::clone(&topology), now);
        self.held = topology;
        if let Some(recorder) = &mut self.recorder {
            recorder.topology(now, &self.held);
        }
    }

    /// Releases held-back rounds if the probers' buffered observations have arrived.
    fn release(&mut self, now: EventTime) {
        let released = self.catch_up.release(now, || self.held.vantages());
        self.take_up(released);
    }

    /// Applies the progress that was reported while rounds were held back.
    fn take_up(&mut self, released: Option<RoundsReleased>) {
        let Some(RoundsReleased { complete, from }) = released else {
            return;
        };
        for progress in complete {
            self.engine.progress(&progress.vantage, progress.complete);
            if let Some(recorder) = &mut self.recorder {
                recorder.report(self.clock.now(), &self.held, Vec::new(), Some(progress));
            }
        }
        self.evidence.send_replace(from);
    }

    /// Closes rounds that have ended; returns whether any was judged. Does nothing while rounds are held back.
    fn advance(&mut self, now: EventTime) -> bool {
        if self.catch_up.holds() {
            return false;
        }
        let judged = self.engine.advance(now);
        if let Some(recorder) = &mut self.recorder {
            recorder.advanced(now, judged, &self.held);
        }
        judged
    }

    fn take(&mut self, report: Report) {
        let Report {
            batch,
            received,
            answer,
        } = report;
        let ingested = self.ingest(batch, received);
        // The client may have disconnected. The report is still counted, and a retransmission will be a duplicate.
        let _ = answer.send(ingested);
        let now = self.clock.now();
        self.release(now);
        if self.advance(now) {
            self.publish(now);
        }
    }

    fn ingest(&mut self, batch: ReportBatch, received: EventTime) -> IngestAnswer {
        let ReportBatch {
            header,
            observations,
            malformed,
        } = batch;
        let state = Arc::clone(&self.topology.borrow().topology);
        let mut kept = Vec::new();
        let session = self.sessions.hear(&header, received);
        let resend = self.catch_up.hear(
            &header,
            (received, session.offset.micros()),
            (|| self.held.vantages().len(), self.settings.interval),
        );
        let mut receipt = ReportReceipt {
            malformed,
            ..ReportReceipt::default()
        };
        for mut observation in observations {
            if !session.seen.take(observation.seq) {
                receipt.duplicates += 1;
                continue;
            }
            receipt.accepted += 1;
            observation.at = session.offset.event_time(observation.at);
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
                .is_some_and(|id| id.run().is_some())
            {
                if let Some(runs) = &self.runs {
                    runs.observed(&recorded);
                }
                continue;
            }
            let result = self.engine.observe(&recorded);
            if header.again {
                // A resent observation: an earlier process or the other replica has counted and stored it.
                self.counters.observed_again(result);
            } else {
                self.counters.observed(&recorded, result, &state);
                if let Some(history) = &mut self.history {
                    history.observed(&recorded, result, &state);
                }
            }
            if self.recorder.is_some() {
                kept.push(recorded);
            }
        }
        if let Some(facts) = &header.facts {
            self.facts.hear(&header.vantage, facts, received);
        }
        let progress = header.complete.map(|complete| RecordProgress {
            vantage: header.vantage.clone(),
            complete: session.offset.event_time(complete),
        });
        let progress = progress.and_then(|progress| self.catch_up.complete(progress));
        if let Some(progress) = &progress {
            self.engine.progress(&progress.vantage, progress.complete);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.report(received, &self.held, kept, progress);
        }
        self.counters.reported(receipt);
        IngestAnswer {
            receipt,
            wanted: ReportAnswer { resend },
        }
    }

    fn publish(&mut self, now: EventTime) {
        let view = Arc::new(self.engine.view(now));
        if let Some(history) = &mut self.history {
            history.published(&view);
        }
        self.hand_out_if_due(&view);
        self.views.publish(view);
        self.probers.send_replace(Arc::new(self.sessions.views()));
        self.asks
            .send_if_modified(|asked| asked.renew(self.engine.asks()));
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
fn life() -> Incarnation {
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
        let (_reports, reports) = mpsc::channel(QUEUE);
        let settings = Settings {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
        };
        let (restored, restored_in) = oneshot::channel();
        let checkpoint = EngineCheckpoint {
            restored: restored_in,
            latest: watch::channel(None).0,
            ready: watch::channel(false).0,
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
