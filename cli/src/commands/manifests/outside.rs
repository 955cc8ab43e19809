//! The way in from outside the cluster; `parallax vantage` finds it by these names.

use super::aggregator::PROBER_PORT;

pub(crate) use super::settings::{CA_FILE, CA_MAP};

/// The Service of vantages outside the cluster.
pub(crate) const SERVICE: &str = "parallax-outside";
/// Its annotation: the name under which they reach it, one of those that the certificate is for.
pub(crate) const HOST: &str = "parallax.dev/host";

/// Where they report.
pub(crate) fn url(host: &str) -> String {
    if host.contains(':') {
        format!("https://[{host}]:{PROBER_PORT}")
    } else {
        format!("https://{host}:{PROBER_PORT}")
    }
}
