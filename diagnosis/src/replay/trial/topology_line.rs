//! The topology line of a trial.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{HostName, NodeName, PodName, TargetSpec, ZoneName};
use serde::Deserialize;
use serde_json::Value;

use super::{FRONT, PLACEHOLDER_HOST};
use crate::{
    engine::JudgementRules,
    evidence::ledger::OutcomeSplit,
    topology::{
        EndpointSpec, IpMode, LoadBalancerSpec, NodeFacts, NodeReadiness, NodeSpec, PortSpec, ProberSpec,
        ProxyMode, ServiceProbe, ServiceSpec, ServiceType, Topology, TopologyHints, TopologySpec,
        TrafficPolicy,
    },
};

/// A `topology` line. Absent fields are unknown.
#[derive(Debug, Deserialize)]
pub(in crate::replay) struct TopologyLine {
    #[serde(default)]
    pub(super) trial: u64,
    pub(super) interval_s: f64,
    #[serde(default)]
    pub(super) timeout_ms: Option<f64>,
    nodes: Vec<NodeLine>,
    pub(super) target: TargetLine,
    #[serde(default)]
    backends: Vec<BackendLine>,
}

#[derive(Debug, Deserialize)]
struct NodeLine {
    name: NodeName,
    #[serde(default)]
    zone: Option<ZoneName>,
    #[serde(default = "default_true")]
    prober: bool,
}

const fn default_true() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TargetLine {
    pub(super) name: String,
    #[serde(default, rename = "type")]
    service_type: Option<String>,
    #[serde(default)]
    external_traffic_policy: Option<String>,
    #[serde(default)]
    internal_traffic_policy: Option<String>,
    #[serde(default)]
    proxy_mode: Option<String>,
    #[serde(default)]
    ip_mode: Option<String>,
    #[serde(default)]
    session_affinity: Option<String>,
}

#[derive(Debug, Deserialize)]
struct BackendLine {
    pod: PodName,
    #[serde(default)]
    node: Option<NodeName>,
    #[serde(default)]
    ip: Option<IpAddr>,
}

impl TopologyLine {
    pub(in crate::replay) fn read(value: Value) -> Result<Self, String> {
        let line: Self = serde_json::from_value(value).map_err(|e| e.to_string())?;
        if !(line.interval_s > 0.0 && line.interval_s < 86_400.0) {
            return Err(format!(
                "interval_s: expected seconds within a day, got {}",
                line.interval_s
            ));
        }
        Ok(line)
    }

    pub(super) fn topology(&self, names: &BTreeSet<String>) -> Result<Topology, String> {
        let spec =
            TopologySpec {
                proxy_mode: match self.target.proxy_mode.as_deref() {
                    Some("iptables") => ProxyMode::Iptables,
                    Some("ipvs") => ProxyMode::Ipvs,
                    Some("nftables") => ProxyMode::Nftables,
                    _ => ProxyMode::Unknown,
                },
                nodes: self.nodes()?,
                services: vec![self.service()?],
                ingresses: vec![serde_json::from_value(serde_json::json!({
                "namespace": "trial", "name": "trial", "service": "trial/target", "hosts": [self.host()],
            }))
            .map_err(|e| e.to_string())?],
                targets: names
                    .iter()
                    .map(|name| TargetSpec::new(format!("dns://{name}")))
                    .collect(),
                ..TopologySpec::default()
            };
        Topology::try_from(spec).map_err(|problems| {
            problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        })
    }

    /// Returns the target's name as a host name.
    pub(super) fn host(&self) -> &str {
        match self.target.name.parse::<HostName>() {
            Ok(_) => &self.target.name,
            Err(_) => PLACEHOLDER_HOST,
        }
    }

    fn nodes(&self) -> Result<Vec<NodeSpec>, String> {
        self.nodes
            .iter()
            .map(|node| {
                let prober = node
                    .prober
                    .then(|| PodName::new(format!("prober/{}", node.name)))
                    .transpose()
                    .map_err(|e| e.to_string())?;
                Ok(NodeSpec {
                    name: node.name.clone(),
                    zone: node.zone.clone(),
                    addresses: Vec::new(),
                    prober: prober.map(|pod| ProberSpec { pod, address: FRONT }),
                    readiness: NodeReadiness::default(),
                    cordoned: false,
                    facts: NodeFacts::default(),
                })
            })
            .collect()
    }

    fn service(&self) -> Result<ServiceSpec, String> {
        let policy = |word: Option<&str>| match word {
            Some("Local") => TrafficPolicy::Local,
            _ => TrafficPolicy::Cluster,
        };
        let target = &self.target;
        let kind = target.service_type.as_deref();
        let cluster_ip = matches!(kind, Some("ClusterIP" | "Headless"));
        // A node port, or an address that kube-proxy does not own, behaves like a balancer address that receives the
        // traffic.
        let proxied = target.ip_mode.as_deref() == Some("Proxy") || kind == Some("NodePort");
        let known: BTreeSet<&NodeName> = self.nodes.iter().map(|n| &n.name).collect();
        let endpoints = self
            .backends
            .iter()
            .map(|backend| EndpointSpec {
                pod: backend.pod.clone(),
                address: backend.ip.unwrap_or(FRONT.ip()),
                node: backend.node.clone().filter(|n| known.contains(n)),
                ready: true,
                serving: None,
                terminating: false,
                hints: TopologyHints::default(),
            })
            .collect();
        Ok(ServiceSpec {
            namespace: "trial".parse().map_err(|e| format!("{e}"))?,
            name: "target".parse().map_err(|e| format!("{e}"))?,
            service_type: if cluster_ip {
                ServiceType::ClusterIP
            } else {
                ServiceType::LoadBalancer
            },
            cluster_ips: if cluster_ip { vec![FRONT.ip()] } else { Vec::new() },
            load_balancer: if cluster_ip {
                Vec::new()
            } else {
                vec![LoadBalancerSpec {
                    ip: FRONT.ip(),
                    ip_mode: if proxied { IpMode::Proxy } else { IpMode::Vip },
                }]
            },
            external_traffic_policy: policy(target.external_traffic_policy.as_deref()),
            internal_traffic_policy: policy(target.internal_traffic_policy.as_deref()),
            ports: vec![PortSpec {
                name: None,
                app_protocol: None,
                port: FRONT.port(),
                target_port: FRONT.port(),
                node_port: None,
            }],
            endpoints,
            health_check_node_port: None,
            network_policies: None,
            selector: BTreeMap::new(),
            echo: false,
            annotations: BTreeMap::new(),
            ingress_class: None,
            probe: ServiceProbe::default(),
        })
    }

    pub(super) fn rules(&self) -> JudgementRules {
        JudgementRules {
            outcome_split: OutcomeSplit::PerChannel,
            require_prior_success: false,
            // No other subject explains an uncertain finding of the only one.
            confirming_rounds: 0,
            non_kube_proxy: self
                .target
                .proxy_mode
                .as_deref()
                .is_some_and(|mode| !matches!(mode, "iptables" | "ipvs" | "nftables" | "unknown")),
            client_ip_affinity: self.target.session_affinity.as_deref() == Some("ClientIP"),
        }
    }
}
