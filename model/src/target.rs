//! What should be reachable: as written by people, and as checked.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    DnsProbe, ExpectedStatus, HostName, HttpProbe, InvalidName, Micros, ProbeSpec, RecordType, Scheme,
    TargetId, TcpProbe,
};

/// A target as written in YAML, a `ConfigMap` or a custom resource. Becomes a [`Target`] by `TryFrom`; only that
/// reaches plan and probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TargetSpec {
    /// `http://…`, `https://…`, `tcp://host:port` or `dns://name`.
    pub url: String,
    /// Statuses that count as success (`"200"`, `"2xx"`, `"200-299,404"`, `"<500"`). HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_status: Option<ExpectedStatus>,
    /// Text the answer must contain in its first 64 KiB. HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_contains: Option<String>,
    /// Milliseconds between two probes of one vantage; the configuration's interval where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Deadline of one probe in milliseconds; the configuration's timeout where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A target that passed all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The normalised URL.
    pub id: TargetId,
    /// What a probe of it does.
    pub probe: ProbeSpec,
    /// Its own interval.
    pub interval: Option<Micros>,
    /// Its own timeout.
    pub timeout: Option<Micros>,
}

/// Why a target cannot be used. The text names the field and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// Not a URL.
    #[error("url: expected http://…, https://…, tcp://host:port or dns://name, got {url:?} ({reason})")]
    Url {
        /// As written.
        url: String,
        /// What the parser said.
        reason: String,
    },
    /// A TCP target without a port.
    #[error("url: a tcp:// target needs a port, as in tcp://db.example.test:5432; {0:?} has none")]
    NoPort(String),
    /// User information in a URL would end in logs and labels.
    #[error("url: a user name or password is not allowed here (it would show in tables, labels and logs)")]
    Credentials,
    /// A wildcard cannot be probed.
    #[error("url: the wildcard host {0:?} cannot be probed; name one host that it covers")]
    Wildcard(String),
    /// A field that means nothing for this scheme.
    #[error("{field}: only for http and https targets, this one is {scheme}")]
    NotForScheme {
        /// The field.
        field: &'static str,
        /// The target's scheme.
        scheme: String,
    },
    /// Outside the allowed span.
    #[error("{field}: expected {low} to {high} milliseconds, got {got}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Least.
        low: u64,
        /// Most.
        high: u64,
        /// Given.
        got: u64,
    },
    /// The host is no name.
    #[error("url: {0}")]
    Name(#[from] InvalidName),
}

impl TargetSpec {
    /// A target with defaults for everything but its URL.
    #[must_use]
    pub fn of(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            expect_status: None,
            expect_body_contains: None,
            interval_ms: None,
            timeout_ms: None,
        }
    }

    fn http(&self, url: &Url, scheme: Scheme, host: HostName) -> HttpProbe {
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        HttpProbe {
            scheme,
            host,
            port: url.port().unwrap_or(match scheme {
                Scheme::Http => 80,
                Scheme::Https => 443,
            }),
            path,
            expect_status: self.expect_status.clone().unwrap_or(ExpectedStatus::Below500),
            expect_body_contains: self.expect_body_contains.clone(),
        }
    }
}

/// Shortest and longest interval, in milliseconds: below the first the probe is a load test, above the second a
/// verdict takes longer than anybody waits.
const INTERVAL_MS: (u64, u64) = (200, 3_600_000);

/// Shortest and longest timeout, in milliseconds. Below about 1 s one lost SYN reads as "down" (R6): allowed, since
/// a local test may want it.
const TIMEOUT_MS: (u64, u64) = (50, 60_000);

fn within(
    field: &'static str,
    (low, high): (u64, u64),
    got: Option<u64>,
) -> Result<Option<Micros>, InvalidTarget> {
    match got {
        Some(got) if !(low..=high).contains(&got) => Err(InvalidTarget::OutOfRange {
            field,
            low,
            high,
            got,
        }),
        got => Ok(got.map(Micros::from_millis)),
    }
}

impl TryFrom<TargetSpec> for Target {
    type Error = InvalidTarget;

