//! The owner of the engine: reports and topologies go in, views come out. One task, so nothing is locked.

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

/// Time between two looks at the clock, for rounds that end without a report.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// Shortest time between two checkpoints, unless an incident opens, changes or closes.
const CHECKPOINT_PACE: Micros = Micros::from_secs(5);

/// Reports that may wait. Beyond it their senders wait, and after a while are asked to come again.
pub(crate) const QUEUE: usize = 256;

/// Requests to reset a baseline that may wait.
pub(crate) const RESETS: usize = 16;

/// A request to forget what a target answers while it works.
#[derive(Debug)]
pub(crate) struct BaselineReset {
    pub(crate) target: TargetId,
    /// Hears whether anything was known.
    pub(crate) known: oneshot::Sender<bool>,
}

/// What the hub publishes.
#[derive(Debug, Clone)]
pub(crate) struct EngineSnapshot {
    pub(crate) views: SnapshotReader<View>,
    pub(crate) probers: watch::Receiver<Arc<Vec<ProberView>>>,
    /// What is asked for beyond the base plan.
    pub(crate) asks: watch::Receiver<PlanRequests>,
    /// From when on the probers' observations are known.
    pub(crate) evidence: watch::Receiver<EventTime>,
    /// Whether the engine has taken up what was kept.
    pub(crate) restored: watch::Receiver<bool>,
}

/// What of an incident is kept without delay: its id, its state and how often it came back.
type IncidentKeys = (String, IncidentState, u32);

/// The engine and what belongs to it.
#[derive(Debug)]
pub(crate) struct EngineTask {
    engine: Engine,
    /// How rounds are made.
    settings: Settings,
    sessions: ProberSessions,
    clock: Clock,
    counters: ObservationCounters,
    /// The topology that the engine works with.
    held: Arc<Topology>,
    /// Since when its source could not be read, while that is so.
    unread: Option<EventTime>,
    recorder: Option<Recorder>,
    history: Option<HistoryWriter>,
    /// Where observations go that belong to a run.
    runs: Option<Arc<RunManager>>,
    /// Baselines that people reset.
    resets: Option<mpsc::Receiver<BaselineReset>>,
    /// What probers say of their nodes.
    facts: FactCollector,
    topology: watch::Receiver<TopologyState>,
    reports: mpsc::Receiver<Report>,
    views: SnapshotWriter<View>,
    probers: watch::Sender<Arc<Vec<ProberView>>>,
    asks: watch::Sender<PlanRequests>,
    evidence: watch::Sender<EventTime>,
    catch_up: StartupBuffer,
    checkpoint: EngineCheckpoint,
    /// When the last checkpoint was handed out, and what stood open then.
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

    /// Tells a recorder from now on everything that the engine is told.
    pub(crate) fn record(&mut self, mut recorder: Recorder) {
        if self.unread.is_some() {
            recorder.unread(self.clock.now(), self.unread, &self.held);
        }
        self.recorder = Some(recorder);
    }

    /// Keeps from now on what should outlive a restart.
    pub(crate) fn write_history(&mut self, history: HistoryWriter) {
        self.history = Some(history);
    }

    /// Hands on from now on what belongs to runs.
    pub(crate) fn follow_runs(&mut self, runs: Arc<RunManager>) {
        self.runs = Some(runs);
    }

    /// Resets from now on the baselines that people ask to reset.
    pub(crate) fn reset_baselines(&mut self, resets: mpsc::Receiver<BaselineReset>) {
        self.resets = Some(resets);
    }

    /// The topology that the engine works with.
    pub(crate) const fn topology(&self) -> &Arc<Topology> {
        &self.held
    }

    /// Runs until cancelled, or until nobody can report any more.
    pub(crate) async fn run(mut self, cancelled: CancellationToken) {
        // Nothing is judged, and no report is taken, before it is known what stood open.
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
                // Topology before reports: what a plan of a new topology brought back must find it known. Ticks
                // before reports: a flood of these must not stop the clock of the rounds.
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

    /// Forgets what a target answers while it works, and tells the recorder.
    fn reset_baseline(&mut self, reset: BaselineReset) {
        let now = self.clock.now();
        let known = self.engine.reset_baseline(&reset.target);
        if let Some(recorder) = &mut self.recorder {
            recorder.baseline_reset(now, reset.target, &self.held);
        }
        self.publish(now);
        // The client may have given up waiting; the baseline is reset all the same.
        let _ = reset.known.send(known);
        self.hand_out(now);
    }

    /// Takes up what another process left.
    fn restore(&mut self, checkpoint: Checkpoint) {
        let now = self.clock.now();
        self.engine.restore(&checkpoint, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.restored(now, checkpoint, &self.held);
        }
        self.publish(now);
        self.checkpoint.ready.send_replace(true);
    }

    /// Hands out what has to outlive the process.
    fn hand_out(&self, now: EventTime) {
        if !self.checkpoint.latest.is_closed() {
            let checkpoint = self.engine.checkpoint(now);
            self.checkpoint.latest.send_replace(Some(Arc::new(checkpoint)));
        }
    }

    /// The same, at its pace or because of an incident.
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

    /// Tells the engine, and the recorder, since when the cluster cannot be read, or that it can.
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

    /// Tells the engine, and the recorder, how rounds are made from now on.
    fn replace_settings(&mut self, settings: Settings, now: EventTime) {
        if settings == self.settings {
            return;
        }
        tracing::info!(interval = %settings.interval, timeout = %settings.timeout, "rounds change");
        // What is over is over as it was.
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

    /// Takes facts of nodes that changed into the topology.
    fn join_facts(&mut self, now: EventTime) {
        let topology = Arc::clone(&self.topology.borrow().topology);
        if self.facts.renew(&topology, now) {
            let joined = self.facts.join(&topology, now).map_or(topology, Arc::new);
            self.hold(joined, now);
        }
    }

    /// Gives the engine a topology, and tells the recorder.
    fn hold(&mut self, topology: Arc<Topology>, now: EventTime) {
        self.engine.replace_topology(Arc::clone(&topology), now);
        self.held = topology;
        if let Some(recorder) = &mut self.recorder {
            recorder.topology(now, &self.held);
        }
    }

    /// Ends the wait for what the probers saw before, if it is here.
    fn release(&mut self, now: EventTime) {
        let released = self.catch_up.release(now, || self.held.vantages());
        self.take_up(released);
    }

    /// Rounds may close as far as was said meanwhile.
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

    /// Closes what is over; returns whether anything was judged. While the past is still on its way nothing is.
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
        // The client may have disconnected. The report is counted all the same, and a repetition will be a duplicate.
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
            // Observations of runs stay out of cells, history and recording: runs probe at other times, and as often as
            // people like.
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
                // An earlier incarnation, or the other replica, has counted and stored it.
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

/// The next baseline to reset; never, where nothing can ask for one.
async fn next_reset(resets: &mut Option<mpsc::Receiver<BaselineReset>>) -> BaselineReset {
    if let Some(resets) = resets
        && let Some(reset) = resets.recv().await
    {
        return reset;
    }
    std::future::pending().await
}

/// A name for this life of the aggregator that no other one has.
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
