//! Where cert-manager's pod sits, and what is different about it, read from a cluster by whoever may read it.

use std::{
    collections::BTreeSet,
    future::Future,
    net::{IpAddr, SocketAddr},
};

use parallax_model::{NodeName, Scheme, proxied_by};
use serde_json::{Value, json};

use super::{
    VantageAnswer,
    pod::{CertManagerController, EgressReachability, LeaderEvidence, PodDifference, controller, egress},
};

/// The labels of the controller's Deployment, as the chart and the released manifests set them.
pub const CONTROLLER: &str = "app.kubernetes.io/component=controller,app.kubernetes.io/name=cert-manager";

/// The Lease by which its pods agree who leads.
pub const LEASE: &str = "cert-manager-controller";

/// Where that Lease is unless an argument says otherwise.
const LEASES: &str = "kube-system";

/// Where it is installed as a rule: looked at where the whole cluster may not be.
const USUAL: &str = "cert-manager";

/// A kind of object that is read for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementResource {
    /// `deployments` of `apps`.
    Deployments,
    /// `pods`.
    Pods,
    /// `networkpolicies` of `networking.k8s.io`.
    NetworkPolicies,
}

/// A cluster, as somebody may read it. What does not exist is nothing; what cannot be read is said in words that name the
/// RBAC rule where one is missing.
pub trait PlacementReader: Sync {
    /// Objects with these labels, in one namespace or, without one, in all.
    fn list(
        &self,
        what: PlacementResource,
        namespace: Option<&str>,
        labels: &str,
    ) -> impl Future<Output = Result<Vec<Value>, String>> + Send;

    /// A Lease.
    fn lease(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Value>, String>> + Send;
}

/// What is known of cert-manager's pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertManagerPlacement {
    found: Option<CertManagerController>,
    /// What could not be read, or is ambiguous.
    pub notes: Vec<String>,
}

impl CertManagerPlacement {
    /// It is not known, for this reason.
    #[must_use]
    pub fn nowhere(why: &str) -> Self {
        Self {
            found: None,
            notes: vec![format!("where cert-manager's pod sits is not known: {why}")],
        }
    }

    /// Looks for it in one namespace, or wherever it is installed: by the labels of its Deployment and by the Lease that its
    /// pods hold. Of several installations the one counts whose pod holds its Lease, where only one does.
    pub async fn find(cluster: &impl PlacementReader, namespace: Option<&str>) -> Self {
        let (deployments, mut notes) = match deployments(cluster, namespace).await {
            Ok(found) => found,
            Err(why) => return Self::nowhere(&why),
        };
        let mut seats = Vec::new();
        for deployment in &deployments {
            seats.push(Self::of(cluster, deployment).await);
        }
        if seats.len() > 1 {
            let names: Vec<String> = deployments.iter().map(named).collect();
            let mut holding = seats.iter().filter(|seat| {
                matches!(
                    seat.found.as_ref().map(|found| &found.leader),
                    Some(LeaderEvidence::Lease(_))
                )
            });
            let (Some(only), None) = (holding.next(), holding.next()) else {
                return Self::nowhere(&format!(
                    "{} are all cert-manager's by their labels; name one's namespace (--cert-manager-namespace)",
                    names.join(", ")
                ));
            };
            notes.push(format!(
                "{} are cert-manager's by their labels; the one counts whose pod holds the Lease",
                names.join(", ")
            ));
            seats = vec![only.clone()];
        }
        match seats.pop() {
            Some(mut seat) => {
                seat.notes.extend(notes);
                seat
            }
            None => Self::nowhere(&nobody(cluster, namespace).await),
        }
    }

    async fn of(cluster: &impl PlacementReader, deployment: &Value) -> Self {
        let namespace = deployment["metadata"]["namespace"].as_str().unwrap_or_default();
        let mut notes = Vec::new();
        let mut read = async |what, labels: &str, words: &str| {
            cluster
                .list(what, Some(namespace), labels)
                .await
                .unwrap_or_else(|said| {
                    notes.push(format!("{words} not known: {said}"));
                    Vec::new()
                })
        };
        let pods = read(
            PlacementResource::Pods,
            &selector(deployment),
            "where cert-manager's pod sits is",
        )
        .await;
        let policies = read(
            PlacementResource::NetworkPolicies,
            "",
            "which NetworkPolicies hold for cert-manager's pod is",
        )
        .await;
        let mut lease = None;
        for place in lease_places(deployment, namespace) {
            match cluster.lease(&place, LEASE).await {
                Ok(Some(found)) => {
                    lease = Some(found);
                    break;
                }
                // With one pod it is that one; with several this is why nobody knows.
                Err(said) if pods.len() > 1 => {
                    notes.push(format!("which of its pods leads is not known: {said}"));
                }
                Ok(None) | Err(_) => {}
            }
        }
        Self {
            found: Some(controller(deployment, &pods, lease.as_ref(), &policies)),
            notes,
        }
    }

