//! One probe: resolve → connect → tls → request → first byte → body → check, under one absolute deadline.
//!
//! The result is filled as the probe goes, so that a failure still carries what was learnt before it.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Instant,
};

use parallax_model::{
    Assignment, Dial, DnsProbe, ECHO_NONCE_HEADER, ECHO_PATH, EchoIdentity, FailureKind, Front, HttpProbe,
    Micros, Outcome, OwnFault, Phase, PodName, ProbeSpec, Scheme, TargetId,
};
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use url::Url;

use crate::{
    classify::Stop,
    clock::{Clock, Deadline},
    connect,
    http::{self, Exchange},
    resolve::{self, Resolver},
    result::{ProbeResult, tamed},
    tls::Tls,
};

/// Response header in which a backend may name its own pod; opt-in, and the only way a probe through a virtual
/// address learns who answered. A list, should other spellings ever be agreed on.
pub const SERVED_BY_HEADERS: &[&str] = &["parallax-pod"];

/// What all probes of a process share.
#[derive(Debug)]
pub struct Context {
    pub(crate) clock: Clock,
    pub(crate) resolver: Resolver,
    pub(crate) tls: Tls,
}

impl Context {
    /// Starts the clock, follows a resolv.conf and loads the roots of this machine; the extra ones are trusted too.
    #[must_use]
    pub fn new(resolv_conf: PathBuf, extra_roots: &[CertificateDer<'static>]) -> Self {
        Self {
            clock: Clock::start(),
            resolver: Resolver::new(resolv_conf),
            tls: Tls::with_native_roots(extra_roots),
        }
    }

    /// As [`Context::new`], with a given set of roots instead of the machine's.
    #[must_use]
    pub fn with_tls(resolv_conf: PathBuf, tls: Tls) -> Self {
        Self {
            clock: Clock::start(),
            resolver: Resolver::new(resolv_conf),
            tls,
        }
    }

    /// The clock of [`ProbeResult::at`].
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }
}

/// Makes one probe. Never fails itself: whatever happens is the result's outcome. Dropping the future closes the
/// socket.
pub async fn run(assignment: &Assignment, context: &Context) -> ProbeResult {
    let start = Instant::now();
    let mut probe = Probe {
        context,
        deadline: Deadline::after(start, assignment.timeout.into()),
        result: ProbeResult::begin(assignment, context.clock.at(start)),
    };
    let ended = match &assignment.probe {
        ProbeSpec::Http(spec) => probe.http(assignment.dial, spec).await,
        ProbeSpec::Tcp(spec) => probe
            .connect(assignment.dial, spec.host.as_str(), spec.port)
            .await
            .map(|_| None),
        ProbeSpec::Dns(spec) => probe.dns(spec).await.map(|()| None),
        ProbeSpec::Echo { nonce } => probe.echo(assignment, nonce).await,
    };
    let mut result = probe.result;
    result.outcome = match ended {
        Ok(status) => Outcome::Ok { status },
        Err(Ended { stop, status }) => {
            result.detail = stop.detail.as_deref().map(tamed);
            stop.outcome(status)
        }
    };
    result.times.total = Some(start.elapsed().into());
    result
}

/// A probe that ended before its end.
struct Ended {
    stop: Stop,
    status: Option<u16>,
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        Self { stop, status: None }
    }
}

struct Probe<'a> {
    context: &'a Context,
    deadline: Deadline,
    result: ProbeResult,
}

