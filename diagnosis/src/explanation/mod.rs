//! Turns a finding into a verdict for people: the sentence, the table, who answered, what was ruled out, and remedies.

mod locality;
mod row_description;
mod ruled_out;
mod sentence;
pub(crate) mod separation;
mod table;

use std::collections::BTreeSet;

use parallax_model::{Front, Probability, TtlEvidence, Vantage};

use crate::{
    catalogue::{self, CauseContext, ControllerPresence, CrossingClients, EndpointWithdrawal, FailureCounts},
    evidence::{cells::RoundCells, latency::LatencyStep, resolvers::ResolverView, weights::to_probes},
    ids::{NameRegistry, NodeIx, VantageIx, class_index},
    inference::{
        judgement::{ExplainedRegion, Judgement},
        judgement_unit::JudgementUnit,
        kind_profiles::KindProfile,
    },
    regions::{Region, RegionKind, paths::SubjectPaths, share::alpha},
    topology::{EndpointWithdrawals, PlacedTarget, Service, Topology},
    verdict::{Fact, Subject, Verdict},
};

/// The contribution of follow-up probes to a verdict.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestedProbes {
    pub(crate) separations: separation::RegionSeparations,
    pub(crate) decided_by: Option<String>,
    pub(crate) results: Vec<String>,
}

/// The data that a verdict is written from.
#[derive(Debug)]
pub(crate) struct VerdictContext<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) registry: &'a NameRegistry,
    pub(crate) paths: &'a SubjectPaths,
    pub(crate) unit: &'a JudgementUnit,
    /// The front that clients of the unit connect to.
    pub(crate) front: Option<Front>,
    /// The Service whose endpoints they reach.
    pub(crate) service: Option<&'a Service>,
    pub(crate) withdrawals: &'a EndpointWithdrawals,
    /// The resolvers that are queried, where names are judged.
    pub(crate) resolver: ResolverView<'a>,
    /// Cells of the other fronts of the same Service since the start of the window.
    pub(crate) sibling_fronts: Vec<(Front, RoundCells)>,
    /// Cells of all fronts and their endpoints, for findings about nodes.
    pub(crate) all_fronts: Option<RoundCells>,
    /// TTL evidence for who answered at the front's address, by vantage.
    pub(crate) ttl: Vec<(Vantage, TtlEvidence)>,
    /// The observed and usual latency, where latency is judged.
    pub(crate) latency_step: Option<LatencyStep>,
    /// Probes requested beyond the plan and their effect.
    pub(crate) requested_probes: RequestedProbes,
    pub(crate) facts: Vec<Fact>,
    pub(crate) targets: Vec<parallax_model::TargetId>,
}

impl<'a> VerdictContext<'a> {
    pub(crate) fn verdict(&self, judgement: &Judgement, finding: &ExplainedRegion) -> Verdict {
        let region = finding.region;
        let locality = self.locality(finding);
        let mut situation = self.situation(judgement, finding);
        situation.own_node_answers = locality.own_node_answers;
        let mut ranked = catalogue::rank_class(&Self::shares(judgement, finding), &situation);
        if situation.is_latency {
            // Few causes delay probes; most break them.
            ranked.retain(|(cause, _)| catalogue::DELAYING.contains(&cause.id));
        }
        // A posterior lies between 0 and 1.
        let probability = Probability::new(finding.probability).unwrap_or_default();
        Verdict {
            subject: self.subject(region),
            region: region.describe(self.registry),
            class: finding.class.iter().map(|r| r.describe(self.registry)).collect(),
            probability,
            sentence: self.sentence(finding, &situation, &ranked),
            causes: catalogue::named(&ranked),
            evidence: self.formatted_rows(&situation.table, region),
            locality: locality.lines,
            ruled_out: self.ruled_out(judgement, finding),
            separating_probes: separation::separating(
                finding,
                &self.requested_probes.separations,
                self.registry,
            ),
            deciding_probe: self.requested_probes.decided_by.clone(),
            follow_up_results: self.requested_probes.results.clone(),
            facts: self
                .facts
                .iter()
                .cloned()
                .chain(catalogue::moving_facts(&ranked, &situation))
                .collect(),
            remedies: catalogue::remedies(&ranked, &situation),
            not_excluded: catalogue::unobservable::by_verdict(region.kind(), &situation, self.paths),
            targets: self.targets.clone(),
        }
    }

