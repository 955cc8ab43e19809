//! Names, labels and namespaces of the components.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Namespace,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};

use super::values::Values;

/// A component of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    Aggregator,
    /// The prober in the Pod network.
    Prober,
    /// The prober in the host network of the nodes.
    HostProber,
    /// The second Pod of each node, which only answers.
    Responder,
    /// The controller of `Preflight` objects.
    Preflight,
}

impl Component {
    /// Returns the name of its workload and of its ServiceAccount.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Aggregator => "parallax-aggregator",
            Self::Prober => "parallax-prober",
            Self::HostProber => "parallax-prober-host",
            Self::Responder => "parallax-responder",
            Self::Preflight => "parallax-preflight",
        }
    }

    const fn component(self) -> &'static str {
        match self {
            Self::Aggregator => "aggregator",
            Self::Prober => "prober",
            Self::HostProber => "prober-host",
            Self::Responder => "responder",
            Self::Preflight => "preflight",
        }
    }

    /// Returns its namespace.
    pub(super) fn namespace(self, values: &Values) -> String {
        match self {
            Self::HostProber => values.host_namespace(),
            _ => values.namespace.clone(),
        }
    }

    /// Returns the labels that select its Pods.
    pub(super) fn labels(self) -> BTreeMap<String, String> {
        string_map([
            ("app.kubernetes.io/name", "parallax"),
            ("app.kubernetes.io/component", self.component()),
        ])
    }

    /// Returns the selector of its Pods.
    pub(super) fn selector(self) -> LabelSelector {
        LabelSelector {
            match_labels: Some(self.labels()),
            ..LabelSelector::default()
        }
    }

    /// Builds the metadata of an object that belongs to it.
    pub(super) fn metadata(self, name: &str, values: &Values) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            ..self.metadata_in(&self.namespace(values))
        }
    }

    /// Builds the metadata of an object of the same name in a given namespace.
    pub(super) fn metadata_in(self, namespace: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name().to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }
}

/// Builds a map of strings.
pub(super) fn string_map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Builds the metadata of an object that belongs to the whole installation.
pub(super) fn installation_metadata(name: &str, namespace: Option<String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace,
        labels: Some(string_map([("app.kubernetes.io/name", "parallax")])),
        ..ObjectMeta::default()
    }
}

/// Builds the namespace of the installation, whose Pod Security level is `restricted`, and a `privileged` one for host
/// probers, if there are any, because the first one rejects their Pods.
pub(super) fn namespaces(values: &Values) -> Vec<Namespace> {
    let mut spaces = vec![namespace(&values.namespace, "restricted")];
    if values.host_vantage {
        spaces.push(namespace(&values.host_namespace(), "privileged"));
    }
    spaces
}

fn namespace(name: &str, level: &str) -> Namespace {
    let mut metadata = installation_metadata(name, None);
    if let Some(labels) = &mut metadata.labels {
        for mode in ["enforce", "warn", "audit"] {
            labels.insert(format!("pod-security.kubernetes.io/{mode}"), level.to_owned());
        }
    }
    Namespace {
        metadata,
        ..Namespace::default()
    }
}