impl Probe<'_> {
    async fn http(&mut self, dial: Dial, spec: &HttpProbe) -> Result<Option<u16>, Ended> {
        let request = http::get(&authority(spec), &spec.path)?;
        let tcp = self.connect(dial, spec.host.as_str(), spec.port).await?;
        let exchange = match spec.scheme {
            Scheme::Http => http::exchange(tcp, request, self.deadline).await,
            Scheme::Https => {
                let begun = Instant::now();
                let tls = self
                    .context
                    .tls
                    .connect(spec.host.as_str(), tcp, self.deadline)
                    .await;
                self.result.times.tls = Some(begun.elapsed().into());
                http::exchange(tls?, request, self.deadline).await
            }
        };
        let (status, body) = self.finish(exchange)?;
        if !spec.expect_status.holds(status) {
            return Err(checked(FailureKind::Status, status));
        }
        match &spec.expect_body_contains {
            Some(wanted) if !contains(&body, wanted.as_bytes()) => {
                Err(checked(FailureKind::WrongBody, status))
            }
            _ => Ok(Some(status)),
        }
    }

    /// Another prober's echo. The answer must name the pod and the node that were meant to be asked.
    async fn echo(&mut self, assignment: &Assignment, nonce: &str) -> Result<Option<u16>, Ended> {
        let (host, port) = match assignment.dial {
            Dial::Address(address) => (address.ip().to_string(), address.port()),
            Dial::Resolve => host_of(&assignment.target)?,
        };
        let mut request = http::get(&bracketed(&host, Some(port)), ECHO_PATH)?;
        let nonce = nonce.parse().map_err(|_| {
            Stop::new(Phase::Request, OwnFault::Unaskable).because("the nonce cannot be a header value")
        })?;
        request.headers_mut().insert(ECHO_NONCE_HEADER, nonce);
        let tcp = self.connect(assignment.dial, &host, port).await?;
        let exchange = http::exchange(tcp, request, self.deadline).await;
        let (status, body) = self.finish(exchange)?;
        if status != 200 {
            return Err(checked(FailureKind::Status, status));
        }
        let Ok(echo) = serde_json::from_slice::<EchoIdentity>(&body) else {
            return Err(checked(FailureKind::WrongBody, status));
        };
        let other_pod = assignment.entry.as_ref().is_some_and(|e| e.pod != echo.pod);
        let other_node = assignment.peer.as_ref().is_some_and(|node| *node != echo.node);
        // Who answered is booked also where it is the wrong one: that is the finding.
        self.result.entry = Some(echo.pod.clone());
        self.result.dst_node = Some(echo.node.clone());
        self.result.echo = Some(echo);
        if other_pod || other_node {
            return Err(checked(FailureKind::WrongBody, status));
        }
        Ok(Some(status))
    }

    async fn dns(&mut self, spec: &DnsProbe) -> Result<(), Ended> {
        let Some(server) = spec.resolver.or_else(|| self.context.resolver.first()) else {
            let stop = Stop::new(Phase::Resolve, OwnFault::NoResolver);
            return Err(stop.because("resolv.conf names no nameserver").into());
        };
        let begun = Instant::now();
        let answer = resolve::question(server, spec.name.as_str(), spec.record, self.deadline).await;
        self.result.times.resolve = Some(begun.elapsed().into());
        match answer {
            Ok(answer) => {
                self.result.dns = Some(answer);
                Ok(())
            }
            Err(unresolved) => {
                self.result.dns = unresolved.answer.map(|answer| *answer);
                Err(unresolved.stop.into())
            }
        }
    }

    /// Chooses one address and connects to it. One address a probe: a dead one is never hidden behind a live one.
    async fn connect(&mut self, dial: Dial, host: &str, port: u16) -> Result<TcpStream, Ended> {
        let address = match dial {
            Dial::Address(address) => address,
            Dial::Resolve => SocketAddr::new(self.resolve(host).await?, port),
        };
        self.result.front = Some(Front::tcp(address));
        let attempt = connect::connect(address, self.deadline).await;
        self.result.times.connect = Some(attempt.took.into());
        self.result.times.kernel_rtt = attempt.kernel_rtt();
        self.result.times.syn_retransmits = attempt.syn_retransmits();
        Ok(attempt.result?)
    }

    async fn resolve(&mut self, host: &str) -> Result<IpAddr, Ended> {
        let begun = Instant::now();
        let found = self.context.resolver.lookup(host, self.deadline).await;
        let (answer, first) = match found {
            Ok(resolved) => {
                let none = Stop::new(Phase::Resolve, FailureKind::NoAddress);
                (resolved.answer, resolved.addresses.first().copied().ok_or(none))
            }
            Err(unresolved) => (unresolved.answer.map(|answer| *answer), Err(unresolved.stop)),
        };
        // A literal address has no resolve phase to time.
        if answer.is_some() || first.is_err() {
            self.result.times.resolve = Some(Micros::from(begun.elapsed()));
        }
        self.result.dns = answer;
        Ok(first?)
    }

    /// Books an exchange; its status and the kept part of the body, if it came to its end.
    fn finish(&mut self, exchange: Exchange) -> Result<(u16, Vec<u8>), Ended> {
        self.result.times.first_byte = exchange.first_byte.map(Into::into);
        self.result.times.body = exchange.body.map(Into::into);
        let status = exchange.status();
        if let Some(pod) = exchange.head.as_ref().and_then(served_by) {
            self.result.entry = Some(pod);
        }
        match (exchange.stop, status) {
            (Some(stop), status) => Err(Ended { stop, status }),
            (None, Some(status)) => Ok((status, exchange.kept)),
            (None, None) => Err(Stop::new(Phase::FirstByte, FailureKind::Eof).into()),
        }
    }
}

fn checked(kind: FailureKind, status: u16) -> Ended {
    Ended {
        stop: Stop::new(Phase::Check, kind),
        status: Some(status),
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

fn contains(body: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || body.windows(wanted.len()).any(|window| window == wanted)
}

/// The `Host` of a request: the port only where it is not the scheme's own.
fn authority(spec: &HttpProbe) -> String {
    let usual = match spec.scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    };
    bracketed(spec.host.as_str(), (spec.port != usual).then_some(spec.port))
}

fn bracketed(host: &str, port: Option<u16>) -> String {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    match port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

/// Host and port of an echo that is approached by name: its target says them.
fn host_of(target: &TargetId) -> Result<(String, u16), Stop> {
    Url::parse(target.as_str())
        .ok()
        .and_then(|url| {
            let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
            Some((host, url.port_or_known_default()?))
        })
        .ok_or_else(|| {
            Stop::new(Phase::Resolve, OwnFault::Unaskable)
                .because("an echo without an address needs a target like http://HOST:PORT/")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_header_has_a_port_only_where_it_is_unusual() {
        let mut spec: HttpProbe = serde_json::from_str(
            r#"{"scheme":"http","host":"shop.example.test","port":80,"path":"/","expect_status":"<500"}"#,
        )
        .unwrap();
        assert_eq!(authority(&spec), "shop.example.test");
        spec.port = 8080;
        assert_eq!(authority(&spec), "shop.example.test:8080");
        spec.host = "2001:db8::1".parse().unwrap();
        assert_eq!(authority(&spec), "[2001:db8::1]:8080");
    }

    #[test]
    fn an_echo_approached_by_name_takes_host_and_port_from_its_target() {
        let (host, port) = host_of(&"http://echo.parallax.svc:8080/".parse().unwrap()).unwrap();
        assert_eq!((host.as_str(), port), ("echo.parallax.svc", 8080));
        assert!(host_of(&"dns://echo".parse().unwrap()).is_err());
    }
}
