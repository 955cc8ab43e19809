//! What a mesh cannot observe, declared instead of passed over: a pass says nothing of these.

use super::{CauseContext, all};
use crate::{
    regions::{RegionKind, paths::SubjectPaths},
    verdict::NotExcluded,
};

/// A cause of the catalogue that no probe of the mesh can show.
#[derive(Debug)]
pub(crate) struct UnobservableCause {
    /// Id in the catalogue; a letter behind it names the part that is meant.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What would be needed to see it.
    pub(crate) needed: &'static str,
    when: Relevance,
}

/// When there is reason to speak of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relevance {
    /// While fewer vantages than this report from outside.
    Outside(usize),
    /// Always.
    Always,
}

/// All of them.
pub(crate) const NOT_OBSERVABLE: &[UnobservableCause] = &[
    UnobservableCause {
        id: "F13a",
        title: "NetworkPolicy that keeps another namespace from the front",
        needed: "a prober with that namespace's labels, or an evaluation of its policies",
        when: Relevance::Always,
    },
    UnobservableCause {
        id: "F30",
        title: "egress proxy in the environment of cert-manager",
        needed: "the environment of the cert-manager Deployment (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)",
        when: Relevance::Always,
    },
    UnobservableCause {
        id: "F31",
        title: "CDN, firewall or geo-block that filters by where a client comes from",
        needed: "vantages on the internet in at least two networks, asking as the CA's user agent does",
        when: Relevance::Outside(2),
    },
    UnobservableCause {
        id: "F32",
        title: "ingress on host ports behind a node's own public address",
        needed: "the nodes' public addresses as fronts, with which pod holds which host port",
        when: Relevance::Always,
    },
];

/// Causes that only an outside vantage can show: those whose every region lies outside.
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
            needed: "a vantage outside the cluster that reports".to_owned(),
        })
}

fn declared(unseen: &UnobservableCause) -> NotExcluded {
    NotExcluded {
        id: unseen.id.to_owned(),
        title: unseen.title.to_owned(),
        needed: unseen.needed.to_owned(),
    }
}

/// Those of which there is reason to speak while so many vantages report from outside.
pub(crate) fn with_outside_vantages(outside: usize) -> impl Iterator<Item = NotExcluded> {
    NOT_OBSERVABLE
        .iter()
        .filter(move |unseen| match unseen.when {
            Relevance::Outside(least) => outside < least,
            Relevance::Always => true,
        })
        .map(declared)
}

/// What a verdict's own evidence cannot exclude besides.
pub(crate) fn by_verdict(
    region: RegionKind,
    situation: &CauseContext<'_>,
    scene: &SubjectPaths,
) -> Vec<NotExcluded> {
    let outside = scene.nodes.clients.values().filter(|node| node.is_none()).count();
    let mut all = Vec::new();
    if outside == 0 && situation.is_balancer() {
        all.push(NotExcluded {
            id: "I7".to_owned(),
            title: "that clients outside the cluster fail, too, or for another reason".to_owned(),
            needed: "a vantage outside the cluster that reports".to_owned(),
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
            .map(declared),
    );
    all
}
