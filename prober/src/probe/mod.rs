//! One probe: resolve → connect → PROXY header → tls → request → first byte → body → check, under one absolute deadline.
//!
//! The result is filled as the probe goes, so that a failure still carries what was learnt before it.

mod challenge;
mod check;
mod dns;
mod echo;
mod http;
mod leg;
mod names;
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

use self::leg::{ConnectionLeg, ConnectionOpening};
use crate::{
    classify::{EarlyEnd, FailureOrigin},
    clock::Deadline,
    connect::Stream,
    context::ProbeContext,
    http::Exchange,
    phase_timer::PhaseTimer,
    result::{AnswerFacts, ProbeResult},
    text::tamed,
};

/// Response header in which a backend may name its own pod; opt-in, and the only way a probe through a virtual
/// address learns who answered. A list, should other spellings ever be agreed on.
pub const SERVED_BY_HEADERS: &[&str] = &["parallax-pod"];

/// Makes one probe. Never fails itself: whatever happens is the result's outcome. Dropping the future closes the
/// socket.
pub async fn run(assignment: &Assignment, context: &ProbeContext) -> ProbeResult {
    let start = Instant::now();
    let mut probe = Probe {
        context,
        channel: assignment.channel,
        deadline: Deadline::after(start, assignment.timeout.into()),
        search: assignment.probe.search(),
        scope: assignment.probe.scope(),
        laps: PhaseTimer::start(),
        result: ProbeResult::begin(assignment, context.clock.at(start)),
    };
    let ended = match &assignment.probe {
        ProbeSpec::Http(spec) => probe.http(assignment.dial, spec).await,
        ProbeSpec::Tcp(spec) => probe.tcp(assignment.dial, spec).await,
        ProbeSpec::Dns(spec) => probe.dns(spec).await.map(|()| None),
        ProbeSpec::Echo { nonce, size } => probe.echo(assignment, nonce, *size).await,
        // Boxed: the largest of them by far, and not counted in microseconds.
        ProbeSpec::Challenge(spec) => Box::pin(probe.challenge(spec, assignment.timeout.into())).await,
        ProbeSpec::Names(spec) => Box::pin(probe.names(spec)).await,
    };
    // What is not booked yet belongs to the phase it ended in.
    match &ended {
        Ok(_) if checked(&assignment.probe) => probe.laps.book(Phase::Check),
        Err(EndedProbe { stop, .. })
            if matches!(stop.fault, FailureOrigin::Target(_)) && timed(&assignment.probe) =>
        {
            probe.laps.book(stop.phase);
        }
        _ => {}
    }
    let mut result = probe.result;
    let told = result.times.total;
    result.times = probe.laps.finished();
    // Another client's fetches have told their time themselves.
    result.times.total = told.or(result.times.total);
    result.outcome = match ended {
        Ok(status) => Outcome::Ok { status },
        Err(EndedProbe { stop, status }) => {
            result.detail = stop.detail.as_deref().map(tamed);
            stop.outcome(status)
        }
    };
    result
}

/// Whether a success of this probe is one because an answer was held against something.
fn checked(probe: &ProbeSpec) -> bool {
    match probe {
        ProbeSpec::Http(_) | ProbeSpec::Echo { .. } => true,
        ProbeSpec::Tcp(tcp) => tcp.expect.is_some(),
        ProbeSpec::Dns(_) | ProbeSpec::Challenge(_) | ProbeSpec::Names(_) => false,
    }
}

/// Whether the phases of this probe have times of their own. Another client's fetch has its total alone.
const fn timed(probe: &ProbeSpec) -> bool {
    !matches!(probe, ProbeSpec::Challenge(_))
}

/// The certificates that a target's own settings trust.
fn trusted(roots: Option<&RootCertificates>) -> &[CertificateDer<'static>] {
    roots.map_or(&[], RootCertificates::certificates)
}

/// A probe that ended before its end.
struct EndedProbe {
    stop: EarlyEnd,
    status: Option<u16>,
}

impl From<EarlyEnd> for EndedProbe {
    fn from(stop: EarlyEnd) -> Self {
        Self { stop, status: None }
    }
}

