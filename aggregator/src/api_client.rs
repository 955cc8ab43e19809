//! A client of the API server.

use std::fmt;

use kube::Client;

/// A client that structures can hold which say what they are made of: kube's has no words of its own.
#[derive(Clone)]
pub(crate) struct ApiClient(pub(crate) Client);

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiClient")
    }
}
