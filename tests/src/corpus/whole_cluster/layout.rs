//! The generated cluster: nodes in zones, an ingress, applications, resolvers and the aggregator.

use super::super::rng::Rng;

/// Index of a node.
pub type NodeIx = usize;
/// Index of a Pod. The prober of a node has the index of its node.
pub type PodIx = usize;
/// Index of an application.
pub type AppIx = usize;
/// Index of a zone.
pub type ZoneIx = usize;

/// Number of zones.
pub const ZONES: usize = 3;

const APP_NAMES: [&str; 5] = ["shop", "api", "www", "docs", "mail"];

/// What a Pod does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodRole {
    /// Probes from its node and answers the echo requests of other probers.
    Prober,
    /// An ingress Pod.
    Entry,
    /// Serves an application.
    Origin(AppIx),
    /// Answers names.
    Resolver,
    /// Receives the reports of the probers.
    Aggregator,
}

/// A Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPod {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: NodeIx,
    /// Its role.
    pub role: PodRole,
}

/// An address that a Service owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceFront {
    /// The load balancer's address of the ingress.
    Balancer,
    /// The ClusterIP of the ingress.
    Ingress,
    /// The ClusterIP of an application.
    App(AppIx),
}

/// A target that every client probes in every round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterTarget {
    /// The host of an application, through the ingress.
    Host(AppIx),
    /// The ClusterIP of an application.
    AppAddress(AppIx),
    /// The ClusterIP of the ingress, which answers by itself.
    IngressAddress,
    /// The headless name of an application.
    Headless(AppIx),
    /// A name alone.
    Name,
}

/// The cluster of one trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Zone of each node.
    pub zones: Vec<ZoneIx>,
    /// All Pods.
    pub pods: Vec<PlacedPod>,
    /// Ingress Pods.
    pub entries: Vec<PodIx>,
    /// Resolver Pods.
    pub resolvers: Vec<PodIx>,
    /// Origin Pods of each application.
    pub origins: Vec<Vec<PodIx>>,
    /// The application that also has a headless Service.
    pub headless: AppIx,
    /// The aggregator's Pod.
    pub aggregator: PodIx,
}

impl Cluster {
    /// Draws a cluster.
    #[must_use]
    pub fn draw(nodes: usize, rng: &mut Rng) -> Self {
        let mut zones: Vec<ZoneIx> = (0..nodes).map(|node| node % ZONES).collect();
        rng.shuffle(&mut zones);
        let mut cluster = Self {
            pods: (0..nodes)
                .map(|node| PlacedPod {
                    name: format!("prober-{node}"),
                    node,
                    role: PodRole::Prober,
                })
                .collect(),
            zones,
            entries: Vec::new(),
            resolvers: Vec::new(),
            origins: Vec::new(),
            headless: 0,
            aggregator: 0,
        };
        let entries = rng.in_range((2, 3));
        cluster.entries = cluster.place("edge", PodRole::Entry, entries, rng);
        cluster.resolvers = cluster.place("kube-dns", PodRole::Resolver, 2, rng);
        cluster.aggregator = cluster.place("aggregator", PodRole::Aggregator, 1, rng)[0];
        for (app, name) in APP_NAMES.iter().enumerate().take(rng.in_range((3, 5))) {
            let replicas = rng.in_range((2, 3));
            let pods = cluster.place(name, PodRole::Origin(app), replicas, rng);
            cluster.origins.push(pods);
        }
        cluster.headless = rng.below(cluster.origins.len());
        cluster
    }

    /// Adds Pods on different nodes.
    fn place(&mut self, name: &str, role: PodRole, count: usize, rng: &mut Rng) -> Vec<PodIx> {
        let mut nodes: Vec<NodeIx> = (0..self.zones.len()).collect();
        rng.shuffle(&mut nodes);
        let first = self.pods.len();
        for (i, node) in nodes.into_iter().take(count).enumerate() {
            self.pods.push(PlacedPod {
                name: format!("{name}-{i}"),
                node,
                role,
            });
        }
        (first..self.pods.len()).collect()
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.zones.len()
    }

    /// Returns the node of a Pod.
    #[must_use]
    pub fn node_of(&self, pod: PodIx) -> NodeIx {
        self.pods[pod].node
    }

    /// Returns the name of a node.
    #[must_use]
    pub fn node_name(&self, node: NodeIx) -> String {
        format!("n{node:02}")
    }

