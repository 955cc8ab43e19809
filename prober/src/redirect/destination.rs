//! The destination of a request: a URL in parts, with its path as written.

use parallax_model::{HttpProbe, Scheme};
use url::Url;

/// The destination of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestDestination {
    pub(crate) scheme: Scheme,
    /// Without brackets, also for an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query.
    pub(crate) path: String,
}

impl RequestDestination {
    pub(crate) fn from_probe(spec: &HttpProbe) -> Self {
        Self {
            scheme: spec.scheme,
            host: spec.host.to_string(),
            port: spec.port,
            path: spec.path.clone(),
        }
    }

    /// Converts an `http` or `https` URL; `None` for any other scheme.
    pub(crate) fn from_url(url: &Url) -> Option<Self> {
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        Some(Self {
            scheme,
            host: url.host_str()?.trim_matches(['[', ']']).to_ascii_lowercase(),
            port: url.port_or_known_default()?,
            path,
        })
    }

    /// The `Host` of a request, with the port if it is not the default of the scheme.
    pub(crate) fn authority(&self) -> String {
        host_and_port(
            &self.host,
            (self.port != default_port(self.scheme)).then_some(self.port),
        )
    }

    /// Host and port, as a tunnel names its other end.
    pub(crate) fn host_and_port(&self) -> String {
        host_and_port(&self.host, Some(self.port))
    }

    /// Whether both URLs have the same origin (RFC 6454 §4): scheme, host and port.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority(), self.path)
    }
}

/// The default port of the scheme.
pub(crate) const fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    }
}

pub(crate) fn host_and_port(host: &str, port: Option<u16>) -> String {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    match port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_header_has_a_port_only_where_it_is_unusual() {
        let place = |url: &str| RequestDestination::from_url(&url.parse().unwrap()).unwrap();
        for (url, authority) in [
            ("http://shop.example.test/", "shop.example.test"),
            ("http://shop.example.test:8080/", "shop.example.test:8080"),
            ("https://shop.example.test:443/", "shop.example.test"),
            ("https://shop.example.test:80/", "shop.example.test:80"),
            ("http://[2001:db8::1]:8080/a?b", "[2001:db8::1]:8080"),
        ] {
            assert_eq!(place(url).authority(), authority);
        }
        assert_eq!(place("http://[2001:db8::1]:8080/a?b").path, "/a?b");
        assert_eq!(RequestDestination::from_url(&"ftp://a/".parse().unwrap()), None);
    }
}
