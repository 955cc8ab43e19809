//! NetworkPolicies: deny by default, and the exceptions.

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
        NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
        util::intstr::IntOrString,
    },
};

use super::{
    aggregator::{PAGE_PORT, PROBER_PORT},
    meta::{self, Component},
    values::Values,
};

/// Builds the policies of the namespace. They cannot apply to Pods in the host network.
pub(super) fn policies(values: &Values) -> Vec<NetworkPolicy> {
    let mut policies = vec![
        default_deny(values),
        aggregator_policy(values),
        prober_policy(Component::Prober, values),
    ];
    if values.responder {
        policies.push(prober_policy(Component::Responder, values));
    }
    if values.preflight.is_some() {
        policies.push(preflight_policy(values));
    }
    policies
}

fn default_deny(values: &Values) -> NetworkPolicy {
    NetworkPolicy {
        metadata: meta::installation_metadata("parallax-default-deny", Some(values.namespace.clone())),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector::default()),
            policy_types: Some(policy_types()),
            ..NetworkPolicySpec::default()
        }),
    }
}

/// A prober connects to any target of its plan, as a user's Pod would. Its echo accepts every source: a source address
/// rewritten on the path is a finding, and a policy that drops such packets would cause the fault that is then
/// reported. The echo discloses nothing to strangers.
fn prober_policy(part: Component, values: &Values) -> NetworkPolicy {
    let egress = if part == Component::Prober {
        vec![NetworkPolicyEgressRule::default()]
    } else {
        vec![dns_egress(), aggregator_egress()]
    };
    policy(
        part,
        values,
        vec![NetworkPolicyIngressRule {
            from: None,
            ports: Some(tcp_ports(&[values.echo_port])),
        }],
        egress,
    )
}

fn aggregator_policy(values: &Values) -> NetworkPolicy {
    let mut sources = vec![NetworkPolicyPeer {
        pod_selector: Some(Component::Prober.selector()),
        ..NetworkPolicyPeer::default()
    }];
    if values.responder {
        sources.push(NetworkPolicyPeer {
            pod_selector: Some(Component::Responder.selector()),
            ..NetworkPolicyPeer::default()
        });
    }
    // No selector matches the addresses of nodes and machines outside; a token authenticates them.
    let open = values.host_vantage || !values.external_hosts.is_empty();
    let mut ingress = vec![NetworkPolicyIngressRule {
        from: (!open).then_some(sources),
        ports: Some(tcp_ports(&[PROBER_PORT])),
    }];
    if !values.page_namespaces.is_empty() {
        ingress.push(NetworkPolicyIngressRule {
            from: Some(vec![namespace_peer(&values.page_namespaces)]),
            ports: Some(tcp_ports(&[PAGE_PORT])),
        });
    }
    let mut egress = vec![dns_egress()];
    if values.leader_election_enabled() {
        // The standby forwards requests to the leader.
        let other = || {
            vec![NetworkPolicyPeer {
                pod_selector: Some(Component::Aggregator.selector()),
                ..NetworkPolicyPeer::default()
            }]
        };
        ingress.push(NetworkPolicyIngressRule {
            from: Some(other()),
            ports: Some(tcp_ports(&[PAGE_PORT])),
        });
        egress.push(NetworkPolicyEgressRule {
            to: Some(other()),
            ports: Some(tcp_ports(&[PAGE_PORT])),
        });
    }
    egress.push(api_server_egress(values));
    // Notification receivers can be anywhere.
    let ports: Vec<u16> = values.notify.ports().into_iter().collect();
    if !ports.is_empty() {
        egress.push(NetworkPolicyEgressRule {
            ports: Some(tcp_ports(&ports)),
            to: None,
        });
    }
    policy(Component::Aggregator, values, ingress, egress)
}

/// No ingress; egress only to the API server, through which a forwarded port reaches the aggregator.
fn preflight_policy(values: &Values) -> NetworkPolicy {
    policy(
        Component::Preflight,
        values,
        Vec::new(),
        vec![dns_egress(), api_server_egress(values)],
    )
}

/// The API server's address matches no selector; only its port is known.
fn api_server_egress(values: &Values) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        ports: Some(tcp_ports(&values.api_server_ports)),
        to: None,
    }
}

fn policy(
    part: Component,
    values: &Values,
    ingress: Vec<NetworkPolicyIngressRule>,
    egress: Vec<NetworkPolicyEgressRule>,
) -> NetworkPolicy {
    NetworkPolicy {
        metadata: part.metadata(part.name(), values),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(part.selector()),
            policy_types: Some(policy_types()),
            // The API server drops an empty list, which `kubectl diff` would then report.
            ingress: (!ingress.is_empty()).then_some(ingress),
            egress: Some(egress),
        }),
    }
}

/// DNS to any address: resolvers may run in the cluster, on the node or outside.
fn dns_egress() -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        ports: Some(vec![port("UDP", 53), port("TCP", 53)]),
        to: None,
    }
}

fn aggregator_egress() -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        ports: Some(tcp_ports(&[PROBER_PORT])),
        to: Some(vec![NetworkPolicyPeer {
            pod_selector: Some(Component::Aggregator.selector()),
            ..NetworkPolicyPeer::default()
        }]),
    }
}

fn namespace_peer(names: &[String]) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "kubernetes.io/metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(names.to_vec()),
            }]),
            ..LabelSelector::default()
        }),
        ..NetworkPolicyPeer::default()
    }
}

fn policy_types() -> Vec<String> {
    vec!["Ingress".to_owned(), "Egress".to_owned()]
}

fn tcp_ports(ports: &[u16]) -> Vec<NetworkPolicyPort> {
    ports.iter().map(|number| port("TCP", *number)).collect()
}

fn port(protocol: &str, number: u16) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number.into())),
        end_port: None,
    }
}
