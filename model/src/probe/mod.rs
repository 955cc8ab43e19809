//! What a probe does, as data.
//!
//! A plan may come from a newer aggregator: a probe with a field this version does not know is left out rather than
//! made otherwise than meant. So every struct here refuses unknown fields, unlike observations, which keep going.

mod accessors;
mod bytes;
mod challenge;
mod expect;
mod roots;
mod status;

use std::{collections::BTreeMap, fmt, net::SocketAddr};

use serde::{Deserialize, Serialize};

pub use self::{
    accessors::ProbeKind,
    bytes::{EscapedBytes, InvalidBytes},
    challenge::{CHALLENGE_PATH, ChallengeClient, ChallengeProbe, ChallengeSight, DialSight, HopSight},
    expect::{
        BodyPattern, InvalidMustNotAnswer, InvalidPattern, MustNotAnswer, RedirectPolicy, Silence,
        TlsExpectation,
    },
    roots::{InvalidRoots, RootCertificates},
    status::{ExpectedStatus, InvalidStatuses},
};
use crate::{HostName, Scope, channel::label_enum, dns::NamesProbe};

label_enum! {
    /// HTTP scheme.
    Scheme {
        /// Plain.
        Http = "http",
        /// Over TLS.
        Https = "https",
    }
}

label_enum! {
    /// Record type asked for.
    RecordType {
        /// IPv4 addresses.
        A = "A",
        /// IPv6 addresses.
        Aaaa = "AAAA",
    }
}

label_enum! {
    /// Version of TLS. Older ones are not spoken at all.
    TlsVersion {
        /// TLS 1.2.
        Tls12 = "1.2",
        /// TLS 1.3.
        Tls13 = "1.3",
    }
}

label_enum! {
    /// How a C library walks the search list of resolv.conf. The same file leads to different answers per image (R20).
    SearchManner {
        /// glibc's `res_search`: goes on after "no such name", "no address" and SERVFAIL; one server after the other.
        Glibc = "glibc",
        /// musl: goes on after "no such name" only, never searches a name with enough dots, asks all servers at once,
        /// and fails the name where either family fails.
        Musl = "musl",
    }
}

label_enum! {
    /// What is asked of the path.
    Method {
        /// The answer with its body.
        Get = "GET",
        /// The answer without.
        Head = "HEAD",
        /// With a body of ours.
        Post = "POST",
    }
}

label_enum! {
    /// Version of HTTP.
    HttpVersion {
        /// HTTP/1.1, without ALPN.
        Http11 = "1.1",
        /// HTTP/2, agreed on by ALPN; an https server that does not agree fails the handshake.
        Http2 = "2",
    }
}

label_enum! {
    /// The PROXY v1 header a probe sends before its first byte.
    ProxyHeader {
        /// `TCP4` or `TCP6` with the connection's own addresses, as a balancer would.
        Tcp = "tcp",
        /// `UNKNOWN`, as a balancer's own health check may.
        Unknown = "unknown",
    }
}

label_enum! {
    /// How a DNS question travels.
    DnsTransport {
        /// Over UDP, and again over TCP where the answer is truncated.
        Udp = "udp",
        /// Over TCP at once.
        Tcp = "tcp",
    }
}

/// Sizes of answer in bytes that tell a path's troubles apart: one packet with room, one full packet (where an MTU too
/// small begins to bite), a first window, and many windows.
pub const SIZE_SWEEP: [u32; 4] = [100, 1_300, 8_192, 131_072];

