//! DNS answers for each name, by resolver and vantage, over the last rounds.
//!
//! Addresses are judged by their kind (an address of the name's own Service, of another Service, unknown, or outside
//! the cluster), and answer sets by their union over the window, so rotation and subsets of one pool do not differ.

mod address_kind;
mod cache_lifetime;
mod judgement;
mod resolver_answers;
mod windows;
mod wording;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use parallax_model::{
    DnsAnswer, EventTime, KindClass, Micros, ProbeSpec, Round, ServiceKey, TargetId, Vantage,
};
use serde::{Deserialize, Serialize};

use self::{
    address_kind::{AddressOwners, KnownAddresses},
    resolver_answers::{AnswerLog, RecentRounds, RoundAnswers},
    windows::ChangeWindows,
};
use super::ObservedFacts;
use crate::{
    evidence::{
        routes::{Routes, normalize_name},
        row::Row,
    },
    ids::{NameIx, NameRegistry, VantageIx},
    topology::Topology,
};

/// Rounds without an answer after which a resolver's answers at a vantage are dropped.
const FORGET_ROUNDS: i64 = 24;

/// Maximum number of resolvers per name and vantage; a machine usually has three.
const MAX_RESOLVERS: usize = 8;

/// Maximum number of former addresses that are remembered; the newest are kept.
const MAX_FORMER: usize = 4096;

/// A resolver and the vantage that queried it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct AnswerSource {
    resolver: SocketAddr,
    vantage: VantageIx,
}

/// A former address of one or more Services.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FormerAnswer {
    service: ServiceKey,
    /// Other Services that had the address at the same time.
    others: Vec<ServiceKey>,
    until: EventTime,
}

impl FormerAnswer {
    /// Returns the Service that had the address; one of `services`, if any of them had it.
    fn service_among(&self, services: &BTreeSet<ServiceKey>) -> &ServiceKey {
        let mut had = std::iter::once(&self.service).chain(&self.others);
        had.find(|service| services.contains(*service))
            .unwrap_or(&self.service)
    }
}

/// The answers for all names.
#[derive(Debug, Default)]
pub(super) struct NameAnswers {
    names: BTreeMap<NameIx, NameHistory>,
    former: BTreeMap<IpAddr, FormerAnswer>,
    /// The first round with an answer: which addresses Services lost before it is not known.
    first_round: Option<Round>,
    windows: ChangeWindows,
    /// Addresses and names in the topology.
    known: KnownAddresses,
    owners: AddressOwners,
}

/// The vantages that got the same answer, with the smallest TTL.
#[derive(Debug, Default)]
struct AnswerGroup {
    ttl: Option<u32>,
    vantages: Vec<Vantage>,
}

/// The answers for one name.
#[derive(Debug, Default)]
struct NameHistory {
    rounds_by_source: BTreeMap<AnswerSource, RecentRounds>,
    answer_log: AnswerLog,
}

/// The DNS answers for one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameView {
    /// The name.
    pub name: String,
    /// Each answer with the vantages that got it.
    pub answers: Vec<NameAnswer>,
}

/// One answer set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameAnswer {
    /// The resolver.
    pub resolver: SocketAddr,
    /// Whether this is a public resolver, which answers as the internet sees the name.
    pub public: bool,
    /// Addresses of the latest answer; empty if the resolver says that the name does not exist or has no address.
    pub addresses: Vec<IpAddr>,
    /// The kind of these addresses ("the load balancer of Service ingress/nginx").
    pub meaning: String,
    /// The name that was finally queried, if the search list changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "asked_as")]
    pub queried_name: Option<String>,
    /// The smallest observed TTL, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u32>,
    /// The vantages that got this answer.
    pub vantages: Vec<Vantage>,
}

