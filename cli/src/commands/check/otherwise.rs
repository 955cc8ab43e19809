//! A second look at an address that failed: whether it answers when spoken to in the way that is usually missed.
//!
//! One more connection after a failure whose two common reasons can be told apart by it: a guess becomes a finding.

use std::net::SocketAddr;

use parallax_model::{FailureKind, HttpProbe, Outcome, Phase, ProbeSpec, ProxyHeader, Scheme, TcpProbe};
use parallax_prober::Context;

use super::{
    round::How,
    subject::{Subject, What},
};

/// What servers answer to what they do not understand.
const BAD_REQUEST: u16 = 400;

/// How the address does answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// With a PROXY header before the first byte.
    WithProxyHeader,
    /// With plain HTTP, by this status.
    PlainHttp(u16),
    /// With a TLS handshake.
    Tls,
}

impl How {
    /// Speaks to the address in another way where its failure suggests one.
    pub(super) async fn otherwise(
        &self,
        subject: &Subject,
        address: SocketAddr,
        outcome: &Outcome,
        context: &Context,
    ) -> Option<Otherwise> {
        let ways = match outcome {
            Outcome::Failed { phase, kind, status } => ways(&subject.what, *phase, kind, *status),
            // By default an answer; and yet what a server says that was spoken to in the wrong way.
            Outcome::Ok {
                status: Some(BAD_REQUEST),
            } => ways(
                &subject.what,
                Phase::Check,
                &FailureKind::Status,
                Some(BAD_REQUEST),
            ),
            _ => return None,
        };
        for way in ways {
            if let Some(answers) = self.try_way(way, &subject.what, address, context).await {
                return Some(answers);
            }
        }
        None
    }

    async fn try_way(
        &self,
        way: Way,
        what: &What,
        address: SocketAddr,
        context: &Context,
    ) -> Option<Otherwise> {
        let (probe, answers) = match (way, what) {
            (Way::ProxyHeader, What::Http(probe)) => {
                let probe = HttpProbe {
                    proxy_header: Some(ProxyHeader::Tcp),
                    ..probe.clone()
                };
                (ProbeSpec::Http(probe), Otherwise::WithProxyHeader)
            }
            (Way::ProxyHeader, What::Stream(probe)) => {
                let probe = TcpProbe {
                    proxy_header: Some(ProxyHeader::Tcp),
                    ..probe.clone()
                };
                (ProbeSpec::Tcp(probe), Otherwise::WithProxyHeader)
            }
            (Way::PlainHttp, What::Http(probe)) => {
                let probe = HttpProbe::get(Scheme::Http, probe.host.clone(), probe.port, probe.path.clone());
                (ProbeSpec::Http(probe), Otherwise::PlainHttp(0))
            }
            (Way::PlainHttp, What::Stream(probe)) => {
                let probe = HttpProbe::get(Scheme::Http, probe.host.clone(), probe.port, "/".to_owned());
                (ProbeSpec::Http(probe), Otherwise::PlainHttp(0))
            }
            (Way::Tls, What::Http(HttpProbe { host, port, .. })) => {
                let probe = TcpProbe {
                    tls: true,
                    any_certificate: true,
                    ..TcpProbe::connect(host.clone(), *port)
                };
                (ProbeSpec::Tcp(probe), Otherwise::Tls)
            }
            _ => return None,
        };
        let result = self.probe(probe, address, context).await;
        let status = result.answer.map(|answer| answer.status);
        match (answers, status) {
            (Otherwise::PlainHttp(_), status) => status.map(Otherwise::PlainHttp),
            (Otherwise::WithProxyHeader, Some(status)) => (status != BAD_REQUEST).then_some(answers),
            _ => matches!(result.outcome, Outcome::Ok { .. }).then_some(answers),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ProxyHeader,
    PlainHttp,
    Tls,
}

fn ways(what: &What, phase: Phase, kind: &FailureKind, status: Option<u16>) -> Vec<Way> {
    let (tls, announced) = match what {
        What::Http(probe) => (probe.scheme == Scheme::Https, probe.proxy_header.is_some()),
        What::Stream(probe) => (probe.tls, probe.proxy_header.is_some()),
        What::Name(_) => return Vec::new(),
    };
    let plain_http = matches!(what, What::Http(_)) && !tls;
    let silent = matches!(kind, FailureKind::Eof | FailureKind::Reset) && phase > Phase::Connect;
    let mut ways = Vec::new();
    if (silent || (plain_http && status == Some(BAD_REQUEST))) && !announced {
        ways.push(Way::ProxyHeader);
    }
    if tls && (*kind == FailureKind::NotTls || (silent && phase == Phase::Tls)) {
        ways.push(Way::PlainHttp);
    }
    if plain_http && (silent || *kind == FailureKind::Malformed || status == Some(BAD_REQUEST)) {
        ways.push(Way::Tls);
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(scheme: Scheme) -> What {
        What::Http(HttpProbe::get(
            scheme,
            "a.test".parse().unwrap(),
            80,
            "/".to_owned(),
        ))
    }

    #[test]
    fn only_a_failure_that_another_way_could_explain_costs_a_second_connection() {
        use FailureKind as K;
        for (what, phase, kind, status, expected) in [
            (
                http(Scheme::Http),
                Phase::FirstByte,
                K::Eof,
                None,
                &[Way::ProxyHeader, Way::Tls][..],
            ),
            (
                http(Scheme::Http),
                Phase::FirstByte,
                K::Malformed,
                None,
                &[Way::Tls],
            ),
            (
                http(Scheme::Http),
                Phase::Check,
                K::Status,
                Some(BAD_REQUEST),
                &[Way::ProxyHeader, Way::Tls],
            ),
            (
                http(Scheme::Https),
                Phase::Tls,
                K::NotTls,
                None,
                &[Way::PlainHttp],
            ),
            (
                http(Scheme::Https),
                Phase::Tls,
                K::Reset,
                None,
                &[Way::ProxyHeader, Way::PlainHttp],
            ),
            (http(Scheme::Http), Phase::Connect, K::Refused, None, &[]),
            (http(Scheme::Http), Phase::Connect, K::Reset, None, &[]),
            (http(Scheme::Http), Phase::Check, K::Status, Some(503), &[]),
        ] {
            assert_eq!(ways(&what, phase, &kind, status), expected, "{kind} in {phase}");
        }
    }
}
