//! Validates how a target is reached: request headers, credentials and proxy.

use super::{InvalidTarget, TargetSpec, request_headers};
use crate::HostName;

impl TargetSpec {
    /// Validates how the target is reached: headers, credentials and proxy.
    pub(super) fn check_access(&self, host: &HostName) -> Result<(), InvalidTarget> {
        let conflict = |field, reason| Err(InvalidTarget::Conflict { field, reason });
        request_headers::check(&self.request_headers)?;
        if self.credential.is_some() && self.tls_verify == Some(false) {
            return conflict(
                "credential",
                "with tlsVerify: false any server would receive it; remove tlsVerify, and make the probers trust the server's CA",
            );
        }
        // Otherwise an author of targets could send the secret to their own server.
        if self.credential.is_some() && self.extra_roots.is_some() {
            return conflict(
                "credential",
                "it is sent to servers that the probers themselves trust only; remove extraRoots, and make the probers trust the CA",
            );
        }
        if self.http_proxy.is_none() {
            return match self.proxy_credential {
                Some(_) => conflict("proxyCredential", "there is no proxy; set httpProxy"),
                None => Ok(()),
            };
        }
        if is_inside_cluster(host) {
            return conflict(
                "httpProxy",
                "it is for targets outside the cluster, and the url's host is inside; remove httpProxy",
            );
        }
        if self.resolver.is_some() {
            return conflict(
                "httpProxy",
                "the proxy resolves the name of the target; remove resolver",
            );
        }
        if self.proxy_header.is_some() {
            return conflict(
                "httpProxy",
                "the proxy would receive the PROXY header; remove proxyHeader",
            );
        }
        if self.must_not_answer.is_some() || self.has_partial_must_not_answer() {
            return conflict(
                "httpProxy",
                "a failure of the proxy would look like silence of the target; remove mustNotAnswer, mustNotAnswerAt and \
                 mustNotAnswerFrom",
            );
        }
        Ok(())
    }
}

/// Whether a name belongs to the cluster's domain or to the machine itself.
fn is_inside_cluster(host: &HostName) -> bool {
    let name = host.as_str().trim_end_matches('.').to_ascii_lowercase();
    let mut labels = name.rsplit('.');
    matches!(
        (labels.next(), labels.next()),
        (Some("svc" | "localhost"), _) | (Some("local"), Some("cluster"))
    )
}
