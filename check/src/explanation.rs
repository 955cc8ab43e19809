//! Explains a failure to people: what happened, in one sentence, and the likely reasons.
//!
//! The matches cover the closed enums without a wildcard, so a new kind does not compile until it has its text here.
//! Texts that depend on more than the kind are in `reasons`.

use parallax_model::{FailureKind as K, OwnFault};
use parallax_terminal::escape;

use super::{
    alternatives::{AlternativeAnswer, port_speaks},
    facts::FailureFacts,
};

/// A failure or a finding, explained to people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Explanation {
    /// One sentence.
    pub(super) summary: String,
    /// Likely reasons, the most likely first. A reason that was confirmed is the only one.
    pub(super) likely_reasons: Vec<String>,
}

pub(super) fn explanation<const N: usize>(summary: impl Into<String>, likely: [&str; N]) -> Explanation {
    Explanation {
        summary: summary.into(),
        likely_reasons: likely.iter().map(|reason| (*reason).to_owned()).collect(),
    }
}

/// Explains a failure of the target.
#[expect(clippy::too_many_lines, reason = "one arm a kind, and every kind")]
pub(super) fn explain(kind: &K, facts: &FailureFacts<'_>) -> Explanation {
    let (host, port) = (escape(facts.host), facts.port_text());
    let (detail, resolver) = (facts.detail_text(), facts.queried_resolver_text());
    match kind {
        K::NxDomain => explanation(
            format!("{host} does not exist{}", facts.tried_names_text()),
            ["a typing error, or the record does not exist (yet)"],
        ),
        K::NoAddress => facts.no_address(),
        K::ServFail => explanation(
            format!("the resolver could not resolve {host}{resolver}"),
            [
                "the domain's own name servers do not answer, or DNSSEC validation fails",
                "the resolver cannot reach its upstream servers (CoreDNS: check its upstream)",
            ],
        ),
        K::DnsRefused => explanation(
            format!("the resolver refuses to answer for {host}{resolver}"),
            ["it serves only other networks or other domains"],
        ),
        K::ResolveTimeout => explanation(
            format!("the resolver does not answer in time{resolver}"),
            ["the resolver is down, or a firewall or NetworkPolicy drops packets to port 53 (UDP and TCP)"],
        ),
        K::ResolverUnreachable => explanation(
            format!("the resolver cannot be reached{resolver}"),
            ["nothing listens on its port 53, or there is no route to it; check /etc/resolv.conf"],
        ),
        K::DnsMalformed => explanation(
            format!("the resolver's reply is not a valid answer to the query{resolver}"),
            ["something on the path answers in its place, or it is not a DNS server"],
        ),
        K::Refused => Explanation {
            summary: "connection refused".to_owned(),
            likely_reasons: facts.refused_reasons(),
        },
        K::Unreachable => explanation(
            "no route to the address",
            [
                "a router on the path, or this machine, has no route to it",
                "the host is switched off (no reply to ARP)",
            ],
        ),
        K::Prohibited => explanation(
            "rejected by an administrative rule",
            ["a firewall rule or NetworkPolicy rejects it, on this machine or on the path"],
        ),
        K::ConnectTimeout => facts.connect_timeout(),
        K::Reset => facts.connection_closed("reset"),
        K::Eof => facts.connection_closed("closed"),
        K::FirstByteTimeout => explanation(
            "connected, but no byte of a response arrived in time",
            [
                "the application behind it hangs or is overloaded; a balancer accepts a connection before it has \
                 reached the application",
                "large packets are lost on the return path (MTU): small responses pass, large ones do not",
            ],
        ),
        K::TlsTimeout => explanation(
            "connected, but no reply to the TLS handshake",
            [
                "the server does not speak TLS on this port and waits for something else",
                "large packets are lost on the return path (MTU): those with certificates are the first large ones",
            ],
        ),
        K::NotTls => explanation(
            format!("{port} does not speak TLS"),
            [port_speaks(
                facts.alternative,
                "plain HTTP or another protocol on a TLS port, or a balancer that passes TLS to a plain-text backend",
            )
            .as_str()],
        ),
        K::TlsAlert => explanation(
            format!("the server ended the TLS handshake with an alert{detail}"),
            [
                "it requires a client certificate, does not know this server name, or supports no common version or cipher",
            ],
        ),
        K::TlsProtocol => explanation(
            format!("the TLS handshake failed{detail}"),
            // The prober's detail for a handshake that succeeded without the requested protocol.
            [if detail.contains("ALPN") {
                "the server speaks HTTP/1.1 only; leave out --http2"
            } else {
                "client and server have no version, cipher or protocol in common"
            }],
        ),
        K::TlsTooOld => explanation(
            format!("the TLS version is older than required{detail}"),
            ["the server's TLS configuration"],
        ),
        K::CertificateExpired => explanation(
            format!("the certificate has expired{}", facts.expiry_text()),
            ["its renewal failed, or the server did not load the new one"],
        ),
        K::CertificateNotYetValid => explanation(
            format!("the certificate is not valid{}", facts.not_before_text()),
            ["a clock is wrong, on this machine or where the certificate was issued"],
        ),
        K::CertificateWrongName => explanation(
            format!(
                "the certificate is not for {host}; it is for {}",
                facts.certificate_names()
            ),
            [
                "the server has no certificate for this name and presents its default one (ingress controller: the \
                 host has no TLS section, or its Secret is missing)",
                "the name leads to a different server than intended",
            ],
        ),
        K::CertificateUntrusted => facts.certificate_untrusted(),
        K::CertificateChainIncomplete => explanation(
            format!("the server sends its certificate without the certificate of the issuing CA{detail}"),
            [
                "its chain lacks the intermediate certificate: browsers fetch or remember it, other clients fail; serve \
                 the full chain (fullchain.pem, or tls.crt with both certificates)",
                "a private CA issued it; pass the certificate of that CA with --extra-roots",
            ],
        ),
        K::CertificateExpiresSoon => explanation(
            format!("the certificate expires sooner than required{detail}"),
            ["its renewal is late or failing"],
        ),
        K::CertificateWrongIssuer => explanation(
            format!("the certificate comes from a different issuer than required{detail}"),
            ["the server presents the wrong certificate, or something on the path terminates TLS"],
        ),
        K::Malformed => explanation(
            format!("the response is not HTTP{detail}"),
            [port_speaks(
                facts.alternative,
                "another protocol on this port, or a server that violates HTTP",
            )
            .as_str()],
        ),
        K::InterimStorm => explanation(
            "endless interim responses (1xx), and never a final one",
            ["a broken or hostile server; sixteen were read"],
        ),
        K::GoAway => explanation(
            format!("the server ended the HTTP/2 connection without processing the request{detail}"),
            [
                "it is shutting down or being replaced, or it limits requests per connection; a retry may succeed",
            ],
        ),
        K::StreamRefused => explanation(
            format!("the server refused the HTTP/2 request{detail}"),
            [
                "it is overloaded or allows no more concurrent requests; it processed nothing, so the request can be \
                 retried",
            ],
        ),
        K::StreamReset => explanation(
            format!("the server aborted the HTTP/2 request{detail}"),
            ["the application behind it failed, or a proxy gave up on it"],
        ),
        K::Status => facts.unexpected_status(),
        K::WrongBody => explanation(
            "the content of the response is not what was expected",
            ["another server, another version or a default backend responded"],
        ),
        K::WrongHeader => explanation(
            format!("a header is not what was expected{detail}"),
            ["a server with another configuration, or another server, responded"],
        ),
        K::BodyStalled => explanation(
            "the response stops midway and nothing follows",
            [
                "the application hangs while it writes",
                "large packets are lost on the return path (MTU of a tunnel or overlay)",
            ],
        ),
        K::BodyCut => explanation(
            format!("the connection ends in the middle of the response{detail}"),
            ["the application died while it wrote, or a proxy's timeout cut it off"],
        ),
        K::BodyTooLarge => explanation(
            "the response is larger than this client reads",
            ["the server sent a page instead of the challenge: check where the redirects lead"],
        ),
        K::RedirectRefused => explanation(
            format!("this client does not follow a redirect{detail}"),
            ["the server's redirect rules"],
        ),
        K::RedirectLoop => explanation(
            format!("the redirects form a loop{detail}"),
            [
                "the server redirects to https and does not see that the request already came over TLS (a balancer \
                 that terminates TLS and sends no X-Forwarded-Proto)",
                "two rules redirect to each other (with and without www, with and without a trailing slash)",
            ],
        ),
        K::RedirectTooMany => explanation(
            format!("too many redirects{detail}"),
            ["rules that redirect to each other with changing URLs"],
        ),
        K::AnsweredThoughForbidden => explanation(
            "it responds although it must not",
            ["a firewall rule or NetworkPolicy is missing"],
        ),
        K::DiffersFromBaseline => explanation(
            format!("the response differs from the one that the target gives while it works{detail}"),
            [
                "an ingress controller or a balancer responds in its place: no route, or no Pod behind it",
                "the application was changed on purpose",
            ],
        ),
        K::ProxyUnresolved => explanation(
            format!("the name of the proxy does not resolve{detail}"),
            ["a typing error in --proxy, or the resolver does not know the name"],
        ),
        K::ProxyRefused => explanation(
            "the proxy refuses the connection",
            ["nothing listens on the port of --proxy, or a firewall rejects the connection"],
        ),
        K::ProxyUnreachable => explanation(
            format!("there is no route to the proxy{detail}"),
            ["a router or a firewall rule between this machine and the proxy"],
        ),
        K::ProxyTimeout => explanation(
            format!("the proxy does not answer in time{detail}"),
            [
                "the proxy is down, or a firewall drops the packets to it",
                "the proxy waits for the target, which does not answer it",
            ],
        ),
        K::ProxyClosed => explanation(
            format!("the proxy closed the connection{detail}"),
            ["the port of --proxy is not that of an HTTP proxy, or the proxy does not accept this machine as a client"],
        ),
        K::ProxyDenied => explanation(
            format!("the proxy refuses a tunnel to {host}{detail}"),
            [
                "403: a rule of the proxy forbids the host or the port",
                "502 to 504: the proxy cannot reach the host",
            ],
        ),
        K::ProxyAuthentication => explanation(
            format!("the proxy requires authentication{detail}"),
            ["it requires a user name and password that this command cannot send, or rejects them"],
        ),
        K::Other(word) => explanation(format!("failed: {}", escape(word)), []),
    }
}

