//! cert-manager's controller: the node of its leading Pod, and how that Pod's network path differs from a prober's
//! on the same node.

use std::{collections::BTreeMap, net::IpAddr};

use parallax_model::{AddressRange, NodeName};
use serde_json::Value;

/// Facts about cert-manager's controller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertManagerController {
    /// `namespace/name` of its Deployment.
    pub deployment: String,
    /// The leading Pod.
    pub leader: LeaderEvidence,
    /// The node of that Pod.
    pub node: Option<NodeName>,
    /// The proxy variables of its environment; the value is absent if it comes from another object (`valueFrom`).
    pub environment: BTreeMap<String, Option<String>>,
    /// Properties that make the Pod's self check take another path than a prober's on the same node.
    pub differences: Vec<PodDifference>,
    /// `--acme-http01-solver-nameservers`.
    pub nameservers: Vec<String>,
    /// The egress `NetworkPolicies` that select the Pod, with their specs.
    pub egress_policies: Vec<(String, Value)>,
}

/// How the leading Pod was determined.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LeaderEvidence {
    /// The holder of the Lease.
    Lease(String),
    /// The only running Pod.
    OnlyPod(String),
    /// Several Pods run, and no Lease was read that names one of them.
    #[default]
    Unknown,
}

/// A property of cert-manager's Pod that a prober does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodDifference {
    /// `dnsPolicy` makes it use other resolvers.
    DnsPolicy(String),
    /// `dnsConfig` gives it its own servers or options in resolv.conf.
    DnsConfig,
    /// `hostAliases` gives it its own names.
    HostAliases,
    /// It uses the node's network.
    HostNetwork,
}

impl PodDifference {
    /// Returns the description as a predicate whose subject is the Pod.
    #[must_use]
    pub fn description(&self) -> String {
        match self {
            Self::DnsPolicy(policy) => format!("resolves names according to dnsPolicy {policy}"),
            Self::DnsConfig => "has its own resolvers or resolver options (dnsConfig)".to_owned(),
            Self::HostAliases => "has its own host names (hostAliases)".to_owned(),
            Self::HostNetwork => "uses its node's network (hostNetwork)".to_owned(),
        }
    }
}

/// Reads the controller's Deployment, its Pods, its Lease and the `NetworkPolicies` of its namespace.
#[must_use]
pub fn read_controller(
    deployment: &Value,
    pods: &[Value],
    lease: Option<&Value>,
    policies: &[Value],
) -> CertManagerController {
    let template = &deployment["spec"]["template"];
    let spec = &template["spec"];
    let container = &spec["containers"][0];
    let leader = leading_pod(pods, lease);
    let name = match &leader {
        LeaderEvidence::Lease(name) | LeaderEvidence::OnlyPod(name) => Some(name.as_str()),
        LeaderEvidence::Unknown => None,
    };
    let node = pods
        .iter()
        .find(|pod| name.is_some() && pod["metadata"]["name"].as_str() == name)
        .and_then(|pod| pod["spec"]["nodeName"].as_str()?.parse().ok());
    let meta = &deployment["metadata"];
    let text = |field: &str| meta[field].as_str().unwrap_or_default();
    CertManagerController {
        deployment: format!("{}/{}", text("namespace"), text("name")),
        leader,
        node,
        environment: proxy_environment(container),
        differences: pod_differences(spec),
        nameservers: solver_nameservers(container),
        egress_policies: policies
            .iter()
            .filter(|policy| {
                restricts_egress(policy)
                    && selector_matches(&policy["spec"]["podSelector"], &template["metadata"]["labels"])
            })
            .map(|policy| {
                let name = policy["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                (name, policy["spec"].clone())
            })
            .collect(),
    }
}

/// The holder identity of the Lease is `POD-external-cert-manager-controller`.
fn leading_pod(pods: &[Value], lease: Option<&Value>) -> LeaderEvidence {
    let alive: Vec<&str> = pods
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null())
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    let holder = lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str());
    let leader = holder.and_then(|holder| {
        alive
            .iter()
            .find(|pod| holder.starts_with(&format!("{pod}-")) || holder == **pod)
    });
    match (leader, alive.as_slice()) {
        (Some(pod), _) => LeaderEvidence::Lease((*pod).to_owned()),
        (None, [pod]) => LeaderEvidence::OnlyPod((*pod).to_owned()),
        (None, _) => LeaderEvidence::Unknown,
    }
}

fn proxy_environment(container: &Value) -> BTreeMap<String, Option<String>> {
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
    container["env"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let name = entry["name"].as_str()?;
            let proxy = names.contains(&name.to_ascii_uppercase().as_str());
            proxy.then(|| (name.to_owned(), entry["value"].as_str().map(ToOwned::to_owned)))
        })
        .collect()
}

