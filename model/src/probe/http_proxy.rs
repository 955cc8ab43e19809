//! The HTTP proxy of a probe.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Url;

use super::credential::CredentialName;
use crate::HostName;

/// An HTTP proxy as written: `http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpProxyUrl {
    /// Name or literal address of the proxy.
    pub host: HostName,
    /// The port of the proxy.
    pub port: u16,
}

/// Why a text is no URL of a proxy. The text may contain a password, so the message does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProxyUrl {
    /// The text has another form.
    #[error("expected an HTTP proxy as http://HOST:PORT, without a path")]
    Form,
    /// A password in the URL would appear in plans, pages and recordings.
    #[error("expected http://HOST:PORT without a user name or password; use proxyCredential")]
    Password,
}

impl FromStr for HttpProxyUrl {
    type Err = InvalidProxyUrl;

    fn from_str(text: &str) -> Result<Self, InvalidProxyUrl> {
        let url = Url::parse(text).map_err(|_| InvalidProxyUrl::Form)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidProxyUrl::Password);
        }
        if url.scheme() != "http" || url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidProxyUrl::Form);
        }
        // The URL parser drops port 80. Proxies listen on various ports, so none is assumed.
        let named = text.trim_end_matches('/').ends_with(":80").then_some(80);
        let port = url.port().or(named).filter(|port| *port != 0);
        let host = url.host_str().map(|host| host.trim_matches(['[', ']']));
        match (host.map(HostName::new), port) {
            (Some(Ok(host)), Some(port)) => Ok(Self { host, port }),
            _ => Err(InvalidProxyUrl::Form),
        }
    }
}

impl TryFrom<String> for HttpProxyUrl {
    type Error = InvalidProxyUrl;

    fn try_from(text: String) -> Result<Self, InvalidProxyUrl> {
        text.parse()
    }
}

impl From<HttpProxyUrl> for String {
    fn from(url: HttpProxyUrl) -> Self {
        format!("http://{}", url.authority())
    }
}

impl HttpProxyUrl {
    /// `HOST:PORT`, with brackets around an IPv6 address.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.as_str().contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The proxy that a probe sends its requests to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpProxy {
    /// Where it listens.
    pub url: HttpProxyUrl,
    /// The credential that authorises the prober at the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_a_host_and_a_port_and_reads_back() {
        for (text, written) in [
            ("http://proxy.example.test:3128", "http://proxy.example.test:3128"),
            ("http://Proxy.example.test:80/", "http://proxy.example.test:80"),
            ("http://[2001:db8::1]:8080", "http://[2001:db8::1]:8080"),
        ] {
            let url: HttpProxyUrl = text.parse().unwrap();
            assert_eq!(String::from(url), written);
        }
    }

    #[test]
    fn whatever_else_is_refused_and_a_password_is_not_repeated() {
        for text in [
            "proxy.example.test:3128",
            "http://proxy.example.test",
            "https://proxy.example.test:3128",
            "socks5://proxy.example.test:1080",
            "http://proxy.example.test:3128/pac",
            "http://proxy.example.test:0",
            "",
        ] {
            assert_eq!(text.parse::<HttpProxyUrl>(), Err(InvalidProxyUrl::Form), "{text}");
        }
        let error = "http://u:s3cret@proxy.example.test:3128"
            .parse::<HttpProxyUrl>()
            .unwrap_err();
        assert!(error.to_string().contains("use proxyCredential") && !error.to_string().contains("s3cret"));
    }
}
