//! Tries an alternative request after a failure: with a PROXY header, with plain HTTP, or with TLS.
//!
//! It costs one more connection, and only after failures for which the result confirms a likely reason.

use std::net::SocketAddr;

use parallax_model::{FailureKind, HttpProbe, Outcome, Phase, ProbeSpec, ProxyHeader, Scheme, TcpProbe};
use parallax_prober::ProbeContext;

use super::{
    round_options::RoundOptions,
    subject::{CheckAction, CheckSubject},
};

/// The status that servers send for a request that they do not understand.
const BAD_REQUEST: u16 = 400;

/// The alternative request that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AlternativeAnswer {
    /// The same request after a PROXY header.
    WithProxyHeader,
    /// A plain HTTP request, answered with this status.
    PlainHttp(u16),
    /// A TLS handshake.
    Tls,
}

impl RoundOptions {
    /// Tries the alternative requests that the failure suggests, and returns the first that succeeds.
    pub(super) async fn try_alternatives(
        &self,
        subject: &CheckSubject,
        address: SocketAddr,
        outcome: &Outcome,
        context: &ProbeContext,
    ) -> Option<AlternativeAnswer> {
        // They would be made at the proxy.
        if subject.proxy().is_some() {
            return None;
        }
        let ways = match outcome {
            Outcome::Failed { phase, kind, status } => {
                alternatives_for(&subject.action, *phase, kind, *status)
            }
            // A success by default, but also the response of a server that expects another protocol.
            Outcome::Ok {
                status: Some(BAD_REQUEST),
            } => alternatives_for(
                &subject.action,
                Phase::Check,
                &FailureKind::Status,
                Some(BAD_REQUEST),
            ),
            _ => return None,
        };
        for way in ways {
            if let Some(answers) = self.try_alternative(way, &subject.action, address, context).await {
                return Some(answers);
            }
        }
        None
    }

    async fn try_alternative(
        &self,
        way: AlternativeRequest,
        action: &CheckAction,
        address: SocketAddr,
        context: &ProbeContext,
    ) -> Option<AlternativeAnswer> {
        let (probe, answers) = match (way, action) {
            (AlternativeRequest::ProxyHeader, CheckAction::Http(probe)) => {
                let probe = HttpProbe {
                    proxy_header: Some(ProxyHeader::Tcp),
                    ..probe.clone()
                };
                (ProbeSpec::Http(probe), AlternativeAnswer::WithProxyHeader)
            }
            (AlternativeRequest::ProxyHeader, CheckAction::Stream(probe)) => {
                let probe = TcpProbe {
                    proxy_header: Some(ProxyHeader::Tcp),
                    ..probe.clone()
                };
                (ProbeSpec::Tcp(probe), AlternativeAnswer::WithProxyHeader)
            }
            (AlternativeRequest::PlainHttp, CheckAction::Http(probe)) => {
                let probe = HttpProbe::get(Scheme::Http, probe.host.clone(), probe.port, probe.path.clone());
                (ProbeSpec::Http(probe), AlternativeAnswer::PlainHttp(0))
            }
            (AlternativeRequest::PlainHttp, CheckAction::Stream(probe)) => {
                let probe = HttpProbe::get(Scheme::Http, probe.host.clone(), probe.port, "/".to_owned());
                (ProbeSpec::Http(probe), AlternativeAnswer::PlainHttp(0))
            }
            (AlternativeRequest::Tls, CheckAction::Http(HttpProbe { host, port, .. })) => {
                let probe = TcpProbe {
                    tls: true,
                    accept_invalid_certificate: true,
                    ..TcpProbe::connect(host.clone(), *port)
                };
                (ProbeSpec::Tcp(probe), AlternativeAnswer::Tls)
            }
            _ => return None,
        };
        let result = self.probe(probe, address, context).await;
        let status = result.answer.map(|answer| answer.status);
        match (answers, status) {
            (AlternativeAnswer::PlainHttp(_), status) => status.map(AlternativeAnswer::PlainHttp),
            (AlternativeAnswer::WithProxyHeader, Some(status)) => (status != BAD_REQUEST).then_some(answers),
            _ => matches!(result.outcome, Outcome::Ok { .. }).then_some(answers),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlternativeRequest {
    ProxyHeader,
    PlainHttp,
    Tls,
}

fn alternatives_for(
    action: &CheckAction,
    phase: Phase,
    kind: &FailureKind,
    status: Option<u16>,
) -> Vec<AlternativeRequest> {
    let (tls, announced) = match action {
        CheckAction::Http(probe) => (probe.scheme == Scheme::Https, probe.proxy_header.is_some()),
        CheckAction::Stream(probe) => (probe.tls, probe.proxy_header.is_some()),
        CheckAction::Name(_) => return Vec::new(),
    };
    let plain_http = matches!(action, CheckAction::Http(_)) && !tls;
    let silent = matches!(kind, FailureKind::Eof | FailureKind::Reset) && phase > Phase::Connect;
    let mut ways = Vec::new();
    if (silent || (plain_http && status == Some(BAD_REQUEST))) && !announced {
        ways.push(AlternativeRequest::ProxyHeader);
    }
    if tls && (*kind == FailureKind::NotTls || (silent && phase == Phase::Tls)) {
        ways.push(AlternativeRequest::PlainHttp);
    }
    if plain_http && (silent || *kind == FailureKind::Malformed || status == Some(BAD_REQUEST)) {
        ways.push(AlternativeRequest::Tls);
    }
    ways
}

/// Returns the confirmed reason, or else the usual one.
pub(super) fn port_speaks(found: Option<AlternativeAnswer>, usual: &str) -> String {
    found.map_or_else(|| usual.to_owned(), AlternativeAnswer::confirmed_reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(scheme: Scheme) -> CheckAction {
        CheckAction::Http(HttpProbe::get(
            scheme,
            "a.test".parse().unwrap(),
            80,
            "/".to_owned(),
        ))
    }

    #[test]
    fn only_suggestive_failures_cost_a_second_connection() {
        use FailureKind as K;
        for (action, phase, kind, status, expected) in [
            (
                http(Scheme::Http),
                Phase::FirstByte,
                K::Eof,
                None,
                &[AlternativeRequest::ProxyHeader, AlternativeRequest::Tls][..],
            ),
            (
                http(Scheme::Http),
                Phase::FirstByte,
                K::Malformed,
                None,
                &[AlternativeRequest::Tls],
            ),
            (
                http(Scheme::Http),
                Phase::Check,
                K::Status,
                Some(BAD_REQUEST),
                &[AlternativeRequest::ProxyHeader, AlternativeRequest::Tls],
            ),
            (
                http(Scheme::Https),
                Phase::Tls,
                K::NotTls,
                None,
                &[AlternativeRequest::PlainHttp],
            ),
            (
                http(Scheme::Https),
                Phase::Tls,
                K::Reset,
                None,
                &[AlternativeRequest::ProxyHeader, AlternativeRequest::PlainHttp],
            ),
            (http(Scheme::Http), Phase::Connect, K::Refused, None, &[]),
            (http(Scheme::Http), Phase::Connect, K::Reset, None, &[]),
            (http(Scheme::Http), Phase::Check, K::Status, Some(503), &[]),
        ] {
            assert_eq!(
                alternatives_for(&action, phase, &kind, status),
                expected,
                "{kind} in {phase}"
            );
        }
    }
}
