//! The facts known about a failure in addition to its kind, and their formatting.

use std::net::SocketAddr;

use parallax_model::{Phase, PhaseTimes, TtlEvidence};
use parallax_prober::{TlsFacts, TriedName};
use parallax_terminal::escape;

use super::alternatives::AlternativeAnswer;

/// The facts known about a failure in addition to its kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FailureFacts<'a> {
    pub(super) host: &'a str,
    pub(super) port: Option<u16>,
    pub(super) address: Option<SocketAddr>,
    pub(super) phase: Option<Phase>,
    pub(super) status: Option<u16>,
    /// The error text of a library or the kernel.
    pub(super) detail: Option<&'a str>,
    /// Whether the address is one of this machine's own.
    pub(super) local: bool,
    pub(super) ttl: Option<&'a TtlEvidence>,
    pub(super) tls: Option<&'a TlsFacts>,
    pub(super) times: Option<&'a PhaseTimes>,
    pub(super) server: Option<&'a str>,
    pub(super) otherwise: Option<AlternativeAnswer>,
    /// The names tried along the search list, if resolution failed.
    pub(super) tried: &'a [TriedName],
    /// Seconds since the Unix epoch.
    pub(super) now: i64,
}

impl FailureFacts<'_> {
    /// Whether the address itself sent the TTL evidence and the packet crossed no router. An error that a router sent
    /// is not a reply of the address.
    pub(super) fn next_door(&self) -> bool {
        self.answers_otherwise() && self.ttl.is_some_and(TtlEvidence::untouched)
    }

    /// Whether the address itself sent a packet other than TCP (the TTL evidence).
    pub(super) fn answers_otherwise(&self) -> bool {
        self.ttl
            .is_some_and(|ttl| ttl.from.is_none_or(|from| from == ttl.address))
    }

    pub(super) fn port_words(&self) -> String {
        let port = self.address.map(|address| address.port()).or(self.port);
        port.map_or_else(|| "the port".to_owned(), |port| format!("port {port}"))
    }

    pub(super) fn detail_words(&self) -> String {
        self.detail
            .map_or_else(String::new, |detail| format!(" ({})", escape(detail)))
    }
}

/// Formats the names of a certificate as a list that fits on a line.
pub(super) fn names(names: &[String], left_out: usize) -> String {
    /// Names shown.
    const MOST: usize = 6;
    let some: Vec<String> = names.iter().take(MOST).map(|name| escape(name)).collect();
    match names.len().saturating_sub(MOST) + left_out {
        _ if names.is_empty() => "no name at all".to_owned(),
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}
