//! Installations with many sets of values, rendered once for all tests.

use std::sync::OnceLock;

use serde_json::Value;

use super::{
    Objects,
    helm::{self, with_values},
};

/// Namespace and values: the defaults, each option alone, and all options together.
const SETS: [(&str, &str); 17] = [
    ("parallax", "{}"),
    ("parallax", "hostVantage: true"),
    ("parallax", "responder: true"),
    (
        "parallax",
        "aggregator: {volume: {size: 1Gi, storageClass: fast}}",
    ),
    (
        "parallax",
        "aggregator: {replicas: 2}\npageNamespaces: [monitoring]",
    ),
    ("parallax", "externalHosts: [parallax.example.test, 203.0.113.7]"),
    (
        "parallax",
        "extraRoots: {configMap: company-ca}\nhostVantage: true\nresponder: true",
    ),
    ("parallax", "customResources: true"),
    ("parallax", "preflight: {}"),
    ("parallax", "certManager: off"),
    (
        "parallax",
        "links: {grafana: 'https://grafana.example.com/at/overview', page: 'https://parallax.example.com/'}",
    ),
    (
        "ears",
        "preflight: {namespaces: [shop, pay], certManagerNamespace: certs}",
    ),
    (
        "parallax",
        "notify: {events: true, alertmanagers: [{name: main, url: 'http://alertmanager.monitoring:9093'}]}",
    ),
    (
        "parallax",
        "access: {authenticated: true, ingress: {host: parallax.example.com, tlsSecret: page}, \
         httpRoute: {host: mesh.example.com, parentRefs: [{name: public}]}}\npageNamespaces: [ingress]",
    ),
    ("parallax", "dashboards: {enabled: true, folder: Parallax}"),
    (
        "eyes",
        "audience: eyes\nhostVantage: true\nresponder: true\nexternalHosts: [parallax.example.test]\n\
         aggregator: {volume: {size: 1Gi}}\npodMonitor: {rules: true}\nlinks: {page: 'https://parallax.example.com/'}\n\
         customResources: true\npreflight: {}\npageNamespaces: [monitoring]\nimagePullSecrets: [registry]",
    ),
    (
        "pair",
        "aggregator: {replicas: 2}\nhostVantage: true\nresponder: true\ncustomResources: true\npreflight: {}\n\
         podMonitor: {rules: true}\ndashboards: {enabled: true}\npageNamespaces: [monitoring]",
    ),
];

/// An installation, and the namespace and values that it was rendered with.
pub(super) struct Installation {
    pub(super) namespace: &'static str,
    pub(super) values: &'static str,
    pub(super) objects: Objects,
}

/// Returns all of them, or reports that a test does not run.
pub(super) fn installations(test: &str) -> Option<&'static [Installation]> {
    static RENDERED: OnceLock<Vec<Installation>> = OnceLock::new();
    let helm = helm::installed(test)?;
    let rendered = RENDERED.get_or_init(|| {
        let render = |(namespace, values)| Installation {
            namespace,
            values,
            objects: with_values(&helm, namespace, values),
        };
        SETS.map(render).into()
    });
    Some(rendered)
}

/// The objects of some kinds.
pub(super) fn of<'a>(all: &'a Objects, kinds: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    all.iter()
        .filter(|((kind, ..), _)| kinds.contains(&kind.as_str()))
        .map(|(_, object)| object)
}

pub(super) fn workloads(all: &Objects) -> impl Iterator<Item = &Value> {
    of(all, &["Deployment", "DaemonSet"])
}

pub(super) fn has(all: &Objects, kind: &str, namespace: &Value, name: &Value) -> bool {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.contains_key(&(kind.to_owned(), word(namespace), word(name)))
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The aggregator's configuration.
pub(super) fn configuration(all: &Objects) -> &str {
    of(all, &["ConfigMap"])
        .find_map(|map| map["data"]["parallax.yaml"].as_str())
        .unwrap()
}
