//! One address asked, and the redirects behind its answer followed: a probe of its own each, so that each has its times.

use std::{net::SocketAddr, time::Duration};

use parallax_model::{
    Assignment, AssignmentId, Channel, Dial, FailureKind, HostName, HttpProbe, Micros, Outcome, Phase,
    ProbeSpec, Scheme, TargetId, TcpProbe,
};
use parallax_prober::{Context, FamilyAnswer, ProbeResult, run};
use url::Url;

use super::{names::Lookup, round::How};

/// Most redirects followed.
const MOST_REDIRECTS: usize = 10;

/// Statuses that send a client elsewhere at once.
const REDIRECTS: &[u16] = &[301, 302, 303, 307, 308];

/// One request and its answer.
#[derive(Debug, Clone)]
pub(super) struct Leg {
    pub(super) url: String,
    pub(super) result: ProbeResult,
}

/// A way from the first request to what ended it.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) legs: Vec<Leg>,
    pub(super) outcome: Outcome,
    pub(super) detail: Option<String>,
    pub(super) at: String,
}

/// Where an answer leads.
enum Next {
    Nowhere,
    To(Url),
    Refused(FailureKind, String),
}

impl How {
    pub(super) async fn walk_stream(
        &self,
        url: &str,
        probe: &TcpProbe,
        address: SocketAddr,
        context: &Context,
    ) -> Walked {
        let result = self.probe(ProbeSpec::Tcp(probe.clone()), address, context).await;
        Walked {
            outcome: result.outcome.clone(),
            detail: result.detail.clone(),
            at: url.to_owned(),
            legs: vec![Leg {
                url: url.to_owned(),
                result,
            }],
        }
    }

    pub(super) async fn walk_http(
        &self,
        url: &str,
        probe: &HttpProbe,
        address: SocketAddr,
        context: &Context,
    ) -> Walked {
        let mut walked = Walked {
            legs: Vec::new(),
            outcome: Outcome::Ok { status: None },
            detail: None,
            at: url.to_owned(),
        };
        let (mut probe, mut address) = (probe.clone(), address);
        loop {
            let result = self.probe(ProbeSpec::Http(probe.clone()), address, context).await;
            walked.outcome = result.outcome.clone();
            walked.detail.clone_from(&result.detail);
            let url = walked.at.clone();
            walked.legs.push(Leg { url, result });
            let next = if self.follow {
                next(&walked.legs)
            } else {
                Next::Nowhere
            };
            let to = match next {
                Next::Nowhere => return walked,
                Next::Refused(kind, why) => {
                    walked.outcome = failed(Phase::Check, kind, walked.status());
                    walked.detail = Some(why);
                    return walked;
                }
                Next::To(to) => to,
            };
            walked.at = to.to_string();
            let from = (probe.host.clone(), probe.port);
            if let Err(why) = aim(&mut probe, &to) {
                walked.outcome = failed(Phase::Check, FailureKind::RedirectRefused, walked.status());
                walked.detail = Some(why);
                return walked;
            }
            match self.address_of_hop(&probe, from, address, context).await {
                Ok(next) => address = next,
                Err((outcome, detail)) => {
                    walked.outcome = outcome;
                    walked.detail = detail;
                    return walked;
                }
            }
        }
    }

    /// The same host stays at its address; another one is resolved, and the same family preferred.
    async fn address_of_hop(
        &self,
        probe: &HttpProbe,
        (host, port): (HostName, u16),
        mut address: SocketAddr,
        context: &Context,
    ) -> Result<SocketAddr, (Outcome, Option<String>)> {
        if host == probe.host {
            if port != probe.port {
                address.set_port(probe.port);
            }
            return Ok(address);
        }
        let found = Lookup::ask(probe.host.as_str(), &self.whom, context, self.timeout).await;
        let addresses = found.used_by_programs();
        let same = addresses
            .iter()
            .find(|other| other.is_ipv4() == address.is_ipv4());
        match same.or(addresses.first()) {
            Some(ip) => Ok(SocketAddr::new(*ip, probe.port)),
            None => Err(match found.failure() {
                Some(FamilyAnswer::NotAsked { own, detail }) => (Outcome::NotAsked { own }, detail),
                Some(FamilyAnswer::Failed { kind, detail }) => (failed(Phase::Resolve, kind, None), detail),
                _ => (failed(Phase::Resolve, FailureKind::NoAddress, None), None),
            }),
        }
    }

    /// One probe of one address.
    pub(super) async fn probe(
        &self,
        probe: ProbeSpec,
        address: SocketAddr,
        context: &Context,
    ) -> ProbeResult {
        run(&assignment(probe, address, self.timeout), context).await
    }
}

impl Walked {
    fn status(&self) -> Option<u16> {
        Some(self.legs.last()?.result.answer.as_ref()?.status)
    }
}

fn failed(phase: Phase, kind: FailureKind, status: Option<u16>) -> Outcome {
    Outcome::Failed { phase, kind, status }
}

/// A whole answer with a redirect's status leads on, whatever status was expected: that is held against the last one.
fn next(legs: &[Leg]) -> Next {
    let Some(leg) = legs.last() else {
        return Next::Nowhere;
    };
    let whole = match &leg.result.outcome {
        Outcome::Ok { .. } => true,
        Outcome::Failed { phase, .. } => *phase == Phase::Check,
        Outcome::NotAsked { .. } => false,
    };
    let Some(answer) = leg.result.answer.as_ref().filter(|_| whole) else {
        return Next::Nowhere;
    };
    let Some(location) = answer
        .location
        .as_ref()
        .filter(|_| REDIRECTS.contains(&answer.status))
    else {
        return Next::Nowhere;
    };
    let Ok(mut to) = Url::parse(&leg.url).and_then(|base| base.join(location)) else {
        return Next::Refused(FailureKind::RedirectRefused, "the Location is no URL".to_owned());
    };
    to.set_fragment(None);
    if legs.len() > MOST_REDIRECTS {
        return Next::Refused(
            FailureKind::RedirectTooMany,
            format!("at most {MOST_REDIRECTS} are followed"),
        );
    }
    if legs.iter().any(|seen| seen.url == to.as_str()) {
        return Next::Refused(FailureKind::RedirectLoop, format!("back to {to}"));
    }
    Next::To(to)
}

/// Turns a probe to another URL of HTTP.
fn aim(probe: &mut HttpProbe, to: &Url) -> Result<(), String> {
    probe.scheme = match to.scheme() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => return Err(format!("redirected to the scheme {other}")),
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

/// A probe of a plan that has only this one.
fn assignment(probe: ProbeSpec, address: SocketAddr, timeout: Duration) -> Assignment {
    // Both are constants without white space, which is all that a name demands.
    let name = |text: &str| (AssignmentId::new(text), TargetId::new(text));
    let (Ok(id), Ok(target)) = name("check") else {
        unreachable!("\"check\" is a name");
    };
    Assignment {
        id,
        target,
        channel: Channel::Vip,
        probe,
        dial: Dial::Address(address),
        entry: None,
        peer: None,
        interval: Micros::from_secs(1),
        timeout: timeout.into(),
    }
}
