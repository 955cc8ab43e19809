//! Fetching a challenge as a profile says.

use std::{
    net::{IpAddr, SocketAddr},
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::future::{Either, select};
use parallax_model::{FailureKind, Micros, Outcome, Phase, Scheme, SearchManner};
use tokio::time;

use super::{AddressRule, Profile};
use crate::{
    classify::{Fault, Stop},
    clock::Deadline,
    http::{self, Asking, Exchange, Manner},
    probe::{
        Context,
        leg::{Leg, Opening, Stream},
        place::{Place, bracketed},
        redirect::Trail,
        reserved::reserved,
    },
    resolve::{FamilyAnswer, Resolution, ResolverChoice, resolve_all},
    result::{Hop, tamed},
    tls::Handshake,
};

/// How long the one family has before the other one is tried beside it (Go's `FallbackDelay`).
const HEAD_START: Duration = Duration::from_millis(300);

/// What is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The name to be certified.
    pub host: String,
    /// Port of the first request; 80 but for tests.
    pub port: u16,
    /// Path, with its slash.
    pub path: String,
    /// The key authorization.
    pub expected: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// What became of it. Of several passes, the first that failed, or the last.
    pub outcome: Outcome,
    /// What a library or the kernel said of a failure: bounded, without control characters.
    pub detail: Option<String>,
    /// Passes that succeeded.
    pub passes: u32,
    /// What the challenge's own name resolved to in the last pass.
    pub resolution: Option<Resolution>,
    /// Every address a connection was tried to in the last pass, in order, and why it failed. A family that a racing
    /// client never misses shows here.
    pub dials: Vec<DialTried>,
    /// The redirects that were followed in the last pass.
    pub hops: Vec<Hop>,
    /// Time of all passes, without the pauses.
    pub took: Micros,
}

/// One connection that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialTried {
    /// Where to.
    pub address: SocketAddr,
    /// Why it did not come about; absent where it did.
    pub failed: Option<FailureKind>,
}

/// Fetches a challenge by a client's rules, as often as that client does. Never fails itself.
pub async fn validate(
    profile: &Profile,
    challenge: &Challenge,
    choice: &ResolverChoice,
    context: &Context,
) -> Validation {
    let mut passes = 0;
    let mut took = Duration::ZERO;
    loop {
        let begun = Instant::now();
        let mut fetch = Fetch {
            profile,
            choice,
            context,
            deadline: Deadline::within(profile.timeout),
            dials: Vec::new(),
            hops: Vec::new(),
            resolution: None,
            trail: Trail::begin(&place(challenge)),
        };
        let ended = fetch.fetch(challenge).await;
        took += begun.elapsed();
        passes += u32::from(ended.is_ok());
        if ended.is_ok() && passes < profile.passes {
            time::sleep(profile.pause).await;
            continue;
        }
        let (outcome, detail) = match ended {
            Ok(status) => (Outcome::Ok { status: Some(status) }, None),
            Err((stop, status)) => {
                let detail = stop.detail.as_deref().map(tamed);
                (stop.outcome(status), detail)
            }
        };
        return Validation {
            outcome,
            detail,
            passes,
            resolution: fetch.resolution,
            dials: fetch.dials,
            hops: fetch.hops,
            took: took.into(),
        };
    }
}

fn place(challenge: &Challenge) -> Place {
    Place {
        scheme: Scheme::Http,
        host: challenge.host.clone(),
        port: challenge.port,
        path: challenge.path.clone(),
    }
}

type Stopped = (Stop, Option<u16>);

type Dialled = (Vec<DialTried>, Result<Stream, Stop>);

struct Fetch<'a> {
    profile: &'a Profile,
    choice: &'a ResolverChoice,
    context: &'a Context,
    deadline: Deadline,
    dials: Vec<DialTried>,
    hops: Vec<Hop>,
    resolution: Option<Resolution>,
    /// Kept over a fallback to IPv4, as Boulder keeps its records: a redirect seen before is then a loop.
    trail: Trail,
}