    /// Returns the name of a zone.
    #[must_use]
    pub const fn zone_name(zone: ZoneIx) -> &'static str {
        ["zone-a", "zone-b", "zone-c"][zone]
    }

    /// Returns the name of an application.
    #[must_use]
    pub const fn app_name(app: AppIx) -> &'static str {
        APP_NAMES[app]
    }

    /// Returns the address of a Pod, without port.
    #[must_use]
    pub fn pod_address(&self, pod: PodIx) -> String {
        match self.pods[pod].role {
            PodRole::Prober => format!("10.244.{pod}.5"),
            _ => format!("10.244.{}.{}", self.pods[pod].node, 10 + pod),
        }
    }

    /// Returns the address and port of a Pod.
    #[must_use]
    pub fn pod_front(&self, pod: PodIx) -> String {
        let port = if self.pods[pod].role == PodRole::Prober {
            9095
        } else {
            8080
        };
        format!("{}:{port}", self.pod_address(pod))
    }

    /// Returns every front that users connect to, the load balancer's first.
    #[must_use]
    pub fn fronts(&self) -> Vec<ServiceFront> {
        let mut fronts = vec![ServiceFront::Balancer, ServiceFront::Ingress];
        fronts.extend((0..self.origins.len()).map(ServiceFront::App));
        fronts
    }

    /// Returns the targets that every client probes through a Service or a name.
    #[must_use]
    pub fn targets(&self) -> Vec<ClusterTarget> {
        let apps = 0..self.origins.len();
        let mut targets: Vec<ClusterTarget> = apps.clone().map(ClusterTarget::Host).collect();
        targets.extend(apps.map(ClusterTarget::AppAddress));
        targets.push(ClusterTarget::IngressAddress);
        targets.push(ClusterTarget::Headless(self.headless));
        targets
    }
}

impl ServiceFront {
    /// Returns the IP address.
    #[must_use]
    pub fn address(self) -> String {
        match self {
            Self::Balancer => "203.0.113.10".to_owned(),
            Self::Ingress => "10.96.1.1".to_owned(),
            Self::App(app) => format!("10.96.1.{}", 5 + app),
        }
    }

    /// Returns address and port, as in the subject of a verdict.
    #[must_use]
    pub fn name(self) -> String {
        format!("{}:80", self.address())
    }

    /// Returns `namespace/name` of its Service.
    #[must_use]
    pub fn service(self) -> String {
        match self {
            Self::Balancer | Self::Ingress => "ingress/edge".to_owned(),
            Self::App(app) => format!("apps/{}", Cluster::app_name(app)),
        }
    }
}

impl ClusterTarget {
    /// Returns the id of the target.
    #[must_use]
    pub fn id(self) -> String {
        match self {
            Self::Host(app) => format!("http://{}.example.test/", Cluster::app_name(app)),
            Self::AppAddress(app) => format!("http://{}/", ServiceFront::App(app).name()),
            Self::IngressAddress => format!("http://{}/", ServiceFront::Ingress.name()),
            Self::Headless(app) => format!("http://{}-pods.apps.svc:8080/", Cluster::app_name(app)),
            Self::Name => "dns://kubernetes.default.svc".to_owned(),
        }
    }

    /// Returns the name that a client looks up first; `None` for an address.
    #[must_use]
    pub fn host(self) -> Option<String> {
        match self {
            Self::Host(app) => Some(format!("{}.example.test", Cluster::app_name(app))),
            Self::Headless(app) => Some(format!("{}-pods.apps.svc", Cluster::app_name(app))),
            Self::Name => Some("kubernetes.default.svc".to_owned()),
            Self::AppAddress(_) | Self::IngressAddress => None,
        }
    }

    /// Returns the front that a client connects to; `None` for a name, and for a headless Service, whose Pods it
    /// connects to directly.
    #[must_use]
    pub const fn front(self) -> Option<ServiceFront> {
        match self {
            Self::Host(_) => Some(ServiceFront::Balancer),
            Self::AppAddress(app) => Some(ServiceFront::App(app)),
            Self::IngressAddress => Some(ServiceFront::Ingress),
            Self::Headless(_) | Self::Name => None,
        }
    }

    /// Returns the application that answers, if one does.
    #[must_use]
    pub const fn app(self) -> Option<AppIx> {
        match self {
            Self::Host(app) | Self::AppAddress(app) | Self::Headless(app) => Some(app),
            Self::IngressAddress | Self::Name => None,
        }
    }

    /// Returns `namespace/name` of the Service that selects the entries; `None` for a name.
    #[must_use]
    pub fn service(self) -> Option<String> {
        match self {
            Self::Headless(app) => Some(format!("apps/{}-pods", Cluster::app_name(app))),
            Self::Name => None,
            _ => self.front().map(ServiceFront::service),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_what_its_description_says() {
        for seed in 0..20 {
            let cluster = Cluster::draw(12, &mut Rng::from_words(&[seed]));
            assert!((2..=3).contains(&cluster.entries.len()));
            assert_eq!(cluster.resolvers.len(), 2);
            assert!((3..=5).contains(&cluster.origins.len()));
            for pods in &cluster.origins {
                assert!((2..=3).contains(&pods.len()));
            }
            for (ix, pod) in cluster.pods.iter().enumerate() {
                let first = cluster.pods.iter().position(|other| other.name == pod.name);
                assert_eq!(first, Some(ix));
            }
            for zone in 0..ZONES {
                assert_eq!(cluster.zones.iter().filter(|z| **z == zone).count(), 4);
            }
        }
    }
}
