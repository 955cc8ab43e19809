//! Builds the healthy cluster of an incident.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    str::FromStr,
};

use parallax_model::{NodeName, ObjectName, PodName, ServiceKey, Vantage};

use super::{Cluster, Node, OpError, OutsideClient, Pod, Resolver, Service, addresses};
use crate::incident::{
    BackendPods, BalancingMode, HealthChecks, Incident, IpMode, Resolver as WrittenResolver,
    ResolverSoftware, ServerSpec, Service as Written, ServicePort, TrafficPolicy,
};

impl Cluster {
    /// Builds the healthy cluster of an incident.
    pub fn derive(incident: &Incident) -> Result<Self, OpError> {
        let topology = &incident.topology;
        let nodes: Vec<Node> = (1..)
            .zip(&topology.nodes)
            .map(|(number, node)| Node {
                name: node.name.clone(),
                zone: node.zone.clone(),
                number,
                prober: Pod {
                    name: pod_name(addresses::prober_pod(&node.name)),
                    node: node.name.clone(),
                    address: addresses::pod_address(number, addresses::PROBER),
                },
                present: !node.absent,
                probes: node.prober,
                host_prober: node.host_prober,
                prober_ready: true,
                cordoned: false,
                ready: true,
                connected: true,
            })
            .collect();
        let mut cluster = Self {
            dataplane: incident.dataplane,
            families: topology.families,
            nodes,
            services: Vec::new(),
            absent: Vec::new(),
            ingresses: topology.ingresses.clone(),
            targets: topology.targets.clone(),
            balancers: topology.balancers.clone(),
            resolvers: Vec::new(),
            resolver_service: resolver_service(),
            aggregator: None,
            outside: Vec::new(),
            records: topology.records.clone(),
            overrides: topology.overrides.clone(),
            deviations: BTreeMap::new(),
            cut_links: BTreeSet::new(),
            frozen_nodes: BTreeSet::new(),
            next_pod: BTreeMap::new(),
            deleted_pods: BTreeSet::new(),
            solvers: Vec::new(),
            routes: Vec::new(),
        };
        cluster.add_resolvers(incident)?;
        if let Some(name) = &topology.aggregator {
            let node = cluster.node(name).ok_or_else(|| OpError::NoNode(name.clone()))?;
            cluster.aggregator = Some(Pod {
                name: pod_name(addresses::AGGREGATOR_POD.to_owned()),
                node: name.clone(),
                address: addresses::pod_address(node.number, addresses::AGGREGATOR),
            });
        }
        for (number, vantage) in (1..).zip(&topology.vantages) {
            let Vantage::Outside { name, .. } = vantage else {
                return Err(OpError::NoOutside(vantage.clone()));
            };
            cluster.outside.push(OutsideClient {
                name: NodeName::new(name.as_str()).map_err(|_| OpError::NoOutside(vantage.clone()))?,
                vantage: vantage.clone(),
                number,
            });
        }
        for written in &topology.services {
            let service = cluster.service_of(written)?;
            if written.absent {
                cluster.absent.push(service);
            } else {
                cluster.services.push(service);
            }
        }
        Ok(cluster)
    }

    fn add_resolvers(&mut self, incident: &Incident) -> Result<(), OpError> {
        let written = &incident.topology.resolvers;
        let only = WrittenResolver {
            pod: pod_name(addresses::DNS_POD.to_owned()),
            node: self.nodes.first().ok_or(OpError::NoNodes)?.name.clone(),
            software: ResolverSoftware::default(),
            serves: Vec::new(),
            cache_seconds: None,
        };
        let mut taken: BTreeMap<NodeName, u8> = BTreeMap::new();
        for resolver in written.iter().chain(written.is_empty().then_some(&only)) {
            let known = |node: &NodeName| self.node(node).ok_or_else(|| OpError::NoNode(node.clone()));
            let number = known(&resolver.node)?.number;
            resolver
                .serves
                .iter()
                .try_for_each(|node| known(node).map(|_| ()))?;
            // 3 and 4; the prober has 5.
            let last = taken.entry(resolver.node.clone()).or_insert(addresses::DNS);
            if *last >= addresses::PROBER {
                return Err(OpError::Full(resolver.node.clone()));
            }
            let pod = Pod {
                name: resolver.pod.clone(),
                node: resolver.node.clone(),
                address: addresses::pod_address(number, *last),
            };
            if resolver.serves.is_empty() {
                self.resolver_service.endpoints.push(pod.clone());
            }
            self.resolvers.push(Resolver {
                pod,
                software: resolver.software,
                serves: resolver.serves.clone(),
                cache_seconds: resolver.cache_seconds,
            });
            *last += 1;
        }
        Ok(())
    }

