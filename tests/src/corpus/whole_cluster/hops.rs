//! Paths of probes as lists of hops.
//!
//! ```text
//! lookup      client ─▶ resolver Pod
//! host        client ─▶ entry ─▶ origin
//! ClusterIP   client ─▶ endpoint
//! mesh        client ─▶ prober of a peer
//! report      vantage ─▶ aggregator
//! ```

use parallax_model::Channel;

use super::layout::{Cluster, ClusterTarget, NodeIx, PodIx, ServiceFront};

/// What a hop carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HopStage {
    /// A question to a resolver.
    Lookup,
    /// The client's connection, through the address of a Service or straight to a Pod.
    Connection(Option<ServiceFront>),
    /// The entry's connection to an origin.
    Forward,
    /// A request to another prober.
    Echo,
    /// A report to the aggregator.
    Report,
}

/// One hop of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The node where it starts.
    pub from: NodeIx,
    /// The node where it ends.
    pub to: NodeIx,
    /// The Pod where it ends.
    pub pod: PodIx,
    /// What it carries.
    pub stage: HopStage,
}

impl Hop {
    /// Returns the hop from a node to a Pod.
    #[must_use]
    pub fn new(cluster: &Cluster, from: NodeIx, pod: PodIx, stage: HopStage) -> Self {
        Self {
            from,
            to: cluster.node_of(pod),
            pod,
            stage,
        }
    }

    /// Returns the hop of a vantage's reports.
    #[must_use]
    pub fn report(cluster: &Cluster, node: NodeIx) -> Self {
        Self::new(cluster, node, cluster.aggregator, HopStage::Report)
    }
}

/// One probe of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScheduledProbe {
    /// As a user would, with the lookup if the target has a name.
    Vip(ClusterTarget),
    /// One endpoint's own address.
    Direct(ClusterTarget, PodIx),
    /// The prober of another node.
    Mesh(NodeIx),
    /// A name alone.
    Name,
}

impl ScheduledProbe {
    /// Returns its channel.
    #[must_use]
    pub const fn channel(self) -> Channel {
        match self {
            Self::Vip(_) => Channel::Vip,
            Self::Direct(..) => Channel::Direct,
            Self::Mesh(_) => Channel::Mesh,
            Self::Name => Channel::Dns,
        }
    }

    /// Returns its target; `None` for an echo.
    #[must_use]
    pub const fn target(self) -> Option<ClusterTarget> {
        match self {
            Self::Vip(target) | Self::Direct(target, _) => Some(target),
            Self::Name => Some(ClusterTarget::Name),
            Self::Mesh(_) => None,
        }
    }

    /// Reports whether it starts with a lookup.
    #[must_use]
    pub fn looks_up(self) -> bool {
        match self {
            Self::Vip(target) => target.host().is_some(),
            Self::Name => true,
            Self::Direct(..) | Self::Mesh(_) => false,
        }
    }

    /// Returns every path that its connection may take, each as likely as the others; empty for a name.
    #[must_use]
    pub fn connections(self, cluster: &Cluster, client: NodeIx) -> Vec<Vec<Hop>> {
        let single = |pod, stage| vec![vec![Hop::new(cluster, client, pod, stage)]];
        match self {
            Self::Name => Vec::new(),
            Self::Mesh(peer) => single(peer, HopStage::Echo),
            Self::Direct(ClusterTarget::Host(app), entry) => {
                through(cluster, client, &[entry], None, &cluster.origins[app])
            }
            Self::Direct(_, pod) => single(pod, HopStage::Connection(None)),
            Self::Vip(target @ ClusterTarget::Host(app)) => through(
                cluster,
                client,
                &cluster.entries,
                target.front(),
                &cluster.origins[app],
            ),
            Self::Vip(target) => endpoints(cluster, target)
                .iter()
                .map(|pod| {
                    vec![Hop::new(
                        cluster,
                        client,
                        *pod,
                        HopStage::Connection(target.front()),
                    )]
                })
                .collect(),
        }
    }

    /// Returns every path that one question of its lookup may take, each as likely as the others.
    #[must_use]
    pub fn questions(cluster: &Cluster, client: NodeIx) -> Vec<Hop> {
        cluster
            .resolvers
            .iter()
            .map(|pod| Hop::new(cluster, client, *pod, HopStage::Lookup))
            .collect()
    }
}

/// Returns the Pods that the front of a target selects from.
#[must_use]
pub fn endpoints(cluster: &Cluster, target: ClusterTarget) -> &[PodIx] {
    match target {
        ClusterTarget::Host(_) | ClusterTarget::IngressAddress => &cluster.entries,
        ClusterTarget::AppAddress(app) | ClusterTarget::Headless(app) => &cluster.origins[app],
        ClusterTarget::Name => &cluster.resolvers,
    }
}

fn through(
    cluster: &Cluster,
    client: NodeIx,
    entries: &[PodIx],
    front: Option<ServiceFront>,
    origins: &[PodIx],
) -> Vec<Vec<Hop>> {
    let mut paths = Vec::new();
    for entry in entries {
        for origin in origins {
            paths.push(vec![
                Hop::new(cluster, client, *entry, HopStage::Connection(front)),
                Hop::new(cluster, cluster.node_of(*entry), *origin, HopStage::Forward),
            ]);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::{super::super::rng::Rng, *};

    #[test]
    fn a_host_is_reached_through_every_entry_and_every_origin() {
        let cluster = Cluster::draw(12, &mut Rng::from_words(&[3]));
        let probe = ScheduledProbe::Vip(ClusterTarget::Host(1));
        let paths = probe.connections(&cluster, 4);
        assert_eq!(paths.len(), cluster.entries.len() * cluster.origins[1].len());
        for path in &paths {
            assert_eq!((path.len(), path[0].from), (2, 4));
            assert_eq!(path[0].stage, HopStage::Connection(Some(ServiceFront::Balancer)));
            assert_eq!(
                (path[1].stage, path[1].from),
                (HopStage::Forward, path[0].to),
                "the entry's node connects to the origin"
            );
        }
        let entry = cluster.entries[1];
        let known = ScheduledProbe::Direct(ClusterTarget::Host(1), entry).connections(&cluster, 4);
        assert_eq!(known.len(), cluster.origins[1].len());
        assert!(known.iter().all(|path| path[0].pod == entry));
    }

    #[test]
    fn a_headless_name_leads_straight_to_a_pod() {
        let cluster = Cluster::draw(12, &mut Rng::from_words(&[3]));
        let probe = ScheduledProbe::Vip(ClusterTarget::Headless(cluster.headless));
        assert!(probe.looks_up());
        for path in probe.connections(&cluster, 0) {
            assert_eq!(path[0].stage, HopStage::Connection(None));
        }
        assert_eq!(ScheduledProbe::questions(&cluster, 0).len(), 2);
    }
}
