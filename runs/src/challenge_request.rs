//! Runs of ACME challenges: the permitted URLs, and the assignments of each vantage.
//!
//! The scope is that of any run, further limited to the challenge path and to known hosts.

use std::net::SocketAddr;

use parallax_api::runs::ChallengeRequest;
use parallax_diagnosis::topology::{PlacedTarget, PublishedSpec, Topology};
use parallax_model::{
    Assignment, CHALLENGE_PATH, ChallengeClient, ChallengeProbe, Channel, DialAddress, ExpectedStatus,
    MAX_CHALLENGE_FETCHES, Micros, ProbeSpec, Scheme, Target, TargetId, TargetSpec, Vantage,
};

use super::{RunRefusedError, scope::RunScopeError};
use crate::RunOptions;

/// The maximum length of a token and of a key authorization; Let's Encrypt's have 43 and 87 characters.
const MAX_LENGTH: usize = 512;

/// The maximum number of fetches by cert-manager's rules, which pauses between them.
const MAX_PAUSED_PASSES: u32 = 5;

/// The pause between two fetches of cert-manager.
const FETCH_PAUSE: Micros = Micros::from_secs(2);

/// The additional fetches of a CA start within this fraction of a fetch's timeout.
const START_SPREAD_DIVISOR: u64 = 4;

/// A challenge request that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChallenge {
    #[error(
        "expected http://HOST{CHALLENGE_PATH}TOKEN, with a token of letters, digits, - and _ (RFC 8555 §8.3), got {0}"
    )]
    Url(String),
    #[error("challenge.expected: expected 1 to {MAX_LENGTH} visible ASCII characters")]
    Key,
    #[error("challenge.passes: expected 1 to {most}, got {passes}")]
    Passes { passes: u32, most: u32 },
}

/// A validated challenge request.
pub(super) struct ChallengeQuery {
    pub(super) id: TargetId,
    /// The topology with the challenge as a target.
    pub(super) topology: Topology,
    pub(super) probe: ChallengeProbe,
    /// The deadline of one fetch.
    pub(super) timeout: Micros,
}

impl ChallengeQuery {
    pub(super) fn from_request(
        url: &str,
        request: &ChallengeRequest,
        topology: &Topology,
        options: &RunOptions,
    ) -> Result<Self, RunRefusedError> {
        let passes = request.passes.unwrap_or(1);
        let most = match request.client {
            ChallengeClient::CertManager => MAX_PAUSED_PASSES,
            ChallengeClient::Boulder | ChallengeClient::Pebble => MAX_CHALLENGE_FETCHES,
        };
        if !(1..=most).contains(&passes) {
            return Err(InvalidChallenge::Passes { passes, most }.into());
        }
        let fits =
            |key: &String| (1..=MAX_LENGTH).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
        if !request.expected.as_ref().is_none_or(fits) {
            return Err(InvalidChallenge::Key.into());
        }
        let spec = TargetSpec {
            // The direct channel checks the same content, so that a wrong route can be distinguished from a network
            // failure.
            expect_status: request
                .expected
                .as_ref()
                .map(|_| ExpectedStatus::Ranges(vec![(200, 200)])),
            expect_body_equals: request.expected.clone(),
            ..TargetSpec::new(url)
        };
        let target = Target::try_from(spec.clone())?;
        let ProbeSpec::Http(http) = &target.probe else {
            return Err(InvalidChallenge::Url(url.to_owned()).into());
        };
        let token = http.path.strip_prefix(CHALLENGE_PATH).unwrap_or_default();
        let is_token = (1..=MAX_LENGTH).contains(&token.len())
            && token
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if http.scheme != Scheme::Http || !is_token {
            return Err(InvalidChallenge::Url(url.to_owned()).into());
        }
        let twin = target_of_host(topology, http.host.as_str(), http.port);
        if twin.is_none() && !options.allow_any_target {
            return Err(RunScopeError::UnknownHost {
                host: http.host.to_string(),
            }
            .into());
        }
        let unlisted = request
            .nameservers
            .iter()
            .find(|server| !options.allow_any_target && !topology.public_resolvers().contains(&server.ip()));
        if let Some(server) = unlisted {
            return Err(RunScopeError::UnknownNameserver { server: *server }.into());
        }
        let mut nameservers = request.nameservers.clone();
        // CAs resolve names in public DNS, so public resolvers are used if they are known.
        if nameservers.is_empty() && request.client != ChallengeClient::CertManager {
            let public = topology.public_resolvers().iter();
            nameservers.extend(public.map(|address| SocketAddr::new(*address, 53)));
        }
        Ok(Self {
            topology: with_challenge(topology, spec, twin)?,
            probe: ChallengeProbe {
                client: request.client,
                host: http.host.clone(),
                port: http.port,
                path: http.path.clone(),
                expected: request.expected.clone(),
                passes: Some(passes).filter(|passes| *passes > 1),
                nameservers,
                scope: None,
            },
            timeout: fetch_timeout(request.client),
            id: target.id,
        })
    }
}

