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
    pub(super) is_local: bool,
    pub(super) ttl: Option<&'a TtlEvidence>,
    pub(super) tls: Option<&'a TlsFacts>,
    pub(super) times: Option<&'a PhaseTimes>,
    pub(super) server: Option<&'a str>,
    pub(super) alternative: Option<AlternativeAnswer>,
    /// The names tried along the search list, if resolution failed.
    pub(super) tried_names: &'a [TriedName],
    /// Seconds since the Unix epoch.
    pub(super) now: i64,
}

impl FailureFacts<'_> {
    /// Whether the address itself sent the TTL evidence and the packet crossed no router. An error that a router sent
    /// is not a reply of the address.
    pub(super) fn crossed_no_router(&self) -> bool {
        self.address_replied() && self.ttl.is_some_and(TtlEvidence::crossed_no_router)
    }

    /// Whether the address itself sent a packet other than TCP (the TTL evidence).
    pub(super) fn address_replied(&self) -> bool {
        self.ttl
            .is_some_and(|ttl| ttl.sender.is_none_or(|from| from == ttl.address))
    }

    pub(super) fn port_text(&self) -> String {
        let port = self.address.map(|address| address.port()).or(self.port);
        port.map_or_else(|| "the port".to_owned(), |port| format!("port {port}"))
    }

    pub(super) fn detail_text(&self) -> String {
        self.detail
            .map_or_else(String::new, |detail| format!(" ({})", escape(detail)))
    }
}

/// Formats the names of a certificate as a list that fits on a line.
pub(super) fn certificate_names_text(names: &[String], left_out: usize) -> String {
    /// Names shown.
    const MAX_NAMES: usize = 6;
    let some: Vec<String> = names.iter().take(MAX_NAMES).map(|name| escape(name)).collect();
    match names.len().saturating_sub(MAX_NAMES) + left_out {
        _ if names.is_empty() => "no name at all".to_owned(),
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}
