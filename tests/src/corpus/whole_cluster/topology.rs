//! The topology of a cluster, as its recording states it.

use serde_json::{Value, json};

use super::layout::{Cluster, ClusterTarget, PodIx, ServiceFront};

/// Address of the cluster's resolver.
pub const RESOLVER: &str = "10.96.0.10";

/// Returns the `topology_spec` line.
#[must_use]
pub fn line(cluster: &Cluster) -> String {
    let nodes: Vec<Value> = (0..cluster.nodes())
        .map(|node| {
            json!({"name": cluster.node_name(node), "zone": Cluster::zone_name(cluster.zones[node]),
                "addresses": [format!("192.168.0.{}", 10 + node)],
                "prober": {"pod": cluster.pods[node].name, "address": cluster.pod_front(node)}})
        })
        .collect();
    let mut services = vec![
        json!({"namespace": "ingress", "name": "edge", "type": "LoadBalancer",
            "clusterIPs": [ServiceFront::Ingress.address()],
            "loadBalancer": [{"ip": ServiceFront::Balancer.address(), "ipMode": "VIP"}],
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "endpoints": endpoints(cluster, &cluster.entries)}),
        json!({"namespace": "kube-system", "name": "kube-dns", "type": "ClusterIP", "clusterIPs": [RESOLVER],
            "ports": [{"name": "dns", "port": 53, "targetPort": 53}],
            "endpoints": endpoints(cluster, &cluster.resolvers)}),
    ];
    for (app, origins) in cluster.origins.iter().enumerate() {
        services.push(
            json!({"namespace": "apps", "name": Cluster::app_name(app), "type": "ClusterIP",
            "clusterIPs": [ServiceFront::App(app).address()],
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "endpoints": endpoints(cluster, origins)}),
        );
    }
    let app = cluster.headless;
    services.push(
        json!({"namespace": "apps", "name": format!("{}-pods", Cluster::app_name(app)), "type": "ClusterIP",
        "clusterIPs": [], "ports": [{"name": "http", "port": 8080, "targetPort": 8080}],
        "endpoints": endpoints(cluster, &cluster.origins[app])}),
    );
    let mut published: Vec<Value> = (0..cluster.origins.len())
        .map(|app| {
            json!({"target": {"url": ClusterTarget::Host(app).id()}, "service": "ingress/edge", "port": 80,
                "origin": ServiceFront::App(app).service()})
        })
        .collect();
    let headless = ClusterTarget::Headless(app);
    published.push(json!({"target": {"url": headless.id()}, "service": headless.service(), "port": 8080}));
    json!({"type": "topology_spec", "t_us": 0, "spec": {"proxyMode": "iptables", "nodes": nodes,
        "services": services, "published": published, "targets": [{"url": ClusterTarget::Name.id()}],
        "aggregator": cluster.node_name(cluster.node_of(cluster.aggregator))}})
    .to_string()
}

fn endpoints(cluster: &Cluster, pods: &[PodIx]) -> Vec<Value> {
    pods.iter()
        .map(|pod| {
            json!({"pod": cluster.pods[*pod].name, "address": cluster.pod_address(*pod),
                "node": cluster.node_name(cluster.node_of(*pod)), "ready": true, "serving": true,
                "terminating": false})
        })
        .collect()
}
