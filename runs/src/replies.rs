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
    GRACE, INTERVAL, OrderedProbes, RunManager, challenge, names, new_id,
    scope::{self, RunScopeError},
    subject::chosen,
};

/// The maximum number of concurrent checks.
const AT_ONCE: usize = 8;

/// The results of one check.
#[derive(Debug)]
pub(super) struct ProbeReply {
    expected: usize,
    seen: Vec<Recorded>,
    /// A report may arrive twice.
    counted: BTreeSet<(Vantage, String, u64)>,
    asked: BTreeSet<Vantage>,
    done: Arc<Notify>,
}

impl ProbeReply {
    /// Records one result.
    pub(super) fn take(&mut self, recorded: &Recorded) {
        let number = (
            recorded.vantage.clone(),
            recorded.incarnation.to_string(),
            recorded.observation.seq.0,
        );
        if !self.asked.contains(&recorded.vantage)
            || self.seen.len() >= self.expected
            || !self.counted.insert(number)
        {
            return;
        }
        self.seen.push(recorded.clone());
        if self.seen.len() >= self.expected {
            self.done.notify_one();
        }
    }
}

/// Removes a check that its caller abandons.
struct LookGuard<'a> {
    desk: &'a RunManager,
    id: RunId,
}

impl Drop for LookGuard<'_> {
    fn drop(&mut self) {
        self.desk.inner.lock().looks.remove(&self.id);
    }
}

impl RunManager {
    /// Requests each probe once, and returns the results when all have arrived or `longest` has passed. Returns
    /// `None` if too many checks are in progress.
    pub(crate) async fn look(
        &self,
        parts: impl FnOnce(&RunId) -> BTreeMap<Vantage, Vec<Assignment>>,
        longest: Micros,
    ) -> Option<Vec<Recorded>> {
        let id = new_id();
        let parts = parts(&id);
        let expected = parts.values().map(Vec::len).sum();
        let done = Arc::new(Notify::new());
        let wait = Micros(longest.0 + GRACE.0);
        {
            let mut inner = self.inner.lock();
            if inner.looks.len() >= AT_ONCE || expected == 0 {
                return None;
            }
            let look = ProbeReply {
                expected,
                seen: Vec::new(),
                counted: BTreeSet::new(),
                asked: parts.keys().cloned().collect(),
                done: done.clone(),
            };
            inner.looks.insert(id.clone(), look);
            inner.number += 1;
            let ordered = OrderedProbes {
                number: inner.number,
                id: id.clone(),
                rounds: 1,
                until: self.clock.now().plus(wait),
                parts: Arc::new(parts),
            };
            self.tell(ordered);
        }
        let held = LookGuard {
            desk: self,
            id: id.clone(),
        };
        // On timeout, the missing results are simply absent.
        let _ = tokio::time::timeout(Duration::from(wait), done.notified()).await;
        let seen = self.inner.lock().looks.remove(&id).map(|look| look.seen);
        drop(held);
        seen
    }
}

/// A host to check: the DNS facts of its name, and the response on port 80.
#[derive(Debug, Clone, Copy)]
pub struct LookedHost<'a> {
    /// The host name to check.
    pub host: &'a HostName,
    /// A token that no solver serves.
    pub token: &'a str,
    /// The number of checks of this host so far; the nodes take turns.
    pub turn: usize,
}

/// Why a host cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookError {
    /// The host is outside the scope of runs.
    #[error(transparent)]
    Forbidden(#[from] RunScopeError),
    /// No vantage can answer.
    #[error(
        "no vantage reports, so the host cannot be checked; `parallax status` lists the reporting vantages"
    )]
    Nobody,
    /// Too many requests are in progress.
    #[error("too many checks in progress; the host is checked later")]
    Busy,
}

/// The results of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplySet {
    /// The observations, in order of arrival.
    pub seen: Vec<Recorded>,
    /// The resolvers that were queried.
    pub wanted: QueriedResolvers,
}

/// Last part of the assignment id: the DNS facts of the name.
pub const NAMES: &str = "names";
/// Last part of the assignment id: cert-manager's self check.
pub const SELF_CHECK: &str = "self";
/// Last part of the assignment id: the CA's validation.
pub const CA: &str = "ca";

impl RunManager {
    /// Checks a host: one node and every vantage on the internet query the DNS facts of its name and fetch a
    /// challenge that no solver serves, by the CA's rules, and the node also by cert-manager's.
    pub async fn look_at(
        &self,
        at: LookedHost<'_>,
        topology: &Arc<Topology>,
        view: &View,
    ) -> Result<ReplySet, LookError> {
        let host = at.host;
        if !self.options.any_target && !names::is_known(topology, host) {
            let host = host.to_string();
            return Err(RunScopeError::Host { host }.into());
        }
        let vantages = names::one_and_outside(topology, &chosen(topology, view, RunVantages::All), at.turn);
        if vantages.is_empty() {
            return Err(LookError::Nobody);
        }
        let public: Vec<SocketAddr> = topology
            .public_resolvers()
            .iter()
            .map(|address| SocketAddr::new(*address, 53))
            .collect();
        let wanted = QueriedResolvers {
            public: !public.is_empty(),
            authorities: topology.asks_authorities(),
        };
        let scope = scope::scope(topology, &self.options);
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
            public: public.clone(),
            authorities: wanted.authorities,
            scope: None,
        });
        let (own, ca) = (ChallengeClient::CertManager, ChallengeClient::Boulder);
        let asks = [
            (NAMES, Channel::Dns, facts, names::TIMEOUT),
            (SELF_CHECK, Channel::Vip, challenge(own), challenge::timeout(own)),
            (CA, Channel::Vip, challenge(ca), challenge::timeout(ca)),
        ];
        let parts = |id: &RunId| {
            let of = |vantage: &Vantage| {
                let asks = asks
                    .iter()
                    .filter(|(what, ..)| *what != SELF_CHECK || vantage.node().is_some());
                let own = asks.filter_map(|(what, channel, probe, timeout)| {
                    // Fails only if the id is too long; such a probe is left out.
                    Some(Assignment {
                        id: AssignmentId::new(format!("{}{id}|look|{what}", AssignmentId::RUN)).ok()?,
                        target: TargetId::new(format!("http://{host}/")).ok()?,
                        channel: *channel,
                        probe: probe.clone().within(&scope),
                        dial: DialAddress::Resolve,
                        entry: None,
                        peer: None,
                        interval: INTERVAL,
                        timeout: *timeout,
                    })
                });
                (vantage.clone(), own.collect())
            };
            vantages.iter().map(of).collect()
        };
        let seen = self
            .look(parts, challenge::timeout(ca))
            .await
            .ok_or(LookError::Busy)?;
        Ok(ReplySet { seen, wanted })
    }
}