    fn situation(&self, judgement: &Judgement, finding: &ExplainedRegion) -> CauseContext<'a> {
        let cells = &judgement.input.cells;
        let placed = self.placed_target();
        let origin = placed.and_then(|placed| self.topology.service(placed.origin.as_ref()?));
        let (kinds, failures) = self.failures_inside(cells, finding.region);
        CauseContext {
            region: finding.region.kind(),
            info: self.front.as_ref().and_then(|f| self.topology.front(f)),
            service: self.service,
            origin,
            withdrawal: self.withdrawal([self.service, origin, self.resolver.service], finding),
            controller: self.controller(placed),
            target: self.target(),
            resolver: self.resolver.clone(),
            members: finding.region.describe(self.registry).members,
            tied_endpoints: self.tied_endpoints(finding),
            perhaps_every_endpoint: self.paths.pods().len() > 1
                && finding.class.iter().any(|region| region.is_every_endpoint()),
            failures_by_class: kinds,
            failures_by_kind: failures,
            table: self.table(cells, finding.region),
            clients: self.clients(cells, finding.region),
            is_latency: self.unit.is_latency(),
            ..CauseContext::new(self.topology)
        }
    }

    /// Returns the first of the Services whose endpoints were withdrawn because nodes were not ready when probes
    /// failed.
    fn withdrawal(
        &self,
        services: [Option<&'a Service>; 3],
        finding: &ExplainedRegion,
    ) -> Option<EndpointWithdrawal<'a>> {
        let (service, nodes) = services.into_iter().flatten().find_map(|service| {
            let nodes = self
                .withdrawals
                .nodes_explaining(&service.key, finding.last_failure)?;
            Some((service, nodes))
        })?;
        let others = self.withdrawals.services().filter(|key| **key != service.key);
        Some(EndpointWithdrawal {
            service,
            nodes,
            others: others.collect(),
            is_ongoing: self.topology.is_withdrawn(service),
            returned: !service.has_only_unready_endpoints(),
        })
    }

    /// Kinds of the regions that cannot be separated, the named one first, each with its share of the class
    /// probability.
    fn shares(judgement: &Judgement, finding: &ExplainedRegion) -> Vec<(RegionKind, f64)> {
        let p = |region: &Region| {
            let scored = &judgement.posterior.scored;
            scored
                .iter()
                .find(|s| s.region == *region)
                .map_or(0.0, |s| s.probability)
        };
        let total: f64 = finding.class.iter().map(p).sum();
        let mut shares: Vec<(RegionKind, f64)> = vec![(finding.region.kind(), 0.0)];
        for region in &finding.class {
            // Next to another fault, the single-region posterior may give the whole class zero probability.
            let share = if total > 0.0 {
                p(region) / total
            } else {
                f64::from(u8::from(*region == finding.region))
            };
            match shares.iter_mut().find(|(kind, _)| *kind == region.kind()) {
                Some((_, sum)) => *sum += share,
                None => shares.push((region.kind(), share)),
            }
        }
        shares
    }

    /// The target under judgement, if the unit is a target.
    fn placed_target(&self) -> Option<&'a PlacedTarget> {
        let (JudgementUnit::Target(target) | JudgementUnit::SingleTarget(target)) =
            self.unit.without_latency()
        else {
            return None;
        };
        self.topology.targets().get(target)
    }

    fn controller(&self, placed: Option<&PlacedTarget>) -> ControllerPresence {
        match (placed, self.service) {
            (Some(placed), _) if placed.routed => ControllerPresence::Present,
            (_, Some(_)) => ControllerPresence::Absent,
            (_, None) => ControllerPresence::Unknown,
        }
    }

    /// Returns the endpoints of a tie of several.
    fn tied_endpoints(&self, finding: &ExplainedRegion) -> Vec<String> {
        let mut pods: Vec<String> = finding
            .class
            .iter()
            .filter(|region| region.kind() == RegionKind::Backend)
            .flat_map(|region| region.describe(self.registry).members)
            .collect();
        pods.sort();
        if pods.len() > 1 && finding.region.kind() == RegionKind::Backend {
            pods
        } else {
            Vec::new()
        }
    }

    /// The target under judgement, or the only target of the subject.
    fn target(&self) -> Option<&'a parallax_model::Target> {
        let only = || match self.targets.as_slice() {
            [one] => self.topology.targets().get(one),
            _ => None,
        };
        self.placed_target().or_else(only).map(|placed| &placed.target)
    }

    /// Counts failures inside a region by class and by kind.
    fn failures_inside(&self, cells: &RoundCells, region: Region) -> (KindProfile, FailureCounts) {
        let mut sums = KindProfile::default();
        let mut failures = FailureCounts::new();
        for (key, counts) in cells {
            if alpha(&[region], key, self.paths).is_zero() {
                continue;
            }
            for ((kind, status), (weight, _)) in &counts.kinds {
                sums[class_index(self.registry.class_of(*kind, *status))] += to_probes(*weight);
                let kind = self.registry.kinds.name(*kind).clone();
                *failures.entry((kind, *status)).or_default() += to_probes(*weight);
            }
        }
        (sums, failures)
    }

    /// Counts the clients whose probes cross the region, and those that failed there. Two vantages on one node are one
    /// client.
    fn clients(&self, cells: &RoundCells, region: Region) -> CrossingClients {
        let client = |client: VantageIx| -> Result<NodeIx, VantageIx> {
            self.paths.node_of_client(client).ok_or(client)
        };
        let mut probing = BTreeSet::new();
        let mut failing = BTreeSet::new();
        for (key, counts) in cells {
            if alpha(&[region], key, self.paths).is_zero() {
                continue;
            }
            probing.insert(client(key.client));
            if counts.unweighted_failures > 0 {
                failing.insert(client(key.client));
            }
        }
        CrossingClients {
            probing: probing.len(),
            failing: failing.len(),
        }
    }

    fn subject(&self, region: Region) -> Subject {
        match region {
            Region::Client(n)
            | Region::Bnode(n)
            | Region::BnodeRemote(n)
            | Region::NodeLink(n)
            | Region::DnsClient(n) => Subject::Node(self.registry.nodes.name(n).clone()),
            Region::Pair(..) | Region::Link(..) | Region::Zone(..) | Region::ZoneLink(..) | Region::Cross => {
                Subject::Network
            }
            Region::DnsAll => Subject::Name("every name".to_owned()),
            Region::DnsName(name) => Subject::Name(self.registry.names.name(name).clone()),
            _ => match self.unit.without_latency() {
                JudgementUnit::Front(front) => Subject::Front(*front),
                JudgementUnit::Endpoints(service, _) => Subject::Service(service.clone()),
                JudgementUnit::Target(target) | JudgementUnit::SingleTarget(target) => {
                    Subject::Target(target.clone())
                }
                JudgementUnit::Dns => self
                    .resolver
                    .service
                    .map_or(Subject::Network, |service| Subject::Service(service.key.clone())),
                JudgementUnit::Mesh | JudgementUnit::Latency(_) => Subject::Network,
            },
        }
    }
}
