//! The watched kinds, and where the API server serves them.

use std::{fmt, sync::Arc};

use parallax_kubernetes::watch::{Key, WatchedResource};
use parallax_preflight::{Certificate, Challenge, Issuer, Meta, from_object};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind of cert-manager's objects, watched in the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CertManagerKind {
    /// `certificates.cert-manager.io`.
    Certificates,
    /// `issuers.cert-manager.io`.
    Issuers,
    /// `clusterissuers.cert-manager.io`.
    ClusterIssuers,
    /// `challenges.acme.cert-manager.io`.
    Challenges,
}

/// One object of any kind.
#[derive(Debug)]
pub enum CertManagerObject {
    Certificate(Arc<Certificate>),
    Issuer(Arc<Issuer>),
    ClusterIssuer(Arc<Issuer>),
    Challenge(Arc<Challenge>),
}

/// Prefixes of annotations to keep; the annotation of `kubectl apply` would double the size of every object.
const KEPT_ANNOTATION_PREFIXES: [&str; 3] = ["acme.cert-manager.io/", "cert-manager.io/", "parallax.dev/"];

impl CertManagerKind {
    /// Every kind, in the order in which the watches start.
    pub const ALL: [Self; 4] = [
        Self::Certificates,
        Self::Issuers,
        Self::ClusterIssuers,
        Self::Challenges,
    ];

    /// Returns the `ClusterRole` rule that is required to read the kind.
    pub(crate) fn rbac_rule(self) -> String {
        format!(
            "{{apiGroups: [{}], resources: [{}], verbs: [list, watch]}}",
            self.group(),
            self.plural()
        )
    }
}

impl WatchedResource for CertManagerKind {
    type Object = CertManagerObject;

    fn plural(&self) -> &'static str {
        match self {
            Self::Certificates => "certificates",
            Self::Issuers => "issuers",
            Self::ClusterIssuers => "clusterissuers",
            Self::Challenges => "challenges",
        }
    }

    fn group(&self) -> &'static str {
        match self {
            Self::Certificates | Self::Issuers | Self::ClusterIssuers => "cert-manager.io",
            Self::Challenges => "acme.cert-manager.io",
        }
    }

    fn path(&self) -> String {
        format!("/apis/{}/v1/{}", self.group(), self.plural())
    }

    fn is_optional(&self) -> bool {
        true
    }

    fn read(&self, value: Value) -> Result<CertManagerObject, String> {
        Ok(match self {
            Self::Certificates => {
                CertManagerObject::Certificate(read_named(value, |object: &mut Certificate| {
                    &mut object.metadata
                })?)
            }
            Self::Issuers => {
                CertManagerObject::Issuer(read_named(value, |object: &mut Issuer| &mut object.metadata)?)
            }
            Self::ClusterIssuers => {
                CertManagerObject::ClusterIssuer(read_named(value, |object: &mut Issuer| {
                    &mut object.metadata
                })?)
            }
            Self::Challenges => CertManagerObject::Challenge(read_named(value, |object: &mut Challenge| {
                &mut object.metadata
            })?),
        })
    }
}

impl fmt::Display for CertManagerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural())
    }
}

/// Returns the key of an object.
pub(super) fn key(meta: &Meta) -> Key {
    Key {
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
    }
}

fn read_named<T: DeserializeOwned>(
    value: Value,
    meta: impl Fn(&mut T) -> &mut Meta,
) -> Result<Arc<T>, String> {
    let mut object = from_object(value)?;
    let meta = meta(&mut object);
    if meta.name.is_empty() {
        return Err("the object has no name".to_owned());
    }
    meta.annotations
        .retain(|name, _| KEPT_ANNOTATION_PREFIXES.iter().any(|kept| name.starts_with(kept)));
    Ok(Arc::new(object))
}
