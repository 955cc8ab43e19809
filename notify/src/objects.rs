//! The Kubernetes objects that an incident affects, on which Events are written.

use std::collections::BTreeSet;

use parallax_diagnosis::{
    topology::{Service, Topology},
    verdict::{Subject, Verdict},
};
use parallax_kubernetes::topology_state::{PublisherKind, TargetPublisher, TargetPublishers};
use parallax_model::TargetId;
use serde::{Deserialize, Serialize};

/// Maximum number of objects per incident: an incident of five hundred hosts must not become five hundred Events.
pub(super) const MAX_OBJECTS: usize = 5;

/// A reference to an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct ObjectReference {
    pub(super) kind: EventObjectKind,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Kinds of objects with Events, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum EventObjectKind {
    Node,
    Pod,
    Service,
    Ingress,
    #[serde(rename = "HTTPRoute")]
    HttpRoute,
    ConfigMap,
}

impl EventObjectKind {
    pub(super) const fn kind_name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::Service => "Service",
            Self::Ingress => "Ingress",
            Self::HttpRoute => "HTTPRoute",
            Self::ConfigMap => "ConfigMap",
        }
    }

    pub(super) const fn group(self) -> &'static str {
        match self {
            Self::Node | Self::Pod | Self::Service | Self::ConfigMap => "",
            Self::Ingress => "networking.k8s.io",
            Self::HttpRoute => "gateway.networking.k8s.io",
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::Service => "services",
            Self::Ingress => "ingresses",
            Self::HttpRoute => "httproutes",
            Self::ConfigMap => "configmaps",
        }
    }
}

impl ObjectReference {
    fn from_service(service: &parallax_model::ServiceKey) -> Self {
        Self {
            kind: EventObjectKind::Service,
            namespace: service.namespace.to_string(),
            name: service.name.to_string(),
        }
    }

    fn from_publisher(publisher: &TargetPublisher) -> Self {
        Self {
            kind: match publisher.kind {
                PublisherKind::Ingress => EventObjectKind::Ingress,
                PublisherKind::HttpRoute => EventObjectKind::HttpRoute,
            },
            namespace: publisher.namespace.clone(),
            name: publisher.name.clone(),
        }
    }

    fn from_node(name: &str) -> Self {
        Self {
            kind: EventObjectKind::Node,
            namespace: String::new(),
            name: name.to_owned(),
        }
    }
}

/// Returns the affected objects, at most [`MAX_OBJECTS`] and the verdict's own first, and their total number.
pub(super) fn affected_objects(
    verdict: &Verdict,
    topology: &Topology,
    publishers: &TargetPublishers,
) -> (Vec<ObjectReference>, usize) {
    let mut first = Vec::new();
    let service = match &verdict.subject {
        Subject::Node(node) => {
            first.push(ObjectReference::from_node(node.as_str()));
            None
        }
        Subject::Front(front) => topology.service_of(front),
        Subject::Service(key) => topology.service(key),
        Subject::Target(target) => entry_service(target, topology),
        Subject::Name(_) | Subject::Network => None,
    };
    // A region's members are nodes or backend Pods; other names refer to no object.
    for member in &verdict.region.members {
        if topology.nodes().keys().any(|node| node.as_str() == member) {
            first.push(ObjectReference::from_node(member));
        } else if let Some(namespace) = namespace_of_pod(member, service, topology) {
            first.push(ObjectReference {
                kind: EventObjectKind::Pod,
                namespace,
                name: member.clone(),
            });
        }
    }
    first.extend(service.map(|service| ObjectReference::from_service(&service.key)));
    let mut rest = BTreeSet::new();
    for target in &verdict.targets {
        rest.extend(publishers.get(target).map(ObjectReference::from_publisher));
        let Some(placed) = topology.targets().get(target) else {
            continue;
        };
        let ends = [
            placed.entry.as_ref().map(|(service, _)| service),
            placed.origin.as_ref(),
        ];
        rest.extend(ends.into_iter().flatten().map(ObjectReference::from_service));
    }
    let mut seen = BTreeSet::new();
    let mut all: Vec<ObjectReference> = first
        .into_iter()
        .chain(rest)
        .filter(|named| seen.insert(named.clone()))
        .collect();
    let total = all.len();
    all.truncate(MAX_OBJECTS);
    (all, total)
}

