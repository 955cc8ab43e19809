//! Verdicts over time: opened when named, merged if one cause explains several subjects, closed when every failing
//! client has proved healthy.

mod membership;
mod remembered;
mod renaming;
mod reports;
mod scope;
mod tracked;

use std::collections::BTreeSet;

use parallax_model::{Channel, EventTime, Micros, Round};

pub(crate) use membership::{CausePeriod, ExplainedSubject, OpenCause};
pub use remembered::RememberedIncident;
pub(crate) use scope::Scope;
pub(crate) use tracked::{RestoredIncident, TrackedIncident};

use crate::{
    evidence::{
        cells::{CellKey, Destination, RoundCells},
        row::Row,
    },
    ids::{NodeIx, PodIx, VantageIx},
    inference::judgement_unit::JudgementUnit,
    regions::{Region, paths::SubjectPaths, share::alpha},
    verdict::{Incident, IncidentState, Verdict},
};

/// A named finding of one subject.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) scope: Scope,
    pub(crate) region: Region,
    pub(crate) class: Vec<Region>,
    /// See [`crate::inference::judgement::ExplainedRegion::is_one_way`].
    pub(crate) is_one_way: bool,
    /// The endpoints that fail, if it names all endpoints of a Service.
    pub(crate) failing_endpoints: BTreeSet<PodIx>,
    /// See [`crate::inference::judgement::Finding::lead`].
    pub(crate) odds_over_next: f64,
    pub(crate) failing_clients: BTreeSet<VantageIx>,
    /// See [`crate::inference::judgement::Finding::crossed`].
    pub(crate) crossing_counts: (f64, f64),
    pub(crate) since: EventTime,
    /// Whether all failures occurred before this process started.
    pub(crate) before_start: bool,
    pub(crate) verdict: Verdict,
}

/// A change in the round that was just judged.
#[derive(Debug, Clone)]
pub(crate) enum IncidentEvent {
    /// Named for the first time (or again after it was closed), or renamed.
    Named {
        incident: Incident,
        at: EventTime,
        first: bool,
    },
    /// Closed.
    Closed(Incident),
    /// Failures that no set of regions explains.
    Unexplained { at: EventTime, cells: Vec<String> },
}

/// All incidents, open and recently closed.
#[derive(Debug, Default)]
pub(crate) struct IncidentLog {
    tracked: Vec<TrackedIncident>,
    events: Vec<IncidentEvent>,
    /// The round that is being judged.
    round: Round,
}

/// Whose evidence restarts after incidents were closed.
#[derive(Debug, Default)]
pub(crate) struct RestartedEvidence {
    /// The subjects of these incidents.
    pub(crate) units: BTreeSet<JudgementUnit>,
    /// A fault of nodes or of the network between them is over. It may have left failures in every subject, too few in each
    /// to belong to the incident; together with what comes they must not name the fault again.
    pub(crate) of_all: bool,
}

/// How long after an incident slowness on its paths is attributed to it.
const DELAY_ATTRIBUTION_TIME: Micros = Micros::from_secs(60);

/// Rounds without a probe after which a client that reports does not visit a path any more.
pub(crate) const UNVISITED_ROUNDS: i64 = 12;

const MAX_CLOSED: usize = 100;
const CLOSED_RETENTION: Micros = Micros::from_secs(24 * 3600);

impl IncidentLog {
    /// Begins a judged round.
    pub(crate) fn begin_round(&mut self, round: Round) {
        self.events.clear();
        self.round = round;
    }

    pub(crate) fn record_event(&mut self, event: IncidentEvent) {
        self.events.push(event);
    }

    pub(crate) fn events(&self) -> &[IncidentEvent] {
        &self.events
    }

    /// The round that is being judged.
    pub(crate) const fn round(&self) -> Round {
        self.round
    }

