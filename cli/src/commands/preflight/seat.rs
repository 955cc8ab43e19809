//! Where cert-manager's pod sits, and what is different about it.

use std::{collections::BTreeSet, net::IpAddr};

use parallax_aggregator::preflight::{Controller, Difference, Leader, Reaches, controller, egress};
use parallax_model::{NodeName, Scheme};
use parallax_prober::proxied_by;
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, Missing, Sort},
    runs::{Fetched, Wanted},
};

/// The labels of the controller's Deployment, as the chart sets them.
const CONTROLLER: &str = "app.kubernetes.io/component=controller,app.kubernetes.io/name=cert-manager";

const LEASE: &str = "cert-manager-controller";

/// What is known of it.
pub(super) struct Seat {
    found: Option<Controller>,
    /// What could not be read.
    pub(super) notes: Vec<String>,
}

impl Seat {
    pub(super) fn nowhere(why: &str) -> Self {
        Self {
            found: None,
            notes: vec![format!("where cert-manager's pod sits is not known: {why}")],
        }
    }

    pub(super) async fn find(cluster: &Cluster, namespace: &str) -> Self {
        let mut notes = Vec::new();
        let deployments = match cluster.list(Sort::Deployment, namespace, CONTROLLER).await {
            Ok(found) => found,
            Err(Missing::NotFound) => Vec::new(),
            Err(Missing::Failed(_, said)) => return Self::nowhere(&said),
        };
        let Some(deployment) = deployments.first() else {
            return Self::nowhere(&format!(
                "namespace {namespace} has no Deployment labelled {CONTROLLER} (--cert-manager-namespace)"
            ));
        };
        let mut read =
            async |sort, labels: &str, what: &str| match cluster.list(sort, namespace, labels).await {
                Ok(found) => found,
                Err(Missing::NotFound) => Vec::new(),
                Err(Missing::Failed(_, said)) => {
                    notes.push(format!("{what} not known: {said}"));
                    Vec::new()
                }
            };
        let pods = read(
            Sort::Pod,
            &selector(deployment),
            "where cert-manager's pod sits is",
        )
        .await;
        let policies = read(
            Sort::NetworkPolicy,
            "",
            "which NetworkPolicies hold for cert-manager's pod is",
        )
        .await;
        let lease = lease(cluster, deployment, namespace).await;
        Self {
            found: Some(controller(deployment, &pods, lease.as_ref(), &policies)),
            notes,
        }
    }

    pub(super) fn node(&self) -> Option<&NodeName> {
        self.found.as_ref()?.node.as_ref()
    }

    pub(super) fn in_host_network(&self) -> bool {
        self.found
            .as_ref()
            .is_some_and(|found| found.differences.contains(&Difference::HostNetwork))
    }

    /// Its own resolvers, where every one of them can be asked.
    pub(super) fn nameservers(&self) -> Vec<std::net::SocketAddr> {
        let own = self.found.iter().flat_map(|found| &found.nameservers);
        own.map(|server| server.parse())
            .collect::<Result<_, _>>()
            .unwrap_or_default()
    }

    /// What makes the pod's own check another one than that of a prober beside it, for one host; each to stand behind
    /// "cert-manager's own pod".
    pub(super) fn differs(&self, host: &str, fetched: &Fetched, wanted: &Wanted) -> Vec<String> {
        let Some(found) = &self.found else {
            return Vec::new();
        };
        let mut all: Vec<String> = found
            .differences
            .iter()
            // A prober in the node's network stands for it.
            .filter(|difference| **difference != Difference::HostNetwork)
            .map(Difference::words)
            .collect();
        all.extend(proxy(found, host));
        if !found.nameservers.is_empty() && !fetched.as_it_resolves {
            all.push(format!(
                "asks {} for names (--acme-http01-solver-nameservers), which were not asked here",
                found.nameservers.join(", ")
            ));
        }
        all.extend(policies(found, fetched, wanted.port));
        all
    }

    pub(super) fn document(&self) -> Value {
        let leader = |found: &Controller| match &found.leader {
            Leader::Lease(pod) | Leader::Only(pod) => Some(pod.clone()),
            Leader::Unknown => None,
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
    pub(super) fn words(&self) -> Option<String> {
        let found = self.found.as_ref()?;
        Some(match (&found.leader, &found.node) {
            (Leader::Lease(pod), Some(node)) => {
                format!("cert-manager's pod is {pod} on {node} (it holds the Lease)")
            }
            (Leader::Only(pod), Some(node)) => {
                format!("cert-manager's pod is {pod} on {node} (there is only one)")
            }
            _ => format!("which pod of {} leads is not known", found.deployment),
        })
    }
}

fn selector(deployment: &Value) -> String {
    let labels = deployment["spec"]["selector"]["matchLabels"].as_object();
    let pairs = labels.into_iter().flatten();
    let pairs: Vec<String> = pairs
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
        .collect();
    pairs.join(",")
}

/// Where the Deployment says that it is, else where it is by default.
async fn lease(cluster: &Cluster, deployment: &Value, namespace: &str) -> Option<Value> {
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
    let places: BTreeSet<&str> = [own.unwrap_or("kube-system"), namespace].into();
    for place in places {
        if let Ok(lease) = cluster.get(Sort::Lease, place, LEASE).await {
            return Some(lease);
        }
    }
    None
}

fn proxy(found: &Controller, host: &str) -> Option<String> {
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

fn policies(found: &Controller, fetched: &Fetched, port: u16) -> Option<String> {
    let addresses: BTreeSet<IpAddr> = fetched
        .self_check
        .answers
        .iter()
        .flat_map(|answer| answer.sight.addresses.iter().copied())
        .collect();
    let names: Vec<&str> = found.egress.iter().map(|(name, _)| name.as_str()).collect();
    addresses.into_iter().find_map(|address| {
        let names = names.join(", ");
        match egress(&found.egress, address, port) {
            Reaches::Yes => None,
            Reaches::No => Some(format!("may not connect to {address}:{port} by its NetworkPolicies ({names})")),
            Reaches::Depends => Some(format!(
                "reaches {address}:{port} only where a rule of its NetworkPolicies ({names}) takes the translated address for one of its pods"
            )),
        }
    })
}