    fn try_from(spec: TargetSpec) -> Result<Self, InvalidTarget> {
        let wrong = |reason: &str| InvalidTarget::Url {
            url: spec.url.clone(),
            reason: reason.to_owned(),
        };
        let url = Url::parse(&spec.url).map_err(|e| wrong(&e.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidTarget::Credentials);
        }
        let host = url
            .host_str()
            .filter(|h| !h.is_empty())
            .ok_or_else(|| wrong("no host"))?;
        if host.contains('*') {
            return Err(InvalidTarget::Wildcard(host.to_owned()));
        }
        let host = HostName::new(host.trim_start_matches('[').trim_end_matches(']'))?;
        let (probe, id) = match url.scheme() {
            "http" => (
                ProbeSpec::Http(spec.http(&url, Scheme::Http, host)),
                without_fragment(&url),
            ),
            "https" => (
                ProbeSpec::Http(spec.http(&url, Scheme::Https, host)),
                without_fragment(&url),
            ),
            "tcp" => {
                let port = url
                    .port()
                    .ok_or_else(|| InvalidTarget::NoPort(spec.url.clone()))?;
                if !matches!(url.path(), "" | "/") {
                    return Err(wrong("a tcp:// target has no path"));
                }
                let id = format!("tcp://{}:{port}", url.host_str().unwrap_or_default());
                (ProbeSpec::Tcp(TcpProbe { host, port }), id)
            }
            "dns" => {
                if !matches!(url.path(), "" | "/") {
                    return Err(wrong("a dns:// target has no path"));
                }
                let id = format!("dns://{host}");
                (
                    ProbeSpec::Dns(DnsProbe {
                        name: host,
                        record: RecordType::A,
                        resolver: None,
                    }),
                    id,
                )
            }
            other => return Err(wrong(&format!("the scheme {other:?} is not known"))),
        };
        if !matches!(probe, ProbeSpec::Http(_)) {
            for (field, given) in [
                ("expectStatus", spec.expect_status.is_some()),
                ("expectBodyContains", spec.expect_body_contains.is_some()),
            ] {
                if given {
                    return Err(InvalidTarget::NotForScheme {
                        field,
                        scheme: url.scheme().to_owned(),
                    });
                }
            }
        }
        Ok(Self {
            id: TargetId::new(id)?,
            probe,
            interval: within("intervalMs", INTERVAL_MS, spec.interval_ms)?,
            timeout: within("timeoutMs", TIMEOUT_MS, spec.timeout_ms)?,
        })
    }
}

fn without_fragment(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, InvalidTarget> {
        TargetSpec::of(url).try_into()
    }

    #[test]
    fn the_four_schemes_become_probes_with_a_stable_id() {
        assert_eq!(
            target("http://Shop.example.test").unwrap().id.as_str(),
            "http://shop.example.test/"
        );
        assert_eq!(
            target("https://shop.example.test:443/a?b=1#c")
                .unwrap()
                .id
                .as_str(),
            "https://shop.example.test/a?b=1"
        );
        assert_eq!(
            target("tcp://10.0.0.1:5432").unwrap().id.as_str(),
            "tcp://10.0.0.1:5432"
        );
        assert_eq!(
            target("dns://kubernetes.default.svc").unwrap().id.as_str(),
            "dns://kubernetes.default.svc"
        );
    }

    #[test]
    fn an_ipv6_literal_keeps_its_brackets_in_the_id_and_loses_them_in_the_host() {
        let target = target("http://[2001:db8::1]:8080/").unwrap();
        assert_eq!(target.id.as_str(), "http://[2001:db8::1]:8080/");
        let ProbeSpec::Http(http) = target.probe else {
            panic!("an HTTP probe")
        };
        assert_eq!((http.host.as_str(), http.port), ("2001:db8::1", 8080));
    }

    #[test]
    fn each_impossible_target_is_refused_with_the_field_and_the_expectation() {
        for (url, words) in [
            ("shop.example.test", "expected http://"),
            ("ftp://shop.example.test/", "is not known"),
            ("tcp://db.example.test", "needs a port"),
            ("http://user:secret@shop.example.test/", "user name or password"),
            ("http://*.example.test/", "wildcard"),
            ("tcp://db:5432/path", "no path"),
        ] {
            let said = target(url).unwrap_err().to_string();
            assert!(said.contains(words), "{url}: {said}");
        }
        let mut spec = TargetSpec::of("dns://a.example.test");
        spec.expect_body_contains = Some("x".into());
        assert!(
            Target::try_from(spec)
                .unwrap_err()
                .to_string()
                .contains("expectBodyContains")
        );
        let mut spec = TargetSpec::of("http://a.example.test");
        spec.interval_ms = Some(1);
        assert!(
            Target::try_from(spec)
                .unwrap_err()
                .to_string()
                .contains("200 to 3600000")
        );
    }
}
