//! A change of the round length or the probe timeout while the engine runs.

use parallax_model::{EventTime, Micros};

use super::Engine;
use crate::{evidence::round_ring::RoundRing, requests::OutstandingRequests, settings::Settings};

impl Engine {
    /// Applies new settings from `at` on; the caller has already judged all rounds that were over by then.
    ///
    /// A new interval divides time differently. Open rounds are not judged: their fast probes have finished and those
    /// that run into their timeout have not, so such a round would be biased. Judgement resumes with the first whole
    /// round of the new division, on fresh evidence. Incidents stay open until they prove healthy, and the matrix
    /// keeps its state.
    pub fn replace_settings(&mut self, settings: Settings, at: EventTime) {
        let old = self.settings;
        let timeout = self.longest_timeout(settings.timeout);
        self.settings = Settings { timeout, ..settings };
        if old.interval == settings.interval {
            self.evidence.rounds.set_timeout(timeout);
            return;
        }
        self.evidence.rounds.change_interval(self.settings, at);
        self.evidence.blocks.values_mut().for_each(RoundRing::clear);
        self.evidence.folds.clear();
        self.evidence.restart_times.clear();
        self.presence.withheld.clear();
        for state in self.judgement.units.values_mut() {
            state.detectors.clear();
            state.healthy_rounds.clear();
            state.evidence_floor = None;
            state.doubtful_since = None;
        }
        self.judgement.investigating.clear();
        self.judgement.tentative_causes.clear();
        self.judgement.unexplained.clear();
        self.outstanding_requests = OutstandingRequests::default();
        self.judgement.clear_related();
        self.findings.reset_answers();
        self.matrix.change_interval(old, self.settings);
        self.update_hazards(at, true);
    }

    /// A round that closed before the longest probe of any target could end would discard that probe.
    pub(super) fn longest_timeout(&self, at_least: Micros) -> Micros {
        let targets = self.cluster.topology.targets().values();
        let own = targets.filter_map(|placed| placed.target.timeout);
        own.fold(at_least, Micros::max)
    }
}
