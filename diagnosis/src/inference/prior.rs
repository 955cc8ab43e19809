//! The prior over regions: weights by kind, division by the number of members (look-elsewhere), and static facts.
//!
//! ln π(h) = ln `P_fault` + ln(weight / W) − ln(members of its kind) + Σ ln(multiplier). Facts enter only here.
//! Their multipliers are not renormalised; the total mass of all faults is capped.

use std::collections::BTreeSet;

use super::comparison_data::ComparisonData;
use crate::{
    ids::{NodeIx, PodIx},
    regions::{Region, RegionKind, link_count, pair_count, paths::SubjectPaths},
    verdict::Fact,
};

/// Prior probability of a fault of a subject.
pub(crate) const P_FAULT: f64 = 0.03;
/// Upper bound of the total prior mass of all faults, whatever the facts.
const MAX_FAULT_MASS: f64 = 0.5;
/// `self` always counts in W, although it is compared only if a client can be its own endpoint: the weights were
/// calibrated that way.
const ALWAYS_WEIGHTED: RegionKind = RegionKind::SelfPod;

/// Factor on the weights of the client regions if there is only one client. Without a second client for
/// comparison, a fault of the client itself is listed as a possibility, not as the first explanation.
const SINGLE_CLIENT_FACTOR: f64 = 0.1;

/// The regions that a fact is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FactScope {
    /// All regions of a kind.
    Kind(RegionKind),
    /// `backend` of a Pod.
    Pod(PodIx),
    /// The region of a kind on one node.
    Node(RegionKind, NodeIx),
}

/// A fact and the regions whose prior it multiplies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PriorFact {
    pub(crate) scope: FactScope,
    pub(crate) fact: Fact,
}

impl PriorFact {
    pub(crate) fn applies(&self, region: Region) -> bool {
        match self.scope {
            FactScope::Kind(kind) => region.kind() == kind,
            FactScope::Pod(pod) => region == Region::Backend(pod),
            FactScope::Node(kind, node) => region.kind() == kind && region.node() == Some(node),
        }
    }
}

/// A region with its prior.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hypothesis {
    pub(crate) region: Region,
    pub(crate) ln_prior: f64,
}

/// Number of members of a kind above which only those with failures on their paths are listed; the divisor remains
/// the number of all members. The others explain nothing, and a mesh of 5 000 nodes has 20 000 of them.
const MAX_LISTED_MEMBERS: usize = 400;

fn members(kind: RegionKind, paths: &SubjectPaths, data: &ComparisonData) -> (Vec<Region>, usize) {
    let nodes = || data.failing_destinations(paths).into_iter();
    let clients = || data.failing_clients(paths).into_iter();
    let all = match kind {
        RegionKind::Pair => pair_count(paths),
        RegionKind::Link => link_count(paths),
        RegionKind::Bnode | RegionKind::BnodeRemote | RegionKind::NodeLink => paths.mesh.node_set.len(),
        RegionKind::Client | RegionKind::ClientVip | RegionKind::DnsClient => paths.client_nodes().len(),
        _ => 0,
    };
    if !paths.origin_pods.is_empty() {
        // The connections of the clients are judged at the address. Each link is as improbable as there.
        match kind {
            RegionKind::Link => return (paths.onward_links().into_iter().collect(), all),
            RegionKind::NodeLink => return (paths.onward_node_links().into_iter().collect(), all),
            _ => {}
        }
    }
    if all <= MAX_LISTED_MEMBERS {
        let members = kind.members(paths);
        let count = members.len();
        return (members, count);
    }
    let failing = match kind {
        RegionKind::Pair => {
            let pairs = data.failing_pairs(paths).into_iter();
            pairs.map(|(c, n)| Region::Pair(c, n)).collect()
        }
        RegionKind::Link => {
            let pairs = data.failing_pairs(paths).into_iter();
            let links: BTreeSet<Region> = pairs.map(|(c, n)| Region::Link(c.min(n), c.max(n))).collect();
            links.into_iter().collect()
        }
        RegionKind::Bnode => nodes().map(Region::Bnode).collect(),
        RegionKind::BnodeRemote => nodes().map(Region::BnodeRemote).collect(),
        RegionKind::NodeLink => {
            let ends: BTreeSet<NodeIx> = nodes().chain(clients()).collect();
            ends.into_iter().map(Region::NodeLink).collect()
        }
        RegionKind::Client => clients().map(Region::Client).collect(),
        RegionKind::ClientVip => clients().map(Region::ClientVip).collect(),
        RegionKind::DnsClient => clients().map(Region::DnsClient).collect(),
        _ => kind.members(paths),
    };
    (failing, all)
}

/// Returns all members of the given kinds with their priors.
pub(crate) fn hypotheses(
    kinds: &BTreeSet<RegionKind>,
    paths: &SubjectPaths,
    data: &ComparisonData,
    facts: &[PriorFact],
) -> Vec<Hypothesis> {
    let mut counted = kinds.clone();
    counted.insert(ALWAYS_WEIGHTED);
    let total: f64 = counted.iter().map(|kind| kind.weight()).sum();
    let mut all = Vec::new();
    for kind in kinds {
        let (members, count) = members(*kind, paths, data);
        let of_client = matches!(
            kind,
            RegionKind::Client | RegionKind::ClientVip | RegionKind::DnsClient
        );
        let alone = of_client && paths.mesh.clients.len() == 1;
        let weight = kind.weight() * if alone { SINGLE_CLIENT_FACTOR } else { 1.0 };
        #[expect(clippy::cast_precision_loss, reason = "member counts stay far below 2^53")]
        let ln_share = libm::log(P_FAULT) + libm::log(weight / total) - libm::log(count as f64);
        for region in members {
            let ln_facts: f64 = facts
                .iter()
                .filter(|fact| fact.applies(region))
                .map(|fact| libm::log(fact.fact.multiplier))
                .sum();
            all.push(Hypothesis {
                region,
                ln_prior: ln_share + ln_facts,
            });
        }
    }
    let mass: f64 = all.iter().map(|h| libm::exp(h.ln_prior)).sum();
    if mass > MAX_FAULT_MASS {
        let ln_scale = libm::log(MAX_FAULT_MASS / mass);
        for hypothesis in &mut all {
            hypothesis.ln_prior += ln_scale;
        }
    }
    all
}