    /// The node of its leading pod.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        self.found.as_ref()?.node.as_ref()
    }

    /// Whether that pod is in its node's network.
    #[must_use]
    pub fn in_host_network(&self) -> bool {
        self.found
            .as_ref()
            .is_some_and(|found| found.differences.contains(&PodDifference::HostNetwork))
    }

    /// Its own resolvers, where every one of them can be asked.
    #[must_use]
    pub fn nameservers(&self) -> Vec<SocketAddr> {
        let own = self.found.iter().flat_map(|found| &found.nameservers);
        own.map(|server| server.parse())
            .collect::<Result<_, _>>()
            .unwrap_or_default()
    }

    /// What makes the pod's own check another one than that of a prober beside it, for one host; each to stand behind
    /// "cert-manager's own pod". `as_it_resolves`: its own nameservers were asked.
    #[must_use]
    pub fn differs(
        &self,
        host: &str,
        port: u16,
        answers: &[VantageAnswer],
        as_it_resolves: bool,
    ) -> Vec<String> {
        let Some(found) = &self.found else {
            return Vec::new();
        };
        let mut all: Vec<String> = found
            .differences
            .iter()
            // A prober in the node's network stands for it.
            .filter(|difference| **difference != PodDifference::HostNetwork)
            .map(PodDifference::words)
            .collect();
        all.extend(proxy(found, host));
        if !found.nameservers.is_empty() && !as_it_resolves {
            all.push(format!(
                "asks {} for names (--acme-http01-solver-nameservers), which were not asked here",
                found.nameservers.join(", ")
            ));
        }
        all.extend(policies(found, answers, port));
        all
    }

    /// For machines.
    #[must_use]
    pub fn document(&self) -> Value {
        let leader = |found: &CertManagerController| match &found.leader {
            LeaderEvidence::Lease(pod) | LeaderEvidence::Only(pod) => Some(pod.clone()),
            LeaderEvidence::Unknown => None,
        };
        match &self.found {
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

    /// In a line.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let found = self.found.as_ref()?;
        Some(match (&found.leader, &found.node) {
            (LeaderEvidence::Lease(pod), Some(node)) => {
                format!("cert-manager's pod is {pod} on {node} (it holds the Lease)")
            }
            (LeaderEvidence::Only(pod), Some(node)) => {
                format!("cert-manager's pod is {pod} on {node} (there is only one)")
            }
            _ => format!("which pod of {} leads is not known", found.deployment),
        })
    }
}

/// The controller's Deployments, and what there is to say about how they were found.
async fn deployments(
    cluster: &impl PlacementReader,
    namespace: Option<&str>,
) -> Result<(Vec<Value>, Vec<String>), String> {
    match cluster
        .list(PlacementResource::Deployments, namespace, CONTROLLER)
        .await
    {
        Ok(found) => Ok((found, Vec::new())),
        Err(said) if namespace.is_none() => {
            // Who may not look everywhere may look where it usually is.
            let usual = cluster
                .list(PlacementResource::Deployments, Some(USUAL), CONTROLLER)
                .await;
            match usual {
                Ok(found) if !found.is_empty() => Ok((found, Vec::new())),
                Ok(_) | Err(_) => Err(format!(
                    "{said}; or name its namespace (--cert-manager-namespace), and in namespace {USUAL} none was found"
                )),
            }
        }
        Err(said) => Err(said),
    }
}

/// Why no Deployment was found, with who holds the Lease: that pod is where to look.
async fn nobody(cluster: &impl PlacementReader, namespace: Option<&str>) -> String {
    let place = namespace.map_or_else(
        || "no namespace has a".to_owned(),
        |namespace| format!("namespace {namespace} has no"),
    );
    let mut why = format!("{place} Deployment labelled {CONTROLLER} (--cert-manager-namespace)");
    let holder = cluster.lease(LEASES, LEASE).await.ok().flatten();
    if let Some(holder) = holder.and_then(|lease| Some(lease["spec"]["holderIdentity"].as_str()?.to_owned()))
    {
        why = format!(
            "{why}; the Lease {LEASES}/{LEASE} is held by {holder}, whose Deployment has other labels"
        );
    }
    why
}

fn named(deployment: &Value) -> String {
    let text = |field: &str| deployment["metadata"][field].as_str().unwrap_or_default();
    format!("Deployment {}/{}", text("namespace"), text("name"))
}

fn selector(deployment: &Value) -> String {
    let labels = deployment["spec"]["selector"]["matchLabels"].as_object();
    let pairs = labels.into_iter().flatten();
    let pairs: Vec<String> = pairs
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
        .collect();
    pairs.join(",")
}

/// Where the Deployment says that its Lease is, else where it is by default.
fn lease_places(deployment: &Value, namespace: &str) -> BTreeSet<String> {
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    let own = args
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find_map(|arg| arg.strip_prefix("--leader-election-namespace="))
        // The chart sets it from the pod's own field.
        .map(|named| {
            if named.contains("POD_NAMESPACE") {
                namespace
            } else {
                named
            }
        });
    [own.unwrap_or(LEASES).to_owned(), namespace.to_owned()].into()
}

fn proxy(found: &CertManagerController, host: &str) -> Option<String> {
    let hidden = found
        .environment
        .iter()
        .find(|(name, value)| value.is_none() && name.eq_ignore_ascii_case("HTTP_PROXY"));
    if let Some((name, _)) = hidden {
        return Some(format!(
            "may go through a proxy: its {name} comes from an object that is not read here"
        ));
    }
    let environment = |name: &str| found.environment.get(name).cloned().flatten();
    proxied_by(environment, Scheme::Http, host, 80).map(|proxy| {
        format!("goes through the proxy {proxy} for this name (its environment; NO_PROXY does not except it)")
    })
}

fn policies(found: &CertManagerController, answers: &[VantageAnswer], port: u16) -> Option<String> {
    let addresses: BTreeSet<IpAddr> = answers
        .iter()
        .flat_map(|answer| answer.sight.addresses.iter().copied())
        .collect();
    let names: Vec<&str> = found.egress.iter().map(|(name, _)| name.as_str()).collect();
    addresses.into_iter().find_map(|address| {
        let names = names.join(", ");
        match egress(&found.egress, address, port) {
            EgressReachability::Yes => None,
            EgressReachability::No => Some(format!("may not connect to {address}:{port} by its NetworkPolicies ({names})")),
            EgressReachability::Depends => Some(format!(
                "reaches {address}:{port} only where a rule of its NetworkPolicies ({names}) takes the translated address for one of its pods"
            )),
        }
    })
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
