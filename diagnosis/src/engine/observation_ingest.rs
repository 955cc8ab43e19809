//! Adds observations to their rounds and to the matrix.

use std::sync::Arc;

use parallax_model::{Channel, Outcome, Recorded, Vantage};

use super::{Engine, ObservationResult, is_known, prober_presence};
use crate::{
    evidence::{rounds::RefusalReason, routes::front_of, row::Row},
    ids::VantageIx,
    matrix::CellPosition,
    requests::is_separate,
};

impl Engine {
    /// Records an observation in its round.
    pub fn observe(&mut self, recorded: &Recorded) -> ObservationResult {
        self.observe_and_reclassify(recorded).0
    }

    /// Like [`Self::observe`], but also returns the observation as it is judged if that differs from what the prober
    /// saw: a failure caused by an absent prober becomes a probe that was not made, and an answer worse than the
    /// baseline becomes a failure.
    pub fn observe_and_reclassify(&mut self, recorded: &Recorded) -> (ObservationResult, Option<Recorded>) {
        let otherwise = if self.is_prober_fault(recorded) {
            Some(prober_presence::as_not_made(recorded))
        } else {
            self.deviating_answer(recorded)
        };
        let booked = self.ingest(otherwise.as_ref().unwrap_or(recorded));
        if matches!(booked, ObservationResult::Accepted { .. }) {
            self.record_answer(recorded);
        }
        (booked, otherwise)
    }

    /// Counts observations of a vantage that the caller discards because they start in the future.
    pub fn discard_implausible(&mut self, vantage: &Vantage, observations: u64) {
        let vantage = self.registry.vantages.intern(vantage);
        self.discard(vantage, RefusalReason::Implausible, observations);
    }

    /// Counts observations that enter no round.
    fn discard(&mut self, vantage: VantageIx, reason: RefusalReason, observations: u64) -> ObservationResult {
        let (counter, result) = match reason {
            RefusalReason::Duplicate => return ObservationResult::Late,
            RefusalReason::Implausible => (&mut self.counters.implausible, ObservationResult::Implausible),
            RefusalReason::Late => (&mut self.counters.late, ObservationResult::Late),
            RefusalReason::OverBudget => (&mut self.counters.over_budget, ObservationResult::OverBudget),
        };
        *counter = counter.saturating_add(observations);
        let now = self.evidence.rounds.now();
        self.matrix.record_discarded(vantage, observations, now);
        result
    }

    fn ingest(&mut self, recorded: &Recorded) -> ObservationResult {
        let observation = &recorded.observation;
        let known_target = observation.channel == Channel::Mesh
            || self.cluster.topology.targets().contains_key(&observation.target)
            || self.cluster.topology.is_separate(&observation.target);
        if !known_target
            || !is_known(
                &self.cluster.known_vantages,
                &self.cluster.topology,
                &recorded.vantage,
            )
        {
            self.counters.unknown += 1;
            return ObservationResult::Unknown;
        }
        // Vantages of the topology have ids already; others get one with their first report.
        let vantage = self.registry.vantages.intern(&recorded.vantage);
        let (world, routes) = (&self.registry, &self.cluster.routes);
        let row = || Row::of(recorded, vantage, world, routes);
        if let Err(reason) = self.evidence.rounds.add(vantage, recorded, row) {
            return self.discard(vantage, reason, 1);
        }
        if !self.cluster.known_vantages.contains(&recorded.vantage) {
            // A second prober of a known node (for example on its host network) counts from its first report on.
            self.cluster.known_vantages.insert(recorded.vantage.clone());
            let node = recorded
                .vantage
                .node()
                .map(|name| self.registry.nodes.intern(name));
            Arc::make_mut(&mut self.cluster.nodes).add_client(vantage, node);
        }
        let front = front_of(&self.cluster.topology, observation);
        // Auxiliary probes (larger echoes, DNS over TCP) do not show what a user would meet, and a requested name
        // lookup says nothing about the host behind the name.
        let beside = observation
            .assignment
            .as_ref()
            .is_some_and(|id| is_separate(id) || (id.is_requested() && observation.channel == Channel::Dns));
        let probe_path = (&recorded.vantage, front.as_ref(), observation.entry.as_ref());
        let placement =
            self.cluster
                .former_pods
                .placement(&self.cluster.topology, probe_path, observation.started);
        if !beside {
            let target = self.registry.targets.get(&observation.target);
            let place = CellPosition {
                vantage,
                target,
                requires_silence: target
                    .is_some_and(|target| self.cluster.routes.of(target).requires_silence),
                front,
                placement,
                stale: self.is_stale(observation, target, front),
            };
            self.matrix.add(recorded, place, self.settings);
        }
        if let Some(ttl) = observation.ttl {
            self.evidence
                .ttl
                .insert((ttl.address, recorded.vantage.clone()), ttl);
        }
        if matches!(observation.outcome, Outcome::NotProbed { .. }) {
            self.counters.prober_faults += 1;
            return ObservationResult::ProberFault;
        }
        self.counters.accepted += 1;
        ObservationResult::Accepted { placement }
    }
}
