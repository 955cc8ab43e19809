//! Fetches a challenge by the rules of a client profile.

use std::net::{IpAddr, SocketAddr};

use parallax_model::{FailureKind, Micros, Outcome, Phase, Scheme, Scope};

use super::{
    AddressRule, ClientProfile, Profile,
    problem::{AcmeProblem, FetchStage},
    response,
};
use crate::{
    clock::Deadline,
    context::ProbeContext,
    failure::{EarlyEnd, FailureOrigin},
    http::{self, Exchange, ExchangeOptions, RequestContent},
    phase_timer::PhaseTimer,
    redirect::{
        RedirectRefusal, RedirectTrail, RequestDestination, host_and_port, location, written_authority,
    },
    resolution::{Resolution, ResolverChoice},
    result::RedirectHop,
};

/// The challenge to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeRequest {
    /// The name to certify.
    pub host: String,
    /// Port of the first request; 80 except in tests.
    pub port: u16,
    /// Path, with its leading slash.
    pub path: String,
    /// The key authorization.
    pub expected: String,
}

/// The result of fetching a challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationResult {
    /// The outcome: that of the first failed pass, or of the last pass.
    pub outcome: Outcome,
    /// The error text of a library or the kernel: bounded, without control characters.
    pub detail: Option<String>,
    /// The failure as the certificate authority itself would report it; `None` for a success, for a client that is not
    /// an authority, and for a fault of this machine.
    pub problem: Option<AcmeProblem>,
    /// Number of successful passes. Without a key, any response below 500 counts.
    pub passes: u32,
    /// The resolution of the challenge's own name in the last pass.
    pub resolution: Option<Resolution>,
    /// Every connection attempt of the last pass, in order, with its outcome. It shows a dead family that a racing
    /// client does not notice.
    pub dials: Vec<DialAttempt>,
    /// The redirects followed in the last pass.
    pub hops: Vec<RedirectHop>,
    /// Duration of all passes, without the pauses; of concurrent passes, the time until the last one ended.
    pub duration: Micros,
}

/// One connection attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialAttempt {
    /// The address.
    pub address: SocketAddr,
    /// The outcome.
    pub outcome: DialOutcome,
}

/// The outcome of one connection attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialOutcome {
    /// The connection was established.
    Connected,
    /// The attempt failed.
    Failed(FailureKind),
    /// The other family connected first, so the result is unknown.
    Overtaken,
}

/// A fetch that ended early.
pub(super) struct FailedFetch {
    pub(super) stop: EarlyEnd,
    pub(super) status: Option<u16>,
    pub(super) refusal: Option<RedirectRefusal>,
}

impl From<EarlyEnd> for FailedFetch {
    fn from(stop: EarlyEnd) -> Self {
        Self {
            stop,
            status: None,
            refusal: None,
        }
    }
}

pub(super) struct ChallengeFetch<'a> {
    pub(super) profile: &'a Profile,
    pub(super) choice: &'a ResolverChoice,
    pub(super) scope: Option<&'a Scope>,
    pub(super) context: &'a ProbeContext,
    pub(super) deadline: Deadline,
    pub(super) dials: Vec<DialAttempt>,
    pub(super) stage: FetchStage,
    pub(super) hops: Vec<RedirectHop>,
    /// The resolution of the challenge's own name.
    pub(super) first_resolution: Option<Resolution>,
    /// Kept across a fallback to IPv4, as Boulder keeps its records: a repeated redirect is then a loop.
    trail: RedirectTrail,
}

impl<'a> ChallengeFetch<'a> {
    pub(super) fn new(
        profile: &'a Profile,
        challenge: &ChallengeRequest,
        choice: &'a ResolverChoice,
        scope: Option<&'a Scope>,
        context: &'a ProbeContext,
    ) -> Self {
        let place = destination(challenge);
        let authority = first_authority(profile, &place);
        Self {
            profile,
            choice,
            scope,
            context,
            deadline: Deadline::within(profile.timeout),
            dials: Vec::new(),
            stage: FetchStage {
                first_url: url(&place, &authority),
                url: url(&place, &authority),
                expected: challenge.expected.clone(),
                ..FetchStage::default()
            },
            hops: Vec::new(),
            first_resolution: None,
            trail: RedirectTrail::new(&place),
        }
    }

    pub(super) async fn fetch(&mut self, challenge: &ChallengeRequest) -> Result<u16, FailedFetch> {
        let first = destination(challenge);
        let dialling = self.dial_deadline();
        let found = self.resolve(&first.host, dialling).await;
        self.first_resolution.clone_from(&self.stage.resolution);
        let addresses = found?;
        let ended = self.follow(&first, &addresses, dialling, challenge).await;
        let fallback = addresses.iter().find(|address| address.is_ipv4()).copied();
        let was_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
        match (ended, fallback) {
            (Err(failed), Some(v4))
                if self.profile.addresses == AddressRule::V6ThenV4OnDialError
                    && was_v6
                    && failed.stop.phase == Phase::Connect =>
            {
                self.follow(&first, &[v4], dialling, challenge).await
            }
            (ended, _) => ended,
        }
    }