impl Fetch<'_> {
    async fn fetch(&mut self, challenge: &Challenge) -> Result<u16, Stopped> {
        let first = place(challenge);
        let addresses = self
            .resolve(&first.host, true)
            .await
            .map_err(|stop| (stop, None))?;
        let ended = self.walk(&first, &addresses, challenge).await;
        let fallback = addresses.iter().find(|address| address.is_ipv4()).copied();
        let was_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
        match (ended, fallback) {
            (Err((stop, _)), Some(v4))
                if self.profile.addresses == AddressRule::V6ThenV4OnDialError
                    && was_v6
                    && stop.phase == Phase::Connect =>
            {
                self.walk(&first, &[v4], challenge).await
            }
            (ended, _) => ended,
        }
    }

    /// From the first URL along the redirects to the answer that counts.
    async fn walk(
        &mut self,
        first: &Place,
        addresses: &[IpAddr],
        challenge: &Challenge,
    ) -> Result<u16, Stopped> {
        let rules = self.profile.rules();
        let mut at = first.clone();
        let mut addresses = addresses.to_vec();
        loop {
            let exchange = self.get(&at, &addresses).await.map_err(|stop| (stop, None))?;
            let status = exchange.status();
            if let Some(stop) = exchange.stop {
                return Err((stop, status));
            }
            let Some(head) = exchange.head else {
                return Err((Stop::new(Phase::FirstByte, FailureKind::Eof), None));
            };
            let next = self
                .trail
                .next(&at, &head, &rules)
                .map_err(|stop| (stop, status))?;
            let Some(next) = next else {
                let status = head.status.as_u16();
                return match self.judged(status, &exchange.kept, exchange.read, challenge) {
                    Ok(()) => Ok(status),
                    Err(kind) => Err((Stop::new(Phase::Check, kind), Some(status))),
                };
            };
            self.hops.push(Hop {
                url: at.url(),
                status: head.status.as_u16(),
                front: None,
            });
            at = next;
            addresses = self
                .resolve(&at.host, false)
                .await
                .map_err(|stop| (stop, status))?;
        }
    }

    fn judged(&self, status: u16, kept: &[u8], read: u64, challenge: &Challenge) -> Result<(), FailureKind> {
        if status != 200 {
            return Err(FailureKind::Status);
        }
        let right = read == kept.len() as u64
            && std::str::from_utf8(kept)
                .is_ok_and(|body| self.profile.body.trim.cut(body) == challenge.expected);
        if right {
            Ok(())
        } else {
            Err(FailureKind::WrongBody)
        }
    }

    /// Addresses a connection may be tried to, IPv6 first.
    async fn resolve(&mut self, host: &str, first: bool) -> Result<Vec<IpAddr>, Stop> {
        let left = self.deadline.left();
        let found = resolve_all(self.context, host, self.choice, SearchManner::Glibc, left).await;
        let mut addresses: Vec<IpAddr> = found.addresses.iter().map(|found| found.address).collect();
        let failure = found.failure().cloned();
        if first {
            self.resolution = Some(found);
        }
        if let Some(failure) = failure {
            return Err(unresolved(&failure));
        }
        if !self.profile.reserved_allowed {
            addresses.retain(|address| !reserved(*address));
        }
        if addresses.is_empty() {
            return Err(Stop::new(Phase::Resolve, FailureKind::NoAddress).because(format!(
                "{host} has private or reserved addresses only, which this client does not use"
            )));
        }
        addresses.sort_by_key(IpAddr::is_ipv4);
        Ok(addresses)
    }

    async fn get(&mut self, at: &Place, addresses: &[IpAddr]) -> Result<Exchange, Stop> {
        let authority = if self.profile.host_with_port {
            bracketed(&at.host, Some(at.port))
        } else {
            at.authority()
        };
        let asking = Asking {
            user_agent: self.profile.user_agent,
            accept: self.profile.accept,
            ..Asking::get(&authority, &at.path)
        };
        let request = asking.request()?;
        let stream = self.dial(at, addresses).await?;
        let manner = Manner {
            most: self.profile.body.most,
            again: None,
        };
        Ok(http::exchange(stream, request, manner, self.deadline).await)
    }

    async fn dial(&mut self, at: &Place, addresses: &[IpAddr]) -> Result<Stream, Stop> {
        match self.profile.addresses {
            AddressRule::Raced => self.race(at, addresses).await,
            AddressRule::V6ThenV4OnDialError | AddressRule::FirstOnly => {
                let (tried, opened) = self
                    .one_after_the_other(at, &addresses[..addresses.len().min(1)])
                    .await;
                self.dials.extend(tried);
                opened
            }
        }
    }

    /// IPv6 first, IPv4 beside it after the head start or as soon as IPv6 has failed.
    async fn race(&mut self, at: &Place, addresses: &[IpAddr]) -> Result<Stream, Stop> {
        let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv6());
        let (first, second) = if v6.is_empty() { (v4, v6) } else { (v6, v4) };
        let (tried, opened) = {
            let this = &*self;
            let mut lead = pin!(this.one_after_the_other(at, &first));
            match time::timeout(HEAD_START, &mut lead).await {
                Ok(ended) => or_else(ended, this.one_after_the_other(at, &second)).await,
                Err(_) if second.is_empty() => lead.await,
                Err(_) => match select(lead, pin!(this.one_after_the_other(at, &second))).await {
                    Either::Left((ended, other)) => or_else(ended, other).await,
                    Either::Right(((mut tried, Ok(stream)), _)) => {
                        tried.insert(0, overtaken(at, &first));
                        (tried, Ok(stream))
                    }
                    Either::Right((ended, lead)) => or_else(ended, lead).await,
                },
            }
        };
        self.dials.extend(tried);
        opened
    }

    async fn one_after_the_other(&self, at: &Place, addresses: &[IpAddr]) -> Dialled {
        let mut tried = Vec::new();
        let mut ended = Err(Stop::new(Phase::Resolve, FailureKind::NoAddress));
        for address in addresses {
            let address = SocketAddr::new(*address, at.port);
            // Boxed: two of these race, and a preflight is not counted in microseconds.
            ended = Box::pin(self.open(at, address)).await;
            let failed = match &ended {
                Err(Stop {
                    phase: Phase::Connect,
                    fault: Fault::Target(kind),
                    ..
                }) => Some(kind.clone()),
                _ => None,
            };
            let done = failed.is_none();
            tried.push(DialTried { address, failed });
            if done {
                break;
            }
        }
        (tried, ended)
    }

    async fn open(&self, at: &Place, address: SocketAddr) -> Result<Stream, Stop> {
        let deadline = match self.profile.dial_timeout {
            Some(timeout) => self.deadline.at_most(timeout),
            None => self.deadline,
        };
        let opening = Opening {
            // After a redirect nobody of them verifies the certificate.
            tls: (at.scheme == Scheme::Https).then_some(Handshake {
                host: &at.host,
                alpn: &[],
                verify: false,
            }),
            ..Opening::default()
        };
        Leg::default()
            .open(self.context, address, opening, deadline)
            .await
    }
}

