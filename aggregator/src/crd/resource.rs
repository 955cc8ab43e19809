//! The kinds of the API group `parallax.dev` as watched resources.

use std::fmt;

use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use parallax_kubernetes::watch::WatchedResource;
use serde_json::Value;

const GROUP: &str = "parallax.dev";
const VERSION: &str = "v1alpha1";

/// A kind of the API group `parallax.dev`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CustomResourceKind {
    /// A target to probe.
    Target,
    /// An on-demand run.
    Run,
    /// A preflight of names before a certificate is ordered.
    Preflight,
}

impl CustomResourceKind {
    /// The plural resource name, as in RBAC rules.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Target => "targets",
            Self::Run => "runs",
            Self::Preflight => "preflights",
        }
    }

    pub(super) fn api_resource(self) -> ApiResource {
        let kind = match self {
            Self::Target => "Target",
            Self::Run => "Run",
            Self::Preflight => "Preflight",
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, kind), self.plural())
    }
}

impl fmt::Display for CustomResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{GROUP}", self.plural())
    }
}

/// The objects of one kind, in all namespaces or in one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CustomResourceCollection {
    pub(super) kind: CustomResourceKind,
    pub(super) namespace: Option<String>,
    /// Description of the `ServiceAccount`, for messages about missing permissions.
    pub(super) account: &'static str,
}

impl fmt::Display for CustomResourceCollection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

impl WatchedResource for CustomResourceCollection {
    type Object = DynamicObject;

    fn plural(&self) -> &'static str {
        self.kind.plural()
    }

    fn group(&self) -> &'static str {
        GROUP
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn account(&self) -> &'static str {
        self.account
    }

    fn path(&self) -> String {
        let plural = self.plural();
        match &self.namespace {
            Some(namespace) => format!("/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{plural}"),
            None => format!("/apis/{GROUP}/{VERSION}/{plural}"),
        }
    }

    fn is_optional(&self) -> bool {
        true
    }

    fn read(&self, value: Value) -> Result<DynamicObject, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
}
