//! Options of the TLS listener.

use std::{net::SocketAddr, path::PathBuf};

use parallax_kubernetes::object_key::ObjectKey;

/// TLS listener for probers, with a certificate of the aggregator's own CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// Listen address.
    pub listen: SocketAddr,
    /// Names and addresses that probers connect to, for the certificate.
    pub hosts: Vec<String>,
    /// `ConfigMaps` that receive the CA certificate as `ca.crt`.
    pub publish_to: Vec<ObjectKey>,
    /// Folder that stores the CA across restarts; without it, every start creates a new CA.
    pub ca_folder: Option<PathBuf>,
}
