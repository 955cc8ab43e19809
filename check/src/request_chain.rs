//! Probes one address and follows its redirects. Each request is a separate probe with its own phase times.

use std::{net::SocketAddr, time::Duration};

use parallax_model::{
    Assignment, AssignmentId, Channel, DialAddress, FailureKind, HostName, HttpProbe, Micros, Outcome, Phase,
    ProbeSpec, Scheme, TargetId, TcpProbe,
};
use parallax_prober::{FamilyAnswer, ProbeContext, ProbeResult, run};
use url::Url;

use super::{names::NameLookup, round_options::RoundOptions};

/// Maximum number of redirects followed.
const MAX_REDIRECTS: usize = 10;

/// Statuses that redirect a client.
const REDIRECT_STATUSES: &[u16] = &[301, 302, 303, 307, 308];

/// One request and its result.
#[derive(Debug, Clone)]
pub(super) struct RedirectLeg {
    pub(super) url: String,
    pub(super) result: ProbeResult,
}

/// The requests from the first one to the final result.
#[derive(Debug)]
pub(super) struct RedirectChain {
    pub(super) requests: Vec<RedirectLeg>,
    pub(super) outcome: Outcome,
    pub(super) detail: Option<String>,
    pub(super) final_url: String,
}

/// The request that follows a response.
enum NextRequest {
    Done,
    Follow(Url),
    Refused(FailureKind, String),
}

impl RoundOptions {
    pub(super) async fn probe_stream(
        &self,
        url: &str,
        probe: &TcpProbe,
        address: SocketAddr,
        context: &ProbeContext,
    ) -> RedirectChain {
        let result = self.probe(ProbeSpec::Tcp(probe.clone()), address, context).await;
        RedirectChain {
            outcome: result.outcome.clone(),
            detail: result.detail.clone(),
            final_url: url.to_owned(),
            requests: vec![RedirectLeg {
                url: url.to_owned(),
                result,
            }],
        }
    }

    pub(super) async fn follow_http(
        &self,
        url: &str,
        probe: &HttpProbe,
        address: SocketAddr,
        context: &ProbeContext,
    ) -> RedirectChain {
        let mut walked = RedirectChain {
            requests: Vec::new(),
            outcome: Outcome::Ok { status: None },
            detail: None,
            final_url: url.to_owned(),
        };
        let (mut probe, mut address) = (probe.clone(), address);
        loop {
            let result = self.probe(ProbeSpec::Http(probe.clone()), address, context).await;
            walked.outcome = result.outcome.clone();
            walked.detail.clone_from(&result.detail);
            let url = walked.final_url.clone();
            walked.requests.push(RedirectLeg { url, result });
            let next = if self.follow {
                next_request(&walked.requests)
            } else {
                NextRequest::Done
            };
            let to = match next {
                NextRequest::Done => return walked,
                NextRequest::Refused(kind, reason) => {
                    walked.outcome = failed(Phase::Check, kind, walked.status());
                    walked.detail = Some(reason);
                    return walked;
                }
                NextRequest::Follow(to) => to,
            };
            walked.final_url = to.to_string();
            let from = (probe.host.clone(), probe.port);
            let scheme = probe.scheme;
            if let Err(reason) = retarget(&mut probe, &to) {
                walked.outcome = failed(Phase::Check, FailureKind::RedirectRefused, walked.status());
                walked.detail = Some(reason);
                return walked;
            }
            if (scheme, &from.0, from.1) != (probe.scheme, &probe.host, probe.port) {
                drop_access(&mut probe);
            }
            match self.next_address(&probe, from, address, context).await {
                Ok(next) => address = next,
                Err((outcome, detail)) => {
                    walked.outcome = outcome;
                    walked.detail = detail;
                    return walked;
                }
            }
        }
    }

