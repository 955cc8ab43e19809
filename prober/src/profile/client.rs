//! Fetching a challenge as a profile says.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use parallax_model::{FailureKind, Micros, Outcome, Phase, Scheme, Scope, SearchManner};
use tokio::time;

use super::{AddressRule, Profile};
use crate::{
    classify::{Fault, Stop},
    clock::Deadline,
    http::{self, Asking, Exchange, Manner},
    laps::Laps,
    probe::{
        Context,
        place::{Place, bracketed},
        redirect::Trail,
        reserved::reserved,
    },
    resolve::{FamilyAnswer, Resolution, ResolverChoice, resolve_all},
    result::{Hop, tamed},
};

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
    /// What became of it.
    pub outcome: DialOutcome,
}

/// What became of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialOutcome {
    /// It came about.
    Connected,
    /// It did not.
    Failed(FailureKind),
    /// It had not answered when the other family's was there; a racing client never learns more of it.
    Overtaken,
}

/// Fetches a challenge by a client's rules, as often as that client does. Never fails itself.
pub async fn validate(
    profile: &Profile,
    challenge: &Challenge,
    choice: &ResolverChoice,
    context: &Context,
) -> Validation {
    validate_within(profile, challenge, choice, None, context).await
}

/// As [`validate`], and no connection leaves a scope, whatever name or redirect leads out of it.
pub(crate) async fn validate_within(
    profile: &Profile,
    challenge: &Challenge,
    choice: &ResolverChoice,
    scope: Option<&Scope>,
    context: &Context,
) -> Validation {
    let mut passes = 0;
    let mut took = Duration::ZERO;
    loop {
        let begun = Instant::now();
        let mut fetch = Fetch {
            profile,
            choice,
            scope,
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

pub(super) struct Fetch<'a> {
    pub(super) profile: &'a Profile,
    choice: &'a ResolverChoice,
    pub(super) scope: Option<&'a Scope>,
    pub(super) context: &'a Context,
    pub(super) deadline: Deadline,
    pub(super) dials: Vec<DialTried>,
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
        Ok(http::exchange(stream, request, manner, self.deadline, &mut Laps::start()).await)
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
