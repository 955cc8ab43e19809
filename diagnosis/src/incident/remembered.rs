//! Incidents in a checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Front, PodName, Vantage};
use serde::{Deserialize, Serialize};

use super::{
    IncidentLog, RestoredIncident, Scope, TrackedIncident,
    renaming::RenamingEvidence,
    tracked::{ClientRecovery, IncidentRound},
};
use crate::{
    evidence::weights::ONE_PROBE,
    ids::NameRegistry,
    inference::{judgement_unit::JudgementUnit, recovery::RecoveryProgress},
    regions::Region,
    topology::Topology,
    verdict::{Incident, IncidentState},
};

/// An incident with the state that decides when it closes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RememberedIncident {
    /// As last reported.
    pub incident: Incident,
    pub(crate) scope: Scope,
    pub(crate) lead: JudgementUnit,
    pub(crate) units: BTreeSet<JudgementUnit>,
    /// Vantages that failed.
    pub failing: BTreeSet<Vantage>,
    /// Its fronts that belonged to a Service.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub published: BTreeSet<Front>,
    /// The endpoints that fail, if it names all endpoints of a Service.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub endpoints: BTreeSet<PodName>,
    /// Failures of probes that crossed its region, in fixed point.
    pub(crate) failures: u64,
    /// Share of all probes that crossed it, in fixed point.
    pub(crate) crossed: u64,
}

/// Maximum number of remembered incidents: open ones first, then the newest.
const MAX_REMEMBERED: usize = 64;

impl IncidentLog {
    /// Returns the incidents for a checkpoint. `listed` are the incidents in the order in which they are shown.
    pub(crate) fn remembered(
        &self,
        listed: &[Incident],
        topology: &Topology,
        world: &NameRegistry,
    ) -> Vec<RememberedIncident> {
        let tracked: BTreeMap<&str, &TrackedIncident> =
            self.tracked.iter().map(|t| (t.incident.id.as_str(), t)).collect();
        let listed = listed
            .iter()
            .filter_map(|incident| tracked.get(incident.id.as_str()));
        listed
            .take(MAX_REMEMBERED)
            .map(|t| t.remembered(topology, world))
            .collect()
    }

    /// Restores incidents of another process; incidents that this process already knows stay unchanged.
    pub(crate) fn restore(
        &mut self,
        remembered: &[RememberedIncident],
        restored: RestoredIncident,
        world: &mut NameRegistry,
    ) {
        for one in remembered.iter().take(MAX_REMEMBERED) {
            let Some(tracked) = TrackedIncident::restored(one, restored, world) else {
                continue;
            };
            let known = self.tracked.iter().any(|own| {
                own.incident.id == tracked.incident.id
                    || (own.is_open()
                        && tracked.is_open()
                        && own.scope == tracked.scope
                        && own.region == tracked.region)
            });
            if !known {
                self.tracked.push(tracked);
            }
        }
    }
}

impl TrackedIncident {
    fn remembered(&self, topology: &Topology, world: &NameRegistry) -> RememberedIncident {
        let front = |unit: &JudgementUnit| match unit.without_latency() {
            JudgementUnit::Front(front) => Some(*front),
            _ => None,
        };
        let published =
            |front: &Front| topology.front(front).is_some() || self.published_fronts.contains(front);
        let fixed = |probes: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "counts of probes are positive and far below 2^52"
            )]
            let fixed = libm::round(probes * ONE_PROBE as f64) as u64;
            fixed
        };
        let (failures, crossed) = self.recovery.failure_counts();
        RememberedIncident {
            incident: self.incident.clone(),
            scope: self.scope.clone(),
            lead: self.lead_unit.clone(),
            units: self.units.clone(),
            failing: self
                .failing_clients
                .keys()
                .map(|client| world.vantages.name(*client).clone())
                .collect(),
            published: self.units.iter().filter_map(front).filter(published).collect(),
            endpoints: self
                .failing_endpoints
                .iter()
                .map(|pod| world.pods.name(*pod).clone())
                .collect(),
            failures: fixed(failures),
            crossed: fixed(crossed),
        }
    }

    /// Returns `None` if another version wrote a region that this version does not know.
    fn restored(
        remembered: &RememberedIncident,
        restored: RestoredIncident,
        world: &mut NameRegistry,
    ) -> Option<Self> {
        let RememberedIncident {
            incident,
            scope,
            lead,
            units,
            failing,
            published,
            endpoints,
            failures,
            crossed,
        } = remembered.clone();
        let region = Region::parse_description(&incident.verdict.region, world)?;
        let class = incident.verdict.class.iter();
        let class = class
            .map(|region| Region::parse_description(region, world))
            .collect::<Option<Vec<_>>>()?;
        let probes = crate::evidence::weights::to_probes;
        let clients = failing.iter().map(|client| world.vantages.intern(client));
        Some(Self {
            failing_clients: clients
                .map(|client| (client, ClientRecovery::default()))
                .collect(),
            recovery: RecoveryProgress::after_failures(probes(failures), probes(crossed), restored.judged),
            incident,
            scope,
            region,
            class,
            is_one_way: false,
            renaming: RenamingEvidence::default(),
            failing_endpoints: endpoints.iter().map(|pod| world.pods.intern(pod)).collect(),
            lead_unit: lead,
            units,
            explanations: BTreeMap::new(),
            current_round: IncidentRound::default(),
            departure_reason: None,
            published_fronts: published,
            restored: Some(restored),
            provisional: false,
        })
    }
}

impl RememberedIncident {
    pub(crate) fn is_equivalent_to(&self, other: &Self) -> bool {
        let essence = |open: &Self| {
            let Incident {
                id,
                since,
                opened,
                occurrences,
                verdict,
                ..
            } = &open.incident;
            let content = (
                verdict.region.clone(),
                verdict.class.clone(),
                verdict.sentence.clone(),
                verdict.targets.clone(),
            );
            (id.clone(), *since, *opened, *occurrences, content)
        };
        // Restored as open, an incident that is over would raise its alert again.
        let is_closed = |one: &Self| matches!(one.incident.state, IncidentState::Closed { .. });
        is_closed(self) == is_closed(other)
            && essence(self) == essence(other)
            && self.failing == other.failing
            && self.units == other.units
    }
}
