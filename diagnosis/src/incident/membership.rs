//! Which subjects belong to an incident although they did not name it: their failures are explained by its cause.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Front, Round, TargetId};

use super::{IncidentLog, Scope, TrackedIncident};
use crate::{ids::VantageIx, inference::judgement_unit::JudgementUnit, regions::Region};

/// What a subject contributes to an incident whose cause explains its failures.
#[derive(Debug, Clone)]
pub(crate) struct ExplainedSubject {
    pub(crate) targets: Vec<TargetId>,
    /// Clients with failures in the region.
    pub(crate) failing_clients: BTreeSet<VantageIx>,
}

/// When the cause of an open incident was there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CausePeriod {
    /// Its first failure.
    pub(crate) since: EventTime,
    /// The last round with a failure, if the probes since then show that it is over or pauses.
    pub(crate) last_failure: Option<Round>,
}

/// The cause of an open incident.
#[derive(Debug)]
pub(crate) struct OpenCause<'a> {
    /// The incident's id.
    pub(crate) id: &'a str,
    /// First failing round of the evidence.
    pub(crate) since: EventTime,
    /// The named region.
    pub(crate) region: Region,
    /// The regions that the incident may be about.
    pub(crate) possible_regions: Vec<Region>,
}

impl TrackedIncident {
    /// Reports whether the incident is a cause for failures of another subject, which clients reach through `front`.
    fn is_cause_for(&self, unit: &JudgementUnit, front: Option<Front>) -> bool {
        let lead = &self.lead_unit;
        self.is_standing()
            && !self.units.is_empty()
            && lead != unit
            // The network is nearer to the cause than any other subject, whichever subject showed that it fails.
            && (lead.depth() <= unit.depth() || self.region.is_between_nodes())
            && (is_shared(self.region)
                || !self.failing_endpoints.is_empty()
                || self.region.is_of_front()
                    && front.is_some_and(|front| *lead == JudgementUnit::Front(front)))
    }

    /// The regions that the incident may be about: the named one, those that its evidence does not separate from it, the
    /// opposite direction unless its evidence shows that it works, each of both directions, because another subject may have no
    /// reports of the other (a vantage that is cut off reports only between the failures of a rhythm), and the endpoints of a
    /// Service all of whose endpoints fail.
    pub(super) fn possible_regions(&self) -> impl Iterator<Item = Region> {
        let named = std::iter::once(self.region).chain(self.class.iter().copied());
        named
            .chain(self.region.in_both_directions().filter(|_| !self.is_one_way))
            .chain(self.region.directions().into_iter().flatten())
            .filter(|region| is_shared(*region) || region.is_of_front())
            .chain(self.failing_endpoints.iter().copied().map(Region::Backend))
    }

    /// Reports whether members nearer to the cause than a subject have failures that the incident explains, and that regions which the
    /// subject reports do not. They show which region of a tie fails, even if the subject's own results do not.
    pub(super) fn leaves_members_unexplained(&self, unit: &JudgementUnit, class: &[Region]) -> bool {
        let members = self
            .explanations
            .iter()
            .filter(|(member, _)| self.units.contains(*member));
        let nearer = members.filter(|(member, _)| member.depth() < unit.depth());
        let explains = |region: Region, failing: Region| {
            region.covers(failing, |_| None) || failing.covers(region, |_| None)
        };
        nearer.map(|(_, failing)| *failing).any(|failing| {
            self.class.contains(&failing) && !class.iter().any(|region| explains(*region, failing))
        })
    }

    fn may_be_about(&self, region: Region) -> bool {
        self.possible_regions().any(|possible| possible == region)
    }
}

/// Reports whether a region may break several subjects.
const fn is_shared(region: Region) -> bool {
    region.is_cluster_wide() || matches!(region, Region::Backend(_))
}