/// A request over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpProbe {
    /// Plain or over TLS.
    pub scheme: Scheme,
    /// Goes into `Host` and SNI, also where the address is forced.
    pub host: HostName,
    /// Port to connect to where the name is resolved.
    pub port: u16,
    /// Path and query, starting with a slash.
    pub path: String,
    /// Statuses that count as success; of the last answer where redirects are followed.
    pub expect_status: ExpectedStatus,
    /// The answer's first 64 KiB must contain this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_contains: Option<String>,
    /// The answer must be this, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_equals: Option<String>,
    /// The answer's first 64 KiB must match this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_body_matches: Option<BodyPattern>,
    /// Headers the answer must have, by lower-case name; with a value where one is given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expect_headers: BTreeMap<String, Option<String>>,
    /// What must hold of the handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_tls: Option<TlsExpectation>,
    /// The target must be silent in one of these ways; an answer is the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_not_answer: Option<MustNotAnswer>,
    /// Most bytes the answer may have. Without it, reading ends after 1 MiB and says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_body: Option<u64>,
    /// What is asked.
    #[serde(default = "get", skip_serializing_if = "is_get")]
    pub method: Method,
    /// What a POST sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Media type of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Version spoken.
    #[serde(default = "http11", skip_serializing_if = "is_http11")]
    pub version: HttpVersion,
    /// Where redirects may lead; without it none is followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirects: Option<RedirectPolicy>,
    /// A certificate that does not verify is accepted; what it says can still be expected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_certificate: bool,
    /// Certificates of CAs that are trusted beside those of the prober's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_roots: Option<RootCertificates>,
    /// A second request on the same connection, timed on its own: finds what a fresh connection cannot (R5). Such a
    /// target has an id of its own, so that it is never mixed with fresh connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_alive: bool,
    /// Sent before the first byte. On the channel `proxied` it is `tcp` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<ProxyHeader>,
    /// The C library in whose manner the name is looked up; glibc where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchManner>,
    /// Report what the answer looks like ([`crate::AnswerPrint`]). Only probes that compare two fronts ask for it: a
    /// prober that does not know the field leaves the probe out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub print: bool,
    /// Where the connections may go, also behind names and redirects; anywhere where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl HttpProbe {
    /// A GET over HTTP/1.1 that expects the default status and nothing else.
    #[must_use]
    pub const fn get(scheme: Scheme, host: HostName, port: u16, path: String) -> Self {
        Self {
            scheme,
            host,
            port,
            path,
            expect_status: ExpectedStatus::Below500,
            expect_body_contains: None,
            expect_body_equals: None,
            expect_body_matches: None,
            expect_headers: BTreeMap::new(),
            expect_tls: None,
            must_not_answer: None,
            max_body: None,
            method: Method::Get,
            body: None,
            content_type: None,
            version: HttpVersion::Http11,
            redirects: None,
            any_certificate: false,
            extra_roots: None,
            keep_alive: false,
            proxy_header: None,
            search: None,
            print: false,
            scope: None,
        }
    }
}

const fn get() -> Method {
    Method::Get
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
fn is_get(method: &Method) -> bool {
    *method == Method::Get
}

const fn http11() -> HttpVersion {
    HttpVersion::Http11
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
fn is_http11(version: &HttpVersion) -> bool {
    *version == HttpVersion::Http11
}

/// A TCP connection, over TLS or not, with something said and heard or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpProbe {
    /// Name or literal address to connect to where no address is forced.
    pub host: HostName,
    /// Port.
    pub port: u16,
    /// Shake hands over TLS, with the host as server name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// What must hold of the handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_tls: Option<TlsExpectation>,
    /// A certificate that does not verify is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_certificate: bool,
    /// Certificates of CAs that are trusted beside those of the prober's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_roots: Option<RootCertificates>,
    /// Sent once connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<EscapedBytes>,
    /// Must come within the first 4 KiB the server sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<EscapedBytes>,
    /// The target must be silent in one of these ways; a connection is the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_not_answer: Option<MustNotAnswer>,
    /// Sent before the first byte. On the channel `proxied` it is `tcp` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_header: Option<ProxyHeader>,
    /// The C library in whose manner the name is looked up; glibc where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchManner>,
    /// Where the connection may go, also behind a name; anywhere where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl TcpProbe {
    /// A plain connection and nothing more.
    #[must_use]
    pub const fn connect(host: HostName, port: u16) -> Self {
        Self {
            host,
            port,
            tls: false,
            expect_tls: None,
            any_certificate: false,
            extra_roots: None,
            send: None,
            expect: None,
            must_not_answer: None,
            proxy_header: None,
            search: None,
            scope: None,
        }
    }
}

/// A question to a resolver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DnsProbe {
    /// The name, taken as fully qualified unless a manner of search is given.
    pub name: HostName,
    /// What to ask for.
    pub record: RecordType,
    /// Who to ask; the machine's own first resolver where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<SocketAddr>,
    /// How the question travels.
    #[serde(default = "udp", skip_serializing_if = "is_udp")]
    pub transport: DnsTransport,
    /// Walk the machine's search list in this manner, both families, as a client of that C library would; resolver,
    /// record and transport then say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchManner>,
}

impl DnsProbe {
    /// One question to the machine's first resolver.
    #[must_use]
    pub const fn ask(name: HostName, record: RecordType) -> Self {
        Self {
            name,
            record,
            resolver: None,
            transport: DnsTransport::Udp,
            search: None,
        }
    }
}

const fn udp() -> DnsTransport {
    DnsTransport::Udp
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde calls")]
fn is_udp(transport: &DnsTransport) -> bool {
    *transport == DnsTransport::Udp
}

/// What a probe does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every probe of a plan is the large one"
)]
pub enum ProbeSpec {
    /// A request over HTTP or HTTPS.
    Http(HttpProbe),
    /// A TCP connection.
    Tcp(TcpProbe),
    /// A question to a resolver.
    Dns(DnsProbe),
    /// Another prober's echo, with a nonce of its own.
    Echo {
        /// The nonce the echo answers to.
        nonce: String,
        /// How many bytes to ask for, at most [`crate::ECHO_LARGEST`]; as few as it takes where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u32>,
    },
    /// An ACME challenge, fetched as one of its clients does. Only runs have such probes.
    Challenge(ChallengeProbe),
    /// What is said of a name, by whom. Only runs have such probes.
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
