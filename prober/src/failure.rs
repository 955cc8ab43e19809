//! Maps errors of the kernel and of libraries to the closed list of failure kinds.
//!
//! Faults of the prober are [`FailureOrigin::Own`] and never count against a target.

use std::{error::Error as _, io};

use parallax_model::{FailureKind, Outcome, OwnFault, Phase};
use rustls::{CertificateError, InvalidMessage};

/// The origin of the failure that ended a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FailureOrigin {
    /// The target's side.
    Target(FailureKind),
    /// The prober or its machine.
    Own(OwnFault),
}

impl From<FailureKind> for FailureOrigin {
    fn from(kind: FailureKind) -> Self {
        Self::Target(kind)
    }
}

impl From<OwnFault> for FailureOrigin {
    fn from(own: OwnFault) -> Self {
        Self::Own(own)
    }
}

/// The phase in which a probe ended early, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EarlyEnd {
    pub(crate) phase: Phase,
    pub(crate) origin: FailureOrigin,
    /// The error text of a library or the kernel, for people.
    pub(crate) detail: Option<String>,
    /// Status of the response that caused it, if it is not that of the target.
    pub(crate) status: Option<u16>,
}

impl EarlyEnd {
    pub(crate) fn new(phase: Phase, fault: impl Into<FailureOrigin>) -> Self {
        Self {
            phase,
            origin: fault.into(),
            detail: None,
            status: None,
        }
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn timeout(phase: Phase) -> Self {
        Self::new(phase, timeout_kind(phase))
    }

    pub(crate) fn io(phase: Phase, error: &io::Error) -> Self {
        Self::new(phase, classify_io(error, phase)).with_detail(error.to_string())
    }

    pub(crate) fn outcome(self, status: Option<u16>) -> Outcome {
        match self.origin {
            FailureOrigin::Target(kind) => Outcome::Failed {
                phase: self.phase,
                kind,
                status,
            },
            FailureOrigin::Own(own) => Outcome::NotProbed { fault: own },
        }
    }
}

/// The failure kind of a timeout in a phase.
pub(crate) const fn timeout_kind(phase: Phase) -> FailureKind {
    match phase {
        Phase::Resolve => FailureKind::ResolveTimeout,
        Phase::Connect => FailureKind::ConnectTimeout,
        Phase::Tls => FailureKind::TlsTimeout,
        Phase::ProxyHeader | Phase::Request | Phase::FirstByte => FailureKind::FirstByteTimeout,
        Phase::Body | Phase::Check => FailureKind::BodyStalled,
    }
}

/// Classifies an I/O error in a phase. A rustls error is wrapped in an `io::Error`, so it is looked for first.
pub(crate) fn classify_io(error: &io::Error, phase: Phase) -> FailureOrigin {
    if let Some(tls) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        return classify_tls(tls);
    }
    if let Some(errno) = error.raw_os_error() {
        return classify_errno(errno, phase);
    }
    match error.kind() {
        io::ErrorKind::TimedOut => timeout_kind(phase).into(),
        _ => close_kind(phase).into(),
    }
}

/// The failure kind of an orderly close by the peer in a phase.
const fn close_kind(phase: Phase) -> FailureKind {
    match phase {
        Phase::Resolve => FailureKind::ResolverUnreachable,
        Phase::Body | Phase::Check => FailureKind::BodyCut,
        _ => FailureKind::Eof,
    }
}

/// Classifies an errno in a phase, after `connect(2)`, `ip(7)` and `tcp(7)`.
fn classify_errno(errno: i32, phase: Phase) -> FailureOrigin {
    let resolving = phase == Phase::Resolve;
    match errno {
        // EAGAIN from `connect` means that no local port is free.
        libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::EAGAIN => OwnFault::NoPort.into(),
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => OwnFault::NoResources.into(),
        libc::EAFNOSUPPORT => OwnFault::NoFamily.into(),
        libc::ETIMEDOUT => timeout_kind(phase).into(),
        _ if resolving => FailureKind::ResolverUnreachable.into(),
        libc::ECONNREFUSED => FailureKind::Refused.into(),
        libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN => {
            FailureKind::Unreachable.into()
        }
        libc::EACCES | libc::EPERM => FailureKind::Prohibited.into(),
        _ if matches!(phase, Phase::Body | Phase::Check) => FailureKind::BodyCut.into(),
        _ => FailureKind::Reset.into(),
    }
}

/// Classifies an error of the TLS library, in the handshake or later.
pub(crate) fn classify_tls(error: &rustls::Error) -> FailureOrigin {
    use rustls::Error;
    match error {
        Error::InvalidCertificate(certificate) => classify_certificate(certificate).into(),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => FailureKind::NotTls.into(),
        Error::AlertReceived(_) => FailureKind::TlsAlert.into(),
        Error::FailedToGetRandomBytes | Error::FailedToGetCurrentTime => OwnFault::NoResources.into(),
        _ => FailureKind::TlsProtocol.into(),
    }
}

