//! A client of the API server.

use std::fmt;

use kube::{Client, api::ApiResource};

/// Group, version, kind and plural.
pub type ResourceParts = (&'static str, &'static str, &'static str, &'static str);

/// A kind of objects that is read as what the API server says of it.
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

/// A client that structures can hold which say what they are made of: kube's has no words of its own.
#[derive(Clone)]
pub struct ApiClient(pub Client);

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiClient")
    }
}
