//! Memory and CPU of Parallax's Pods, from their kubelets.

use std::{cell::RefCell, time::Duration};

use serde_json::Value;
use tokio::time::timeout;

use super::{Clock, PodUsage, Timeline};
use crate::cluster::Cluster;

/// Timeout of one kubelet.
const KUBELET_TIMEOUT: Duration = Duration::from_secs(3);

/// Queries every kubelet once. An unreachable node has no figures.
pub(super) async fn measure(cluster: &Cluster, clock: Clock, timeline: &RefCell<Timeline>) {
    for node in &cluster.nodes {
        let path = format!("/api/v1/nodes/{node}/proxy/stats/summary");
        let Ok(request) = http::Request::get(path).body(Vec::new()) else {
            continue;
        };
        let Ok(Ok(summary)) = timeout(KUBELET_TIMEOUT, cluster.client.request::<Value>(request)).await else {
            continue;
        };
        timeline.borrow_mut().usage.extend(read(&summary, clock.now()));
    }
}

fn read(summary: &Value, at: f64) -> Vec<PodUsage> {
    let pods = summary["pods"].as_array().into_iter().flatten();
    pods.filter(|pod| {
        let namespace = pod["podRef"]["namespace"].as_str();
        namespace.is_some_and(|namespace| namespace.starts_with("parallax"))
    })
    .filter_map(|pod| {
        Some(PodUsage {
            at,
            pod: pod["podRef"]["name"].as_str()?.to_owned(),
            memory: pod["memory"]["workingSetBytes"].as_u64()?,
            cpu: pod["cpu"]["usageNanoCores"].as_u64()?,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_pods_of_parallax_with_figures_are_read() {
        let summary = json!({"pods": [
            {"podRef": {"name": "p", "namespace": "parallax"}, "memory": {"workingSetBytes": 7}, "cpu": {"usageNanoCores": 8}},
            {"podRef": {"name": "new", "namespace": "parallax"}},
            {"podRef": {"name": "shop", "namespace": "shop"}, "memory": {"workingSetBytes": 7}, "cpu": {"usageNanoCores": 8}},
        ]});
        let read = read(&summary, 1.0);
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].pod.as_str(), read[0].memory, read[0].cpu), ("p", 7, 8));
    }
}
