//! From a failure to what a person is told: what happened, in one sentence, and why that is likely.
//!
//! Total over the closed lists, without a wildcard: a new kind does not compile until it has its words here. What takes
//! more than a sentence to decide is in `reasons`.

use parallax_model::{FailureKind as K, OwnFault};
use parallax_terminal::escape;

use super::{alternatives::AlternativeAnswer, facts::FailureFacts, reasons::port_speaks};

/// What a person is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Explanation {
    /// One sentence.
    pub(super) what: String,
    /// Reasons, the likelier ones first; one that was looked at and confirmed stands alone.
    pub(super) likely: Vec<String>,
}

pub(super) fn because<const N: usize>(what: impl Into<String>, likely: [&str; N]) -> Explanation {
    Explanation {
        what: what.into(),
        likely: likely.iter().map(|reason| (*reason).to_owned()).collect(),
    }
}

/// Puts a failure into words.
#[expect(clippy::too_many_lines, reason = "one arm a kind, and every kind")]
pub(super) fn explain(kind: &K, facts: &FailureFacts<'_>) -> Explanation {
    let (host, port) = (escape(facts.host), facts.port_words());
    let (detail, asked) = (facts.detail_words(), facts.asked_words());
    match kind {
        K::NxDomain => because(
            format!("{host} does not exist{}", facts.tried_words()),
            ["a typing error, or the record is not there (yet)"],
        ),
        K::NoAddress => facts.no_address(),
        K::ServFail => because(
            format!("the resolver could not find out {host}{asked}"),
            [
                "the domain's own name servers do not answer, or DNSSEC does not verify",
                "the resolver cannot reach those it asks (CoreDNS: see its upstream)",
            ],
        ),
        K::DnsRefused => because(
            format!("the resolver refuses to answer for {host}{asked}"),
            ["it serves other networks or other domains only"],
        ),
        K::ResolveTimeout => because(
            format!("the resolver does not answer in time{asked}"),
            ["the resolver is down, or a firewall or NetworkPolicy drops port 53 (UDP and TCP)"],
        ),
        K::ResolverUnreachable => because(
            format!("the resolver cannot be reached{asked}"),
            ["nothing listens on its port 53, or there is no route to it; see /etc/resolv.conf"],
        ),
        K::DnsMalformed => because(
            format!("what the resolver sends is no answer to the question{asked}"),
            ["something on the way answers in its place, or it is no DNS server"],
        ),
        K::Refused => Explanation {
            what: "connection refused".to_owned(),
            likely: facts.refused(),
        },
        K::Unreachable => because(
            "no route to the address",
            [
                "a router on the way, or this machine, has no route to it",
                "the host is switched off (no answer to ARP)",
            ],
        ),
        K::Prohibited => because(
            "rejected by an administrative rule",
            ["a firewall rule or NetworkPolicy rejects it, on this machine or on the way"],
        ),
        K::ConnectTimeout => facts.no_answer(),
        K::Reset => facts.closed("reset"),
        K::Eof => facts.closed("closed"),
        K::FirstByteTimeout => because(
            "connected, then silence: no byte of an answer in time",
            [
                "the application behind it hangs or is overloaded; a balancer accepts before it has reached one",
                "large packets are lost on the way back (MTU): small answers pass, large ones do not",
            ],
        ),
        K::TlsTimeout => because(
            "connected, then no answer to the TLS handshake",
            [
                "the server does not speak TLS on this port and waits for something else",
                "large packets are lost on the way back (MTU): certificates are the first large ones",
            ],
        ),
        K::NotTls => because(
            format!("{port} does not speak TLS"),
            [port_speaks(
                facts.otherwise,
                "plain HTTP or another protocol on a TLS port; a balancer that passes TLS to a plain backend",
            )
            .as_str()],
        ),
        K::TlsAlert => because(
            format!("the server ended the TLS handshake with an alert{detail}"),
            [
                "it demands a certificate of the client, does not know this server name, or shares no version or cipher",
            ],
        ),
        K::TlsProtocol => because(
            format!("the TLS handshake failed{detail}"),
            // The prober's own word for a handshake that ended well, but without the protocol that was asked for.
            [if detail.contains("ALPN") {
                "the server speaks HTTP/1.1 only; leave out --http2"
            } else {
                "the two sides share no version, cipher or protocol"
            }],
        ),
        K::TlsTooOld => because(
            format!("the TLS version is older than demanded{detail}"),
            ["the server's configuration"],
        ),
        K::CertificateExpired => because(
            format!("the certificate has expired{}", facts.since_when()),
            ["its renewal failed, or the server was not told to load the new one"],
        ),
        K::CertificateNotYetValid => because(
            format!("the certificate is not valid{}", facts.until_when()),
            ["a clock is wrong, here or where it was made"],
        ),
        K::CertificateWrongName => because(
            format!(
                "the certificate is not for {host}; it is for {}",
                facts.whom_for()
            ),
            [
                "the server has no certificate for this name and shows its default one (an ingress controller: the \
                 host has no TLS section or its Secret is missing)",
                "the name leads to another server than meant",
            ],
        ),
        K::CertificateUntrusted => facts.untrusted(),
        K::CertificateChainIncomplete => because(
            format!("the server sends its certificate without that of the CA that issued it{detail}"),
            [
                "its chain lacks the intermediate certificate: browsers fetch or remember it, other clients fail; serve \
                 the whole chain (fullchain.pem, or tls.crt with both certificates)",
                "a private CA issued it; name that CA with --extra-roots",
            ],
        ),
        K::CertificateExpiresSoon => because(
            format!("the certificate expires sooner than demanded{detail}"),
            ["its renewal is late or fails"],
        ),
        K::CertificateWrongIssuer => because(
            format!("the certificate comes from another issuer than demanded{detail}"),
            ["another certificate is served than meant, or something between terminates TLS"],
        ),
        K::Malformed => because(
            format!("the answer is not HTTP{detail}"),
            [port_speaks(
                facts.otherwise,
                "another protocol on this port, or a server that breaks HTTP",
            )
            .as_str()],
        ),
        K::InterimStorm => because(
            "interim answers (1xx) without end, and never a real one",
            ["a broken or hostile server; sixteen were read"],
        ),
        K::GoAway => because(
            format!("the server ended the HTTP/2 connection without dealing with the request{detail}"),
            [
                "it is shutting down or being replaced, or it limits requests per connection; the next try may work",
            ],
        ),
        K::StreamRefused => because(
            format!("the server refused the HTTP/2 request{detail}"),
            [
                "it is overloaded or allows no more requests at once; it did nothing, so the request may be repeated",
            ],
        ),
        K::StreamReset => because(
            format!("the server broke off the HTTP/2 request{detail}"),
            ["the application behind it failed, or a proxy gave up on it"],
        ),
        K::Status => facts.status_words(),
        K::WrongBody => because(
            "the answer's content is not what was expected",
            ["another server, version or default backend answered"],
        ),
        K::WrongHeader => because(
            format!("a header is not what was expected{detail}"),
            ["another server or configuration answered"],
        ),
        K::BodyStalled => because(
            "the answer stops in its middle and nothing follows",
            [
                "the application hangs while it writes",
                "large packets are lost on the way back (MTU of a tunnel or overlay)",
            ],
        ),
        K::BodyCut => because(
            format!("the connection ends in the middle of the answer{detail}"),
            ["the application died while it wrote, or a proxy's time-out cut it off"],
        ),
        K::BodyTooLarge => because(
            "the answer is larger than this client reads",
            ["not the challenge was served but a page: see where the redirects lead"],
        ),
        K::RedirectRefused => because(
            format!("a redirect leads where this client does not go{detail}"),
            ["the server's redirect rules"],
        ),
        K::RedirectLoop => because(
            format!("the redirects run in a circle{detail}"),
            [
                "the server redirects to https and does not see that the request already came over TLS (a balancer \
                 that ends TLS and sends no X-Forwarded-Proto)",
                "two rules redirect to each other (www and not www, slash and no slash)",
            ],
        ),
        K::RedirectTooMany => because(
            format!("too many redirects{detail}"),
            ["rules that redirect to each other with changing URLs"],
        ),
        K::AnsweredThoughForbidden => because(
            "it answers though it must not",
            ["a firewall rule or NetworkPolicy is missing"],
        ),
        K::UnlikeBefore => because(
            format!("the answer is unlike the one it gives while it works{detail}"),
            [
                "an ingress controller or a balancer answers in its place: no route, or no pod behind it",
                "the application was changed on purpose",
            ],
        ),
        K::Other(word) => because(format!("failed: {}", escape(word)), []),
    }
}