    /// The deadline for resolving a name and connecting to it.
    fn dial_deadline(&self) -> Deadline {
        match (self.profile.named_resolvers_timeout, self.choice) {
            (Some(timeout), ResolverChoice::Servers(_)) => self.deadline.at_most(timeout),
            _ => self.deadline,
        }
    }

    /// Follows the redirects from the first URL to the final response, and checks that.
    async fn follow(
        &mut self,
        first: &RequestDestination,
        addresses: &[IpAddr],
        mut dialling: Deadline,
        challenge: &ChallengeRequest,
    ) -> Result<u16, FailedFetch> {
        self.stage.url.clone_from(&self.stage.first_url);
        let rules = self.profile.rules();
        let mut at = first.clone();
        let mut authority = first_authority(self.profile, first);
        let mut addresses = addresses.to_vec();
        loop {
            self.stage.location = None;
            let exchange = self.get(&at, &authority, &addresses, dialling).await?;
            let status = exchange.status();
            let with = |stop| FailedFetch {
                stop,
                status,
                refusal: None,
            };
            self.stage.first_bytes = exchange.first_bytes;
            if let Some(stop) = exchange.failure {
                let stop = if exchange.head.is_none() {
                    without_head(stop)
                } else {
                    stop
                };
                return Err(with(stop));
            }
            let Some(head) = exchange.head else {
                return Err(EarlyEnd::new(Phase::FirstByte, FailureKind::Eof).into());
            };
            let next = self.trail.next(&at, &head, &rules);
            self.stage.location = location(&head).map(std::borrow::Cow::into_owned);
            let next = next.map_err(|refused| FailedFetch {
                refusal: Some(refused.reason.clone()),
                ..with(refused.into())
            })?;
            let Some(next) = next else {
                let status = head.status.as_u16();
                let whole = exchange.bytes_read == exchange.kept.len() as u64;
                let content = response::content(self.profile, &head, exchange.kept).map_err(with)?;
                let judged =
                    response::check_response(self.profile, status, &content, whole, &challenge.expected);
                self.stage.content = content;
                return judged.map(|()| status).map_err(with);
            };
            self.hops.push(RedirectHop {
                url: at.url(),
                status: head.status.as_u16(),
                front: None,
            });
            if self.deadline.remaining().is_zero() {
                return Err(EarlyEnd::timeout(Phase::Connect).into());
            }
            at = next;
            self.stage.url = match self.stage.location.as_deref().and_then(written_authority) {
                Some((host, tail)) => {
                    authority = match self.profile.client {
                        ClientProfile::Boulder => host.to_ascii_lowercase(),
                        _ => host.to_owned(),
                    };
                    format!("{}://{authority}{tail}", at.scheme)
                }
                None => url(&at, &authority),
            };
            dialling = self.dial_deadline();
            addresses = self.resolve(&at.host, dialling).await.map_err(with)?;
        }
    }

    async fn get(
        &mut self,
        at: &RequestDestination,
        authority: &str,
        addresses: &[IpAddr],
        dialling: Deadline,
    ) -> Result<Exchange, EarlyEnd> {
        let asking = RequestContent {
            user_agent: self.profile.user_agent,
            accept: self.profile.accept,
            gzip: self.profile.gzip,
            ..RequestContent::get(authority, &at.path)
        };
        let request = asking.request()?;
        let tcp = self.dial(at, addresses, dialling).await?;
        let stream = self.with_tls(at, tcp).await?;
        let reading = |head: &::http::response::Parts| response::body_reading(self.profile, head);
        let manner = ExchangeOptions {
            reading: Some(&reading),
            ..ExchangeOptions::default()
        };
        Ok(http::exchange(stream, request, manner, self.deadline, &mut PhaseTimer::start()).await)
    }
}

/// Converts a failure before the end of the head: these clients treat an incomplete head as no response.
fn without_head(stop: EarlyEnd) -> EarlyEnd {
    let kind = match &stop.origin {
        FailureOrigin::Target(FailureKind::BodyStalled) => FailureKind::FirstByteTimeout,
        FailureOrigin::Target(FailureKind::BodyCut)
            if stop
                .detail
                .as_deref()
                .is_some_and(|detail| detail.contains("reset by peer")) =>
        {
            FailureKind::Reset
        }
        FailureOrigin::Target(FailureKind::BodyCut) => FailureKind::Eof,
        _ => return stop,
    };
    EarlyEnd {
        phase: Phase::FirstByte,
        origin: kind.into(),
        ..stop
    }
}

fn destination(challenge: &ChallengeRequest) -> RequestDestination {
    RequestDestination {
        scheme: Scheme::Http,
        host: challenge.host.clone(),
        port: challenge.port,
        path: challenge.path.clone(),
    }
}

fn first_authority(profile: &Profile, first: &RequestDestination) -> String {
    if profile.host_with_port {
        host_and_port(&first.host, Some(first.port))
    } else {
        first.authority()
    }
}

fn url(at: &RequestDestination, authority: &str) -> String {
    format!("{}://{authority}{}", at.scheme, at.path)
}