/// Explains a fault of this machine. Such a fault is no evidence about the target.
pub(super) fn explain_own_fault(own: OwnFault, detail: Option<&str>) -> Explanation {
    let (summary, likely): (_, &str) = match own {
        OwnFault::NoPort => (
            "no free local port",
            "this machine has many connections open or closing; see: ss -s",
        ),
        OwnFault::NoResources => ("out of file descriptors or memory", "raise the limit: ulimit -n"),
        OwnFault::Late => (
            "this machine was too busy to measure",
            "try again when it is less busy",
        ),
        OwnFault::Throttled => ("the probe budget is used up", "try again later"),
        OwnFault::NoRoots => (
            "no trusted root certificates are installed, so no certificate can be verified",
            "install ca-certificates, set SSL_CERT_FILE, or pass them with --extra-roots",
        ),
        OwnFault::NoFamily => (
            "this machine has no route for that address family",
            "this is no evidence about the address itself; check it from a machine that has such a route",
        ),
        OwnFault::PeerUnavailable => (
            "the peer prober is restarting or has no plan yet",
            "this is no evidence about the network; check the Pod of that prober",
        ),
        OwnFault::Stopping => ("stopped before the probe was made", "run it again"),
        OwnFault::NoResolver => (
            "no resolver is configured",
            "add a nameserver to /etc/resolv.conf, or pass one with --resolver",
        ),
        OwnFault::InvalidAssignment => (
            "the request cannot be put on the wire",
            "the host is not a valid server name or header value",
        ),
        OwnFault::OutOfScope => (
            "the address must not be probed",
            "it is outside the scope of the prober",
        ),
        OwnFault::NoCredential => (
            "the credential cannot be used",
            "check the file and its permissions",
        ),
        OwnFault::CredentialRefused => (
            "the credential must not be sent there",
            "credentials are sent to their own hosts and over TLS only",
        ),
    };
    let summary = match detail {
        Some(detail) => format!("{summary} ({})", escape(detail)),
        None => summary.to_owned(),
    };
    explanation(summary, [likely])
}

impl AlternativeAnswer {
    /// The text of a confirmed reason.
    pub(super) fn confirmed_reason(self) -> String {
        match self {
            Self::WithProxyHeader => {
                "the server expects a PROXY header: it responds if one is sent (tried)".to_owned()
            }
            Self::PlainHttp(status) => {
                format!(
                    "the port speaks plain HTTP: it answered {status} to such a request (tried); use http://"
                )
            }
            Self::Tls => "the port speaks TLS: a handshake succeeds (tried); use https://".to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "wording_tests.rs"]
mod tests;
