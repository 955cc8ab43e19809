//! Objects of the chart by which machines outside the cluster reach the aggregator.

/// Service for vantages outside the cluster.
pub(super) const SERVICE: &str = "parallax-outside";
/// Annotation of the Service with the host name that they use, one of the names in the certificate.
pub(super) const HOST_ANNOTATION: &str = "parallax.dev/host";
/// ConfigMap in which the aggregator publishes its CA.
pub(super) const CA_MAP: &str = "parallax-ca";
/// Key of the CA.
pub(super) const CA_KEY: &str = "ca.crt";

/// Port of the Service.
const PORT: u16 = 8443;

/// Returns the URL for their reports.
pub(super) fn url(host: &str) -> String {
    if host.contains(':') {
        format!("https://[{host}]:{PORT}")
    } else {
        format!("https://{host}:{PORT}")
    }
}
