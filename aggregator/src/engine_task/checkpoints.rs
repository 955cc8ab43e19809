//! Restores the checkpoint of the previous process and sends new ones to the task that persists them.

use std::sync::Arc;

use parallax_diagnosis::{Checkpoint, verdict::IncidentState, view::View};
use parallax_model::{EventTime, Micros};

use super::EngineTask;

/// Minimum time between two checkpoints, unless an incident opens, changes or closes.
const MIN_CHECKPOINT_INTERVAL: Micros = Micros::from_secs(5);

/// Properties of an incident whose change triggers a checkpoint at once: id, state and number of occurrences.
pub(super) type IncidentKeys = (String, IncidentState, u32);

impl EngineTask {
    /// Restores the checkpoint of the previous process.
    pub(super) fn restore(&mut self, checkpoint: Checkpoint) {
        let now = self.clock.now();
        self.engine.restore(&checkpoint, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.record_restore(now, checkpoint, &self.joined_topology);
        }
        self.publish(now);
        self.checkpoint.restored_flag.send_replace(true);
    }

    /// Sends a checkpoint to the task that persists it.
    pub(super) fn send_checkpoint(&self, now: EventTime) {
        if !self.checkpoint.latest.is_closed() {
            let checkpoint = self.engine.checkpoint(now);
            self.checkpoint.latest.send_replace(Some(Arc::new(checkpoint)));
        }
    }

    /// Sends a checkpoint if the minimum time has passed or an incident changed.
    pub(super) fn send_checkpoint_if_due(&mut self, view: &View) {
        let open_incidents = || {
            let incidents = view.incidents.iter();
            incidents.map(|incident| (incident.id.as_str(), incident.state, incident.occurrences))
        };
        let due = self.last_checkpoint.as_ref().is_none_or(|(at, before)| {
            let before = before
                .iter()
                .map(|(id, state, times)| (id.as_str(), *state, *times));
            view.at - *at >= MIN_CHECKPOINT_INTERVAL || !before.eq(open_incidents())
        });
        if due {
            let open_incidents = open_incidents().map(|(id, state, times)| (id.to_owned(), state, times));
            self.last_checkpoint = Some((view.at, open_incidents.collect()));
            self.send_checkpoint(view.at);
        }
    }
}