fn entry_service<'a>(target: &TargetId, topology: &'a Topology) -> Option<&'a Service> {
    let (service, _) = topology.targets().get(target)?.entry.as_ref()?;
    topology.service(service)
}

/// The namespace of an endpoint's Pod: that of its Service.
fn namespace_of_pod(pod: &str, likeliest: Option<&Service>, topology: &Topology) -> Option<String> {
    let has = |service: &&Service| {
        service
            .endpoints
            .iter()
            .any(|endpoint| endpoint.pod.as_str() == pod)
    };
    let found = likeliest
        .filter(has)
        .or_else(|| topology.services().values().find(has))?;
    Some(found.key.namespace.to_string())
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::TopologySpec;
    use serde_json::json;

    use super::*;
    use parallax_fixtures as fixtures;

    fn topology() -> Topology {
        let services: Vec<_> = (0..9)
            .map(|i| {
                json!({"namespace": "shop", "name": format!("shop-{i}"), "type": "ClusterIP", "clusterIPs": [format!("10.96.1.{i}")],
                    "ports": [{"port": 80, "targetPort": 8080}], "endpoints": [{"pod": format!("pod-{i}"), "address": format!("10.244.1.{i}"), "node": "n1"}]})
            })
            .collect();
        let targets: Vec<_> = (0..9)
            .map(|i| json!({"url": format!("http://10.96.1.{i}/")}))
            .collect();
        let spec: TopologySpec = serde_json::from_value(
            json!({"nodes": [{"name": "n1"}], "services": services, "targets": targets}),
        )
        .unwrap();
        Topology::try_from(spec).unwrap()
    }

    fn published() -> TargetPublishers {
        let publisher = TargetPublisher {
            kind: PublisherKind::Ingress,
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        let targets = ["http://shop.example.test/", "http://late.example.test/"];
        targets
            .map(|target| (target.parse().unwrap(), publisher.clone()))
            .into()
    }

    #[test]
    fn hosts_are_said_of_the_ingress_that_publishes_them_once() {
        let mut verdict = fixtures::outage().incidents[0].verdict.clone();
        verdict.subject = Subject::Front("10.96.1.3:80".parse().unwrap());
        verdict.region = fixtures::region("nolocal", &[]);
        verdict.targets = published().into_keys().collect();
        assert_eq!(
            words(&verdict),
            (vec!["Service shop/shop-3".into(), "Ingress shop/web".into()], 2)
        );
    }

    fn words(verdict: &Verdict) -> (Vec<String>, usize) {
        let (named, total) = affected_objects(verdict, &topology(), &published());
        let words = named
            .iter()
            .map(|named| format!("{} {}/{}", named.kind.kind_name(), named.namespace, named.name));
        (words.collect(), total)
    }

    #[test]
    fn a_front_is_its_service_and_a_region_names_its_nodes_and_pods_first() {
        let mut verdict = fixtures::outage().incidents[0].verdict.clone();
        verdict.targets.clear();
        verdict.subject = Subject::Front("10.96.1.3:80".parse().unwrap());
        verdict.region = fixtures::region("backend", &["pod-3"]);
        assert_eq!(
            words(&verdict),
            (vec!["Pod shop/pod-3".into(), "Service shop/shop-3".into()], 2)
        );
        verdict.subject = Subject::Node("n1".parse().unwrap());
        verdict.region = fixtures::region("client", &["n1"]);
        assert_eq!(words(&verdict), (vec!["Node /n1".into()], 1));
    }

    #[test]
    fn of_many_members_a_few_are_named_and_all_are_counted() {
        let mut verdict = fixtures::outage().incidents[0].verdict.clone();
        verdict.subject = Subject::Network;
        verdict.region = fixtures::region("cross", &[]);
        verdict.targets = topology().targets().keys().cloned().collect();
        let placed = topology()
            .targets()
            .values()
            .filter(|placed| placed.entry.is_some())
            .count();
        assert_eq!(placed, 9, "the targets of this test enter through Services");
        let (named, total) = words(&verdict);
        assert_eq!((named.len(), total), (MAX_OBJECTS, 9));
    }
}
