//! Inputs of the aggregator: its configuration, and the topology as the Kubernetes API would return it.

mod published;

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::Context;
use parallax_diagnosis::topology::{BalancerSpec, NodeReadiness, PublishedSpec};
use parallax_model::{HostName, NodeName, ObjectName, PodName, TargetSpec};
use serde::Serialize;

use crate::{
    cluster::{self, Cluster, addresses},
    incident::{Dataplane, Incident, IpMode, PublishedBy, ServicePort, TrafficPolicy},
    objects,
    run_dir::RunDir,
};

use published::{headless, is_published, published};

const CONFIG: &str = "parallax.yaml";
const TOPOLOGY: &str = "topology.yaml";
const CHECKPOINT: &str = "checkpoint.json";

/// Kubeconfig in the run's directory, if an API server publishes the topology.
pub const KUBECONFIG: &str = "kubeconfig.yaml";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    listen: String,
    interval_ms: u64,
    timeout_ms: u64,
    topology: TopologyConfig,
    /// Absent with a topology file, which contains the targets itself.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    targets: &'a [TargetSpec],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    vantages: Vec<String>,
    resolvers: ResolverConfig,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    balancers: Vec<BalancerSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Checkpoint>,
}

#[derive(Debug, Serialize)]
struct Checkpoint {
    file: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum TopologyConfig {
    File(&'static str),
    Cluster { kubernetes: KubernetesConfig },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KubernetesConfig {
    kubeconfig: &'static str,
    prober_namespace: &'static str,
}

#[derive(Debug, Serialize)]
struct ResolverConfig {
    public: Vec<Ipv4Addr>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Topology<'a> {
    proxy_mode: &'static str,
    nodes: Vec<Node<'a>>,
    services: Vec<Service<'a>>,
    ingresses: Vec<IngressConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<PublishedSpec>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    targets: &'a [TargetSpec],
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregator: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Node<'a> {
    name: &'a str,
    zone: &'a str,
    addresses: Vec<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prober: Option<ProberConfig<'a>>,
    /// Set while the node controller has not heard from the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    readiness: Option<NodeReadiness>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cordoned: bool,
}

#[derive(Debug, Serialize)]
struct ProberConfig<'a> {
    pod: &'a str,
    address: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Service<'a> {
    namespace: &'a str,
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<IpAddr>,
    load_balancer: Vec<BalancerConfig>,
    external_traffic_policy: TrafficPolicy,
    internal_traffic_policy: TrafficPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    ingress_class: Option<&'a str>,
    ports: &'a [ServicePort],
    #[serde(skip_serializing_if = "Option::is_none")]
    guarded_by: Option<[&'a str; 1]>,
    endpoints: Vec<Endpoint<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BalancerConfig {
    ip: IpAddr,
    ip_mode: IpMode,
}

#[derive(Debug, Serialize)]
struct Endpoint<'a> {
    pod: &'a str,
    address: Ipv4Addr,
    node: &'a str,
    /// Absent if the endpoint is ready.
    #[serde(flatten)]
    conditions: Option<EndpointConditions>,
}

#[derive(Debug, Serialize)]
struct EndpointConditions {
    ready: bool,
    serving: bool,
    terminating: bool,
}

/// Returns the conditions of an endpoint, unless it is ready.
fn conditions(service: &cluster::Service, pod: &PodName) -> Option<EndpointConditions> {
    let actual = service.conditions(pod);
    (!actual.ready).then_some(EndpointConditions {
        ready: actual.ready,
        serving: actual.serving,
        terminating: actual.terminating,
    })
}

#[derive(Debug, Serialize)]
struct IngressConfig<'a> {
    namespace: &'a str,
    name: &'a str,
    service: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
    tls: bool,
    hosts: Vec<&'a str>,
}

impl<'a> Topology<'a> {
    fn from_cluster(cluster: &'a Cluster) -> Self {
        Self {
            proxy_mode: match cluster.dataplane {
                Dataplane::IpvsOld | Dataplane::Ipvs => "ipvs",
                Dataplane::Iptables | Dataplane::IptablesNoClusterCidr => "iptables",
                Dataplane::Nftables | Dataplane::NftablesOld | Dataplane::NftablesNoClusterCidr => "nftables",
            },
            nodes: cluster
                .present_nodes()
                .map(|node| Node {
                    name: node.name.as_str(),
                    zone: node.zone.as_str(),
                    addresses: with_counterpart(cluster, addresses::underlay_address(node.number)),
                    prober: node.probes.then(|| ProberConfig {
                        pod: node.prober.name.as_str(),
                        address: format!("{}:{}", node.prober.address, addresses::ECHO_PORT),
                    }),
                    readiness: (!node.ready).then_some(NodeReadiness::NotReady),
                    cordoned: node.cordoned,
                })
                .collect(),
            services: cluster
                .published_services()
                .map(|service| Service {
                    namespace: service.key.namespace.as_str(),
                    name: service.key.name.as_str(),
                    kind: if service.load_balancer_ip.is_some() {
                        "LoadBalancer"
                    } else {
                        "ClusterIP"
                    },
                    cluster_ips: service
                        .cluster_ip
                        .map(|ip| with_counterpart(cluster, ip))
                        .unwrap_or_default(),
                    load_balancer: service
                        .load_balancer_ip
                        .map(|ip| with_counterpart(cluster, ip))
                        .into_iter()
                        .flatten()
                        .map(|ip| BalancerConfig {
                            ip,
                            ip_mode: service.ip_mode,
                        })
                        .collect(),
                    external_traffic_policy: service.policy,
                    internal_traffic_policy: service.internal_policy,
                    ingress_class: service.class.as_ref().map(ObjectName::as_str),
                    ports: &service.ports,
                    guarded_by: service.network_policy.as_ref().map(|(name, _)| [name.as_str()]),
                    endpoints: service
                        .endpoints
                        .iter()
                        .map(|pod| Endpoint {
                            pod: pod.name.as_str(),
                            address: pod.address,
                            node: pod.node.as_str(),
                            conditions: conditions(service, &pod.name),
                        })
                        .collect(),
                })
                .collect(),
            published: cluster
                .ingresses
                .iter()
                .filter(|ingress| is_published(ingress))
                .flat_map(published)
                .chain(cluster.services.iter().flat_map(headless))
                .collect(),
            ingresses: cluster
                .ingresses
                .iter()
                .filter(|ingress| !is_published(ingress))
                .map(|ingress| IngressConfig {
                    namespace: ingress.ingress.namespace.as_str(),
                    name: ingress.ingress.name.as_str(),
                    service: ingress.service.to_string(),
                    class: ingress.class.as_ref().map(ObjectName::as_str),
                    tls: ingress.tls,
                    hosts: ingress.hosts.names().iter().map(HostName::as_str).collect(),
                })
                .collect(),
            targets: &cluster.targets,
            aggregator: cluster.aggregator.as_ref().map(|pod| pod.node.as_str()),
        }
    }
}

/// Returns an address, with its IPv6 counterpart in a dual-stack cluster.
fn with_counterpart(cluster: &Cluster, address: Ipv4Addr) -> Vec<IpAddr> {
    let six = cluster
        .is_dual_stack()
        .then(|| IpAddr::V6(addresses::ipv6_counterpart(address)));
    [Some(IpAddr::V4(address)), six].into_iter().flatten().collect()
}

/// Renders the topology file.
pub fn topology_yaml(cluster: &Cluster) -> anyhow::Result<String> {
    serde_saphyr::to_string(&Topology::from_cluster(cluster)).context("writing the topology as YAML")
}

fn config_yaml(incident: &Incident, cluster: &Cluster, listen: SocketAddr) -> anyhow::Result<String> {
    let (topology, targets): (TopologyConfig, &[TargetSpec]) = match incident.topology.published_by {
        PublishedBy::File => (TopologyConfig::File(TOPOLOGY), &[]),
        PublishedBy::ApiServer => {
            let kubernetes = KubernetesConfig {
                kubeconfig: KUBECONFIG,
                prober_namespace: objects::NAMESPACE,
            };
            (TopologyConfig::Cluster { kubernetes }, &cluster.targets)
        }
    };
    let config = Config {
        listen: listen.to_string(),
        interval_ms: incident.interval_ms,
        timeout_ms: incident.timeout_ms,
        topology,
        targets,
        vantages: cluster
            .outside
            .iter()
            .map(|outside| outside.vantage.to_string())
            .chain(
                cluster
                    .present_nodes()
                    .filter(|node| node.host_prober)
                    .map(|node| format!("{}/host", node.name)),
            )
            .collect(),
        resolvers: ResolverConfig {
            public: vec![addresses::PUBLIC_DNS],
        },
        balancers: cluster.balancers.clone(),
        checkpoint: incident.checkpoint.then_some(Checkpoint { file: CHECKPOINT }),
    };
    serde_saphyr::to_string(&config).context("writing the configuration as YAML")
}

/// Writes the configuration and returns its path.
pub fn write(
    run: &RunDir,
    incident: &Incident,
    cluster: &Cluster,
    listen: SocketAddr,
) -> anyhow::Result<PathBuf> {
    let path = run.file(CONFIG);
    replace(&path, &config_yaml(incident, cluster, listen)?)?;
    Ok(path)
}

/// Returns the value of the aggregator's option `--node`. A topology file contains the node itself.
#[must_use]
pub fn node_argument(incident: &Incident) -> Option<&NodeName> {
    let topology = &incident.topology;
    let watched = topology.published_by == PublishedBy::ApiServer;
    topology.aggregator.as_ref().filter(|_| watched)
}

/// Returns the path of a run's configuration.
#[must_use]
pub fn config_path(run: &RunDir) -> PathBuf {
    run.file(CONFIG)
}

/// Publishes the current state of the cluster.
pub fn publish(run: &RunDir, cluster: &Cluster) -> anyhow::Result<()> {
    replace(&run.file(TOPOLOGY), &topology_yaml(cluster)?)
}

/// Replaces a file atomically: a reader sees the old or the new text.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text).with_context(|| format!("writing {}", new.display()))?;
    fs::rename(&new, path).with_context(|| format!("replacing {}", path.display()))
}

/// Returns the page's URL for a browser on this machine; an unspecified address becomes the loopback.
#[must_use]
pub fn page_url(listen: SocketAddr) -> String {
    let ip = if listen.ip().is_unspecified() {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    } else {
        listen.ip()
    };
    format!("http://{}/", SocketAddr::new(ip, listen.port()))
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::{Topology, TopologySpec};

    use super::*;

    fn published(text: &str) -> (String, Topology) {
        let incident = crate::incident_file::parse(Path::new("x.yaml"), text).unwrap();
        let yaml = topology_yaml(&Cluster::derive(&incident).unwrap()).unwrap();
        let spec: TopologySpec = serde_saphyr::from_str(&yaml).unwrap();
        (yaml, spec.try_into().unwrap())
    }

    #[test]
    fn what_the_lab_publishes_for_i1() {
        insta::assert_snapshot!(published(include_str!("../incidents/i1.yaml")).0);
    }

    #[test]
    fn the_resolvers_service_and_the_aggregators_node_are_published() {
        let (_, topology) = published(include_str!("../incidents/aggregator-link.yaml"));
        assert_eq!(topology.aggregator_node().map(NodeName::as_str), Some("n2"));
        let service = topology
            .service(&"kube-system/kube-dns".parse().unwrap())
            .unwrap();
        assert_eq!(service.endpoints.len(), 2);
        // Its port is not a target: a resolver serves no HTTP.
        let dns = |target: &&parallax_model::TargetId| target.as_str().contains("10.96.0.10");
        assert_eq!(topology.targets().keys().find(dns), None);
    }

    #[test]
    fn the_product_reads_every_topology_the_lab_publishes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("incidents");
        for id in crate::incident_file::list(&folder).unwrap() {
            let text = fs::read_to_string(folder.join(format!("{id}.yaml"))).unwrap();
            published(&text);
        }
    }
}
