//! What is believed before looking: weights, the price of having looked everywhere, and static facts.
//!
//! ln π(h) = ln `P_fault` + ln(weight / W) − ln(members of its kind) + Σ ln(multiplier). Facts enter here and only here;
//! they multiply without renormalising, and the mass of all faults is capped.

use std::collections::BTreeSet;

use super::data::ComparisonData;
use crate::{
    ids::{NodeIx, PodIx},
    regions::{Region, RegionKind, pair_count, paths::SubjectPaths},
    verdict::Fact,
};

/// Prior probability that something is wrong with a subject.
pub(crate) const P_FAULT: f64 = 0.03;
/// No set of facts makes a fault likelier than this before looking.
const MAX_FAULT: f64 = 0.5;
/// `self` counts in W although it is compared only where a client can be its own endpoint: the weights were measured so.
const ALWAYS_COUNTED: RegionKind = RegionKind::SelfPod;

/// What the regions about one client weigh where there is but one: with nobody to hold it against, that the fault is its
/// own is a possibility to be listed, not the first thing to say.
const ALONE: f64 = 0.1;

/// Regions a fact is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FactScope {
    /// All regions of a kind.
    Kind(RegionKind),
    /// `backend` of a pod.
    Pod(PodIx),
    /// The region of a kind that is about one node.
    Node(RegionKind, NodeIx),
}

/// A fact and what it moves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PriorFact {
    pub(crate) about: FactScope,
    pub(crate) fact: Fact,
}

impl PriorFact {
    pub(crate) fn applies(&self, region: Region) -> bool {
        match self.about {
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
    /// What other subjects add, in nats, where the region would concern them too.
    pub(crate) pooled: f64,
}

/// Of more members of a kind only those are listed on whose paths something failed; the price of having looked at all of
/// them stays. The others explain nothing, and a mesh of five thousand nodes has twenty thousand of them.
const LISTED: usize = 400;

fn members(kind: RegionKind, scene: &SubjectPaths, data: &ComparisonData) -> (Vec<Region>, usize) {
    let nodes = || data.failing_nodes(scene).into_iter();
    let clients = || data.failing_clients(scene).into_iter();
    let all = match kind {
        RegionKind::Pair => pair_count(scene),
        RegionKind::Bnode | RegionKind::BnodeRemote => scene.nodes.all.len(),
        RegionKind::Client | RegionKind::ClientVip | RegionKind::DnsClient => scene.client_nodes().len(),
        _ => 0,
    };
    if all <= LISTED {
        let members = kind.members(scene);
        let count = members.len();
        return (members, count);
    }
    let failing = match kind {
        RegionKind::Pair => {
            let pairs = data.failing_pairs(scene).into_iter();
            pairs.map(|(c, n)| Region::Pair(c, n)).collect()
        }
        RegionKind::Bnode => nodes().map(Region::Bnode).collect(),
        RegionKind::BnodeRemote => nodes().map(Region::BnodeRemote).collect(),
        RegionKind::Client => clients().map(Region::Client).collect(),
        RegionKind::ClientVip => clients().map(Region::ClientVip).collect(),
        RegionKind::DnsClient => clients().map(Region::DnsClient).collect(),
        _ => kind.members(scene),
    };
    (failing, all)
}

/// All members of the kinds in play, with their priors.
pub(crate) fn hypotheses(
    kinds: &BTreeSet<RegionKind>,
    scene: &SubjectPaths,
    data: &ComparisonData,
    facts: &[PriorFact],
) -> Vec<Hypothesis> {
    let mut counted = kinds.clone();
    counted.insert(ALWAYS_COUNTED);
    let total: f64 = counted.iter().map(|kind| kind.weight()).sum();
    let mut all = Vec::new();
    for kind in kinds {
        let (members, count) = members(*kind, scene, data);
        let of_client = matches!(
            kind,
            RegionKind::Client | RegionKind::ClientVip | RegionKind::DnsClient
        );
        let alone = of_client && scene.nodes.clients.len() == 1;
        let weight = kind.weight() * if alone { ALONE } else { 1.0 };
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
                pooled: 0.0,
            });
        }
    }
    let mass: f64 = all.iter().map(|h| libm::exp(h.ln_prior)).sum();
    if mass > MAX_FAULT {
        let ln_scale = libm::log(MAX_FAULT / mass);
        for hypothesis in &mut all {
            hypothesis.ln_prior += ln_scale;
        }
    }
    all
}