fn pod_differences(spec: &Value) -> Vec<PodDifference> {
    let mut all = Vec::new();
    let host = spec["hostNetwork"] == true;
    if host {
        all.push(PodDifference::HostNetwork);
    }
    match spec["dnsPolicy"].as_str() {
        None | Some("ClusterFirst") if !host => {}
        Some("ClusterFirstWithHostNet") if host => {}
        // In the host network, ClusterFirst falls back to the node's own resolvers.
        policy => all.push(PodDifference::DnsPolicy(
            policy.unwrap_or("ClusterFirst").to_owned(),
        )),
    }
    if spec["dnsConfig"]
        .as_object()
        .is_some_and(|config| !config.is_empty())
    {
        all.push(PodDifference::DnsConfig);
    }
    if spec["hostAliases"]
        .as_array()
        .is_some_and(|aliases| !aliases.is_empty())
    {
        all.push(PodDifference::HostAliases);
    }
    all
}

fn solver_nameservers(container: &Value) -> Vec<String> {
    const FLAG: &str = "--acme-http01-solver-nameservers";
    let args: Vec<&str> = container["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut found = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        let value = match arg.strip_prefix(FLAG) {
            Some("") => args.get(i + 1).copied(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        found.extend(
            value
                .into_iter()
                .flat_map(|value| value.split(','))
                .map(ToOwned::to_owned),
        );
    }
    found.retain(|server| !server.is_empty());
    found
}

fn restricts_egress(policy: &Value) -> bool {
    let types = policy["spec"]["policyTypes"].as_array();
    types.is_some_and(|types| types.iter().any(|sort| sort == "Egress"))
        || (types.is_none() && policy["spec"]["egress"].is_array())
}

/// Evaluates a label selector. An unknown operator matches, so that the policy is evaluated rather than
/// ignored.
fn selector_matches(selector: &Value, labels: &Value) -> bool {
    let label = |name: &str| labels[name].as_str();
    let exact = selector["matchLabels"]
        .as_object()
        .is_none_or(|wanted| wanted.iter().all(|(name, value)| label(name) == value.as_str()));
    let all = selector["matchExpressions"].as_array().into_iter().flatten();
    exact
        && all.into_iter().all(|expression| {
            let found = expression["key"].as_str().and_then(label);
            let listed = || {
                let values = expression["values"].as_array().into_iter().flatten();
                values.filter_map(Value::as_str).any(|value| Some(value) == found)
            };
            match expression["operator"].as_str() {
                Some("In") => listed(),
                Some("NotIn") => !listed(),
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => true,
            }
        })
}

/// Whether egress policies allow a Pod to connect to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressReachability {
    /// A rule allows the address explicitly, or no policy selects the Pod.
    Allowed,
    /// No rule allows it.
    Denied,
    /// Rules select Pods or namespaces, so the result depends on the destination after address translation.
    DependsOnDestination,
}

/// Evaluates a Pod's egress policies for a TCP connection to an address before translation.
#[must_use]
pub fn egress_reachability(policies: &[(String, Value)], address: IpAddr, port: u16) -> EgressReachability {
    if policies.is_empty() {
        return EgressReachability::Allowed;
    }
    let mut depends = false;
    for (_, spec) in policies {
        for rule in spec["egress"].as_array().into_iter().flatten() {
            if !allows_port(rule, port) {
                continue;
            }
            let Some(peers) = rule["to"].as_array().filter(|peers| !peers.is_empty()) else {
                return EgressReachability::Allowed;
            };
            for peer in peers {
                if peer["ipBlock"].is_object() {
                    if ip_block_contains(&peer["ipBlock"], address) {
                        return EgressReachability::Allowed;
                    }
                } else {
                    depends = true;
                }
            }
        }
    }
    if depends {
        EgressReachability::DependsOnDestination
    } else {
        EgressReachability::Denied
    }
}

fn allows_port(rule: &Value, port: u16) -> bool {
    let Some(ports) = rule["ports"].as_array().filter(|ports| !ports.is_empty()) else {
        return true;
    };
    ports.iter().any(|entry| {
        let tcp = entry["protocol"]
            .as_str()
            .is_none_or(|protocol| protocol == "TCP");
        let first = entry["port"].as_u64();
        let fits = match (first, entry["endPort"].as_u64(), entry["port"].is_string()) {
            // A named port belongs to the destination Pod, which is unknown here.
            (_, _, true) | (None, _, _) => true,
            (Some(first), Some(last), _) => (first..=last).contains(&u64::from(port)),
            (Some(only), None, _) => only == u64::from(port),
        };
        tcp && fits
    })
}

fn ip_block_contains(block: &Value, address: IpAddr) -> bool {
    let range = |value: &Value| value.as_str().and_then(|text| text.parse::<AddressRange>().ok());
    let within = range(&block["cidr"]).is_some_and(|range| range.contains(address));
    let excepted = block["except"].as_array().into_iter().flatten().filter_map(range);
    within && !excepted.into_iter().any(|range| range.contains(address))
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
