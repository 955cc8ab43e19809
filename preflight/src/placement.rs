//! Locates cert-manager's Pod and reads how its network path differs, with the permissions of the caller.

use std::{
    collections::BTreeSet,
    future::Future,
    net::{IpAddr, SocketAddr},
};

use parallax_model::{NodeName, Scheme, proxy_for};
use serde_json::{Value, json};

use super::{
    VantageAnswer,
    controller::{
        CertManagerController, EgressReachability, LeaderEvidence, PodDifference, egress_reachability,
        read_controller,
    },
};

/// The labels of the controller's Deployment, as the Helm chart and the release manifests set them.
pub const CONTROLLER_LABELS: &str =
    "app.kubernetes.io/component=controller,app.kubernetes.io/name=cert-manager";

/// The Lease for leader election among cert-manager's Pods.
pub const LEASE_NAME: &str = "cert-manager-controller";

/// The default namespace of that Lease.
const DEFAULT_LEASE_NAMESPACE: &str = "kube-system";

/// cert-manager's usual namespace, searched if listing the whole cluster is forbidden.
const DEFAULT_NAMESPACE: &str = "cert-manager";

/// A kind of object to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementResource {
    /// `deployments` of `apps`.
    Deployments,
    /// `pods`.
    Pods,
    /// `networkpolicies` of `networking.k8s.io`.
    NetworkPolicies,
}

/// Read access to a cluster. Methods return nothing for objects that do not exist, and a message for objects that
/// cannot be read; the message names the missing RBAC rule.
pub trait PlacementReader: Sync {
    /// Lists objects by labels, in one namespace or, without one, in all.
    fn list(
        &self,
        resource: PlacementResource,
        namespace: Option<&str>,
        labels: &str,
    ) -> impl Future<Output = Result<Vec<Value>, String>> + Send;

    /// Reads a Lease.
    fn lease(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Value>, String>> + Send;
}

/// The location of cert-manager's Pod, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertManagerPlacement {
    controller: Option<CertManagerController>,
    /// What could not be read or is ambiguous.
    pub notes: Vec<String>,
}

impl CertManagerPlacement {
    /// Returns an unknown placement with its reason.
    #[must_use]
    pub fn unknown(reason: &str) -> Self {
        Self {
            controller: None,
            notes: vec![format!("the node of cert-manager's Pod is unknown: {reason}")],
        }
    }

    /// Searches one namespace or, without one, the whole cluster: by the labels of the Deployment and by the Lease
    /// that its Pods hold. Of several installations, the only one whose Pod holds its Lease is used.
    pub async fn locate(cluster: &impl PlacementReader, namespace: Option<&str>) -> Self {
        let (deployments, mut notes) = match list_deployments(cluster, namespace).await {
            Ok(found) => found,
            Err(reason) => return Self::unknown(&reason),
        };
        let mut placements = Vec::new();
        for deployment in &deployments {
            placements.push(Self::from_deployment(cluster, deployment).await);
        }
        if placements.len() > 1 {
            let names: Vec<String> = deployments.iter().map(qualified_name).collect();
            let mut holding = placements.iter().filter(|placement| {
                matches!(
                    placement.controller.as_ref().map(|found| &found.leader),
                    Some(LeaderEvidence::Lease(_))
                )
            });
            let (Some(only), None) = (holding.next(), holding.next()) else {
                return Self::unknown(&format!(
                    "{} all have cert-manager's labels; select one by its namespace (--cert-manager-namespace)",
                    names.join(", ")
                ));
            };
            notes.push(format!(
                "{} all have cert-manager's labels; the one whose Pod holds the Lease is used",
                names.join(", ")
            ));
            placements = vec![only.clone()];
        }
        match placements.pop() {
            Some(mut placement) => {
                placement.notes.extend(notes);
                placement
            }
            None => Self::unknown(&not_found_reason(cluster, namespace).await),
        }
    }