    fn service_of(&mut self, written: &Written) -> Result<Service, OpError> {
        let mut endpoints = written
            .endpoints
            .iter()
            .map(|endpoint| self.new_pod(&endpoint.pod, &endpoint.node))
            .collect::<Result<Vec<_>, _>>()?;
        if written.behind == Some(BackendPods::Probers) {
            let probing = self.present_nodes().filter(|node| node.probes);
            endpoints.extend(probing.map(|node| node.prober.clone()));
        }
        Ok(Service {
            key: written.service.clone(),
            cluster_ip: written.cluster_ip,
            load_balancer_ip: written.load_balancer_ip,
            ip_mode: written.ip_mode,
            balancing: written.balancing,
            health_checks: written.health_checks,
            policy: written.external_traffic_policy,
            internal_policy: written.internal_traffic_policy,
            class: written.class.clone(),
            ports: written.ports.clone(),
            server: written.server.clone(),
            other_servers: BTreeMap::new(),
            endpoints,
            states: BTreeMap::new(),
            backend_pods: written.behind,
            network_policy: None,
        })
    }

    pub(super) fn new_pod(&mut self, name: &PodName, node: &NodeName) -> Result<Pod, OpError> {
        let number = self
            .node(node)
            .ok_or_else(|| OpError::NoNode(node.clone()))?
            .number;
        let next = self
            .next_pod
            .entry(node.clone())
            .or_insert(addresses::FIRST_WORKLOAD);
        let last = *next;
        *next = last.checked_add(1).ok_or_else(|| OpError::Full(node.clone()))?;
        Ok(Pod {
            name: name.clone(),
            node: node.clone(),
            address: addresses::pod_address(number, last),
        })
    }
}

impl Service {
    /// Creates a Service with a `ClusterIP`, one port with its name, and no endpoints.
    pub(super) fn with_cluster_ip(
        key: ServiceKey,
        cluster_ip: Ipv4Addr,
        (name, port): (ObjectName, u16),
    ) -> Self {
        Self {
            key,
            cluster_ip: Some(cluster_ip),
            load_balancer_ip: None,
            ip_mode: IpMode::default(),
            balancing: BalancingMode::default(),
            health_checks: HealthChecks::default(),
            policy: TrafficPolicy::default(),
            internal_policy: TrafficPolicy::default(),
            class: None,
            ports: vec![ServicePort {
                name,
                port,
                target_port: port,
                node_port: None,
            }],
            server: ServerSpec::default(),
            other_servers: BTreeMap::new(),
            endpoints: Vec::new(),
            states: BTreeMap::new(),
            backend_pods: None,
            network_policy: None,
        }
    }
}

/// Builds the resolver's Service without endpoints. UDP is implied: the published port is that of TCP.
fn resolver_service() -> Service {
    #[expect(clippy::expect_used, reason = "constants")]
    let (key, port) = (
        ServiceKey::from_str(addresses::DNS_SERVICE_KEY).expect("a namespace and a name"),
        ObjectName::new("dns-tcp").expect("a name of letters"),
    );
    Service::with_cluster_ip(key, addresses::DNS_SERVICE, (port, 53))
}

fn pod_name(name: String) -> PodName {
    #[expect(clippy::expect_used, reason = "made from a checked node name and letters")]
    PodName::new(name).expect("a name of letters")
}