/// The other family's turn after a dial error. Once connected the race is over: a failed handshake has no second try.
async fn or_else((mut tried, opened): Dialled, rest: impl Future<Output = Dialled>) -> Dialled {
    if !matches!(&opened, Err(stop) if stop.phase == Phase::Connect) {
        return (tried, opened);
    }
    let (more, later) = rest.await;
    if more.is_empty() {
        return (tried, opened);
    }
    tried.extend(more);
    (tried, later)
}

/// The family that was overtaken had not answered by then.
fn overtaken(at: &Place, first: &[IpAddr]) -> DialTried {
    DialTried {
        address: SocketAddr::new(first.first().copied().unwrap_or(IpAddr::from([0; 4])), at.port),
        failed: Some(FailureKind::ConnectTimeout),
    }
}

fn unresolved(failure: &FamilyAnswer) -> Stop {
    let (fault, detail): (Fault, _) = match failure {
        FamilyAnswer::Failed { kind, detail } => (kind.clone().into(), detail.clone()),
        FamilyAnswer::NotAsked { own, detail } => ((*own).into(), detail.clone()),
        FamilyAnswer::Addresses(_) | FamilyAnswer::Unneeded => (FailureKind::NoAddress.into(), None),
    };
    let stop = Stop::new(Phase::Resolve, fault);
    match detail {
        Some(detail) => stop.because(detail),
        None => stop,
    }
}