/// Puts a fault of this machine into words. It says nothing of the target.
pub(super) fn explain_own(own: OwnFault, detail: Option<&str>) -> Explanation {
    let (what, likely): (_, &str) = match own {
        OwnFault::NoPort => (
            "no free local port",
            "many connections of this machine are open or closing; see: ss -s",
        ),
        OwnFault::NoResources => ("out of file descriptors or memory", "raise the limit: ulimit -n"),
        OwnFault::Late => (
            "this machine was too busy to measure",
            "try again when it has less to do",
        ),
        OwnFault::Throttled => ("the budget of probes is spent", "try again later"),
        OwnFault::NoRoots => (
            "no trusted root certificates are installed, so no certificate can be judged",
            "install ca-certificates, set SSL_CERT_FILE, or name them with --extra-roots",
        ),
        OwnFault::NoFamily => (
            "this machine has no route of that address family",
            "nothing is said of the address itself; look from a machine that has one",
        ),
        OwnFault::PeerAway => (
            "the prober that was asked is restarting or has no plan yet",
            "nothing is said of the network; see the pod of that prober",
        ),
        OwnFault::Stopping => ("stopped before it was asked", "run it again"),
        OwnFault::NoResolver => (
            "no resolver is configured",
            "add a nameserver to /etc/resolv.conf, or name one with --resolver",
        ),
        OwnFault::Unaskable => (
            "the request cannot be put on the wire",
            "the host is no valid server name or header value",
        ),
        OwnFault::OutOfScope => ("the address may not be asked for", "its scope refuses it"),
    };
    let what = match detail {
        Some(detail) => format!("{what} ({})", escape(detail)),
        None => what.to_owned(),
    };
    because(what, [likely])
}

impl AlternativeAnswer {
    /// As a reason that was confirmed.
    pub(super) fn words(self) -> String {
        match self {
            Self::WithProxyHeader => {
                "the server expects a PROXY header: with one it answers (tried)".to_owned()
            }
            Self::PlainHttp(status) => {
                format!("the port speaks plain HTTP: it answered {status} when asked so; use http://")
            }
            Self::Tls => "the port speaks TLS: a handshake succeeds there (tried); use https://".to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "wording_tests.rs"]
mod tests;
