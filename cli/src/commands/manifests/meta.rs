//! Names, labels and namespaces: who is meant by what.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Namespace,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};

use super::values::Values;

/// Whose pods and objects these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    Aggregator,
    /// The prober in the pod network.
    Prober,
    /// The prober in the nodes' own network.
    HostProber,
    /// The second pod of each node that only answers.
    Responder,
    /// The controller of Preflights.
    Preflight,
}

impl Component {
    /// The name of its workload and of its `ServiceAccount`.
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

    /// The namespace it lives in.
    pub(super) fn namespace(self, values: &Values) -> String {
        match self {
            Self::HostProber => values.host_namespace(),
            _ => values.namespace.clone(),
        }
    }

    /// What its pods are selected by.
    pub(super) fn labels(self) -> BTreeMap<String, String> {
        pairs([
            ("app.kubernetes.io/name", "parallax"),
            ("app.kubernetes.io/component", self.component()),
        ])
    }

    /// A selector of its pods.
    pub(super) fn selector(self) -> LabelSelector {
        LabelSelector {
            match_labels: Some(self.labels()),
            ..LabelSelector::default()
        }
    }

    /// Metadata of an object that belongs to it.
    pub(super) fn meta(self, name: &str, values: &Values) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            ..self.meta_in(&self.namespace(values))
        }
    }

    /// Metadata of an object of its name in some namespace.
    pub(super) fn meta_in(self, namespace: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name().to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }
}

/// A map of texts.
pub(super) fn pairs<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Metadata of what belongs to the whole installation.
pub(super) fn common(name: &str, namespace: Option<String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace,
        labels: Some(pairs([("app.kubernetes.io/name", "parallax")])),
        ..ObjectMeta::default()
    }
}

/// The namespace of everything, which admits harmless pods only, and one for the probers in the nodes' network, where
/// there are any: these are what the first one keeps out.
pub(super) fn namespaces(values: &Values) -> Vec<Namespace> {
    let mut spaces = vec![namespace(&values.namespace, "restricted")];
    if values.host_vantage {
        spaces.push(namespace(&values.host_namespace(), "privileged"));
    }
    spaces
}

fn namespace(name: &str, level: &str) -> Namespace {
    let mut metadata = common(name, None);
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