    /// Reports whether an open or recent incident of failures explains a subject's slowness: a retry that straddles
    /// the start or the end of a fault is slow without a fault of its own.
    pub(crate) fn explains_delay(
        &self,
        unit: &JudgementUnit,
        region: Region,
        at: EventTime,
        node_of: impl Fn(PodIx) -> Option<NodeIx> + Copy,
    ) -> bool {
        self.tracked.iter().any(|t| {
            let lately = t
                .closed()
                .is_none_or(|closed| at - closed <= DELAY_ATTRIBUTION_TIME);
            let concerned = t.region.is_cluster_wide() || t.units.contains(unit.without_latency());
            // A resolver that comes back is slow to its first clients, and each of its Pods answers names only.
            let resolves = t.region == Region::DnsAll && *unit.without_latency() == JudgementUnit::Dns;
            let mut regions = std::iter::once(t.region).chain(t.possible_regions());
            let covered = resolves || regions.any(|possible| possible.covers(region, node_of));
            lately && !t.scope.is_slow() && concerned && covered
        })
    }

    /// Reports whether a subject belongs to an open incident.
    pub(crate) fn has_open(&self, unit: &JudgementUnit) -> bool {
        self.tracked.iter().any(|t| t.is_open() && t.units.contains(unit))
    }

    /// Reports whether a subject has an open incident of a region.
    pub(crate) fn is_open(&self, unit: &JudgementUnit, region: Region) -> bool {
        self.tracked
            .iter()
            .any(|t| t.is_open() && t.region == region && t.units.contains(unit))
    }

    /// Reports whether an open incident of a subject names one of the regions, alone or together with others. Which region of a
    /// tie comes first changes with the evidence.
    pub(crate) fn names_any(&self, unit: &JudgementUnit, regions: &[Region]) -> bool {
        let named = self.named_together(unit);
        named.iter().flatten().any(|region| regions.contains(region))
    }

    /// Reports whether an incident of a region is open in a scope.
    pub(crate) fn is_open_in(&self, scope: &Scope, region: Region) -> bool {
        let mut open = self.tracked.iter().filter(|t| t.is_open() && !t.units.is_empty());
        open.any(|t| t.scope == *scope && t.region == region)
    }

    /// Adds the cells of one subject in one round to the recovery tests of its incidents.
    pub(crate) fn add_cells(&mut self, unit: &JudgementUnit, cells: &RoundCells, paths: &SubjectPaths) {
        for tracked in &mut self.tracked {
            if !tracked.is_open() || !tracked.units.contains(unit) {
                continue;
            }
            let regions = [tracked.region];
            for (key, counts) in cells {
                let share = alpha(&regions, key, paths);
                if share.is_zero() {
                    // Whatever endpoint is selected, no path of this client crosses the region now.
                    let any = CellKey {
                        dest: Destination::Unknown,
                        ..*key
                    };
                    if key.channel == Channel::Vip && alpha(&regions, &any, paths).is_zero() {
                        let sum = tracked.current_round.moved_clients.entry(key.client).or_default();
                        sum.0 += counts.unweighted_failures;
                        sum.1 += counts.unweighted_probes - counts.unweighted_failures;
                    }
                    continue;
                }
                let failures = counts.unweighted_failures;
                let successes = counts.unweighted_probes - counts.unweighted_failures;
                tracked.current_round.total.add(share, failures, successes);
                let sum = tracked
                    .current_round
                    .crossing_clients
                    .entry(key.client)
                    .or_default();
                sum.0 += failures;
                sum.1 += successes;
            }
        }
    }

