//! A cluster as objects of the Kubernetes API, as its controllers would have written them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::ObjectName;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Node, PodConditions, Service, addresses},
    incident::{BackendPods, Ingress, IpMode, TrafficPolicy},
};

/// Namespace of the probers.
pub const NAMESPACE: &str = "parallax";

/// Resource, namespace and name.
pub type Key = (&'static str, String, String);

/// Builds all objects.
#[must_use]
pub fn from_cluster(cluster: &Cluster) -> BTreeMap<Key, Value> {
    let mut all = BTreeMap::new();
    let mut add = |resource, namespace: &str, name: &str, mut object: Value| {
        object["metadata"]["name"] = name.into();
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        all.insert((resource, namespace.to_owned(), name.to_owned()), object);
    };
    for node in cluster.present_nodes() {
        add("nodes", "", node.name.as_str(), self::node(cluster, node));
        if node.probes {
            add("pods", NAMESPACE, node.prober.name.as_str(), prober(node));
        }
        if node.host_prober {
            let name = format!("prober-host-{}", node.name);
            add("pods", NAMESPACE, &name, host_prober(node));
        }
    }
    let services = cluster.published_services().map(|service| &service.key);
    let ingresses = cluster.ingresses.iter().map(|ingress| &ingress.ingress);
    let namespaces: BTreeSet<&str> = services
        .chain(ingresses)
        .map(|key| key.namespace.as_str())
        .chain([NAMESPACE])
        .collect();
    for namespace in namespaces {
        add("namespaces", "", namespace, json!({}));
    }
    for service in cluster.published_services() {
        let (namespace, name) = (service.key.namespace.as_str(), service.key.name.as_str());
        add("services", namespace, name, self::service(cluster, service));
        add("endpointslices", namespace, &format!("{name}-1"), slice(service));
    }
    for ingress in &cluster.ingresses {
        let (namespace, name) = (ingress.ingress.namespace.as_str(), ingress.ingress.name.as_str());
        add("ingresses", namespace, name, self::ingress(cluster, ingress));
        if let Some(class) = &ingress.class {
            let controller = format!("example.test/{class}");
            add(
                "ingressclasses",
                "",
                class.as_str(),
                json!({"spec": {"controller": controller}}),
            );
        }
    }
    all
}

fn node(cluster: &Cluster, node: &Node) -> Value {
    let address = addresses::underlay_address(node.number);
    let mut all = vec![json!({"type": "InternalIP", "address": address})];
    if cluster.is_dual_stack() {
        all.push(json!({"type": "InternalIP", "address": addresses::ipv6_counterpart(address)}));
    }
    json!({
        "metadata": {"labels": {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": node.zone}},
        "spec": {"unschedulable": node.cordoned},
        "status": {
            "addresses": all,
            "conditions": [{"type": "Ready", "status": if node.ready { "True" } else { "Unknown" }}],
            "nodeInfo": {"kubeletVersion": "v1.36.0"},
        },
    })
}

fn labels(component: &str) -> Value {
    json!({"app.kubernetes.io/name": "parallax", "app.kubernetes.io/component": component})
}

fn prober(node: &Node) -> Value {
    let ports = json!([{"name": "echo", "containerPort": addresses::ECHO_PORT}]);
    json!({
        "metadata": {"labels": labels("prober")},
        "spec": {"nodeName": node.name, "containers": [{"ports": ports}]},
        "status": {
            "phase": "Running", "podIP": node.prober.address,
            "conditions": [{"type": "Ready", "status": if node.prober_ready && node.ready { "True" } else { "False" }}],
        },
    })
}

fn host_prober(node: &Node) -> Value {
    let ports = json!([{"name": "echo", "containerPort": addresses::ECHO_PORT}]);
    json!({
        "metadata": {"labels": labels("prober-host")},
        "spec": {"nodeName": node.name, "hostNetwork": true, "containers": [{"ports": ports}]},
        "status": {"phase": "Running", "podIP": addresses::underlay_address(node.number)},
    })
}

fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

/// Builds the load balancer status that the cloud or a controller publishes for a Service or an Ingress behind it.
pub(crate) fn balancer(cluster: &Cluster, service: &Service) -> Value {
    let mode = match service.ip_mode {
        IpMode::Vip => "VIP",
        IpMode::Proxy => "Proxy",
    };
    let mut ingress = Vec::new();
    if let Some(ip) = service.load_balancer_ip {
        ingress.push(json!({"ip": ip, "ipMode": mode}));
        if cluster.is_dual_stack() {
            ingress.push(json!({"ip": addresses::ipv6_counterpart(ip), "ipMode": mode}));
        }
    }
    json!({"loadBalancer": {"ingress": ingress}})
}

fn service(cluster: &Cluster, service: &Service) -> Value {
    let cluster_ip = service
        .cluster_ip
        .map_or_else(|| "None".to_owned(), |ip| ip.to_string());
    let six = service.cluster_ip.filter(|_| cluster.is_dual_stack());
    let cluster_ips: Vec<String> = [cluster_ip.clone()]
        .into_iter()
        .chain(six.map(|ip| addresses::ipv6_counterpart(ip).to_string()))
        .collect();
    let ports = service.ports.iter().map(|port| {
        json!({
            "name": port.name, "protocol": "TCP", "port": port.port, "targetPort": port.target_port,
            "nodePort": port.node_port.unwrap_or_default(),
        })
    });
    let ports: Vec<Value> = ports.collect();
    let kind = if service.load_balancer_ip.is_some() {
        "LoadBalancer"
    } else {
        "ClusterIP"
    };
    let mut metadata = json!({"labels": {"app.kubernetes.io/name": service.key.name}});
    if service.backend_pods == Some(BackendPods::Probers) {
        // As in the manifests of Parallax.
        metadata["labels"]["parallax.dev/echo"] = "true".into();
        metadata["annotations"] = json!({"parallax.dev/expect": "200", "parallax.dev/path": "/healthz"});
    }
    json!({
        "metadata": metadata,
        "spec": {
            "type": kind, "clusterIP": cluster_ip, "clusterIPs": cluster_ips, "ports": ports,
            "externalTrafficPolicy": policy(service.policy),
            "internalTrafficPolicy": policy(service.internal_policy),
            "selector": {"app.kubernetes.io/name": service.key.name},
        },
        "status": balancer(cluster, service),
    })
}

fn slice(service: &Service) -> Value {
    let endpoints = service.endpoints.iter().map(|pod| {
        let PodConditions {
            ready,
            serving,
            terminating,
        } = service.conditions(&pod.name);
        json!({
            "addresses": [pod.address], "nodeName": pod.node,
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "targetRef": {"kind": "Pod", "name": pod.name},
        })
    });
    let endpoints: Vec<Value> = endpoints.collect();
    let ports = service.ports.iter();
    let ports = ports.map(|port| json!({"name": port.name, "port": port.target_port, "protocol": "TCP"}));
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": service.key.name}},
        "addressType": "IPv4", "endpoints": endpoints, "ports": ports.collect::<Vec<Value>>(),
    })
}

fn ingress(cluster: &Cluster, ingress: &Ingress) -> Value {
    let hosts = ingress.hosts.names();
    let rules: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
    let tls = if ingress.tls {
        json!([{"hosts": hosts}])
    } else {
        json!([])
    };
    let entry = cluster.service(&ingress.service);
    let status = entry.map_or(json!({}), |entry| balancer(cluster, entry));
    json!({
        "spec": {
            "ingressClassName": ingress.class.as_ref().map(ObjectName::as_str),
            "rules": rules, "tls": tls,
        },
        "status": status,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn cluster() -> Cluster {
        let text = include_str!("../incidents/quiet-api-away.yaml");
        let incident = crate::incident_file::parse(Path::new("quiet-api-away.yaml"), text).unwrap();
        Cluster::derive(&incident).unwrap()
    }

    #[test]
    fn the_objects_of_a_cluster() {
        let all = from_cluster(&cluster());
        let shown: Vec<String> = all
            .iter()
            .map(|((resource, ..), object)| format!("{resource} {object}"))
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn a_change_of_the_cluster_changes_only_the_objects_it_is_about() {
        let before = cluster();
        let mut after = before.clone();
        let op = "add-endpoint: {service: ingress/ingress-nginx, pod: ingress-9, node: n4}";
        after.apply(&serde_saphyr::from_str(op).unwrap()).unwrap();
        let (before, after) = (from_cluster(&before), from_cluster(&after));
        let changed = after
            .iter()
            .filter(|(key, object)| before.get(*key) != Some(*object));
        let changed: Vec<String> = changed
            .map(|((resource, _, name), _)| format!("{resource}/{name}"))
            .collect();
        assert_eq!(changed, ["endpointslices/ingress-nginx-1"]);
        assert!(before.keys().all(|key| after.contains_key(key)));
    }
}
