//! What a probe shows to get in: its request headers and the prober's credentials.
//!
//! All secrets of a probe are read before anything is sent. If one cannot be used, the probe is not made: without it,
//! the answer would say nothing about the target.

use http::{HeaderMap, HeaderName, HeaderValue};
use parallax_model::{CredentialName, HostName, HttpProbe, OwnFault, Phase, Scheme};

use super::Probe;
use crate::{
    credentials::{ClientCertificate, Recipient},
    failure::EarlyEnd,
    redirect::RequestDestination,
};

/// What an HTTP probe shows to its own origin and to its proxy.
#[derive(Debug, Default)]
pub(super) struct HttpAccess {
    /// The origin of the target's URL: another one gets neither headers nor credentials.
    origin: Option<RequestDestination>,
    /// Request headers, with that of the credential.
    headers: HeaderMap,
    certificate: Option<ClientCertificate>,
    /// The value of `Proxy-Authorization`.
    pub(super) proxy: Option<HeaderValue>,
}

impl HttpAccess {
    /// The headers for a request to this destination.
    pub(super) fn headers(&self, to: &RequestDestination) -> Option<&HeaderMap> {
        self.is_own(to).then_some(&self.headers)
    }

    /// The client certificate for a handshake with this destination.
    pub(super) fn certificate(&self, to: &RequestDestination) -> Option<&ClientCertificate> {
        self.certificate.as_ref().filter(|_| self.is_own(to))
    }

    fn is_own(&self, to: &RequestDestination) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.same_origin(to))
    }
}

impl Probe<'_> {
    /// Reads the credentials of an HTTP probe. Boxed, so that the future of a probe stays small.
    pub(super) fn http_access(&self, spec: &HttpProbe) -> Result<Box<HttpAccess>, EarlyEnd> {
        let credentials = &self.context.credentials;
        let mut access = HttpAccess {
            origin: Some(RequestDestination::from_probe(spec)),
            ..HttpAccess::default()
        };
        for (name, value) in &spec.request_headers {
            let (name, value) = header_of(name, value)?;
            access.headers.insert(name, value);
        }
        if let Some(name) = &spec.credential {
            let to = Recipient {
                host: &spec.host,
                // A certificate that only the plan's own roots verify could be anybody's.
                authenticated: spec.scheme == Scheme::Https
                    && !spec.accept_invalid_certificate
                    && spec.extra_roots.is_none(),
            };
            let (header, value) = credentials.request_header(name, to)?;
            access.headers.insert(header, value);
        }
        access.certificate = self.client_certificate(spec.client_certificate.as_ref(), &spec.host)?;
        if let Some(proxy) = &spec.proxy
            && let Some(name) = &proxy.credential
        {
            let to = Recipient {
                host: &proxy.url.host,
                authenticated: false,
            };
            access.proxy = Some(credentials.proxy_authorization(name, to)?);
        }
        Ok(Box::new(access))
    }

    /// Reads a client certificate.
    pub(super) fn client_certificate(
        &self,
        name: Option<&CredentialName>,
        host: &HostName,
    ) -> Result<Option<ClientCertificate>, EarlyEnd> {
        let certificate = |name| self.context.credentials.client_certificate(name, host);
        name.map(certificate).transpose()
    }
}

/// The aggregator has validated the headers, so this fails only for a plan of a newer one with other rules.
fn header_of(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), EarlyEnd> {
    let invalid = |part| {
        EarlyEnd::new(Phase::Request, OwnFault::InvalidAssignment)
            .with_detail(format!("the {part} of a request header is invalid"))
    };
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("name"))?;
    let value = HeaderValue::from_str(value).map_err(|_| invalid("value"))?;
    Ok((name, value))
}
