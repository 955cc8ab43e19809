//! Client of the API server.

use std::fmt;

use kube::{Client, api::ApiResource};

/// Group, version, kind and plural.
pub type ResourceParts = (&'static str, &'static str, &'static str, &'static str);

/// Describes a resource that is read as untyped objects.
#[must_use]
pub fn api_resource((group, version, kind, plural): ResourceParts) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        },
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Wrapper that makes kube's client usable in structs that derive `Debug`.
#[derive(Clone)]
pub struct ApiClient(pub Client);

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiClient")
    }
}