struct Probe<'a> {
    context: &'a ProbeContext,
    channel: Channel,
    deadline: Deadline,
    search: SearchManner,
    scope: Option<&'a Scope>,
    laps: PhaseTimer,
    result: ProbeResult,
}

impl Probe<'_> {
    /// The address to connect to: the forced one, or the first the name resolves to. One address a probe: a dead one
    /// is never hidden behind a live one.
    async fn address(&mut self, dial: DialAddress, host: &str, port: u16) -> Result<SocketAddr, EarlyEnd> {
        self.laps.set_out();
        match dial {
            DialAddress::Address(address) => Ok(address),
            DialAddress::Resolve => Ok(SocketAddr::new(self.resolve(host).await?, port)),
        }
    }

    /// Opens a connection; its phases add to those of connections before it.
    async fn open(
        &mut self,
        address: SocketAddr,
        opening: ConnectionOpening<'_>,
    ) -> Result<Stream, EarlyEnd> {
        // The one place where connections begin: whatever name or redirect led here. Nothing else about the address is
        // said or asked (no TTL evidence either).
        if let Some(why) = self.scope.and_then(|scope| scope.refuses(address.ip())) {
            return Err(
                EarlyEnd::new(Phase::Connect, OwnFault::OutOfScope).because(format!(
                    "{} is {}, which may not be asked for",
                    address.ip(),
                    why.words()
                )),
            );
        }
        self.result.front = Some(Front::tcp(address));
        let mut leg = ConnectionLeg::default();
        let opened = leg
            .open(self.context, address, opening, self.deadline, &mut self.laps)
            .await;
        if leg.tls.is_some() {
            self.result.tls = leg.tls;
        }
        opened
    }

    async fn resolve(&mut self, host: &str) -> Result<IpAddr, EarlyEnd> {
        let resolver = &self.context.resolver;
        let found = resolver.lookup(host, self.search, self.deadline).await;
        let (answer, first) = match found {
            Ok(name) => {
                let none = EarlyEnd::new(Phase::Resolve, FailureKind::NoAddress);
                (name.answer, name.addresses.first().copied().ok_or(none))
            }
            Err(nowhere) => (nowhere.answer.map(|answer| *answer), Err(nowhere.stop)),
        };
        // A literal address has no resolve phase to time.
        if answer.is_some() || first.is_err() {
            self.laps.book(Phase::Resolve);
        }
        // What the target's own name resolved to; a redirect's host is another subject.
        if self.result.dns.is_none() {
            self.result.dns = answer;
        }
        first
    }

    /// The channel `proxied` is approached with a header, whether or not the probe names one.
    fn proxy_header(&self, asked: Option<ProxyHeader>) -> Option<ProxyHeader> {
        asked.or_else(|| (self.channel == Channel::Proxied).then_some(ProxyHeader::Tcp))
    }

    /// The head of an exchange that came to its end.
    fn finish<'e>(&mut self, exchange: &'e Exchange) -> Result<&'e ::http::response::Parts, EndedProbe> {
        self.result.answer = exchange
            .head
            .as_ref()
            .map(|head| AnswerFacts::of(head, exchange.read));
        if let Some(pod) = exchange.head.as_ref().and_then(served_by) {
            self.result.entry = Some(pod);
        }
        match (&exchange.stop, &exchange.head) {
            (Some(stop), _) => Err(EndedProbe {
                stop: stop.clone(),
                status: exchange.status(),
            }),
            (None, Some(head)) => Ok(head),
            (None, None) => Err(EarlyEnd::new(Phase::FirstByte, FailureKind::Eof).into()),
        }
    }
}

fn served_by(head: &::http::response::Parts) -> Option<PodName> {
    SERVED_BY_HEADERS
        .iter()
        .filter_map(|name| head.headers.get(*name))
        .filter_map(|value| value.to_str().ok())
        // A Kubernetes name has at most 253 characters.
        .filter(|pod| pod.len() <= 253)
        .find_map(|pod| pod.parse().ok())
}
