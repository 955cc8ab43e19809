//! POST requests to receivers, and whether a response means delivery, retry or rejection.

use std::{fmt::Write as _, io, path::Path, time::Duration};

use jiff::Timestamp;
use reqwest::{Client, RequestBuilder, Response, StatusCode, header, redirect};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::content::truncate;

/// Timeout of a request, after which it is retried.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes shown of an error response.
const MAX_ERROR_BODY_BYTES: usize = 200;

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DeliveryOutcome {
    /// Delivered; the value is stored for the transport's next message.
    Delivered(serde_json::Value),
    /// Retried, not before `after` if the receiver requested a delay.
    Retry { why: String, after: Option<Duration> },
    /// Permanently rejected.
    Rejected { why: String },
}

impl DeliveryOutcome {
    pub(super) fn retry(reason: impl Into<String>) -> Self {
        Self::Retry {
            why: reason.into(),
            after: None,
        }
    }
}

/// Builds the client of a receiver: it trusts the system roots and those of a file, and uses no redirects and no proxy.
pub(super) fn build_client(ca_file: Option<&Path>) -> Result<Client, String> {
    let mut roots = RootCertStore::empty();
    for certificate in rustls_native_certs::load_native_certs().certs {
        // One unusable system root does not invalidate the others.
        let _ = roots.add(certificate);
    }
    if let Some(path) = ca_file {
        let unusable =
            |error: &dyn std::fmt::Display| format!("cannot use the CA file {}: {error}", path.display());
        let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
        let own: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .filter_map(Result::ok)
            .collect();
        if own.is_empty() {
            return Err(unusable(&"expected PEM certificates, found none"));
        }
        for certificate in own {
            roots.add(certificate).map_err(|error| unusable(&error))?;
        }
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("parallax/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error_chain(&error))
}

/// Sends the request and classifies the response.
pub(super) async fn send(request: RequestBuilder) -> DeliveryOutcome {
    match request.send().await {
        Ok(response) => classify_response(response).await,
        Err(error) if error.is_builder() => DeliveryOutcome::Rejected {
            why: error_chain(&error.without_url()),
        },
        // Without the URL, which may contain a secret.
        Err(error) => DeliveryOutcome::retry(error_chain(&error.without_url())),
    }
}

async fn classify_response(mut response: Response) -> DeliveryOutcome {
    let status = response.status();
    if status.is_success() {
        return DeliveryOutcome::Delivered(serde_json::Value::Null);
    }
    let after = retry_after(&response);
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BODY_BYTES
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(MAX_ERROR_BODY_BYTES - body.len())]);
    }
    let body = truncate(String::from_utf8_lossy(&body).trim(), MAX_ERROR_BODY_BYTES);
    let mut reason = format!("the receiver responded with status {}", status.as_u16());
    if status.is_redirection() {
        reason.push_str("; redirects are not followed: set `url` to the address of the redirect");
    } else if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        reason.push_str("; check the secret or token that the receiver expects");
    }
    if !body.is_empty() {
        // Writing into a string cannot fail.
        let _ = write!(reason, ": {body}");
    }
    let again = status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        );
    if again {
        DeliveryOutcome::Retry { why: reason, after }
    } else {
        DeliveryOutcome::Rejected { why: reason }
    }
}

/// The requested delay; only for 429 and 503.
fn retry_after(response: &Response) -> Option<Duration> {
    if !matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        return None;
    }
    parse_retry_after(
        response.headers().get(header::RETRY_AFTER)?.to_str().ok()?,
        Timestamp::now(),
    )
}

/// Parses `Retry-After`: seconds or an HTTP date (RFC 9110, section 10.2.3).
fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    Duration::try_from(at.duration_since(now)).ok()
}

/// Formats an error and its causes in one line.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            let _ = write!(text, ": {more}");
        }
        cause = error.source();
    }
    truncate(&text, 400)
}

/// Reads a small file and trims whitespace.
pub(super) fn read_trimmed(path: &Path) -> Result<String, String> {
    let read_error = |error: io::Error| format!("cannot read {}: {error}", path.display());
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .map_err(read_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_asks_for_seconds_or_for_a_date() {
        let now: Timestamp = "2026-11-22T08:00:00Z".parse().unwrap();
        assert_eq!(parse_retry_after("120", now), Some(Duration::from_mins(2)));
        assert_eq!(
            parse_retry_after("Sun, 22 Nov 2026 08:01:00 GMT", now),
            Some(Duration::from_mins(1))
        );
        assert_eq!(parse_retry_after("Sun, 22 Nov 2026 07:01:00 GMT", now), None);
        assert_eq!(parse_retry_after("soon", now), None);
    }
}
