//! Access from outside the cluster; `parallax vantage` looks it up by these names.

use super::aggregator::PROBER_PORT;

pub(crate) use super::settings::{CA_FILE, CA_MAP};

/// Service for vantages outside the cluster.
pub(crate) const SERVICE: &str = "parallax-outside";
/// Annotation of the Service with the host name that they use, one of the names in the certificate.
pub(crate) const HOST: &str = "parallax.dev/host";

/// Returns the URL for their reports.
pub(crate) fn url(host: &str) -> String {
    if host.contains(':') {
        format!("https://[{host}]:{PROBER_PORT}")
    } else {
        format!("https://{host}:{PROBER_PORT}")
    }
}
