//! Watched resources and their API paths.

use std::{fmt, sync::Arc};

use serde_json::Value;

use super::ClusterObject;
use crate::watch::WatchedResource;

/// A watched kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// Nodes.
    Nodes,
    /// Namespaces, for their annotations and labels.
    Namespaces,
    /// Services.
    Services,
    /// `EndpointSlices` of Services.
    EndpointSlices,
    /// Ingresses.
    Ingresses,
    /// `IngressClasses`.
    IngressClasses,
    /// `NetworkPolicies`.
    NetworkPolicies,
    /// Jobs, which their Services may belong to.
    Jobs,
    /// Pods of Parallax only.
    Pods,
    /// Gateways of the Gateway API.
    Gateways,
    /// `HTTPRoutes` of the Gateway API.
    HttpRoutes,
}

impl ResourceKind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Nodes,
        Self::Namespaces,
        Self::Services,
        Self::EndpointSlices,
        Self::Ingresses,
        Self::IngressClasses,
        Self::NetworkPolicies,
        Self::Jobs,
        Self::Pods,
        Self::Gateways,
        Self::HttpRoutes,
    ];

    /// The plural of the resource in the API, as in RBAC rules; also the value of the metrics' label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Namespaces => "namespaces",
            Self::Services => "services",
            Self::EndpointSlices => "endpointslices",
            Self::Ingresses => "ingresses",
            Self::IngressClasses => "ingressclasses",
            Self::NetworkPolicies => "networkpolicies",
            Self::Jobs => "jobs",
            Self::Pods => "pods",
            Self::Gateways => "gateways",
            Self::HttpRoutes => "httproutes",
        }
    }

    /// The API group; empty for the core group.
    const fn group(self) -> &'static str {
        match self {
            Self::Nodes | Self::Namespaces | Self::Services | Self::Pods => "",
            Self::EndpointSlices => "discovery.k8s.io",
            Self::Ingresses | Self::IngressClasses | Self::NetworkPolicies => "networking.k8s.io",
            Self::Jobs => "batch",
            Self::Gateways | Self::HttpRoutes => "gateway.networking.k8s.io",
        }
    }

    /// The path of the collection. Every group uses v1: EndpointSlice since Kubernetes 1.21, Ingress since
    /// 1.19, Job from the start, the Gateway API since its release 1.0.
    fn path(self, namespace: Option<&str>) -> String {
        let root = match self.group() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.label()),
            None => format!("{root}/{}", self.label()),
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A watched resource, cluster-wide or in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchSource {
    /// The kind of object.
    pub resource: ResourceKind,
    /// The namespace; cluster-wide if absent.
    pub(crate) namespace: Option<Arc<str>>,
}

impl WatchSource {
    /// All watches: Pods in each of these namespaces, all other kinds cluster-wide.
    pub fn all(pods_of: &[Arc<str>]) -> Vec<Self> {
        let cluster = |resource| Self {
            resource,
            namespace: None,
        };
        let kinds = ResourceKind::ALL
            .into_iter()
            .filter(|kind| *kind != ResourceKind::Pods);
        kinds.map(cluster).chain(pods_of.iter().map(Self::pods)).collect()
    }

    /// The watch of Pods in one namespace.
    pub(crate) fn pods(namespace: &Arc<str>) -> Self {
        Self {
            resource: ResourceKind::Pods,
            namespace: Some(Arc::clone(namespace)),
        }
    }

    /// Whether the watch covers objects in a namespace.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

impl WatchedResource for WatchSource {
    type Object = ClusterObject;

    fn plural(&self) -> &'static str {
        self.resource.label()
    }

    fn group(&self) -> &'static str {
        self.resource.group()
    }

    fn path(&self) -> String {
        self.resource.path(self.namespace.as_deref())
    }

    fn is_optional(&self) -> bool {
        matches!(self.resource, ResourceKind::Gateways | ResourceKind::HttpRoutes)
    }

    fn metadata_only(&self) -> bool {
        self.resource == ResourceKind::Namespaces
    }

    fn read(&self, value: Value) -> Result<ClusterObject, String> {
        ClusterObject::parse(self.resource, value)
    }
}

impl fmt::Display for WatchSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} of {namespace}", self.resource),
            None => self.resource.fmt(f),
        }
    }
}
