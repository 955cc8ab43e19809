//! Closes rounds that have ended, holds them back after a start, and publishes what they show.

use std::sync::Arc;

use parallax_history::recording::RecordedReport;
use parallax_model::EventTime;

use super::EngineTask;
use crate::startup_buffer::RoundsReleased;

impl EngineTask {
    /// Releases held-back rounds if the probers' buffered observations have arrived.
    pub(super) fn release_rounds(&mut self, now: EventTime) {
        let released = self
            .startup_buffer
            .release(now, || self.joined_topology.vantages());
        self.apply_released(released);
    }

    /// Applies the progress that was reported while rounds were held back.
    pub(super) fn apply_released(&mut self, released: Option<RoundsReleased>) {
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
                let report = RecordedReport {
                    progress: Some(progress),
                    ..RecordedReport::default()
                };
                recorder.record_report(self.clock.now(), &self.joined_topology, report);
            }
        }
        self.evidence_since.send_replace(from);
    }

    /// Closes rounds that have ended; returns whether any was judged. Does nothing while rounds are held back.
    pub(super) fn advance(&mut self, now: EventTime) -> bool {
        if self.startup_buffer.is_holding() {
            return false;
        }
        let judged = self.engine.advance(now);
        if let Some(recorder) = &mut self.recorder {
            recorder.record_advance(now, judged, &self.joined_topology);
        }
        judged
    }

    /// Records that no round is overdue. While rounds are held back after a start, none is due.
    pub(super) fn record_progress(&self, now: EventTime) {
        if self.startup_buffer.is_holding() || !self.engine.has_overdue_round(now) {
            self.progress.send_replace(now);
        }
    }

    pub(super) fn publish(&mut self, now: EventTime) {
        let view = Arc::new(self.engine.view(now));
        if let Some(history) = &mut self.history {
            history.record_view(&view);
        }
        self.send_checkpoint_if_due(&view);
        // Published before the view: a client that has read the view also finds the state of the probers at that time.
        self.probers.send_replace(Arc::new(self.sessions.views()));
        let (echoes, published) = &self.zone_echoes;
        published.send_replace(Arc::new(echoes.clone()));
        self.views.publish(view);
        self.plan_requests
            .send_if_modified(|requests| requests.update(self.engine.probe_requests()));
    }
}
