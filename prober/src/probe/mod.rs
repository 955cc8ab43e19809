//! One probe: resolve → connect → PROXY header → tls → request → first byte → body → check, under one absolute
//! deadline.
//!
//! The result is filled in phase by phase, so that a failure still contains what earlier phases showed.

mod access;
mod challenge;
mod connection;
mod dns;
mod echo;
mod expectations;
mod http;
mod names;
mod proxy;
mod tcp;

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use parallax_model::{
    Assignment, Channel, DialAddress, FailureKind, Front, Outcome, OwnFault, Phase, PodName, ProbeSpec,
    ProxyHeader, RootCertificates, Scope, SearchManner,
};
use rustls::pki_types::CertificateDer;

use self::connection::{ConnectionFacts, ConnectionOpening};
use crate::{
    clock::Deadline,
    connect::Stream,
    context::ProbeContext,
    failure::{EarlyEnd, FailureOrigin},
    http::Exchange,
    phase_timer::PhaseTimer,
    result::{AnswerFacts, ProbeResult},
    sanitize::sanitized,
};

/// Response headers in which a backend may name its own Pod. This is opt-in, and the only means by which a probe
/// through a virtual address learns which Pod responded.
pub const SERVED_BY_HEADERS: &[&str] = &["parallax-pod"];

/// Makes one probe. Never fails itself: every failure is the outcome of the result. Dropping the future closes the
/// socket.
pub async fn run(assignment: &Assignment, context: &ProbeContext) -> ProbeResult {
    let start = Instant::now();
    let mut probe = Probe {
        context,
        channel: assignment.channel,
        deadline: Deadline::after(start, assignment.timeout.into()),
        search: assignment.probe.search(),
        resolver: assignment.probe.resolver(),
        scope: assignment.probe.scope(),
        timer: PhaseTimer::start(),
        result: ProbeResult::new(assignment, context.clock.at(start)),
    };
    let ended = match &assignment.probe {
        ProbeSpec::Http(spec) => probe.http(assignment.dial, spec).await,
        ProbeSpec::Tcp(spec) => probe.tcp(assignment.dial, spec).await,
        ProbeSpec::Dns(spec) => probe.dns(spec).await.map(|()| None),
        ProbeSpec::Echo { nonce, size } => probe.echo(assignment, nonce, *size).await,
        // Boxed: by far the largest futures, and their times need no microsecond precision.
        ProbeSpec::Challenge(spec) => Box::pin(probe.challenge(spec, assignment.timeout.into())).await,
        ProbeSpec::Names(spec) => Box::pin(probe.names(spec)).await,
    };
    // Time that is not recorded yet belongs to the phase in which the probe ended.
    match &ended {
        Ok(_) if checks_response(&assignment.probe) => probe.timer.record(Phase::Check),
        Err(EndedProbe { failure: stop, .. })
            if matches!(stop.origin, FailureOrigin::Target(_)) && has_phase_times(&assignment.probe) =>
        {
            probe.timer.record(stop.phase);
        }
        _ => {}
    }
    let mut result = probe.result;
    let own_total = result.times.total;
    result.times = probe.timer.into_times();
    // A challenge measures the total of its fetches itself.
    result.times.total = own_total.or(result.times.total);
    result.outcome = match ended {
        Ok(status) => Outcome::Ok { status },
        Err(EndedProbe {
            failure: stop,
            status,
        }) => {
            result.detail = stop.detail.as_deref().map(sanitized);
            stop.outcome(status)
        }
    };
    result
}

/// Whether a success of this probe includes a check of the response.
fn checks_response(probe: &ProbeSpec) -> bool {
    match probe {
        ProbeSpec::Http(_) | ProbeSpec::Echo { .. } => true,
        ProbeSpec::Tcp(tcp) => tcp.expect.is_some(),
        ProbeSpec::Dns(_) | ProbeSpec::Challenge(_) | ProbeSpec::Names(_) => false,
    }
}

/// Whether the phases of this probe are timed. A challenge has only a total.
const fn has_phase_times(probe: &ProbeSpec) -> bool {
    !matches!(probe, ProbeSpec::Challenge(_))
}

/// The root certificates that the target's settings trust.
fn extra_roots(roots: Option<&RootCertificates>) -> &[CertificateDer<'static>] {
    roots.map_or(&[], RootCertificates::certificates)
}

/// A probe that ended early, with the status if a response arrived.
struct EndedProbe {
    failure: EarlyEnd,
    status: Option<u16>,
}

