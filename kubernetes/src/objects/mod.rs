//! Relevant fields of API objects. All other fields are dropped during parsing: `managedFields`, most of
//! every status, all of a Pod's spec except its ports.
//!
//! Every field may be missing or null. An invalid object is skipped without an effect on the list that
//! contains it.

mod core;
mod gateway;
pub mod resource;

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

pub(super) use core::{
    Backend, Endpoint, EndpointHints, EndpointSlice, Ingress, IngressClass, IngressRule, Job, NamespaceMeta,
    NetworkPolicy, Node, NodeCondition, Pod, PortRef, Service, ServicePort,
};
pub(super) use gateway::{Gateway, HttpRoute, Listener, ParentRef};

use crate::null_fields::remove_nulls;
pub(super) use crate::watch::Key;
use resource::ResourceKind;

/// The relevant fields of `metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KeptMetadata {
    pub(super) name: String,
    pub(super) namespace: String,
    /// Kept for Pods only.
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) creation_timestamp: String,
    pub(super) deletion_timestamp: Option<String>,
}

impl KeptMetadata {
    pub(super) fn key(&self) -> Key {
        Key {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    /// Whether the object serves one HTTP-01 challenge and is deleted with it: cert-manager's solvers, and
    /// Parallax's own for preflights.
    pub(super) fn is_solver(&self) -> bool {
        self.label(SOLVER_LABEL) == Some("true")
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }
}

/// An object of a watched kind.
pub(crate) trait WatchedObject: DeserializeOwned + PartialEq {
    /// Whether to keep the UID.
    const KEEPS_UID: bool = false;

    fn meta(&self) -> &KeptMetadata;

    /// Whether to keep a label.
    fn keeps_label(name: &str) -> bool {
        let _ = name;
        false
    }

    /// Whether to keep an annotation.
    fn keeps_annotation(name: &str) -> bool {
        name.starts_with(ANNOTATION_PREFIX)
    }

    fn meta_mut(&mut self) -> &mut KeptMetadata;
}

/// Prefix of Parallax's annotations.
pub(super) const ANNOTATION_PREFIX: &str = "parallax.dev/";

/// Label of the objects that cert-manager creates for an HTTP-01 challenge (its
/// `pkg/issuer/acme/http/http.go`).
pub const SOLVER_LABEL: &str = "acme.cert-manager.io/http01-solver";

/// An object of any watched kind.
#[derive(Debug, Clone, PartialEq)]
pub enum ClusterObject {
    /// A Node.
    Node(Node),
    /// The metadata of a Namespace.
    Namespace(NamespaceMeta),
    /// A Service.
    Service(Service),
    /// An `EndpointSlice`.
    EndpointSlice(EndpointSlice),
    /// An Ingress.
    Ingress(Ingress),
    /// An `IngressClass`.
    IngressClass(IngressClass),
    /// A `NetworkPolicy`.
    NetworkPolicy(NetworkPolicy),
    /// A Job.
    Job(Job),
    /// A Pod.
    Pod(Pod),
    /// A Gateway of the Gateway API.
    Gateway(Gateway),
    /// An `HTTPRoute` of the Gateway API.
    HttpRoute(HttpRoute),
}

impl ClusterObject {
    /// Parses an object and drops irrelevant fields.
    ///
    /// # Errors
    /// A field has another type than in the API; the message names it.
    pub fn parse(resource: ResourceKind, mut value: Value) -> Result<Self, String> {
        remove_nulls(&mut value);
        Ok(match resource {
            ResourceKind::Nodes => Self::Node(read(value)?),
            ResourceKind::Namespaces => Self::Namespace(read(value)?),
            ResourceKind::Services => Self::Service(read(value)?),
            ResourceKind::EndpointSlices => Self::EndpointSlice(read(value)?),
            ResourceKind::Ingresses => Self::Ingress(read(value)?),
            ResourceKind::IngressClasses => Self::IngressClass(read(value)?),
            ResourceKind::NetworkPolicies => Self::NetworkPolicy(read(value)?),
            ResourceKind::Jobs => Self::Job(read(value)?),
            ResourceKind::Pods => Self::Pod(read(value)?),
            ResourceKind::Gateways => Self::Gateway(read(value)?),
            ResourceKind::HttpRoutes => Self::HttpRoute(read(value)?),
        })
    }

    pub(super) fn key(&self) -> Key {
        match self {
            Self::Node(object) => object.meta().key(),
            Self::Namespace(object) => object.meta().key(),
            Self::Service(object) => object.meta().key(),
            Self::EndpointSlice(object) => object.meta().key(),
            Self::Ingress(object) => object.meta().key(),
            Self::IngressClass(object) => object.meta().key(),
            Self::NetworkPolicy(object) => object.meta().key(),
            Self::Job(object) => object.meta().key(),
            Self::Pod(object) => object.meta().key(),
            Self::Gateway(object) => object.meta().key(),
            Self::HttpRoute(object) => object.meta().key(),
        }
    }
}

fn read<T: WatchedObject>(value: Value) -> Result<T, String> {
    let mut object: T = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let meta = object.meta_mut();
    if meta.name.is_empty() {
        return Err("the object has no name".to_owned());
    }
    if !T::KEEPS_UID {
        meta.uid.clear();
    }
    meta.labels.retain(|name, _| T::keeps_label(name));
    meta.annotations.retain(|name, _| T::keeps_annotation(name));
    Ok(object)
}