    async fn from_deployment(cluster: &impl PlacementReader, deployment: &Value) -> Self {
        let namespace = deployment["metadata"]["namespace"].as_str().unwrap_or_default();
        let mut notes = Vec::new();
        let mut read = async |resource, labels: &str, words: &str| {
            cluster
                .list(resource, Some(namespace), labels)
                .await
                .unwrap_or_else(|error| {
                    notes.push(format!("{words} unknown: {error}"));
                    Vec::new()
                })
        };
        let pods = read(
            PlacementResource::Pods,
            &label_selector(deployment),
            "the node of cert-manager's Pod is",
        )
        .await;
        let policies = read(
            PlacementResource::NetworkPolicies,
            "",
            "the NetworkPolicies of cert-manager's Pod are",
        )
        .await;
        let mut lease = None;
        for place in lease_namespaces(deployment, namespace) {
            match cluster.lease(&place, LEASE_NAME).await {
                Ok(Some(found)) => {
                    lease = Some(found);
                    break;
                }
                // With one Pod the Lease is not needed; with several, this explains why the leader is unknown.
                Err(error) if pods.len() > 1 => {
                    notes.push(format!("the leading Pod of cert-manager is unknown: {error}"));
                }
                Ok(None) | Err(_) => {}
            }
        }
        Self {
            controller: Some(read_controller(deployment, &pods, lease.as_ref(), &policies)),
            notes,
        }
    }

    /// The node of the leading Pod.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        self.controller.as_ref()?.node.as_ref()
    }

    /// Reports whether that Pod uses its node's network.
    #[must_use]
    pub fn uses_host_network(&self) -> bool {
        self.controller
            .as_ref()
            .is_some_and(|found| found.differences.contains(&PodDifference::HostNetwork))
    }

    /// cert-manager's own resolvers, if all of them are socket addresses that can be queried.
    #[must_use]
    pub fn nameservers(&self) -> Vec<SocketAddr> {
        let own = self.controller.iter().flat_map(|found| &found.nameservers);
        own.map(|server| server.parse())
            .collect::<Result<_, _>>()
            .unwrap_or_default()
    }

    /// Returns how the Pod's self check of one host differs from a prober's on the same node, as predicates whose
    /// subject is the Pod. `as_it_resolves` states that the Pod's own nameservers were queried.
    #[must_use]
    pub fn path_differences(
        &self,
        host: &str,
        port: u16,
        answers: &[VantageAnswer],
        as_it_resolves: bool,
    ) -> Vec<String> {
        let Some(found) = &self.controller else {
            return Vec::new();
        };
        let mut all: Vec<String> = found
            .differences
            .iter()
            // A prober in the node's network stands in for it.
            .filter(|difference| **difference != PodDifference::HostNetwork)
            .map(PodDifference::description)
            .collect();
        all.extend(proxy_difference(found, host));
        if !found.nameservers.is_empty() && !as_it_resolves {
            all.push(format!(
                "resolves names with {} (--acme-http01-solver-nameservers), which this test did not query",
                found.nameservers.join(", ")
            ));
        }
        all.extend(policy_difference(found, answers, port));
        all
    }

    /// Returns the JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let leader = |found: &CertManagerController| match &found.leader {
            LeaderEvidence::Lease(pod) | LeaderEvidence::OnlyPod(pod) => Some(pod.clone()),
            LeaderEvidence::Unknown => None,
        };
        match &self.controller {
            Some(found) => json!({
                "deployment": found.deployment,
                "pod": leader(found),
                "node": found.node,
                "solverNameservers": found.nameservers,
                "notes": self.notes,
            }),
            None => json!({"notes": self.notes}),
        }
    }

    /// Returns a one-line description, or `None` if cert-manager was not found.
    #[must_use]
    pub fn description(&self) -> Option<String> {
        let found = self.controller.as_ref()?;
        Some(match (&found.leader, &found.node) {
            (LeaderEvidence::Lease(pod), Some(node)) => {
                format!("cert-manager's Pod is {pod} on {node} (it holds the Lease)")
            }
            (LeaderEvidence::OnlyPod(pod), Some(node)) => {
                format!("cert-manager's Pod is {pod} on {node} (the only one)")
            }
            _ => format!("the leading Pod of {} is unknown", found.deployment),
        })
    }
}