/// Returns the timeout of one fetch of a client.
pub(super) const fn fetch_timeout(client: ChallengeClient) -> Micros {
    match client {
        ChallengeClient::CertManager => Micros::from_secs(10),
        ChallengeClient::Boulder => Micros::from_secs(20),
        ChallengeClient::Pebble => Micros::from_secs(15),
    }
}

/// Finds another target of the same host. On a port other than 80 the host must be known on that port: clients of a
/// challenge always use port 80.
fn target_of_host<'a>(topology: &'a Topology, host: &str, port: u16) -> Option<&'a PlacedTarget> {
    let same = |placed: &&PlacedTarget| match &placed.target.probe {
        ProbeSpec::Http(http) => http.host.as_str() == host && (port == 80 || http.port == port),
        _ => false,
    };
    let all = || topology.targets().values().filter(same);
    all()
        .find(|placed| placed.entry.is_some())
        .or_else(|| all().next())
}

/// Returns the current topology with the challenge added, behind the same entry as the host's other target.
fn with_challenge(
    topology: &Topology,
    target: TargetSpec,
    twin: Option<&PlacedTarget>,
) -> Result<Topology, RunRefusedError> {
    let host = target.url.clone();
    let mut spec = topology.spec().clone();
    spec.vantages = topology.extra_vantages().to_vec();
    let entry = twin.and_then(|twin| twin.entry.as_ref());
    let port = entry.and_then(|(service, _)| {
        let ports = &topology.service(service)?.ports;
        // Of the ports of the controller's Service, the one for plain HTTP.
        ports.iter().find(|port| port.port == 80).map(|port| port.port)
    });
    match (entry, port) {
        (Some((service, _)), Some(port)) => spec.published.push(PublishedSpec {
            target,
            service: service.clone(),
            port,
            class: None,
            origin: None,
        }),
        _ => spec.targets.push(target),
    }
    Topology::try_from(spec).map_err(|_| RunScopeError::UnknownHost { host }.into())
}

/// Returns the longest total duration of a client's fetches.
pub(super) const fn max_duration(probe: &ChallengeProbe, timeout: Micros) -> Micros {
    let passes = match probe.passes {
        Some(passes) => passes as u64,
        None => 1,
    };
    match probe.client {
        ChallengeClient::CertManager => Micros(timeout.0 * passes + FETCH_PAUSE.0 * (passes - 1)),
        _ if passes > 1 => Micros(timeout.0 + timeout.0 / START_SPREAD_DIVISOR),
        _ => timeout,
    }
}

/// Replaces the planned `vip` assignments by the challenge's own fetch, which resolves the name itself. The
/// assignments for telling causes apart are kept for the self check only, because the CA's fetch uses the same
/// network. Only vantages on the internet repeat a CA's fetch, because only they decide its verdict: they share the
/// number of fetches.
pub(super) fn challenge_assignments(
    probe: &ChallengeProbe,
    vantage: &Vantage,
    on_internet: usize,
    planned: Vec<Assignment>,
) -> Vec<Assignment> {
    let mut probe = probe.clone();
    if probe.client != ChallengeClient::CertManager {
        let sharing = u32::try_from(on_internet).unwrap_or(u32::MAX).max(1);
        probe.passes = probe
            .passes
            .filter(|_| vantage.is_on_internet())
            .map(|passes| passes.div_ceil(sharing))
            .filter(|passes| *passes > 1);
    }
    planned
        .into_iter()
        .filter(|a| a.channel == Channel::Vip || probe.client == ChallengeClient::CertManager)
        .map(|assignment| {
            if assignment.channel != Channel::Vip {
                return assignment;
            }
            Assignment {
                probe: ProbeSpec::Challenge(probe.clone()),
                dial: DialAddress::Resolve,
                ..assignment
            }
        })
        .collect()
}
