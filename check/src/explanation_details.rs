//! Texts that depend on more than the kind of a failure.

use parallax_model::Phase;
use parallax_terminal::escape;

use super::{
    alternatives::AlternativeAnswer,
    dates,
    explanation::{Explanation, explanation},
    facts::{FailureFacts, certificate_names_text},
};

impl FailureFacts<'_> {
    pub(super) fn no_address(&self) -> Explanation {
        match self.detail {
            Some(detail) => explanation(
                escape(detail),
                ["a client on the internet can reach only public addresses: publish one"],
            ),
            None => explanation(
                format!(
                    "{} exists but has no address{}",
                    escape(self.host),
                    self.queried_resolver_text()
                ),
                ["the name has only records of other types (MX, TXT), or its addresses were removed"],
            ),
        }
    }

    pub(super) fn refused_reasons(&self) -> Vec<String> {
        let port = self.port_text();
        let loopback = self.address.is_some_and(|address| address.ip().is_loopback());
        if loopback {
            return vec![format!(
                "nothing listens on {port} of this machine: the process is not running, or listens elsewhere"
            )];
        }
        let closed_port = format!("the host is up but nothing listens on {port}, or a firewall rejects it");
        let ipvs = "with kube-proxy in IPVS mode this is a node without a local endpoint \
                    (externalTrafficPolicy: Local); compare with a node that has one";
        if self.is_local {
            vec![
                format!("this machine has the address itself, and nothing on it listens on {port}: {ipvs}"),
                format!("the process for {port} is not running on this machine"),
            ]
        } else if self.crossed_no_router() {
            vec![
                format!(
                    "the refusal crossed no router: it came from this machine's own node or a neighbour; {ipvs}"
                ),
                closed_port,
            ]
        } else {
            vec![closed_port]
        }
    }

    pub(super) fn connect_timeout(&self) -> Explanation {
        let again = self.times.and_then(|times| times.syn_retransmits).unwrap_or(0);
        let summary = match again {
            0 => "no response to the connection attempt".to_owned(),
            again => format!("no response to the connection attempt, sent {} times", again + 1),
        };
        let port = self.port_text();
        let mut likely = Vec::new();
        if self.address_replied() {
            likely.push(format!(
                "the address responds to other packets, so packets to {port} are dropped: a firewall, security group or \
                 NetworkPolicy"
            ));
        } else {
            likely.push(format!(
                "a firewall, security group or NetworkPolicy drops packets to {port}"
            ));
            likely.push("the host is down, or its replies take another path back".to_owned());
        }
        if self.address.is_some_and(|address| address.is_ipv6()) {
            likely.push("the AAAA record points to a machine without working IPv6".to_owned());
        }
        Explanation {
            summary,
            likely_reasons: likely,
        }
    }

    /// Explains a connection that was reset or closed. `verb` says which.
    pub(super) fn connection_closed(&self, verb: &str) -> Explanation {
        if self.phase == Some(Phase::Connect) {
            return explanation(
                format!("the connection was {verb} while it was being established"),
                ["a firewall or balancer on the path resets it"],
            );
        }
        let during = if self.phase == Some(Phase::Tls) {
            "during the TLS handshake"
        } else {
            "before the first byte of a response"
        };
        let summary = format!("the connection was {verb} {during}");
        match self.alternative {
            Some(AlternativeAnswer::WithProxyHeader) => explanation(
                summary,
                [
                    "the server expects a PROXY header: it responds if one is sent (tried). Remove its use-proxy-protocol, \
                  or have the balancer send the header",
                ],
            ),
            Some(other) => explanation(summary, [other.confirmed_reason().as_str()]),
            None if self.phase == Some(Phase::Tls) => explanation(
                summary,
                [
                    "no certificate or virtual host for this name, or a middlebox that blocks handshakes by server name",
                ],
            ),
            None => explanation(
                summary,
                [
                    "the process closes connections it does not expect, or crashed on this one: check its log",
                    "a balancer without a working backend accepts connections and closes them",
                ],
            ),
        }
    }

    pub(super) fn certificate_untrusted(&self) -> Explanation {
        let chain = self.tls.map_or(&[][..], |tls| &tls.chain);
        let Some(leaf) = chain.first() else {
            return explanation("the certificate is not signed by a trusted root", []);
        };
        let by = escape(chain.last().map_or(&leaf.issuer, |last| &last.issuer));
        // webpki's error for a certificate with CA:TRUE, the default of many tools that create self-signed ones.
        if self
            .detail
            .is_some_and(|detail| detail.contains("CaUsedAsEndEntity"))
        {
            return explanation(
                format!("the server presents a CA certificate ({})", escape(&leaf.subject)),
                [
                    "it was created with CA:TRUE, and strict clients reject that for a server, trusted or not; create one without",
                ],
            );
        }
        if leaf.self_signed {
            return explanation(
                format!("the certificate is self-signed ({})", escape(&leaf.subject)),
                ["a default or test certificate; pass it with --extra-roots if it is meant to be trusted"],
            );
        }
        let summary = format!("the certificate is not signed by a root that this machine trusts ({by})");
        if chain.len() == 1 {
            explanation(
                summary,
                [
                    "the server sends no intermediate certificate: browsers fetch or remember it, other clients fail",
                    "the root is private; pass it with --extra-roots",
                ],
            )
        } else {
            explanation(
                summary,
                [
                    "the root is private; pass it with --extra-roots",
                    "something on the path terminates TLS with its own certificate",
                ],
            )
        }
    }

    pub(super) fn unexpected_status(&self) -> Explanation {
        let Some(status) = self.status else {
            return explanation("the status is not the expected one", []);
        };
        let by = self
            .server
            .map_or_else(String::new, |server| format!(" ({})", escape(server)));
        let summary = format!("answers {status}{by}");
        match status {
            502 | 504 => explanation(
                summary,
                ["a proxy responded and cannot reach the application behind it"],
            ),
            503 => explanation(
                summary,
                [
                    "a proxy responded and has no working backend (no ready endpoints), or the application is overloaded",
                ],
            ),
            500.. => explanation(summary, ["the application failed: check its log"]),
            404 => explanation(
                summary,
                [
                    "nothing is served at this host and path: a default backend responded (wrong host, path or ingress class)",
                ],
            ),
            401 | 403 => explanation(
                summary,
                ["the server requires authentication, or does not admit this address"],
            ),
            400 => {
                let otherwise = self.alternative.map(AlternativeAnswer::confirmed_reason);
                explanation(
                    summary,
                    [otherwise
                        .as_deref()
                        .unwrap_or("the server does not understand the request")],
                )
            }
            300..400 => explanation(summary, ["a redirect that was not followed, or leads nowhere"]),
            _ => explanation(summary, ["a different response than expected"]),
        }
    }

    /// When the certificate of the chain that expired first did so.
    pub(super) fn expiry_text(&self) -> String {
        let chain = self.tls.map_or(&[][..], |tls| &tls.chain);
        let worst = chain.iter().min_by_key(|certificate| certificate.not_after);
        worst.map_or_else(String::new, |expired| {
            let ended = dates::date(expired.not_after);
            format!(
                " on {ended}, {} days ago",
                dates::days(self.now - expired.not_after)
            )
        })
    }

    /// The date before which the certificate is not valid.
    pub(super) fn not_before_text(&self) -> String {
        let leaf = self.tls.and_then(|tls| tls.chain.first());
        leaf.map_or_else(String::new, |leaf| {
            format!(" before {}", dates::date(leaf.not_before))
        })
    }

    /// The names that the certificate is valid for.
    pub(super) fn certificate_names(&self) -> String {
        let leaf = self.tls.and_then(|tls| tls.chain.first());
        leaf.map_or_else(
            || "other names".to_owned(),
            |leaf| certificate_names_text(&leaf.names, leaf.names_left_out),
        )
    }

    /// The names tried along the search list; empty if only one was tried.
    pub(super) fn tried_names_text(&self) -> String {
        let mut tried: Vec<String> = self.tried_names.iter().map(|tried| escape(&tried.name)).collect();
        tried.dedup();
        if tried.len() > 1 {
            format!("; tried {}", tried.join(", "))
        } else {
            String::new()
        }
    }

    /// The resolver that was queried last.
    pub(super) fn queried_resolver_text(&self) -> String {
        self.tried_names
            .last()
            .map_or_else(String::new, |tried| format!(" (queried {})", tried.resolver))
    }
}