fn classify_certificate(error: &CertificateError) -> FailureKind {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            FailureKind::CertificateExpired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            FailureKind::CertificateNotYetValid
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            FailureKind::CertificateWrongName
        }
        CertificateError::BadEncoding => FailureKind::TlsProtocol,
        // Unknown issuer, bad signature, revoked, CA used as leaf, wrong purpose: no trusted chain.
        _ => FailureKind::CertificateUntrusted,
    }
}

/// Classifies an error of hyper. `phase` is the phase that the exchange had reached; `answering` is set if a byte of
/// the response had arrived.
pub(crate) fn classify_http(error: &hyper::Error, phase: Phase, answering: bool) -> EarlyEnd {
    let detail = describe(error);
    let mut cause = error.source();
    while let Some(inner) = cause {
        let h2 = inner.downcast_ref::<h2::Error>();
        if let Some(kind) = h2.and_then(classify_h2) {
            let phase = if answering { Phase::Body } else { phase };
            return EarlyEnd::new(phase, kind).with_detail(detail);
        }
        if let Some(io) = h2
            .and_then(h2::Error::get_io)
            .or_else(|| inner.downcast_ref::<io::Error>())
        {
            // TLS 1.3 servers reject a missing client certificate only after the client's handshake has ended.
            let tls = io
                .get_ref()
                .is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>);
            let phase = match (tls, answering) {
                (true, false) => Phase::Tls,
                (_, true) => Phase::Body,
                (false, false) => phase,
            };
            return EarlyEnd::new(phase, classify_io(io, phase)).with_detail(detail);
        }
        cause = inner.source();
    }
    let stop = if error.is_parse() {
        EarlyEnd::new(phase, FailureKind::Malformed)
    } else if answering {
        EarlyEnd::new(Phase::Body, FailureKind::BodyCut)
    } else {
        EarlyEnd::new(phase, FailureKind::Eof)
    };
    stop.with_detail(detail)
}

/// Classifies what a peer did over HTTP/2, as opposed to an error of the underlying connection.
fn classify_h2(error: &h2::Error) -> Option<FailureKind> {
    if error.is_library() {
        // The library detected a violation of the protocol: frames out of bounds or out of order, or no frames at all.
        return Some(FailureKind::Malformed);
    }
    if error.is_go_away() {
        return Some(FailureKind::GoAway);
    }
    error.is_reset().then(|| {
        if error.reason() == Some(h2::Reason::REFUSED_STREAM) {
            FailureKind::StreamRefused
        } else {
            FailureKind::StreamReset
        }
    })
}

fn describe(error: &hyper::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno(code: i32, phase: Phase) -> FailureOrigin {
        classify_io(&io::Error::from_raw_os_error(code), phase)
    }

    #[test]
    fn every_errno_of_a_connect_has_its_own_kind() {
        for (code, fault) in [
            (libc::ECONNREFUSED, FailureKind::Refused.into()),
            (libc::ECONNRESET, FailureKind::Reset.into()),
            (libc::EHOSTUNREACH, FailureKind::Unreachable.into()),
            (libc::ENETUNREACH, FailureKind::Unreachable.into()),
            (libc::EPERM, FailureKind::Prohibited.into()),
            (libc::EACCES, FailureKind::Prohibited.into()),
            (libc::ETIMEDOUT, FailureKind::ConnectTimeout.into()),
            (libc::EADDRNOTAVAIL, OwnFault::NoPort.into()),
            (libc::EMFILE, OwnFault::NoResources.into()),
            (libc::EAFNOSUPPORT, OwnFault::NoFamily.into()),
        ] {
            assert_eq!(errno(code, Phase::Connect), fault, "errno {code}");
        }
    }

    #[test]
    fn the_same_errno_means_another_thing_in_another_phase() {
        assert_eq!(
            errno(libc::ECONNREFUSED, Phase::Resolve),
            FailureKind::ResolverUnreachable.into()
        );
        assert_eq!(errno(libc::ECONNRESET, Phase::Body), FailureKind::BodyCut.into());
        assert_eq!(
            errno(libc::ECONNRESET, Phase::FirstByte),
            FailureKind::Reset.into()
        );
    }

    #[test]
    fn a_tls_error_wrapped_in_an_io_error_is_still_a_tls_error() {
        let wrapped = io::Error::new(
            io::ErrorKind::InvalidData,
            rustls::Error::InvalidCertificate(CertificateError::Expired),
        );
        assert_eq!(
            classify_io(&wrapped, Phase::Tls),
            FailureKind::CertificateExpired.into()
        );
    }
}