    /// Closes incidents that proved healthy and returns whose evidence restarts.
    pub(crate) fn close_healthy(
        &mut self,
        at: EventTime,
        is_known: impl Fn(VantageIx) -> bool,
        is_reporting: impl Fn(VantageIx) -> bool,
    ) -> RestartedEvidence {
        let mut freed = RestartedEvidence::default();
        for tracked in self.tracked.iter_mut().filter(|t| t.is_open()) {
            // A node that left the cluster will never prove healthy.
            tracked.failing_clients.retain(|client, _| is_known(*client));
            if tracked.failing_clients.is_empty() && tracked.departure_reason.is_none() {
                tracked.departure_reason = Some("every vantage that failed left the mesh".to_owned());
            }
            if tracked.units.is_empty() && tracked.departure_reason.is_none() {
                tracked.departure_reason = Some("other incidents explain its failures".to_owned());
            }
            tracked.finish_round(self.round);
            tracked.mark_unasked_clients(self.round, &is_reporting);
            if tracked.departure_reason.is_some() || tracked.is_healthy() {
                tracked.incident.departure_reason = tracked.departure_reason.take();
                tracked.incident.state = IncidentState::Closed { closed: at };
                let healed = tracked.incident.departure_reason.is_none();
                freed.of_all |= healed && tracked.region.is_between_nodes() && !tracked.scope.is_slow();
                freed.units.extend(tracked.units.iter().cloned());
                if !tracked.provisional {
                    self.events.push(IncidentEvent::Closed(tracked.incident.clone()));
                }
            } else if tracked.recovery.has_successes_since_failure() {
                tracked.incident.state = IncidentState::Recovering;
            } else {
                tracked.incident.state = IncidentState::Open;
            }
        }
        self.prune(at);
        freed
    }

    /// Marks or unmarks open incidents whose subject is gone; they are closed with the next round.
    pub(crate) fn mark_departed(&mut self, reason: impl Fn(&TrackedIncident) -> Option<String>) {
        // An incident without subjects was withdrawn and ends in any case.
        let concerned = |t: &&mut TrackedIncident| t.is_open() && !t.units.is_empty();
        for tracked in self.tracked.iter_mut().filter(concerned) {
            tracked.departure_reason = reason(tracked);
        }
    }

    /// Marks open incidents that no evidence can reach.
    pub(crate) fn mark_unvisited(&mut self, reason: impl Fn(&TrackedIncident) -> Option<String>) {
        for tracked in self
            .tracked
            .iter_mut()
            .filter(|t| t.is_open() && t.departure_reason.is_none())
        {
            tracked.departure_reason = reason(tracked);
        }
    }

    fn prune(&mut self, now: EventTime) {
        self.tracked
            .retain(|t| t.closed().is_none_or(|closed| now - closed <= CLOSED_RETENTION));
        let mut closed: Vec<EventTime> = self.tracked.iter().filter_map(TrackedIncident::closed).collect();
        if closed.len() > MAX_CLOSED {
            closed.sort();
            let oldest_kept = closed[closed.len() - MAX_CLOSED];
            self.tracked
                .retain(|t| t.closed().is_none_or(|closed| closed >= oldest_kept));
        }
    }

    /// Lists open incidents first, then closed ones, each newest first. `stale` returns a note if a subject has no
    /// fresh evidence.
    pub(crate) fn list(
        &self,
        stale: impl Fn(&JudgementUnit, &BTreeSet<VantageIx>) -> Option<String>,
    ) -> Vec<Incident> {
        let mut list: Vec<Incident> = self
            .tracked
            .iter()
            .filter(|t| t.is_reported())
            .map(|t| {
                let mut incident = t.incident.clone();
                let clients = t.failing_clients.keys().copied().collect();
                if t.is_open()
                    && let Some(note) = stale(&t.lead_unit, &clients)
                {
                    incident.verdict.sentence.push_str(&note);
                }
                incident
            })
            .collect();
        list.sort_by_key(|incident| {
            let (closed, time) = match incident.state {
                IncidentState::Closed { closed } => (true, closed),
                IncidentState::Open | IncidentState::Recovering => (false, incident.opened),
            };
            (closed, std::cmp::Reverse(time), incident.id.clone())
        });
        list
    }
}

/// Returns when the last outcome of a round was known; this keeps the time of its verdicts honest.
pub(crate) fn outcomes_known_at(end: EventTime, rows: &[Row]) -> EventTime {
    rows.iter()
        .filter_map(|row| Some(row.at.plus(row.times.total?)))
        .fold(end, EventTime::max)
}
