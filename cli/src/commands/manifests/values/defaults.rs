//! Default values.

use std::collections::BTreeMap;

use super::{
    LinkValues, PlacementValues, PreflightValues, ResourceValues, Toleration, Values, WorkloadValues,
    notify::NotifyValues, raw::CertManager,
};

impl Default for Values {
    fn default() -> Self {
        let workload = |cpu: &str, memory: &str, most: &str| WorkloadValues {
            resources: ResourceValues {
                requests: amounts([("cpu", cpu), ("memory", memory)]),
                // No CPU limit: a throttled process would measure its own throttling.
                limits: amounts([("memory", most)]),
            },
            placement: PlacementValues {
                node_selector: amounts([("kubernetes.io/os", "linux")]),
                ..PlacementValues::default()
            },
        };
        let mut prober = workload("10m", "24Mi", "128Mi");
        // Tainted nodes are probed like all others.
        prober.placement.tolerations.push(Toleration {
            key: None,
            operator: Some("Exists".to_owned()),
            value: None,
            effect: None,
            seconds: None,
        });
        Self {
            image: concat!("parallax:", env!("CARGO_PKG_VERSION")).to_owned(),
            image_pull_policy: None,
            image_pull_secrets: Vec::new(),
            namespace: "parallax".to_owned(),
            audience: "parallax".to_owned(),
            interval_ms: 5_000,
            timeout_ms: 3_000,
            prober,
            aggregator: workload("100m", "128Mi", "1Gi"),
            replicas: 1,
            volume: None,
            echo_port: 9_095,
            host_echo_port: 9_096,
            host_vantage: false,
            responder: false,
            external_hosts: Vec::new(),
            extra_roots: None,
            page_namespaces: Vec::new(),
            api_server_ports: vec![443, 6_443],
            pod_monitor: None,
            custom_resources: false,
            cert_manager: CertManager::default(),
            cert_manager_namespace: None,
            notify: NotifyValues::default(),
            links: LinkValues::default(),
            preflight: None,
        }
    }
}

impl Default for PreflightValues {
    fn default() -> Self {
        Self {
            workload: WorkloadValues {
                resources: ResourceValues {
                    requests: amounts([("cpu", "10m"), ("memory", "32Mi")]),
                    limits: amounts([("memory", "128Mi")]),
                },
                placement: PlacementValues {
                    node_selector: amounts([("kubernetes.io/os", "linux")]),
                    ..PlacementValues::default()
                },
            },
            namespaces: Vec::new(),
            cert_manager_namespace: "cert-manager".to_owned(),
        }
    }
}

fn amounts<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    super::super::meta::string_map(pairs)
}