impl NameAnswers {
    /// Adds an observation of a closed round. Only answers matter: a failing resolver is handled by the diagnosis and
    /// shows nothing about the name.
    pub(super) fn add(
        &mut self,
        (round, interval): (Round, Micros),
        row: &Row,
        routes: &Routes,
        world: &NameRegistry,
    ) {
        let Some(answer) = &row.dns else { return };
        if routes.of(row.target).chosen_resolver {
            return;
        }
        let leads_nowhere = |(_, (kind, _))| world.class_of(kind, None) == KindClass::NxDomain;
        let nxdomain = row.failure().is_some_and(leads_nowhere);
        if !nxdomain && answer.addresses.is_empty() {
            return;
        }
        // A negative answer is correct while the Service has no endpoints, and may come from a cache for a while
        // afterwards.
        let cached = || {
            row.name(routes)
                .is_some_and(|name| routes.may_be_cached(name, row.at))
        };
        if nxdomain && (routes.has_no_endpoints(row.target) || cached()) {
            return;
        }
        let Some(queried_name) = routes.of(row.target).normalized_name else {
            return;
        };
        self.first_round.get_or_insert(round);
        let NameHistory {
            rounds_by_source: askings,
            answer_log,
        } = self.names.entry(queried_name).or_default();
        let asking = AnswerSource {
            resolver: answer.resolver,
            vantage: row.client,
        };
        let asked_as = other_name(world.names.name(queried_name), answer);
        let mut take = |recent: &mut RecentRounds| {
            let log = (&mut *answer_log, interval);
            recent.add(round, answer, nxdomain, asked_as.as_deref(), log);
        };
        if let Some(recent) = askings.get_mut(&asking) {
            take(recent);
            return;
        }
        let resolvers = askings.keys().filter(|known| known.vantage == asking.vantage);
        if resolvers.count() < MAX_RESOLVERS {
            take(askings.entry(asking).or_default());
        }
    }

    /// Drops answers that are too old, negative answers that a cache may still hold, and names that no target uses.
    pub(super) fn prune(&mut self, round: Round, routes: &Routes, interval: Micros) {
        let names = routes.names();
        let cached = routes.negative_cache_times();
        self.names.retain(
            |name,
             NameHistory {
                 rounds_by_source: askings,
                 ..
             }| {
                let cached = cached.get(name);
                askings.retain(|_, recent| {
                    let excused = |last: Round| {
                        let absent = recent.newest().is_some_and(|answers| answers.nothing);
                        absent && cached.is_some_and(|until| last.start(interval) <= *until)
                    };
                    recent
                        .last()
                        .is_some_and(|last| last.0 > round.0 - FORGET_ROUNDS && !excused(last))
                });
                names.contains(name) && !askings.is_empty()
            },
        );
    }

    /// Drops all answers; former addresses are kept.
    pub(super) fn reset(&mut self) {
        self.names.clear();
    }

    pub(super) fn replace_topology(&mut self, old: &Topology, new: &Topology, at: EventTime) {
        self.set_topology(new);
        for (address, mut others) in address_kind::address_owners(old) {
            if !self.known.is_of_service(address)
                && let Some(service) = others.pop()
            {
                let former = FormerAnswer {
                    service,
                    others,
                    until: at,
                };
                self.former.insert(address, former);
            }
        }
        self.former
            .retain(|address, _| !self.known.is_of_service(*address));
        self.forget_oldest_former();
    }

    fn forget_oldest_former(&mut self) {
        let over = self.former.len().saturating_sub(MAX_FORMER);
        if over == 0 {
            return;
        }
        let mut ends: Vec<_> = self
            .former
            .iter()
            .map(|(address, former)| (former.until, *address))
            .collect();
        ends.sort_unstable();
        for (_, address) in ends.into_iter().take(over) {
            self.former.remove(&address);
        }
    }

    /// Addresses that Services lost after `since`, each with its Service and the time it was lost.
    pub(super) fn former_since(
        &self,
        since: EventTime,
    ) -> impl Iterator<Item = (IpAddr, (&ServiceKey, EventTime))> {
        let lately = self
            .former
            .iter()
            .filter(move |(_, former)| former.until >= since);
        lately.map(|(address, former)| (*address, (&former.service, former.until)))
    }

    /// Adds an address that a Service had until a given time, as observed by another process.
    pub(super) fn remember_former(&mut self, address: IpAddr, service: ServiceKey, until: EventTime) {
        if !self.known.is_of_service(address) {
            self.former.entry(address).or_insert(FormerAnswer {
                service,
                others: Vec::new(),
                until,
            });
            self.forget_oldest_former();
        }
    }

