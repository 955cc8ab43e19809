//! Faults: predicates on hops, with a failure rate, a kind of failure and a schedule.

use super::{
    hops::{Hop, HopStage},
    layout::{AppIx, Cluster, NodeIx, PodIx, ServiceFront, ZoneIx},
};

/// One second in the unit of all times here.
pub const SECOND_US: i64 = 1_000_000;

/// A failure rate from which a fault stops reports and probers instead of delaying them.
const CUT: f64 = 0.5;

/// What a fault breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokenPart {
    /// A node: everything into it and out of it. If it is dead, its prober is silent.
    Node(NodeIx),
    /// Everything that leaves a node.
    Client(NodeIx),
    /// Two nodes, in both directions.
    Pair(NodeIx, NodeIx),
    /// Two zones, in both directions.
    Zones(ZoneIx, ZoneIx),
    /// An entry or origin Pod.
    Pod(PodIx),
    /// All origins of an application.
    App(AppIx),
    /// One resolver Pod.
    Resolver(PodIx),
    /// All resolver Pods.
    Resolvers,
    /// The Service rules of one node, for these fronts.
    StaleProxy(NodeIx, Vec<ServiceFront>),
    /// The load balancer's address.
    Front,
    /// Everything between nodes.
    Cross,
    /// The load balancer's address, for the clients of one zone.
    ZoneBarred(ZoneIx),
}

/// Where on a hop a fault strikes, in the order in which a packet gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultPlace {
    /// The address of a Service, where an endpoint is selected.
    Address,
    /// The nodes and the network between them.
    Network,
    /// The Pod that accepts connections.
    Pod,
    /// The application that answers requests.
    Application,
}

/// A kind of fault, as listed by sets and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the same words as in `BrokenPart`")]
pub enum FaultKind {
    Node,
    Client,
    Pair,
    Zones,
    Pod,
    App,
    Resolver,
    Resolvers,
    StaleProxy,
    Front,
    Cross,
    ZoneBarred,
}

/// How a broken hop fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureMode {
    /// Packets are lost.
    Loss,
    /// Connections are refused.
    Refused,
    /// The origin answers 503.
    Unavailable,
}

/// One injected fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What it breaks.
    pub part: BrokenPart,
    /// Probability that a touched hop fails.
    pub theta: f64,
    /// How it fails.
    pub mode: FailureMode,
    /// When it is active: start and end in microseconds, in order.
    pub active: Vec<(i64, i64)>,
}

impl BrokenPart {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::Node(_) => FaultKind::Node,
            Self::Client(_) => FaultKind::Client,
            Self::Pair(..) => FaultKind::Pair,
            Self::Zones(..) => FaultKind::Zones,
            Self::Pod(_) => FaultKind::Pod,
            Self::App(_) => FaultKind::App,
            Self::Resolver(_) => FaultKind::Resolver,
            Self::Resolvers => FaultKind::Resolvers,
            Self::StaleProxy(..) => FaultKind::StaleProxy,
            Self::Front => FaultKind::Front,
            Self::Cross => FaultKind::Cross,
            Self::ZoneBarred(_) => FaultKind::ZoneBarred,
        }
    }

    /// Returns where on a hop it strikes.
    #[must_use]
    pub const fn place(&self) -> FaultPlace {
        match self {
            Self::StaleProxy(..) | Self::Front | Self::ZoneBarred(_) => FaultPlace::Address,
            Self::Node(_) | Self::Client(_) | Self::Pair(..) | Self::Zones(..) | Self::Cross => {
                FaultPlace::Network
            }
            Self::Pod(_) | Self::Resolver(_) | Self::Resolvers => FaultPlace::Pod,
            Self::App(_) => FaultPlace::Application,
        }
    }

    /// Reports whether a hop is in the region.
    #[must_use]
    pub fn touches(&self, hop: &Hop, cluster: &Cluster) -> bool {
        let ends = |a, b| (hop.from, hop.to) == (a, b) || (hop.from, hop.to) == (b, a);
        match self {
            Self::Node(node) => hop.from == *node || hop.to == *node,
            Self::Client(node) => hop.from == *node && hop.to != *node,
            Self::Pair(a, b) => ends(*a, *b),
            Self::Zones(a, b) => {
                let zones = (cluster.zones[hop.from], cluster.zones[hop.to]);
                zones == (*a, *b) || zones == (*b, *a)
            }
            Self::Pod(pod) | Self::Resolver(pod) => hop.pod == *pod,
            Self::App(app) => cluster.origins[*app].contains(&hop.pod),
            Self::Resolvers => hop.stage == HopStage::Lookup,
            Self::StaleProxy(node, fronts) => {
                hop.from == *node
                    && matches!(hop.stage, HopStage::Connection(Some(front)) if fronts.contains(&front))
            }
            Self::Front => hop.stage == HopStage::Connection(Some(ServiceFront::Balancer)),
            Self::Cross => hop.from != hop.to,
            Self::ZoneBarred(zone) => {
                hop.stage == HopStage::Connection(Some(ServiceFront::Balancer))
                    && cluster.zones[hop.from] == *zone
            }
        }
    }

    /// Describes the region for a person.
    #[must_use]
    pub fn describe(&self, cluster: &Cluster) -> String {
        let node = |node: &NodeIx| cluster.node_name(*node);
        let members = match self {
            Self::Node(n) | Self::Client(n) => vec![node(n)],
            Self::Pair(a, b) => vec![node(a), node(b)],
            Self::Zones(a, b) => [a, b].map(|zone| Cluster::zone_name(*zone).to_owned()).into(),
            Self::Pod(pod) | Self::Resolver(pod) => vec![cluster.pods[*pod].name.clone()],
            Self::App(app) => vec![Cluster::app_name(*app).to_owned()],
            Self::StaleProxy(n, fronts) => {
                let mut members = vec![node(n)];
                members.extend(fronts.iter().map(|front| front.name()));
                members
            }
            Self::ZoneBarred(zone) => vec![Cluster::zone_name(*zone).to_owned()],
            Self::Resolvers | Self::Front | Self::Cross => Vec::new(),
        };
        format!("{} [{}]", self.kind().word(), members.join(", "))
    }
}