    /// Returns the address for the next request: the same one for the same host; another host is resolved, with a
    /// preference for the same address family.
    async fn next_address(
        &self,
        probe: &HttpProbe,
        (host, port): (HostName, u16),
        mut address: SocketAddr,
        context: &ProbeContext,
    ) -> Result<SocketAddr, (Outcome, Option<String>)> {
        if probe.proxy.is_some() {
            return Ok(address);
        }
        if host == probe.host {
            if port != probe.port {
                address.set_port(probe.port);
            }
            return Ok(address);
        }
        let found = NameLookup::query(probe.host.as_str(), &self.whom, context, self.timeout).await;
        let addresses = found.effective_addresses();
        let same = addresses
            .iter()
            .find(|other| other.is_ipv4() == address.is_ipv4());
        match same.or(addresses.first()) {
            Some(ip) => Ok(SocketAddr::new(*ip, probe.port)),
            None => Err(match found.failure() {
                Some(FamilyAnswer::NotQueried { own, detail }) => (Outcome::NotProbed { fault: own }, detail),
                Some(FamilyAnswer::Failed { kind, detail }) => (failed(Phase::Resolve, kind, None), detail),
                _ => (failed(Phase::Resolve, FailureKind::NoAddress, None), None),
            }),
        }
    }

    /// Probes one address.
    pub(super) async fn probe(
        &self,
        probe: ProbeSpec,
        address: SocketAddr,
        context: &ProbeContext,
    ) -> ProbeResult {
        run(&assignment(probe, address, self.timeout), context).await
    }
}

impl RedirectChain {
    fn status(&self) -> Option<u16> {
        Some(self.requests.last()?.result.answer.as_ref()?.status)
    }
}

fn failed(phase: Phase, kind: FailureKind, status: Option<u16>) -> Outcome {
    Outcome::Failed { phase, kind, status }
}

/// Returns the request that follows the last one. A complete response with a redirect status is followed whatever
/// status is expected: the expectation applies to the last response only.
fn next_request(legs: &[RedirectLeg]) -> NextRequest {
    let Some(leg) = legs.last() else {
        return NextRequest::Done;
    };
    let whole = match &leg.result.outcome {
        Outcome::Ok { .. } => true,
        Outcome::Failed { phase, .. } => *phase == Phase::Check,
        Outcome::NotProbed { .. } => false,
    };
    let Some(answer) = leg.result.answer.as_ref().filter(|_| whole) else {
        return NextRequest::Done;
    };
    let Some(location) = answer
        .location
        .as_ref()
        .filter(|_| REDIRECT_STATUSES.contains(&answer.status))
    else {
        return NextRequest::Done;
    };
    let Ok(mut to) = Url::parse(&leg.url).and_then(|base| base.join(location)) else {
        return NextRequest::Refused(
            FailureKind::RedirectRefused,
            "the Location header is not a valid URL".to_owned(),
        );
    };
    to.set_fragment(None);
    if legs.len() > MAX_REDIRECTS {
        return NextRequest::Refused(
            FailureKind::RedirectTooMany,
            format!("at most {MAX_REDIRECTS} are followed"),
        );
    }
    if legs.iter().any(|seen| seen.url == to.as_str()) {
        return NextRequest::Refused(FailureKind::RedirectLoop, format!("back to {to}"));
    }
    NextRequest::Follow(to)
}

/// Points a probe at the URL of a redirect. The error says why the URL is not followed.
fn retarget(probe: &mut HttpProbe, to: &Url) -> Result<(), String> {
    probe.scheme = match to.scheme() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => return Err(format!("redirected to the unsupported scheme {other}")),
    };
    let host = to.host_str().unwrap_or_default().trim_matches(['[', ']']);
    probe.host = HostName::new(host).map_err(|wrong| format!("redirected to an unusable host: {wrong}"))?;
    probe.port = to.port_or_known_default().unwrap_or_default();
    probe.path = match to.query() {
        Some(query) => format!("{}?{query}", to.path()),
        None => to.path().to_owned(),
    };
    Ok(())
}

/// Leaves out what is meant for the origin of the URL only.
fn drop_access(probe: &mut HttpProbe) {
    probe.request_headers.clear();
    probe.credential = None;
    probe.client_certificate = None;
}

/// Returns an assignment for a single probe outside of any plan.
fn assignment(probe: ProbeSpec, address: SocketAddr, timeout: Duration) -> Assignment {
    // Names must not contain white space, and this constant contains none.
    let name = |text: &str| (AssignmentId::new(text), TargetId::new(text));
    let (Ok(id), Ok(target)) = name("check") else {
        unreachable!("\"check\" is a name");
    };
    Assignment {
        id,
        target,
        channel: Channel::Vip,
        probe,
        dial: DialAddress::Address(address),
        entry: None,
        peer: None,
        interval: Micros::from_secs(1),
        timeout: timeout.into(),
    }
}
