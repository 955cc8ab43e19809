//! Causes that the mesh cannot observe. They are declared explicitly because passing probes do not rule them out.

use super::{CauseContext, all};
use crate::{
    regions::{RegionKind, paths::SubjectPaths},
    verdict::NotExcluded,
};

/// A catalogue cause that no probe of the mesh can detect.
#[derive(Debug)]
pub(crate) struct UnobservableCause {
    /// Catalogue id; a trailing letter denotes a part of that entry.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What would be needed to observe it.
    pub(crate) requirement: &'static str,
    relevance: Relevance,
}

/// When the cause is worth reporting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relevance {
    /// While fewer than this many vantages report from outside.
    Outside(usize),
    /// Always.
    Always,
}

/// All unobservable causes.
pub(crate) const NOT_OBSERVABLE: &[UnobservableCause] = &[
    UnobservableCause {
        id: "F13a",
        title: "a NetworkPolicy blocks another namespace from the front",
        requirement: "a prober with that namespace's labels, or an evaluation of its NetworkPolicies",
        relevance: Relevance::Always,
    },
    UnobservableCause {
        id: "F30",
        title: "cert-manager uses an egress proxy",
        requirement: "the environment of the cert-manager Deployment (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)",
        relevance: Relevance::Always,
    },
    UnobservableCause {
        id: "F31",
        title: "a CDN, firewall or geo-block filters by client location",
        requirement: "internet vantages in at least two networks that send the CA's User-Agent",
        relevance: Relevance::Outside(2),
    },
    UnobservableCause {
        id: "F32",
        title: "ingress on host ports at a node's own public address",
        requirement: "the nodes' public addresses as fronts, and which Pod holds which host port",
        relevance: Relevance::Always,
    },
];

/// Causes that only an outside vantage can detect: those whose regions all lie outside.
pub(crate) fn only_outside() -> impl Iterator<Item = NotExcluded> {
    all()
        .filter(|cause| {
            cause
                .regions
                .iter()
                .all(|region| matches!(region, RegionKind::OutsideAll | RegionKind::OutsideFrontNode))
        })
        .map(|cause| NotExcluded {
            id: cause.id.to_owned(),
            title: cause.title.to_owned(),
            requirement: "a vantage outside the cluster that reports".to_owned(),
        })
}

fn to_not_excluded(unseen: &UnobservableCause) -> NotExcluded {
    NotExcluded {
        id: unseen.id.to_owned(),
        title: unseen.title.to_owned(),
        requirement: unseen.requirement.to_owned(),
    }
}

/// Unobservable causes that are worth reporting while this many vantages report from outside.
pub(crate) fn with_outside_vantages(outside: usize) -> impl Iterator<Item = NotExcluded> {
    NOT_OBSERVABLE
        .iter()
        .filter(move |unseen| match unseen.relevance {
            Relevance::Outside(least) => outside < least,
            Relevance::Always => true,
        })
        .map(to_not_excluded)
}

/// Further causes that a verdict's own evidence cannot rule out.
pub(crate) fn by_verdict(
    region: RegionKind,
    situation: &CauseContext<'_>,
    paths: &SubjectPaths,
) -> Vec<NotExcluded> {
    let outside = paths.mesh.clients.values().filter(|node| node.is_none()).count();
    let mut all = Vec::new();
    if outside == 0 && situation.is_balancer() {
        all.push(NotExcluded {
            id: "I7".to_owned(),
            title: "clients outside the cluster may fail as well, or for another reason".to_owned(),
            requirement: "a vantage outside the cluster that reports".to_owned(),
        });
    }
    let by_namespace = matches!(region, RegionKind::Vip | RegionKind::Target);
    all.extend(
        NOT_OBSERVABLE
            .iter()
            .filter(|unseen| match unseen.id {
                "F13a" => by_namespace,
                "F31" => {
                    matches!(region, RegionKind::OutsideAll | RegionKind::OutsideFrontNode) && outside < 2
                }
                "F32" => situation.info.is_none() && region == RegionKind::ClientVip,
                _ => false,
            })
            .map(to_not_excluded),
    );
    all
}