    /// Reads addresses and names from a topology.
    pub(super) fn set_topology(&mut self, topology: &Topology) {
        self.known = KnownAddresses::of(topology);
        self.owners = AddressOwners::of(topology);
    }

    /// Addresses that a Service had until recently and that no other Service has now, each with the time it was lost.
    pub(super) fn former_addresses(&self) -> BTreeMap<IpAddr, EventTime> {
        let ends = self.former.iter();
        ends.map(|(address, former)| (*address, former.until)).collect()
    }

    /// Adds the IPv6 addresses in the answers to the facts.
    pub(super) fn add_facts(&self, facts: &mut ObservedFacts, world: &NameRegistry) {
        for (name, answers) in &self.names {
            let v6: BTreeSet<IpAddr> = answers
                .rounds_by_source
                .values()
                .filter_map(RecentRounds::newest)
                .flat_map(|newest| newest.addresses.iter().copied())
                .filter(IpAddr::is_ipv6)
                .collect();
            if !v6.is_empty() {
                let name = world.names.name(*name).clone();
                facts.published.entry(name).or_default().extend(v6);
            }
        }
    }

    /// All answers, ordered by name.
    fn by_name<'a>(
        &'a self,
        world: &'a NameRegistry,
    ) -> BTreeMap<&'a str, &'a BTreeMap<AnswerSource, RecentRounds>> {
        let named = self.names.iter();
        named
            .map(|(name, answers)| (world.names.name(*name).as_str(), &answers.rounds_by_source))
            .collect()
    }

    /// The answers for each name, grouped by answer.
    pub(super) fn names(&self, topology: &Topology, world: &NameRegistry) -> Vec<NameView> {
        self.by_name(world)
            .into_iter()
            .map(|(name, askings)| {
                let own = self.owners.services_of(topology, name);
                let mut together: BTreeMap<(SocketAddr, &RoundAnswers), AnswerGroup> = BTreeMap::new();
                for (asking, recent) in askings {
                    if let Some(newest) = recent.newest() {
                        let alike = together.entry((asking.resolver, newest)).or_default();
                        alike.ttl = [alike.ttl, recent.newest_ttl()].into_iter().flatten().min();
                        alike.vantages.push(world.vantages.name(asking.vantage).clone());
                    }
                }
                let answers = together
                    .into_iter()
                    .map(
                        |((resolver, newest), AnswerGroup { ttl, mut vantages })| NameAnswer {
                            vantages: {
                                vantages.sort();
                                vantages
                            },
                            resolver,
                            public: topology.public_resolvers().contains(&resolver.ip()),
                            addresses: newest.addresses.iter().copied().collect(),
                            meaning: address_kind::of(newest, &own, &self.known, &self.former).to_string(),
                            queried_name: newest.asked_as.clone(),
                            ttl_s: ttl,
                        },
                    )
                    .collect();
                NameView {
                    name: name.to_owned(),
                    answers,
                }
            })
            .collect()
    }
}

/// The name that a probe resolves; `None` for an IP address.
fn name_of(probe: &ProbeSpec) -> Option<String> {
    let host = probe.resolved_host()?;
    host.as_str().parse::<IpAddr>().is_err().then(|| host.to_string())
}

/// The name that was answered, if the search list changed the queried name.
fn other_name(queried: &str, answer: &DnsAnswer) -> Option<String> {
    let answered = answer.name.trim_end_matches('.');
    let same = answered.is_empty() || answered.eq_ignore_ascii_case(queried);
    (!same).then(|| normalize_name(answered).chars().take(253).collect())
}

/// Targets whose probes resolve the name.
fn targets_of(topology: &Topology, name: &str) -> Vec<TargetId> {
    topology
        .targets()
        .iter()
        .filter(|(_, placed)| {
            placed.dial_address.is_none()
                && name_of(&placed.target.probe).is_some_and(|own| normalize_name(&own) == name)
        })
        .map(|(id, _)| id.clone())
        .collect()
}
