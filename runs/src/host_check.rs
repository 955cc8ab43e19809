//! Checks: probes that the aggregator requests for itself, over the same streams as runs.
//!
//! A check is not listed, stored, counted or rate-limited, and its id is never exposed. Its results do not pass
//! through an engine; the caller judges them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use parallax_api::runs::RunVantages;
use parallax_diagnosis::{topology::Topology, view::View};
use parallax_model::{
    Assignment, AssignmentId, CHALLENGE_PATH, ChallengeClient, ChallengeProbe, Channel, DialAddress,
    HostName, Micros, ProbeSpec, Recorded, RunId, TargetId, Vantage, dns::NamesProbe,
};
use parallax_preflight::QueriedResolvers;
use tokio::sync::Notify;

use super::{
    ProbeOrder, REPORT_GRACE, ROUND_INTERVAL, RunManager, challenge_request, name_request, new_id,
    scope::{self, RunScopeError},
    subject::group_vantages,
};

/// The maximum number of concurrent checks.
const MAX_CONCURRENT_CHECKS: usize = 8;

/// The results of one check.
#[derive(Debug)]
pub(super) struct PendingCheck {
    expected: usize,
    observations: Vec<Recorded>,
    /// A report may arrive twice.
    counted: BTreeSet<(Vantage, String, u64)>,
    vantages: BTreeSet<Vantage>,
    done: Arc<Notify>,
}

impl PendingCheck {
    /// Records one result.
    pub(super) fn record(&mut self, recorded: &Recorded) {
        let number = (
            recorded.vantage.clone(),
            recorded.incarnation.to_string(),
            recorded.observation.seq.0,
        );
        if !self.vantages.contains(&recorded.vantage)
            || self.observations.len() >= self.expected
            || !self.counted.insert(number)
        {
            return;
        }
        self.observations.push(recorded.clone());
        if self.observations.len() >= self.expected {
            self.done.notify_one();
        }
    }
}

/// Removes a check that its caller abandons.
struct HostCheckGuard<'a> {
    manager: &'a RunManager,
    id: RunId,
}

impl Drop for HostCheckGuard<'_> {
    fn drop(&mut self) {
        self.manager.inner.lock().host_checks.remove(&self.id);
    }
}

impl RunManager {
    /// Requests each probe once, and returns the results when all have arrived or `longest` has passed. Returns
    /// `None` if too many checks are in progress.
    pub(crate) async fn run_check(
        &self,
        parts: impl FnOnce(&RunId) -> BTreeMap<Vantage, Vec<Assignment>>,
        longest: Micros,
    ) -> Option<Vec<Recorded>> {
        let id = new_id();
        let parts = parts(&id);
        let expected = parts.values().map(Vec::len).sum();
        let done = Arc::new(Notify::new());
        let wait = Micros(longest.0 + REPORT_GRACE.0);
        {
            let mut inner = self.inner.lock();
            if inner.host_checks.len() >= MAX_CONCURRENT_CHECKS || expected == 0 {
                return None;
            }
            let look = PendingCheck {
                expected,
                observations: Vec::new(),
                counted: BTreeSet::new(),
                vantages: parts.keys().cloned().collect(),
                done: done.clone(),
            };
            inner.host_checks.insert(id.clone(), look);
            inner.number += 1;
            let ordered = ProbeOrder {
                number: inner.number,
                id: id.clone(),
                rounds: 1,
                expires: self.clock.now().plus(wait),
                assignments: Arc::new(parts),
            };
            self.publish_order(ordered);
        }
        let guard = HostCheckGuard {
            manager: self,
            id: id.clone(),
        };
        // On timeout, the missing results are simply absent.
        let _ = tokio::time::timeout(Duration::from(wait), done.notified()).await;
        let seen = self
            .inner
            .lock()
            .host_checks
            .remove(&id)
            .map(|look| look.observations);
        drop(guard);
        seen
    }
}

/// A host to check: the DNS facts of its name, and the response on port 80.
#[derive(Debug, Clone, Copy)]
pub struct HostCheck<'a> {
    /// The host name to check.
    pub host: &'a HostName,
    /// A token that no solver serves.
    pub token: &'a str,
    /// The number of checks of this host so far; the nodes take turns.
    pub turn: usize,
}

