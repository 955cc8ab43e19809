//! How long DNS caches serve answers from before a change (a rollout, a drain, a new Service).
//!
//! A resolver may repeat an answer until its TTL has expired. Clients that use it fail meanwhile, although no front,
//! node or network is at fault. This module reports the length of that window; beyond the TTL the answer is stale.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{EventTime, Micros, Round, ServiceKey, Vantage};

use super::{address_kind::AddressKind, judgement::NameCase, targets_of};
use crate::{
    findings::{Finding, FindingKind, Severity},
    topology::Topology,
    verdict::Remedy,
};

/// Minimum length; a shorter window only reflects the order in which a cluster learns of a change.
const MIN_WINDOW: Micros = Micros::from_secs(1);
/// How long a closed window is shown; shorter than the `for` duration of the alert on findings.
const SHOWN_FOR: Micros = Micros::from_secs(300);

/// Maximum number of names whose windows are kept.
const MAX_NAMES: usize = 256;

/// The window of one name after the latest change.
#[derive(Debug, Clone)]
struct ChangeWindow {
    service: ServiceKey,
    /// When the Service lost the first of the addresses.
    change: EventTime,
    /// End of the last round in which an answer contained one of them.
    last: EventTime,
    addresses: BTreeSet<IpAddr>,
    resolvers: BTreeSet<SocketAddr>,
    vantages: BTreeSet<Vantage>,
    ttl: Option<u32>,
}

/// The windows of all names.
#[derive(Debug, Default)]
pub(super) struct ChangeWindows(BTreeMap<String, ChangeWindow>);

impl ChangeWindows {
    /// Adds the answers for one name.
    pub(super) fn add(&mut self, case: &NameCase<'_>, round: Round, interval: Micros) {
        for read in &case.internal {
            let AddressKind::Former(address, service, until) = &*read.kind else {
                continue;
            };
            if !read.cached {
                // After the TTL this is the finding `StaleAnswer`.
                self.0.remove(case.name);
                return;
            }
            if !self.0.contains_key(case.name) && self.0.len() >= MAX_NAMES {
                return;
            }
            let window = self
                .0
                .entry(case.name.to_owned())
                .or_insert_with(|| ChangeWindow {
                    service: service.clone(),
                    change: *until,
                    last: *until,
                    addresses: BTreeSet::new(),
                    resolvers: BTreeSet::new(),
                    vantages: BTreeSet::new(),
                    ttl: None,
                });
            window.last = window.last.max(round.end(interval));
            window.addresses.insert(*address);
            window.resolvers.insert(read.source.resolver);
            window.vantages.insert(read.vantage.clone());
            window.ttl = window.ttl.max(read.ttl());
        }
    }

    /// Drops windows that closed more than [`SHOWN_FOR`] ago.
    pub(super) fn prune(&mut self, end: EventTime) {
        self.0.retain(|_, window| end - window.last <= SHOWN_FOR);
    }

    pub(super) fn findings(&self, topology: &Topology) -> Vec<Finding> {
        let windows = self.0.iter();
        windows
            .filter(|(_, window)| window.last - window.change >= MIN_WINDOW)
            .map(|(name, window)| {
                let resolvers: Vec<String> = window.resolvers.iter().map(ToString::to_string).collect();
                let addresses: Vec<String> = window.addresses.iter().map(ToString::to_string).collect();
                let length = window.last - window.change;
                let ttl = window.ttl.map_or_else(String::new, |ttl| format!(" (TTL {ttl} s)"));
                Finding {
                    id: format!("{}:{name}", FindingKind::CacheWindow),
                    kind: FindingKind::CacheWindow,
                    severity: Severity::Notice,
                    subject: name.clone(),
                    sentence: format!(
                        "{name} resolved to former addresses of Service {} for up to {length} after the Service lost \
                         them{ttl}: {} served cached answers",
                        window.service,
                        crate::wording::join_names(&resolvers),
                    ),
                    vantages: window.vantages.iter().cloned().collect(),
                    evidence: vec![format!("former addresses in answers: {}", crate::wording::join_names(&addresses))],
                    remedies: vec![
                        Remedy::new(
                            "keep terminating Pods serving until the TTL has expired (a preStop hook that sleeps)",
                            None,
                            "rollouts and drains take that much longer",
                        )
                        .with_ineffective_when("clients cache resolved addresses beyond the TTL"),
                        Remedy::new(
                            "shorten the TTL of cluster names (`ttl` of CoreDNS's kubernetes plugin, and `cache`)",
                            Some("kubectl -n kube-system edit configmap coredns".to_owned()),
                            "more queries reach CoreDNS and, for external names, its upstreams",
                        ),
                    ],
                    targets: targets_of(topology, name),
                    since: window.change,
                }
            })
            .collect()
    }
}
