//! From a failure to what a person is told: what happened, in one sentence, and why that is likely.
//!
//! Total over the closed list of kinds, without a wildcard: a new kind does not compile until it has its words here.

use parallax_model::{FailureKind, OwnFault, Phase};

use super::{
    escape::shown,
    facts::{Facts, names},
    otherwise::Otherwise,
    when,
};

/// What a person is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Explained {
    /// One sentence.
    pub(super) what: String,
    /// Reasons, the likelier ones first; one that was looked at and confirmed stands alone.
    pub(super) likely: Vec<String>,
}

fn because<const N: usize>(what: impl Into<String>, likely: [&str; N]) -> Explained {
    Explained {
        what: what.into(),
        likely: likely.iter().map(|reason| (*reason).to_owned()).collect(),
    }
}

/// Puts a failure into words.
pub(super) fn explain(kind: &FailureKind, facts: &Facts<'_>) -> Explained {
    match kind {
        FailureKind::NxDomain
        | FailureKind::NoAddress
        | FailureKind::ServFail
        | FailureKind::DnsRefused
        | FailureKind::ResolveTimeout
        | FailureKind::ResolverUnreachable
        | FailureKind::DnsMalformed => facts.resolve(kind),
        FailureKind::Refused
        | FailureKind::Unreachable
        | FailureKind::Prohibited
        | FailureKind::ConnectTimeout
        | FailureKind::Reset
        | FailureKind::Eof
        | FailureKind::FirstByteTimeout => facts.connection(kind),
        FailureKind::TlsTimeout
        | FailureKind::NotTls
        | FailureKind::TlsAlert
        | FailureKind::TlsProtocol
        | FailureKind::TlsTooOld => facts.handshake(kind),
        FailureKind::CertificateExpired
        | FailureKind::CertificateNotYetValid
        | FailureKind::CertificateWrongName
        | FailureKind::CertificateUntrusted
        | FailureKind::CertificateExpiresSoon
        | FailureKind::CertificateWrongIssuer => facts.certificate(kind),
        FailureKind::Malformed
        | FailureKind::Status
        | FailureKind::WrongBody
        | FailureKind::WrongHeader
        | FailureKind::BodyStalled
        | FailureKind::BodyCut
        | FailureKind::BodyTooLarge
        | FailureKind::RedirectRefused
        | FailureKind::RedirectLoop
        | FailureKind::RedirectTooMany
        | FailureKind::AnsweredThoughForbidden => facts.answer(kind),
        FailureKind::Other(word) => because(format!("failed: {}", shown(word)), []),
    }
}

/// Puts a fault of this machine into words. It says nothing of the target.
pub(super) fn explain_own(own: OwnFault, detail: Option<&str>) -> Explained {
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
        OwnFault::Stopping => ("stopped before it was asked", "run it again"),
        OwnFault::NoResolver => (
            "no resolver is configured",
            "add a nameserver to /etc/resolv.conf, or name one with --resolver",
        ),
        OwnFault::Unaskable => (
            "the request cannot be put on the wire",
            "the host is no valid server name or header value",
        ),
    };
    let what = match detail {
        Some(detail) => format!("{what} ({})", shown(detail)),
        None => what.to_owned(),
    };
    because(what, [likely])
}

