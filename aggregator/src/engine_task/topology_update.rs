//! Passes changes of the topology, of the settings of rounds and of node facts to engine and recorder.

use std::sync::Arc;

use parallax_diagnosis::{Settings, topology::Topology};
use parallax_kubernetes::topology_state::ProbeTiming;
use parallax_model::EventTime;

use super::EngineTask;

impl EngineTask {
    pub(super) fn replace_topology(&mut self) {
        let now = self.clock.now();
        let (topology, timing, unread) = {
            let state = self.topology_state.borrow_and_update();
            let unread = state.error.as_ref().map(|error| error.since);
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
        self.zone_echoes.0.retain(&topology);
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
    pub(super) fn apply_facts(&mut self, now: EventTime) {
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
}