impl FaultKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Node,
        Self::Client,
        Self::Pair,
        Self::Zones,
        Self::Pod,
        Self::App,
        Self::Resolver,
        Self::Resolvers,
        Self::StaleProxy,
        Self::Front,
        Self::Cross,
        Self::ZoneBarred,
    ];

    /// Returns its name in reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Client => "client",
            Self::Pair => "pair",
            Self::Zones => "zones",
            Self::Pod => "pod",
            Self::App => "application",
            Self::Resolver => "resolver",
            Self::Resolvers => "resolvers",
            Self::StaleProxy => "stale-proxy",
            Self::Front => "front",
            Self::Cross => "cross",
            Self::ZoneBarred => "zone-barred",
        }
    }
}

impl Fault {
    /// Reports whether it is active at a time.
    #[must_use]
    pub fn is_active(&self, at: i64) -> bool {
        self.active
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at))
    }

    /// Returns when it is active first.
    #[must_use]
    pub fn start(&self) -> i64 {
        self.active.first().map_or(0, |(start, _)| *start)
    }

    /// Returns when it is cured for good.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.active.last().map_or(0, |(_, end)| *end)
    }

    /// Reports whether it cuts the hop of reports at a time, instead of delaying some of them.
    #[must_use]
    pub fn cuts_reports(&self, hop: &Hop, at: i64, cluster: &Cluster) -> bool {
        self.theta >= CUT && self.is_active(at) && self.part.touches(hop, cluster)
    }

    /// Reports whether the prober of a node is dead at a time.
    #[must_use]
    pub fn silences(&self, node: NodeIx, at: i64) -> bool {
        self.theta >= CUT && self.part == BrokenPart::Node(node) && self.is_active(at)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::rng::Rng, *};

    fn cluster() -> Cluster {
        Cluster::draw(12, &mut Rng::from_words(&[5]))
    }

    #[test]
    fn an_onward_hop_is_touched_where_it_runs_and_not_where_its_client_sits() {
        let cluster = cluster();
        let (entry, origin) = (cluster.entries[0], cluster.origins[0][0]);
        let forward = Hop::new(&cluster, cluster.node_of(entry), origin, HopStage::Forward);
        for part in [
            BrokenPart::Pod(origin),
            BrokenPart::App(0),
            BrokenPart::Node(cluster.node_of(origin)),
            BrokenPart::Pair(cluster.node_of(origin), cluster.node_of(entry)),
        ] {
            assert!(part.touches(&forward, &cluster), "{part:?}");
        }
        for part in [BrokenPart::Front, BrokenPart::Resolvers, BrokenPart::Pod(entry)] {
            assert!(!part.touches(&forward, &cluster), "{part:?}");
        }
    }

    #[test]
    fn two_zones_are_cut_in_both_directions_and_not_within() {
        let cluster = cluster();
        let in_zone = |zone| (0..12).filter(|n| cluster.zones[*n] == zone).collect::<Vec<_>>();
        let (a, b) = (in_zone(0), in_zone(1));
        let hop = |from: NodeIx, to: NodeIx| Hop::new(&cluster, from, to, HopStage::Echo);
        let cut = BrokenPart::Zones(0, 1);
        assert!(cut.touches(&hop(a[0], b[0]), &cluster) && cut.touches(&hop(b[0], a[0]), &cluster));
        assert!(!cut.touches(&hop(a[0], a[1]), &cluster));
    }

    #[test]
    fn a_flapping_fault_is_active_in_its_intervals_only() {
        let fault = Fault {
            part: BrokenPart::Front,
            theta: 1.0,
            mode: FailureMode::Loss,
            active: vec![(10, 20), (30, 40)],
        };
        let active: Vec<i64> = [9, 10, 19, 20, 30, 40]
            .into_iter()
            .filter(|at| fault.is_active(*at))
            .collect();
        assert_eq!(active, [10, 19, 30]);
        assert_eq!((fault.start(), fault.end()), (10, 40));
    }
}