impl IncidentLog {
    /// Returns the causes of open incidents, first failures first.
    pub(crate) fn open_causes(&self) -> Vec<OpenCause<'_>> {
        let open = self.tracked.iter().filter(|tracked| tracked.is_standing());
        let mut causes: Vec<OpenCause<'_>> = open
            .map(|tracked| OpenCause {
                id: &tracked.incident.id,
                since: tracked.incident.since,
                region: tracked.region,
                possible_regions: tracked.possible_regions().collect(),
            })
            .collect();
        causes.sort_by(|a, b| a.since.cmp(&b.since).then_with(|| a.id.cmp(b.id)));
        causes
    }

    /// Returns the regions that each open incident of a subject names together, its named region first.
    pub(crate) fn named_together(&self, unit: &JudgementUnit) -> Vec<Vec<Region>> {
        let own = self
            .tracked
            .iter()
            .filter(|t| t.is_open() && t.units.contains(unit));
        own.map(|tracked| {
            let others = tracked.class.iter().filter(|region| **region != tracked.region);
            [tracked.region].into_iter().chain(others.copied()).collect()
        })
        .collect()
    }

    /// Returns the regions that a subject's incidents name, given what each of them names together, and those that other open
    /// incidents name.
    pub(crate) fn named_by_any(&self, own: &[Vec<Region>]) -> Vec<Region> {
        let own = own.iter().filter_map(|class| class.first().copied());
        let standing = self.tracked.iter().filter(|tracked| tracked.is_standing());
        let all: BTreeSet<Region> = own.chain(standing.map(|tracked| tracked.region)).collect();
        all.into_iter().collect()
    }

    /// Returns the regions of open incidents that may cause failures of a subject, which did not name them.
    pub(crate) fn known_causes(
        &self,
        unit: &JudgementUnit,
        front: Option<Front>,
    ) -> BTreeMap<Region, CausePeriod> {
        if unit.is_latency() || matches!(unit, JudgementUnit::Mesh | JudgementUnit::SingleTarget(_)) {
            return BTreeMap::new();
        }
        let causes = self
            .tracked
            .iter()
            .filter(|tracked| tracked.is_cause_for(unit, front));
        let mut known = BTreeMap::new();
        for tracked in causes {
            let period = CausePeriod {
                since: tracked.incident.since,
                last_failure: tracked.recovery.last_failure_before_successes(),
            };
            for region in tracked.possible_regions() {
                let both = known.entry(region).or_insert(period);
                both.since = both.since.min(period.since);
                both.last_failure = match (both.last_failure, period.last_failure) {
                    (Some(one), Some(other)) => Some(one.max(other)),
                    _ => None,
                };
            }
        }
        known
    }

    /// Makes a subject a member of the incidents that explain its failures, and of no other that it did not name. `explained`
    /// lists the regions of those incidents; `reported` are the ids of the incidents that it named in this round.
    pub(crate) fn attribute(
        &mut self,
        (unit, front): (&JudgementUnit, Option<Front>),
        explained: &[(Region, ExplainedSubject)],
        reported: &BTreeSet<String>,
    ) {
        for tracked in &mut self.tracked {
            if !tracked.is_cause_for(unit, front) {
                continue;
            }
            if let Some((region, subject)) =
                explained.iter().find(|(region, _)| tracked.may_be_about(*region))
            {
                tracked.units.insert(unit.clone());
                tracked.explanations.insert(unit.clone(), *region);
                tracked.add_members(
                    subject.failing_clients.iter().copied(),
                    subject.targets.iter().cloned(),
                );
            } else if tracked.scope != Scope::Withdrawn && !reported.contains(&tracked.incident.id) {
                tracked.units.remove(unit);
                tracked.explanations.remove(unit);
            }
        }
    }

    /// Returns the regions that a subject named earlier and did not name in this round.
    pub(crate) fn unconfirmed(&self, unit: &JudgementUnit, reported: &BTreeSet<String>) -> Vec<Region> {
        let own = self.tracked.iter().filter(|tracked| {
            tracked.is_open()
                && !tracked.scope.is_slow()
                && tracked.scope != Scope::Withdrawn
                && tracked.lead_unit == *unit
                && tracked.units.contains(unit)
                && !reported.contains(&tracked.incident.id)
        });
        own.map(|tracked| tracked.region).collect()
    }

    /// Takes a subject out of the incident that it named, because `cause` explains its failures. An incident without
    /// subjects ends with that reason.
    pub(crate) fn withdraw(&mut self, unit: &JudgementUnit, region: Region, cause: Region) {
        let wider = self.tracked.iter().find(|tracked| {
            tracked.is_open()
                && !tracked.scope.is_slow()
                && tracked.lead_unit != *unit
                && tracked.may_be_about(cause)
                && !tracked.units.is_empty()
        });
        let Some(headline) = wider.map(|tracked| tracked.incident.verdict.headline()) else {
            return;
        };
        let named = self.tracked.iter_mut().filter(|tracked| {
            tracked.is_open()
                && !tracked.scope.is_slow()
                && tracked.region == region
                && tracked.lead_unit == *unit
        });
        for tracked in named {
            tracked.units.remove(unit);
            match tracked.units.first() {
                Some(other) => tracked.lead_unit = other.clone(),
                None => {
                    tracked.departure_reason = Some(format!("it is part of another incident: {headline}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        ids::{NameRegistry, NodeIx, PodIx},
        incident::Report,
    };

    const REGIONS: [Region; 3] = [
        Region::Client(NodeIx(0)),
        Region::NodeLink(NodeIx(0)),
        Region::Backend(PodIx(0)),
    ];

    /// A host's report that names regions together, in this order.
    fn report(host: &TargetId, class: Vec<Region>) -> Report {
        let region = json!({"region": "client", "members": ["n1"]});
        let verdict = json!({
            "subject": {"type": "target", "name": host}, "region": region, "class": [region], "probability": 1.0, "causes": [],
            "sentence": "", "evidence": [], "locality": [], "ruled_out": [], "separating": [], "facts": [], "remedies": [],
            "targets": [host],
        });
        Report {
            scope: Scope::Target(host.clone()),
            region: class[0],
            class,
            is_one_way: false,
            failing_endpoints: BTreeSet::new(),
            odds_over_next: 10.0,
            failing_clients: BTreeSet::from([VantageIx(0)]),
            crossing_counts: (6.0, 60.0),
            since: EventTime(0),
            before_start: false,
            verdict: serde_json::from_value(verdict).unwrap(),
        }
    }

    /// A host names its entry and the entry's node together, and later the entry alone. An address that is reached without the entry
    /// fails for clients on the node.
    #[test]
    fn members_keep_the_region_of_a_tie_that_explains_their_failures() {
        let host: TargetId = "http://h0.example.test/".parse().unwrap();
        let front: Front = "10.96.1.6:80".parse().unwrap();
        let mut registry = NameRegistry::default();
        registry.nodes.intern(&"n1".parse().unwrap());
        registry.pods.intern(&"ingress/nginx-0".parse().unwrap());
        let mut log = IncidentLog::default();
        let unit = JudgementUnit::Target(host.clone());
        let other = JudgementUnit::Front(front);
        let [client, link, entry] = REGIONS;
        let name = |log: &mut IncidentLog, rounds: std::ops::Range<i64>, class: &[Region]| {
            for round in rounds {
                log.begin_round(Round(round));
                let reports = vec![report(&host, class.to_vec())];
                log.report(&unit, reports, EventTime(round * 5_000_000), &registry);
            }
            log.open_causes()
                .iter()
                .map(|cause| cause.region)
                .collect::<Vec<_>>()
        };
        name(&mut log, 10..11, &[client, link, entry]);
        let subject = ExplainedSubject {
            targets: Vec::new(),
            failing_clients: BTreeSet::from([VantageIx(0)]),
        };
        log.attribute((&other, Some(front)), &[(client, subject)], &BTreeSet::new());
        assert_eq!(name(&mut log, 11..40, &[entry, client, link]), [client]);
        assert_eq!(name(&mut log, 40..60, &[entry]), [client]);
        let known = log.known_causes(&other, Some(front));
        assert!(known.contains_key(&link), "{known:?}");
        // Nothing of the address fails any more.
        log.attribute((&other, Some(front)), &[], &BTreeSet::new());
        assert_eq!(name(&mut log, 60..80, &[entry]), [entry]);
    }
}