/// Why a host cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostCheckError {
    /// The host is outside the scope of runs.
    #[error(transparent)]
    OutOfScope(#[from] RunScopeError),
    /// No vantage can answer.
    #[error(
        "no vantage reports, so the host cannot be checked; `parallax status` lists the reporting vantages"
    )]
    NoVantage,
    /// Too many requests are in progress.
    #[error("too many checks in progress; the host is checked later")]
    Busy,
}

/// The results of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckObservations {
    /// The observations, in order of arrival.
    pub observations: Vec<Recorded>,
    /// The resolvers that were queried.
    pub resolvers: QueriedResolvers,
}

/// Last part of the assignment id: the DNS facts of the name.
pub const NAMES_SUFFIX: &str = "names";
/// Last part of the assignment id: cert-manager's self check.
pub const SELF_CHECK_SUFFIX: &str = "self";
/// Last part of the assignment id: the CA's validation.
pub const CA_SUFFIX: &str = "ca";

impl RunManager {
    /// Checks a host: one node and every vantage on the internet query the DNS facts of its name and fetch a
    /// challenge that no solver serves, by the CA's rules, and the node also by cert-manager's.
    pub async fn check_host(
        &self,
        at: HostCheck<'_>,
        topology: &Arc<Topology>,
        view: &View,
    ) -> Result<CheckObservations, HostCheckError> {
        let host = at.host;
        if !self.options.allow_any_target && !name_request::is_known_host(topology, host) {
            let host = host.to_string();
            return Err(RunScopeError::UnknownHost { host }.into());
        }
        let vantages = name_request::select_check_vantages(
            topology,
            &group_vantages(topology, view, RunVantages::All).reporting,
            at.turn,
        );
        if vantages.is_empty() {
            return Err(HostCheckError::NoVantage);
        }
        let public: Vec<SocketAddr> = topology
            .public_resolvers()
            .iter()
            .map(|address| SocketAddr::new(*address, 53))
            .collect();
        let wanted = QueriedResolvers {
            public: !public.is_empty(),
            authoritative: topology.queries_authoritative(),
        };
        let scope = scope::probe_scope(topology, &self.options);
        let challenge = |client| {
            let own = client == ChallengeClient::CertManager;
            ProbeSpec::Challenge(ChallengeProbe {
                client,
                host: host.clone(),
                port: 80,
                path: format!("{CHALLENGE_PATH}{}", at.token),
                expected: None,
                passes: None,
                nameservers: if own { Vec::new() } else { public.clone() },
                scope: None,
            })
        };
        let facts = ProbeSpec::Names(NamesProbe {
            name: host.clone(),
            public_resolvers: public.clone(),
            query_authorities: wanted.authoritative,
            scope: None,
        });
        let (own, ca) = (ChallengeClient::CertManager, ChallengeClient::Boulder);
        let asks = [
            (NAMES_SUFFIX, Channel::Dns, facts, name_request::QUERY_TIMEOUT),
            (
                SELF_CHECK_SUFFIX,
                Channel::Vip,
                challenge(own),
                challenge_request::fetch_timeout(own),
            ),
            (
                CA_SUFFIX,
                Channel::Vip,
                challenge(ca),
                challenge_request::fetch_timeout(ca),
            ),
        ];
        let parts = |id: &RunId| {
            let of = |vantage: &Vantage| {
                let asks = asks
                    .iter()
                    .filter(|(suffix, ..)| *suffix != SELF_CHECK_SUFFIX || vantage.node().is_some());
                let own = asks.filter_map(|(suffix, channel, probe, timeout)| {
                    // Fails only if the id is too long; such a probe is left out.
                    Some(Assignment {
                        id: AssignmentId::new(format!("{}{id}|look|{suffix}", AssignmentId::RUN_PREFIX))
                            .ok()?,
                        target: TargetId::new(format!("http://{host}/")).ok()?,
                        channel: *channel,
                        probe: probe.clone().with_scope(&scope),
                        dial: DialAddress::Resolve,
                        entry: None,
                        peer: None,
                        interval: ROUND_INTERVAL,
                        timeout: *timeout,
                    })
                });
                (vantage.clone(), own.collect())
            };
            vantages.iter().map(of).collect()
        };
        let seen = self
            .run_check(parts, challenge_request::fetch_timeout(ca))
            .await
            .ok_or(HostCheckError::Busy)?;
        Ok(CheckObservations {
            observations: seen,
            resolvers: wanted,
        })
    }
}
