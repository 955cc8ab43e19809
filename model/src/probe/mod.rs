//! Probe specifications.
//!
//! A plan can come from a newer aggregator. A prober skips a probe that has an unknown field instead of
//! making it without that field, so every struct here rejects unknown fields. Observations, in contrast,
//! accept them.

mod accessors;
mod bytes;
mod challenge;
mod credential;
mod expectations;
mod http;
mod http_proxy;
mod root_certificates;
mod status;

use std::{fmt, net::SocketAddr};

use serde::{Deserialize, Serialize};

pub use self::{
    accessors::ProbeKind,
    bytes::{EscapedBytes, InvalidBytes},
    challenge::{
        CHALLENGE_PATH, ChallengeClient, ChallengeProbe, ChallengeSight, DialSight, HopSight,
        MAX_CHALLENGE_FETCHES,
    },
    credential::{CredentialName, InvalidCredentialName},
    expectations::{
        BodyPattern, InvalidMustNotAnswer, InvalidPattern, MustNotAnswer, RedirectPolicy, Silence,
        TlsExpectation,
    },
    http_proxy::{HttpProxy, HttpProxyUrl, InvalidProxyUrl},
    root_certificates::{InvalidRoots, RootCertificates},
    status::{ExpectedStatus, InvalidStatuses},
};
use crate::{HostName, Scope, channel::label_enum, dns::NamesProbe};
pub use http::{HttpProbe, HttpVersion, Method};

label_enum! {
    /// HTTP scheme.
    Scheme {
        /// Plain HTTP.
        Http = "http",
        /// HTTP over TLS.
        Https = "https",
    }
}

label_enum! {
    /// The requested record type.
    RecordType {
        /// IPv4 addresses.
        A = "A",
        /// IPv6 addresses.
        Aaaa = "AAAA",
    }
}

label_enum! {
    /// TLS version. Older versions are not supported.
    TlsVersion {
        /// TLS 1.2.
        Tls12 = "1.2",
        /// TLS 1.3.
        Tls13 = "1.3",
    }
}

label_enum! {
    /// How a C library walks the search list of resolv.conf. The same file gives different results in
    /// different images (R20).
    SearchManner {
        /// glibc's `res_search`: continues after NXDOMAIN, "no address" and SERVFAIL; queries one server
        /// after the other.
        Glibc = "glibc",
        /// musl: continues after NXDOMAIN only, does not search a name with enough dots, queries all servers
        /// at once, and fails the name if either address family fails.
        Musl = "musl",
    }
}

label_enum! {
    /// The PROXY v1 header that a probe sends before its first byte.
    ProxyHeader {
        /// `TCP4` or `TCP6` with the addresses of the connection, as a load balancer sends it.
        Tcp = "tcp",
        /// `UNKNOWN`, which a load balancer may send for its own health checks.
        Unknown = "unknown",
    }
}

label_enum! {
    /// Transport of a DNS query.
    DnsTransport {
        /// UDP, then TCP if the answer is truncated.
        Udp = "udp",
        /// TCP only.
        Tcp = "tcp",
    }
}

/// Response sizes in bytes that distinguish faults of a path: less than one packet, one full packet (where an
/// MTU that is too small takes effect), an initial congestion window, and many windows.
pub const SIZE_SWEEP: [u32; 4] = [100, 1_300, 8_192, 131_072];

/// A TCP connection, optionally over TLS, and optionally with bytes to send and to expect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpProbe {
    /// Name or literal address to connect to if no address is given.
    pub host: HostName,
    /// The port.
    pub port: u16,
    /// Use TLS, with the host as the server name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Requirements on the TLS handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_tls: Option<TlsExpectation>,
    /// Accept certificates that do not verify.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "any_certificate")]
    pub accept_invalid_certificate: bool,
    /// CA certificates to trust in addition to those of the prober's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_roots: Option<RootCertificates>,
    /// The client certificate to present in the TLS handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<CredentialName>,
    /// Bytes to send once connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<EscapedBytes>,
    /// Bytes that must occur in the first 4 KiB that the server sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<EscapedBytes>,
    /// The target must fail in one of these ways; a connection is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_not_answer: Option<MustNotAnswer>,
    /// PROXY header to send before the first byte. On the channel `proxied` the default is `tcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<ProxyHeader>,
    /// The resolver to query for the name, which is then fully qualified; the machine's resolvers if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<SocketAddr>,
    /// The C library whose resolver behaviour the lookup follows; glibc if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchManner>,
    /// Addresses that the probe may connect to, including behind a name; unrestricted if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl TcpProbe {
    /// Creates a plain connection probe.
    #[must_use]
    pub const fn connect(host: HostName, port: u16) -> Self {
        Self {
            host,
            port,
            tls: false,
            expect_tls: None,
            accept_invalid_certificate: false,
            extra_roots: None,
            client_certificate: None,
            send: None,
            expect: None,
            must_not_answer: None,
            proxy_header: None,
            resolver: None,
            search: None,
            scope: None,
        }
    }
}

/// A DNS query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DnsProbe {
    /// The name, fully qualified unless `search` is set.
    pub name: HostName,
    /// The record type to query.
    pub record: RecordType,
    /// The resolver to query; the machine's first resolver if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<SocketAddr>,
    /// The transport.
    #[serde(default = "default_transport", skip_serializing_if = "is_udp")]
    pub transport: DnsTransport,
    /// Walk the machine's search list like a client of this C library, for both address families. Resolver,
    /// record and transport are then ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchManner>,
}

impl DnsProbe {
    /// Creates a query to the machine's first resolver.
    #[must_use]
    pub const fn new(name: HostName, record: RecordType) -> Self {
        Self {
            name,
            record,
            resolver: None,
            transport: DnsTransport::Udp,
            search: None,
        }
    }
}

const fn default_transport() -> DnsTransport {
    DnsTransport::Udp
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
fn is_udp(transport: &DnsTransport) -> bool {
    *transport == DnsTransport::Udp
}

/// Specification of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every probe of a plan has the large variant"
)]
pub enum ProbeSpec {
    /// A request over HTTP or HTTPS.
    Http(HttpProbe),
    /// A TCP connection.
    Tcp(TcpProbe),
    /// A DNS query.
    Dns(DnsProbe),
    /// A request to another prober's echo.
    Echo {
        /// The nonce that the echo responds to.
        nonce: String,
        /// Response size in bytes, at most [`crate::ECHO_MAX_SIZE`]; the minimum if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u32>,
    },
    /// An ACME challenge, fetched under the rules of one ACME client. Used in runs only.
    Challenge(ChallengeProbe),
    /// The DNS records of a name by server. Used in runs only.
    Names(NamesProbe),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_with_a_field_of_a_newer_aggregator_is_refused_and_not_made_otherwise_than_meant() {
        let newer = r#"{"kind":"tcp","host":"db","port":5432,"starttls":"postgres"}"#;
        assert!(serde_json::from_str::<ProbeSpec>(newer).is_err());
    }

    #[test]
    fn what_is_not_asked_for_is_not_written() {
        let probe = HttpProbe::get(Scheme::Http, "a.test".parse().unwrap(), 80, "/".into());
        assert_eq!(
            serde_json::to_string(&ProbeSpec::Http(probe)).unwrap(),
            r#"{"kind":"http","scheme":"http","host":"a.test","port":80,"path":"/","expect_status":"<500"}"#
        );
    }
}