impl From<EarlyEnd> for EndedProbe {
    fn from(stop: EarlyEnd) -> Self {
        Self {
            status: stop.status,
            failure: stop,
        }
    }
}

struct Probe<'a> {
    context: &'a ProbeContext,
    channel: Channel,
    deadline: Deadline,
    search: SearchManner,
    /// The resolver to query instead of the machine's.
    resolver: Option<SocketAddr>,
    scope: Option<&'a Scope>,
    timer: PhaseTimer,
    result: ProbeResult,
}

impl Probe<'_> {
    /// Returns the address to connect to: the forced one, or the first to which the name resolves. A probe uses one
    /// address only, so that a working address never hides a dead one.
    async fn choose_address(
        &mut self,
        dial: DialAddress,
        host: &str,
        port: u16,
    ) -> Result<SocketAddr, EarlyEnd> {
        self.timer.restart_before_first_phase();
        match dial {
            DialAddress::Address(address) => Ok(address),
            DialAddress::Resolve => Ok(SocketAddr::new(self.resolve(host).await?, port)),
        }
    }

    /// Opens a connection. Its phase times are added to those of earlier connections of the probe.
    async fn open(
        &mut self,
        address: SocketAddr,
        opening: ConnectionOpening<'_>,
    ) -> Result<Stream, EarlyEnd> {
        // Every connection of a probe is opened here, whatever name or redirect led to it. Nothing else about a refused
        // address is reported or probed (no front, so no TTL evidence either).
        if let Some(range) = self.scope.and_then(|scope| scope.refusal(address.ip())) {
            return Err(
                EarlyEnd::new(Phase::Connect, OwnFault::OutOfScope).with_detail(format!(
                    "{} is {}, which must not be probed",
                    address.ip(),
                    range.description()
                )),
            );
        }
        self.result.front = Some(Front::tcp(address));
        let mut leg = ConnectionFacts::default();
        let opened = leg
            .open(self.context, address, opening, self.deadline, &mut self.timer)
            .await;
        if leg.tls.is_some() {
            self.result.tls = leg.tls;
        }
        opened
    }

    async fn resolve(&mut self, host: &str) -> Result<IpAddr, EarlyEnd> {
        let resolver = &self.context.resolver;
        let found = resolver
            .lookup(host, self.search, self.resolver, self.deadline)
            .await;
        let (answer, first) = match found {
            Ok(name) => {
                let none = EarlyEnd::new(Phase::Resolve, FailureKind::NoAddress);
                (name.answer, name.addresses.first().copied().ok_or(none))
            }
            Err(unresolved) => (unresolved.answer.map(|answer| *answer), Err(unresolved.stop)),
        };
        // A literal address has no resolve phase to time.
        if answer.is_some() || first.is_err() {
            self.timer.record(Phase::Resolve);
        }
        // The answer for the target's own name; the host of a redirect is another subject.
        if self.result.dns.is_none() {
            self.result.dns = answer;
        }
        first
    }

    /// The PROXY header to send: that of the probe, or the default for the channel `proxied`.
    fn proxy_header(&self, requested: Option<ProxyHeader>) -> Option<ProxyHeader> {
        requested.or_else(|| (self.channel == Channel::Proxied).then_some(ProxyHeader::Tcp))
    }

    /// Records the response of an exchange and returns its head, or the failure that ended the exchange.
    fn record_response<'e>(
        &mut self,
        exchange: &'e Exchange,
    ) -> Result<&'e ::http::response::Parts, EndedProbe> {
        self.result.answer = exchange
            .head
            .as_ref()
            .map(|head| AnswerFacts::from_head(head, exchange.bytes_read));
        if let Some(pod) = exchange.head.as_ref().and_then(responding_pod) {
            self.result.entry = Some(pod);
        }
        match (&exchange.failure, &exchange.head) {
            (Some(stop), _) => Err(EndedProbe {
                failure: stop.clone(),
                status: exchange.status(),
            }),
            (None, Some(head)) => Ok(head),
            (None, None) => Err(EarlyEnd::new(Phase::FirstByte, FailureKind::Eof).into()),
        }
    }
}

fn responding_pod(head: &::http::response::Parts) -> Option<PodName> {
    SERVED_BY_HEADERS
        .iter()
        .filter_map(|name| head.headers.get(*name))
        .filter_map(|value| value.to_str().ok())
        // A Kubernetes name has at most 253 characters.
        .filter(|pod| pod.len() <= 253)
        .find_map(|pod| pod.parse().ok())
}
