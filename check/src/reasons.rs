//! Reasons that depend on more than the kind of a failure.

use parallax_model::Phase;
use parallax_terminal::escape;

use super::{
    alternatives::AlternativeAnswer,
    duration_text,
    facts::{FailureFacts, names},
    wording::{Explanation, because},
};

/// How the port was found to be spoken to, or what is usual.
pub(super) fn port_speaks(found: Option<AlternativeAnswer>, usual: &str) -> String {
    found.map_or_else(|| usual.to_owned(), AlternativeAnswer::words)
}

impl FailureFacts<'_> {
    pub(super) fn no_address(&self) -> Explanation {
        match self.detail {
            Some(detail) => because(
                escape(detail),
                ["a client outside reaches public addresses only: publish one"],
            ),
            None => because(
                format!(
                    "{} exists and has no address{}",
                    escape(self.host),
                    self.asked_words()
                ),
                ["the name has records of other types only (MX, TXT), or its addresses were removed"],
            ),
        }
    }

    pub(super) fn refused(&self) -> Vec<String> {
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

    pub(super) fn no_answer(&self) -> Explanation {
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
        Explanation { what, likely }
    }

    /// Reset, or closed in good order, with the connection standing or just about to.
    pub(super) fn closed(&self, verb: &str) -> Explanation {
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
            Some(AlternativeAnswer::WithProxyHeader) => because(
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

    pub(super) fn untrusted(&self) -> Explanation {
        let chain = self.tls.map_or(&[][..], |tls| &tls.chain);
        let Some(leaf) = chain.first() else {
            return because("the certificate is signed by no trusted root", []);
        };
        let by = escape(chain.last().map_or(&leaf.issuer, |last| &last.issuer));
        // webpki's word, for what a self-signed certificate made with default settings usually is.
        if self
            .detail
            .is_some_and(|detail| detail.contains("CaUsedAsEndEntity"))
        {
            return because(
                format!(
                    "the certificate is an authority's own ({})",
                    escape(&leaf.subject)
                ),
                [
                    "it was made with CA:TRUE, and strict clients refuse that of a server, trusted or not; make one without",
                ],
            );
        }
        if leaf.self_signed {
            return because(
                format!("the certificate is signed by itself ({})", escape(&leaf.subject)),
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

    pub(super) fn status_words(&self) -> Explanation {
        let Some(status) = self.status else {
            return because("the status is not the expected one", []);
        };
        let by = self
            .server
            .map_or_else(String::new, |server| format!(" ({})", escape(server)));
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
                let otherwise = self.otherwise.map(AlternativeAnswer::words);
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

    /// When the first certificate of the chain to expire did so.
    pub(super) fn since_when(&self) -> String {
        let chain = self.tls.map_or(&[][..], |tls| &tls.chain);
        let worst = chain.iter().min_by_key(|certificate| certificate.not_after);
        worst.map_or_else(String::new, |expired| {
            let ended = duration_text::date(expired.not_after);
            format!(
                " on {ended}, {} days ago",
                duration_text::days(self.now - expired.not_after)
            )
        })
    }

    /// Before when the certificate is not valid.
    pub(super) fn until_when(&self) -> String {
        let leaf = self.tls.and_then(|tls| tls.chain.first());
        leaf.map_or_else(String::new, |leaf| {
            format!(" before {}", duration_text::date(leaf.not_before))
        })
    }

    /// The names of the certificate.
    pub(super) fn whom_for(&self) -> String {
        let leaf = self.tls.and_then(|tls| tls.chain.first());
        leaf.map_or_else(
            || "others".to_owned(),
            |leaf| names(&leaf.names, leaf.names_left_out),
        )
    }

    /// The names of a search list, where it was walked.
    pub(super) fn tried_words(&self) -> String {
        let mut tried: Vec<String> = self.tried.iter().map(|tried| escape(&tried.name)).collect();
        tried.dedup();
        if tried.len() > 1 {
            format!("; tried {}", tried.join(", "))
        } else {
            String::new()
        }
    }

    /// Who was asked last.
    pub(super) fn asked_words(&self) -> String {
        self.tried
            .last()
            .map_or_else(String::new, |tried| format!(" ({} was asked)", tried.resolver))
    }
}
