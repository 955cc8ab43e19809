//! Service discovery for Prometheus as a file: every declared port of every Pod, with the labels of Prometheus's own
//! Kubernetes discovery.
//!
//! Debian's Prometheus is built without that discovery. The relabelling that follows is the operator's either way.

use std::{
    cell::RefCell,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::cluster::{PodView, Port};

/// A file of targets, written when they change.
#[derive(Debug)]
pub(super) struct Discovery {
    path: PathBuf,
    written: RefCell<Vec<Value>>,
}

impl Discovery {
    /// Writes a file without targets.
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        fs::write(path, "[]")?;
        Ok(Self {
            path: path.to_owned(),
            written: RefCell::default(),
        })
    }

    /// Writes the current targets if they have changed. A failed write is retried.
    pub(super) fn renew(&self, pods: &[PodView]) {
        let targets: Vec<Value> = pods.iter().flat_map(targets).collect();
        if *self.written.borrow() == targets {
            return;
        }
        // Prometheus must not read a partial file.
        let new = self.path.with_extension("new");
        let document = Value::Array(targets.clone()).to_string();
        if fs::write(&new, document)
            .and_then(|()| fs::rename(&new, &self.path))
            .is_ok()
        {
            *self.written.borrow_mut() = targets;
        }
    }
}

fn targets(pod: &PodView) -> Vec<Value> {
    let Some(address) = pod.address else {
        return Vec::new();
    };
    let one = |port: &Port| {
        let number = u16::try_from(port.number).ok()?;
        let mut labels = json!({
            "__meta_kubernetes_namespace": pod.namespace,
            "__meta_kubernetes_pod_name": pod.name,
            "__meta_kubernetes_pod_phase": pod.phase,
            "__meta_kubernetes_pod_container_name": port.container,
            "__meta_kubernetes_pod_container_port_name": port.name,
        });
        for (label, value) in &pod.labels {
            labels[format!("__meta_kubernetes_pod_label_{}", label_name(label))] = json!(value);
        }
        Some(json!({"targets": [SocketAddr::new(address, number).to_string()], "labels": labels}))
    };
    pod.ports.iter().filter_map(one).collect()
}

/// Returns a label's name as Prometheus writes it.
pub(super) fn label_name(label: &str) -> String {
    label.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_declared_port_of_a_pod_with_an_address_is_a_target() {
        let mut pod = PodView {
            namespace: "parallax".to_owned(),
            name: "a".to_owned(),
            node: "n1".to_owned(),
            address: Some([10, 244, 1, 7].into()),
            labels: BTreeMap::from([("app.kubernetes.io/name".to_owned(), "parallax".to_owned())]),
            ready: true,
            terminating: false,
            running: true,
            container: String::new(),
            restarts: 0,
            phase: "Running".to_owned(),
            ports: vec![Port {
                container: "aggregator".to_owned(),
                name: "http".to_owned(),
                number: 8080,
            }],
        };
        let found = targets(&pod);
        assert_eq!(found[0]["targets"][0], "10.244.1.7:8080");
        assert_eq!(
            found[0]["labels"]["__meta_kubernetes_pod_label_app_kubernetes_io_name"],
            "parallax"
        );
        pod.address = None;
        assert!(targets(&pod).is_empty());
    }
}
