//! Another length of rounds, or another deadline of probes, while the engine runs.

use parallax_model::{EventTime, Micros};

use super::Engine;
use crate::{evidence::cells::RoundRing, requests::OutstandingRequests, settings::Settings};

impl Engine {
    /// The configuration says something else since `at`; whoever calls has judged what was over by then.
    ///
    /// A round is a slice of time, so another interval is another division of it. What is open is not judged: of the
    /// probes under way the quick ones have answered and those that run into their deadline have not, and a round of
    /// these alone would say less than nothing. Judging begins with the first whole round of the new division, on fresh
    /// evidence. Incidents stay open until they prove healthy, and the matrix keeps what it shows.
    pub fn replace_settings(&mut self, settings: Settings, at: EventTime) {
        let old = self.settings;
        let timeout = self.longest_timeout(settings.timeout);
        self.settings = Settings { timeout, ..settings };
        if old.interval == settings.interval {
            self.evidence.rounds.wait_for(timeout);
            return;
        }
        self.evidence.rounds.divide(self.settings, at);
        self.evidence.blocks.values_mut().for_each(RoundRing::clear);
        self.evidence.folds.clear();
        self.evidence.restarted.clear();
        for state in self.judgement.units.values_mut() {
            state.streams.clear();
            state.healed.clear();
            state.floor = None;
        }
        self.judgement.investigating.clear();
        self.judgement.leanings.clear();
        self.judgement.unexplained.clear();
        self.asking = OutstandingRequests::default();
        self.judgement.beside.clear();
        self.findings.start_over();
        self.matrix.divide(old, self.settings);
        self.look_ahead(at, true);
    }

    /// A round that closed before the longest probe of any target could end would throw that probe away.
    pub(super) fn longest_timeout(&self, at_least: Micros) -> Micros {
        let targets = self.cluster.topology.targets().values();
        let own = targets.filter_map(|placed| placed.target.timeout);
        own.fold(at_least, Micros::max)
    }
}
