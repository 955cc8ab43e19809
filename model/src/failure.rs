//! The outcome of a probe: a closed list of failure kinds, and the phases in which they occur.

mod kind;
mod kind_labels;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::channel::label_enum;
pub use kind::FailureKind;

label_enum! {
    /// The phases of a probe, in order. A timeout names the phase in which it occurred. A phase that was not
    /// reached is *not observed*, not failed.
    Phase {
        /// Resolving the name to addresses.
        Resolve = "resolve",
        /// TCP handshake.
        Connect = "connect",
        /// Sending the PROXY header.
        ProxyHeader = "proxy-header",
        /// TLS handshake.
        Tls = "tls",
        /// Sending the request.
        Request = "request",
        /// Waiting for the first byte of the response.
        FirstByte = "first-byte",
        /// Reading the response.
        Body = "body",
        /// Comparing the response with the expectation.
        Check = "check",
    }
}

label_enum! {
    /// Classes of failure that the kind term of the diagnosis counts.
    KindClass {
        /// Packets are lost.
        Timeout = "timeout",
        /// Refused immediately.
        Refused = "refused",
        /// Reset or closed after the connection was established.
        Reset = "reset",
        /// No route, host unreachable, prohibited.
        Unreachable = "unreachable",
        /// Connected, then no progress.
        Stall = "stall",
        /// TLS handshake or certificate.
        Tls = "tls",
        /// A response with an unexpected status below 500 or with unexpected content.
        Http4xx = "http_4xx",
        /// A response with status 500 or above.
        Http5xx = "http_5xx",
        /// The name does not exist or has no address.
        NxDomain = "nxdomain",
        /// The resolver failed, refused the query or could not be reached.
        ServFail = "servfail",
    }
}

label_enum! {
    /// A fault of the prober or its machine. It never counts against a target.
    OwnFault {
        /// No free local port (`EADDRNOTAVAIL`).
        NoPort = "no_port",
        /// Out of file descriptors or memory.
        NoResources = "no_resources",
        /// The prober had too little CPU time: the probe started too late, or timed out while the prober ran late.
        Late = "late",
        /// The budget did not allow the probe.
        Throttled = "throttled",
        /// No trusted root certificates are installed on this machine.
        NoRoots = "no_roots",
        /// The machine has no route or address of the requested family.
        NoFamily = "no_family",
        /// The prober is stopping.
        Stopping = "stopping",
        /// No resolver is configured on this machine.
        NoResolver = "no_resolver",
        /// The assignment cannot be sent: its host is missing, or is not a valid header value or server name.
        InvalidAssignment = "unaskable",
        /// The peer (prober or responder) is restarting or has no plan yet.
        PeerUnavailable = "peer_away",
        /// The name or a redirect led to an address outside the probe's [`crate::Scope`].
        OutOfScope = "out_of_scope",
        /// The prober has no such credential, or cannot read its files.
        NoCredential = "no_credential",
        /// The prober's configuration does not allow the credential for this host or without TLS.
        CredentialRefused = "credential_refused",
    }
}

impl OwnFault {
    /// The reason why the probe was not made, as a clause.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoPort => "the prober has no free local port",
            Self::NoResources => "the prober is out of file descriptors or memory",
            Self::Late => "the prober was too busy to make the probe in time",
            Self::Throttled => "the probe budget is used up",
            Self::NoRoots => "the prober has no trusted root certificates",
            Self::NoFamily => "the node has no route of this address family",
            Self::Stopping => "the prober is stopping",
            Self::NoResolver => "the prober has no resolver",
            Self::InvalidAssignment => "the host is not a valid header value or server name",
            Self::PeerUnavailable => "the peer is restarting or has no plan yet",
            Self::OutOfScope => "the address is outside the scope of the probe",
            Self::NoCredential => "the prober has no such credential or cannot read its files",
            Self::CredentialRefused => {
                "the prober's configuration does not allow the credential for this host or without TLS"
            }
        }
    }
}

/// The outcome of one probe.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// All phases finished and the expectation was met.
    Ok {
        /// Status of the response, if the protocol has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    /// The target or its path failed. Earlier phases succeeded.
    Failed {
        /// The phase it failed in.
        phase: Phase,
        /// The failure kind.
        kind: FailureKind,
        /// Status of the response, if one arrived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    /// A fault of the prober itself; no evidence about the target.
    #[serde(rename = "not_asked")]
    NotProbed {
        /// The fault that prevented the probe.
        #[serde(rename = "own")]
        fault: OwnFault,
    },
}

impl Outcome {
    /// Whether the target or its path failed.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_label_and_reads_back() {
        let labels: std::collections::BTreeSet<_> = FailureKind::ALL.iter().map(FailureKind::label).collect();
        assert_eq!(labels.len(), FailureKind::ALL.len());
        for kind in FailureKind::ALL {
            let text = serde_json::to_string(kind).unwrap();
            assert_eq!(&serde_json::from_str::<FailureKind>(&text).unwrap(), kind);
            assert_eq!(kind.metric_label(), kind.label());
        }
    }

    #[test]
    fn a_kind_of_a_newer_prober_is_kept_bounded_and_counts_as_one_metric_label() {
        let kind: FailureKind = serde_json::from_str(r#""quic_\u001b[31mblocked""#).unwrap();
        assert_eq!(kind, FailureKind::Other("quic_31mblocked".into()));
        assert_eq!(kind.metric_label(), "other");
    }

    #[test]
    fn a_label_that_equals_a_known_one_once_sanitized_is_that_kind() {
        let kind: FailureKind = serde_json::from_str(r#""ref\u001bused""#).unwrap();
        assert_eq!(kind, FailureKind::Refused);
    }

    #[test]
    fn the_status_decides_the_http_class() {
        assert_eq!(FailureKind::Status.class(Some(503)), KindClass::Http5xx);
        assert_eq!(FailureKind::Status.class(Some(404)), KindClass::Http4xx);
    }
}
