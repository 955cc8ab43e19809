//! What a configuration says of TLS.

use std::{net::SocketAddr, path::PathBuf};

use parallax_kubernetes::object_key::ObjectKey;

/// Serving probers over TLS, with a certificate of the aggregator's own CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// Where.
    pub listen: SocketAddr,
    /// What probers call it: names and addresses that the certificate is for.
    pub hosts: Vec<String>,
    /// The `ConfigMaps` that get the public part of the CA, as `ca.crt`.
    pub publish: Vec<ObjectKey>,
    /// The folder that keeps the CA over restarts; without one it lives in memory, and a restart makes a new one.
    pub keep: Option<PathBuf>,
}