/// Lists the controller's Deployments, with notes on how they were found.
async fn list_deployments(
    cluster: &impl PlacementReader,
    namespace: Option<&str>,
) -> Result<(Vec<Value>, Vec<String>), String> {
    match cluster
        .list(PlacementResource::Deployments, namespace, CONTROLLER_LABELS)
        .await
    {
        Ok(found) => Ok((found, Vec::new())),
        Err(error) if namespace.is_none() => {
            // Without permission for the whole cluster, search the usual namespace.
            let usual = cluster
                .list(
                    PlacementResource::Deployments,
                    Some(DEFAULT_NAMESPACE),
                    CONTROLLER_LABELS,
                )
                .await;
            match usual {
                Ok(found) if !found.is_empty() => Ok((found, Vec::new())),
                Ok(_) | Err(_) => Err(format!(
                    "{error}; namespace {DEFAULT_NAMESPACE} has none; grant the rule, or name the namespace (--cert-manager-namespace)"
                )),
            }
        }
        Err(error) => Err(error),
    }
}

/// Explains why no Deployment was found, with the holder of the Lease as a hint where to look.
async fn not_found_reason(cluster: &impl PlacementReader, namespace: Option<&str>) -> String {
    let place = namespace.map_or_else(
        || "no namespace has a".to_owned(),
        |namespace| format!("namespace {namespace} has no"),
    );
    let mut reason =
        format!("{place} Deployment with the labels {CONTROLLER_LABELS} (--cert-manager-namespace)");
    let holder = cluster
        .lease(DEFAULT_LEASE_NAMESPACE, LEASE_NAME)
        .await
        .ok()
        .flatten();
    if let Some(holder) = holder.and_then(|lease| Some(lease["spec"]["holderIdentity"].as_str()?.to_owned()))
    {
        reason = format!(
            "{reason}; {holder} holds the Lease {DEFAULT_LEASE_NAMESPACE}/{LEASE_NAME}, but its Deployment has other labels"
        );
    }
    reason
}

fn qualified_name(deployment: &Value) -> String {
    let text = |field: &str| deployment["metadata"][field].as_str().unwrap_or_default();
    format!("Deployment {}/{}", text("namespace"), text("name"))
}

fn label_selector(deployment: &Value) -> String {
    let labels = deployment["spec"]["selector"]["matchLabels"].as_object();
    let pairs = labels.into_iter().flatten();
    let pairs: Vec<String> = pairs
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
        .collect();
    pairs.join(",")
}

/// The namespaces that may contain the Lease: the one in the Deployment's arguments or the default, and
/// cert-manager's own.
fn lease_namespaces(deployment: &Value, namespace: &str) -> BTreeSet<String> {
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    let own = args
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find_map(|arg| arg.strip_prefix("--leader-election-namespace="))
        // The Helm chart sets the namespace from the Pod's own field.
        .map(|named| {
            if named.contains("POD_NAMESPACE") {
                namespace
            } else {
                named
            }
        });
    [
        own.unwrap_or(DEFAULT_LEASE_NAMESPACE).to_owned(),
        namespace.to_owned(),
    ]
    .into()
}

fn proxy_difference(found: &CertManagerController, host: &str) -> Option<String> {
    let hidden = found
        .environment
        .iter()
        .find(|(name, value)| value.is_none() && name.eq_ignore_ascii_case("HTTP_PROXY"));
    if let Some((name, _)) = hidden {
        return Some(format!(
            "may use a proxy: its {name} comes from an object that is not read"
        ));
    }
    let environment = |name: &str| found.environment.get(name).cloned().flatten();
    proxy_for(environment, Scheme::Http, host, 80).map(|proxy| {
        format!("uses the proxy {proxy} for this name (from its environment; NO_PROXY does not exempt it)")
    })
}

fn policy_difference(found: &CertManagerController, answers: &[VantageAnswer], port: u16) -> Option<String> {
    let addresses: BTreeSet<IpAddr> = answers
        .iter()
        .flat_map(|answer| answer.sight.addresses.iter().copied())
        .collect();
    let names: Vec<&str> = found
        .egress_policies
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    addresses.into_iter().find_map(|address| {
        let names = names.join(", ");
        match egress_reachability(&found.egress_policies, address, port) {
            EgressReachability::Allowed => None,
            EgressReachability::Denied => Some(format!("is not allowed to connect to {address}:{port} by its NetworkPolicies ({names})")),
            EgressReachability::DependsOnDestination => Some(format!(
                "can connect to {address}:{port} only if a rule of its NetworkPolicies ({names}) matches the translated destination"
            )),
        }
    })
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