impl Facts<'_> {
    fn resolve(&self, kind: &FailureKind) -> Explained {
        let host = shown(self.host);
        let mut explained = match kind {
            FailureKind::NxDomain => because(
                format!("{host} does not exist"),
                ["a typing error, or the record is not there (yet)"],
            ),
            FailureKind::NoAddress if self.detail.is_some() => because(
                self.detail.map(shown).unwrap_or_default(),
                ["a client outside reaches public addresses only: publish one"],
            ),
            FailureKind::NoAddress => because(
                format!("{host} exists and has no address"),
                ["the name has records of other types only (MX, TXT), or its addresses were removed"],
            ),
            FailureKind::ServFail => because(
                format!("the resolver could not find out {host}"),
                [
                    "the domain's own name servers do not answer, or DNSSEC does not verify",
                    "the resolver cannot reach those it asks (CoreDNS: see its upstream)",
                ],
            ),
            FailureKind::DnsRefused => because(
                format!("the resolver refuses to answer for {host}"),
                ["it serves other networks or other domains only"],
            ),
            FailureKind::ResolveTimeout => because(
                "the resolver does not answer in time",
                ["the resolver is down, or a firewall or NetworkPolicy drops port 53 (UDP and TCP)"],
            ),
            FailureKind::ResolverUnreachable => because(
                "the resolver cannot be reached",
                ["nothing listens on its port 53, or there is no route to it; see /etc/resolv.conf"],
            ),
            _ => because(
                "what the resolver sends is no answer to the question",
                ["something on the way answers in its place, or it is no DNS server"],
            ),
        };
        if *kind == FailureKind::NxDomain && self.tried.len() > 1 {
            let mut names: Vec<String> = self.tried.iter().map(|tried| shown(&tried.name)).collect();
            names.dedup();
            if names.len() > 1 {
                explained.what = format!("{}; tried {}", explained.what, names.join(", "));
            }
        }
        if let Some(tried) = self.tried.last().filter(|_| *kind != FailureKind::NxDomain) {
            explained.what = format!("{} ({} was asked)", explained.what, tried.resolver);
        }
        explained
    }

    fn connection(&self, kind: &FailureKind) -> Explained {
        match kind {
            FailureKind::Refused => Explained {
                what: "connection refused".to_owned(),
                likely: self.refused(),
            },
            FailureKind::Unreachable => because(
                "no route to the address",
                [
                    "a router on the way, or this machine, has no route to it",
                    "the host is switched off (no answer to ARP)",
                ],
            ),
            FailureKind::Prohibited => because(
                "rejected by an administrative rule",
                ["a firewall rule or NetworkPolicy rejects it, on this machine or on the way"],
            ),
            FailureKind::ConnectTimeout => self.no_answer(),
            FailureKind::FirstByteTimeout => because(
                "connected, then silence: no byte of an answer in time",
                [
                    "the application behind it hangs or is overloaded; a balancer accepts before it has reached one",
                    "large packets are lost on the way back (MTU): small answers pass, large ones do not",
                ],
            ),
            _ => self.closed(kind),
        }
    }

    fn refused(&self) -> Vec<String> {
        let port = self.port_words();
        let loopback = self.address.is_some_and(|address| address.ip().is_loopback());
        if loopback {
            return vec![format!(
                "nothing listens on {port} of this machine: the process does not run, or listens elsewhere"
            )];
        }
        let nobody = format!("the host is up and nothing listens on {port}, or a firewall rejects it");
        let ipvs = "under kube-proxy with IPVS that is a node without an endpoint of its own \
                    (externalTrafficPolicy: Local); compare with a node that has one";
        if self.local {
            vec![
                format!("this machine has the address itself, and nothing of it answers on {port}: {ipvs}"),
                format!("the process for {port} does not run here"),
            ]
        } else if self.next_door() {
            vec![
                format!(
                    "the refusal crossed no router: this machine's own node or a neighbour answers; {ipvs}"
                ),
                nobody,
            ]
        } else {
            vec![nobody]
        }
    }

    fn no_answer(&self) -> Explained {
        let again = self.times.and_then(|times| times.syn_retransmits).unwrap_or(0);
        let what = match again {
            0 => "no answer to the connection attempt".to_owned(),
            again => format!("no answer to the connection attempt, sent {} times", again + 1),
        };
        let port = self.port_words();
        let mut likely = Vec::new();
        if self.answers_otherwise() {
            likely.push(format!(
                "the address answers otherwise, so packets to {port} are dropped: a firewall, security group or \
                 NetworkPolicy"
            ));
        } else {
            likely.push(format!(
                "a firewall, security group or NetworkPolicy drops packets to {port}"
            ));
            likely.push("the host is down, or its answers take another way back".to_owned());
        }
        if self.address.is_some_and(|address| address.is_ipv6()) {
            likely.push("the AAAA record points at a machine that has no working IPv6".to_owned());
        }
        Explained { what, likely }
    }

    /// Reset, or closed in good order, with the connection standing or just about to.
    fn closed(&self, kind: &FailureKind) -> Explained {
        let verb = if *kind == FailureKind::Reset {
            "reset"
        } else {
            "closed"
        };
        if self.phase == Some(Phase::Connect) {
            return because(
                format!("the connection was {verb} while it was being opened"),
                ["a firewall or balancer between resets it"],
            );
        }
        let during = if self.phase == Some(Phase::Tls) {
            "in the TLS handshake"
        } else {
            "before the first byte of an answer"
        };
        let what = format!("the connection was {verb} {during}");
        match self.otherwise {
            Some(Otherwise::WithProxyHeader) => because(
                what,
                [
                    "the server expects a PROXY header: with one it answers (tried). Take away its use-proxy-protocol, or \
                  have the balancer send the header",
                ],
            ),
            Some(other) => because(what, [other.words().as_str()]),
            None if self.phase == Some(Phase::Tls) => because(
                what,
                [
                    "no certificate or virtual host for this name, or a middlebox that cuts handshakes by their name",
                ],
            ),
            None => because(
                what,
                [
                    "the process ends connections it does not expect, or died on this one: see its log",
                    "a balancer without a working backend accepts and closes",
                ],
            ),
        }
    }

    fn handshake(&self, kind: &FailureKind) -> Explained {
        let detail = self.detail_words();
        match (kind, self.otherwise) {
            (FailureKind::TlsTimeout, _) => because(
                "connected, then no answer to the TLS handshake",
                [
                    "the server does not speak TLS on this port and waits for something else",
                    "large packets are lost on the way back (MTU): certificates are the first large ones",
                ],
            ),
            (FailureKind::NotTls, Some(Otherwise::PlainHttp(status))) => because(
                format!("{} does not speak TLS", self.port_words()),
                [format!("it speaks plain HTTP: it answered {status} when asked so; use http://").as_str()],
            ),
            (FailureKind::NotTls, _) => because(
                format!("{} does not speak TLS", self.port_words()),
                [
                    "plain HTTP or another protocol on a TLS port; a balancer that passes TLS to a plain backend",
                ],
            ),
            (FailureKind::TlsAlert, _) => because(
                format!("the server ended the TLS handshake with an alert{detail}"),
                [
                    "it demands a certificate of the client, does not know this server name, or shares no version or cipher",
                ],
            ),
            (FailureKind::TlsTooOld, _) => because(
                format!("the TLS version is older than demanded{detail}"),
                ["the server's configuration"],
            ),
            _ => because(
                format!("the TLS handshake failed{detail}"),
                ["the two sides share no version, cipher or protocol"],
            ),
        }
    }

    fn certificate(&self, kind: &FailureKind) -> Explained {
        let chain = self.tls.map_or(&[][..], |tls| &tls.chain);
        let leaf = chain.first();
        match kind {
            FailureKind::CertificateExpired => {
                let worst = chain.iter().min_by_key(|certificate| certificate.not_after);
                let when = worst.map_or_else(String::new, |expired| {
                    let ended = when::date(expired.not_after);
                    format!(
                        " on {ended}, {} days ago",
                        when::days(self.now - expired.not_after)
                    )
                });
                because(
                    format!("the certificate has expired{when}"),
                    ["its renewal failed, or the server was not told to load the new one"],
                )
            }
            FailureKind::CertificateNotYetValid => {
                let when = leaf.map_or_else(String::new, |leaf| {
                    format!(" before {}", when::date(leaf.not_before))
                });
                because(
                    format!("the certificate is not valid{when}"),
                    ["a clock is wrong, here or where it was made"],
                )
            }
            FailureKind::CertificateWrongName => {
                let names = leaf.map_or_else(String::new, |leaf| names(&leaf.names, leaf.names_left_out));
                because(
                    format!(
                        "the certificate is not for {}; it is for {names}",
                        shown(self.host)
                    ),
                    [
                        "the server has no certificate for this name and shows its default one (an ingress \
                         controller: the host has no TLS section or its Secret is missing)",
                        "the name leads to another server than meant",
                    ],
                )
            }
            FailureKind::CertificateUntrusted => self.untrusted(),
            FailureKind::CertificateExpiresSoon => because(
                format!(
                    "the certificate expires sooner than demanded{}",
                    self.detail_words()
                ),
                ["its renewal is late or fails"],
            ),
            _ => because(
                format!(
                    "the certificate comes from another issuer than demanded{}",
                    self.detail_words()
                ),
                ["another certificate is served than meant, or something between terminates TLS"],
            ),
        }
    }

    fn untrusted(&self) -> Explained {
        let chain = self.tls.map_or(&[][..], |tls| &tls.chain);
        let Some(leaf) = chain.first() else {
            return because("the certificate is signed by no trusted root", []);
        };
        let by = shown(chain.last().map_or(&leaf.issuer, |last| &last.issuer));
        // webpki's word, for what a self-signed certificate made with default settings usually is.
        if self
            .detail
            .is_some_and(|detail| detail.contains("CaUsedAsEndEntity"))
        {
            return because(
                format!("the certificate is an authority's own ({})", shown(&leaf.subject)),
                [
                    "it was made with CA:TRUE, and strict clients refuse that of a server, trusted or not; make one without",
                ],
            );
        }
        if leaf.self_signed {
            return because(
                format!("the certificate is signed by itself ({})", shown(&leaf.subject)),
                ["a default or test certificate; name it with --extra-roots where it is meant to be trusted"],
            );
        }
        let what = format!("the certificate is signed by no root this machine trusts ({by})");
        if chain.len() == 1 {
            because(
                what,
                [
                    "the server sends no intermediate certificate: browsers fetch or remember it, other clients fail",
                    "the root is a private one; name it with --extra-roots",
                ],
            )
        } else {
            because(
                what,
                [
                    "the root is a private one; name it with --extra-roots",
                    "something between terminates TLS with a certificate of its own",
                ],
            )
        }
    }

    fn answer(&self, kind: &FailureKind) -> Explained {
        let detail = self.detail_words();
        match kind {
            FailureKind::Malformed => {
                let likely = self.otherwise.map_or_else(
                    || "another protocol on this port, or a server that breaks HTTP".to_owned(),
                    Otherwise::words,
                );
                because(format!("the answer is not HTTP{detail}"), [likely.as_str()])
            }
            FailureKind::Status => self.status_words(),
            FailureKind::WrongBody => because(
                "the answer's content is not what was expected",
                ["another server, version or default backend answered"],
            ),
            FailureKind::WrongHeader => because(
                format!("a header is not what was expected{detail}"),
                ["another server or configuration answered"],
            ),
            FailureKind::BodyStalled => because(
                "the answer stops in its middle and nothing follows",
                [
                    "the application hangs while it writes",
                    "large packets are lost on the way back (MTU of a tunnel or overlay)",
                ],
            ),
            FailureKind::BodyCut => because(
                format!("the connection ends in the middle of the answer{detail}"),
                ["the application died while it wrote, or a proxy's time-out cut it off"],
            ),
            FailureKind::BodyTooLarge => because(
                "the answer is larger than this client reads",
                ["not the challenge was served but a page: see where the redirects lead"],
            ),
            FailureKind::RedirectRefused => because(
                format!("a redirect leads where this client does not go{detail}"),
                ["the server's redirect rules"],
            ),
            FailureKind::RedirectLoop => because(
                format!("the redirects run in a circle{detail}"),
                [
                    "the server redirects to https and does not see that the request already came over TLS (a \
                     balancer that ends TLS and sends no X-Forwarded-Proto)",
                    "two rules redirect to each other (www and not www, slash and no slash)",
                ],
            ),
            FailureKind::RedirectTooMany => because(
                format!("too many redirects{detail}"),
                ["rules that redirect to each other with changing URLs"],
            ),
            _ => because(
                "it answers though it must not",
                ["a firewall rule or NetworkPolicy is missing"],
            ),
        }
    }

    fn status_words(&self) -> Explained {
        let Some(status) = self.status else {
            return because("the status is not the expected one", []);
        };
        let by = self
            .server
            .map_or_else(String::new, |server| format!(" ({})", shown(server)));
        let what = format!("answers {status}{by}");
        match status {
            502 | 504 => because(
                what,
                ["a proxy answers, and cannot reach the application behind it"],
            ),
            503 => because(
                what,
                [
                    "a proxy answers and has no working backend (no ready endpoints), or the application is overloaded",
                ],
            ),
            500.. => because(what, ["the application failed: see its log"]),
            404 => because(
                what,
                [
                    "nothing is served at this host and path: a default backend answers (wrong host, path or ingress class)",
                ],
            ),
            401 | 403 => because(
                what,
                ["the server wants to know who asks, or does not let this address in"],
            ),
            400 => {
                let otherwise = self.otherwise.map(Otherwise::words);
                because(
                    what,
                    [otherwise
                        .as_deref()
                        .unwrap_or("the server does not understand the request")],
                )
            }
            300..400 => because(what, ["a redirect that was not followed, or leads nowhere"]),
            _ => because(what, ["another answer than expected"]),
        }
    }
}

impl Otherwise {
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
#[path = "words_tests.rs"]
mod tests;
