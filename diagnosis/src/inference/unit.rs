//! The subjects that are judged, each on its own.

use std::collections::BTreeSet;

use parallax_model::{Channel, Front, ServiceKey, TargetId};
use serde::{Deserialize, Serialize};

use crate::regions::{RegionKind, paths::SubjectPaths};

/// A subject that is judged on its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JudgementUnit {
    /// The resolvers, all names together.
    Dns,
    /// The network between probers.
    Mesh,
    /// A front with the endpoints behind it.
    Front(Front),
    /// The endpoints of a headless Service, at a port.
    Endpoints(ServiceKey, u16),
    /// The answers of a target.
    Target(TargetId),
    /// Every channel of the one target of a recording, as one path.
    Whole(TargetId),
    /// How long the successes of one of the others take.
    Slow(Box<JudgementUnit>),
}

impl JudgementUnit {
    /// The same subject, judged by how long its successes take.
    pub(crate) fn slow(self) -> Self {
        Self::Slow(Box::new(self))
    }

    /// The subject, whatever is judged of it.
    pub(crate) fn plain(&self) -> &Self {
        match self {
            Self::Slow(inner) => inner,
            other => other,
        }
    }

    pub(crate) const fn is_slow(&self) -> bool {
        matches!(self, Self::Slow(_))
    }

    /// Kinds of region that can be told on the subject.
    pub(crate) fn kinds(&self, scene: &SubjectPaths, channels: &BTreeSet<Channel>) -> BTreeSet<RegionKind> {
        use RegionKind::{
            Backend, Bnode, BnodeRemote, Client, ClientVip, Cross, DnsAll, DnsClient, DnsName, LbOwnNode,
            NoLocal, OutsideAll, OutsideFrontNode, Pair, ProtoVip, Same, SameVip, SelfPod, SelfVip, Target,
            Vip, Zone,
        };
        let mut kinds = match self {
            Self::Slow(inner) => return inner.kinds(scene, channels),
            Self::Dns => BTreeSet::from([DnsClient, DnsAll, DnsName, Client]),
            Self::Mesh => BTreeSet::from([Client, Bnode, BnodeRemote, Pair, Cross, Zone]),
            Self::Front(_) => BTreeSet::from([
                Target,
                Vip,
                Backend,
                Bnode,
                BnodeRemote,
                Client,
                ClientVip,
                Pair,
                NoLocal,
                Cross,
                Same,
                SameVip,
                Zone,
            ]),
            // Whatever is between a client and these endpoints, it is no address of a Service.
            Self::Endpoints(..) => BTreeSet::from([
                Target,
                Backend,
                Bnode,
                BnodeRemote,
                Client,
                Pair,
                Cross,
                Same,
                Zone,
            ]),
            // Connections worked, or these phases would not have been reached: what remains is who answers, what strikes
            // large packets only, and a front that cuts off some of its hosts' connections.
            Self::Target(_) => BTreeSet::from([
                Target, Vip, Backend, Client, ClientVip, NoLocal, Cross, Same, SameVip,
            ]),
            Self::Whole(_) => BTreeSet::from([
                Target,
                Vip,
                Backend,
                Bnode,
                BnodeRemote,
                Client,
                ClientVip,
                Pair,
                NoLocal,
                Cross,
                Same,
                SameVip,
                Zone,
                DnsClient,
                DnsAll,
                DnsName,
            ]),
        };
        if scene.zone_set().len() < 2 {
            kinds.remove(&Zone);
        }
        if !channels.contains(&Channel::Dns) {
            for kind in [DnsClient, DnsAll, DnsName] {
                kinds.remove(&kind);
            }
        }
        if kinds.contains(&Vip) {
            kinds.insert(ProtoVip);
            let balanced = !scene.pool.is_empty();
            if scene.nodes.clients.values().any(Option::is_none) {
                kinds.insert(OutsideAll);
                let lacking = scene.pool.iter().any(|node| !scene.local.contains(node));
                if balanced && scene.pool_is_local && lacking && !scene.local.is_empty() {
                    kinds.insert(OutsideFrontNode);
                }
            }
            // Under policy Local the chosen node is the endpoint's own: the same paths as `same-vip`.
            if balanced && !scene.pool_is_local && scene.leaves_the_node && scene.pool.len() > 1 {
                kinds.insert(LbOwnNode);
            }
            if scene
                .backends
                .iter()
                .any(|pod| scene.nodes.prober_pods.get(pod).is_some())
            {
                kinds.extend([SelfPod, SelfVip]);
            }
        }
        kinds
    }
}
