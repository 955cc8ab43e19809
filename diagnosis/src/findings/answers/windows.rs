//! How long caches answered with what was true before a change: a roll-out, a drain, a new Service.
//!
//! A resolver may repeat an answer until its TTL is over. Clients that follow it fail meanwhile, and no front, node or
//! network is at fault. The length of that window is worth knowing; beyond the TTL it is a stale answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{EventTime, Micros, Round, ServiceKey, Vantage};

use super::{address_character::AddressKind, judgement::NameCase, targets_of};
use crate::{
    findings::{Finding, FindingKind, Severity},
    topology::Topology,
    verdict::Remedy,
};

/// A shorter window is no more than the order in which a cluster hears of a change.
const LEAST: Micros = Micros::from_secs(1);
/// How long a window is shown after it has closed. Shorter than an alert on findings waits.
const SHOWN: Micros = Micros::from_secs(300);

/// Names whose windows are kept.
const NAMES: usize = 256;

/// The window of one name after the latest change.
#[derive(Debug, Clone)]
struct ChangeWindow {
    service: ServiceKey,
    /// When the first of the addresses stopped to be one of the Service.
    change: EventTime,
    /// End of the last round in which one of them was answered.
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
    /// Takes the answers to one name in.
    pub(super) fn take(&mut self, case: &NameCase<'_>, round: Round, interval: Micros) {
        for read in &case.inside {
            let AddressKind::Gone(address, service, until) = &*read.nature else {
                continue;
            };
            if !read.cached {
                // Beyond its TTL it is another finding.
                self.0.remove(case.name);
                return;
            }
            if !self.0.contains_key(case.name) && self.0.len() >= NAMES {
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
            window.resolvers.insert(read.asking.resolver);
            window.vantages.insert(read.vantage.clone());
            window.ttl = window.ttl.max(read.ttl());
        }
    }

    /// Drops windows that closed a while ago.
    pub(super) fn forget(&mut self, end: EventTime) {
        self.0.retain(|_, window| end - window.last <= SHOWN);
    }

    pub(super) fn findings(&self, topology: &Topology) -> Vec<Finding> {
        let windows = self.0.iter();
        windows
            .filter(|(_, window)| window.last - window.change >= LEAST)
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
                        "{name} led to former addresses of Service {} for up to {length} after they were gone{ttl}: the \
                         cache of {} outlives the change",
                        window.service,
                        crate::wording::listed(&resolvers),
                    ),
                    vantages: window.vantages.iter().cloned().collect(),
                    evidence: vec![format!("answered: {}", crate::wording::listed(&addresses))],
                    remedies: vec![
                        Remedy::new(
                            "let pods that terminate go on serving until the TTL has expired (a preStop hook that sleeps)",
                            None,
                            "roll-outs and drains take that much longer",
                        )
                        .not_when("clients keep resolved addresses beyond the TTL"),
                        Remedy::new(
                            "shorten the TTL of the cluster's names (`ttl` of CoreDNS's kubernetes plugin, and `cache`)",
                            Some("kubectl -n kube-system edit configmap coredns".to_owned()),
                            "more queries reach CoreDNS and, for names outside, its upstreams",
                        ),
                    ],
                    targets: targets_of(topology, name),
                    since: window.change,
                }
            })
            .collect()
    }
}
