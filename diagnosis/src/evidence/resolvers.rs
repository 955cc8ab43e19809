//! Resolvers in use, and symptoms of queries without a response.
//!
//! A lost query alone is weak evidence: an unavailable resolver, a filtered port and a conntrack race all show as no
//! response. The circumstances tell them apart ([`UnansweredQuestions`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use parallax_model::{Front, Round, UnansweredQuestions};

use super::row::{ProbeEnd, Row};
use crate::{
    ids::VantageIx,
    topology::{Service, Topology},
};

/// Rounds that are kept: the longest evidence window.
const KEPT_ROUNDS: i64 = 120;

/// Circumstances of lost queries, counted by lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LossSymptoms {
    /// One of two queries was lost while the other was answered, and a retry succeeded.
    pub(crate) single_queries: u64,
    /// All queries of a lookup were lost, or a retry from another port failed.
    pub(crate) query_pairs: u64,
    /// The query got no response over TCP either.
    pub(crate) tcp_queries: u64,
}

impl LossSymptoms {
    fn add(&mut self, unanswered: UnansweredQuestions) {
        let other = unanswered.other_answered;
        let helped = unanswered.retry_answered == Some(true);
        self.single_queries += u64::from(other == Some(true) && helped);
        self.query_pairs += u64::from(other == Some(false) || unanswered.retry_answered == Some(false));
        self.tcp_queries += u64::from(unanswered.tcp_answered == Some(false));
    }

    /// Reports the signature of a conntrack race: of two queries one is lost and the other answered, a retry from
    /// another port succeeds, and TCP works. If a resolver hangs, both queries of a pair are lost, and queries over
    /// TCP as well.
    pub(crate) const fn indicates_race(self) -> bool {
        self.single_queries > 1 && self.query_pairs == 0 && self.tcp_queries == 0
    }

    /// Reports whether queries over TCP are lost, too.
    pub(crate) const fn lost_over_tcp(self) -> bool {
        self.tcp_queries > 0
    }
}

/// The resolvers of some clients, and the symptoms of their lost queries.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolverView<'a> {
    /// Resolver addresses that the failing clients query, in order.
    pub(crate) resolvers: Vec<SocketAddr>,
    /// The Service that owns one of these addresses, if any.
    pub(crate) service: Option<&'a Service>,
    pub(crate) symptoms: LossSymptoms,
}

/// The resolver that each client used last, and recent losses.
#[derive(Debug, Default)]
pub(crate) struct ResolverHistory {
    last_resolver: BTreeMap<VantageIx, SocketAddr>,
    losses: BTreeMap<Round, BTreeMap<VantageIx, LossSymptoms>>,
}

impl ResolverHistory {
    /// Adds the DNS answers of a round.
    pub(crate) fn add_round(&mut self, round: Round, rows: &[Row]) {
        for row in rows {
            let Some(answer) = &row.dns else { continue };
            self.last_resolver.insert(row.client, answer.resolver);
            // A prober that runs late loses queries itself.
            if let Some(unanswered) = &answer.unanswered
                && row.outcome != ProbeEnd::NotAsked
            {
                let lost = self.losses.entry(round).or_default();
                lost.entry(row.client).or_default().add(*unanswered);
            }
        }
        let oldest = Round(round.0 - KEPT_ROUNDS);
        if self
            .losses
            .first_key_value()
            .is_some_and(|(first, _)| *first < oldest)
        {
            self.losses = self.losses.split_off(&oldest);
        }
    }

    /// Returns the Service at the address that any of the clients queried last.
    pub(crate) fn service<'a>(
        &self,
        topology: &'a Topology,
        clients: impl Iterator<Item = VantageIx>,
    ) -> Option<&'a Service> {
        let resolvers: BTreeSet<&SocketAddr> = clients
            .filter_map(|client| self.last_resolver.get(&client))
            .collect();
        resolvers
            .into_iter()
            .find_map(|address| service_at(topology, *address))
    }

    /// Returns the Service at the address that any client queried last.
    pub(crate) fn service_of_all<'a>(&self, topology: &'a Topology) -> Option<&'a Service> {
        self.service(topology, self.last_resolver.keys().copied())
    }

    /// Returns the resolvers and losses of some clients since a round.
    pub(crate) fn view<'a>(
        &self,
        topology: &'a Topology,
        clients: &BTreeSet<VantageIx>,
        since: Round,
    ) -> ResolverView<'a> {
        let resolvers: BTreeSet<SocketAddr> = clients
            .iter()
            .filter_map(|client| self.last_resolver.get(client).copied())
            .collect();
        let mut signs = LossSymptoms::default();
        for lost in self.losses.range(since..).map(|(_, lost)| lost) {
            for (_, of_client) in lost.iter().filter(|(client, _)| clients.contains(client)) {
                signs.single_queries += of_client.single_queries;
                signs.query_pairs += of_client.query_pairs;
                signs.tcp_queries += of_client.tcp_queries;
            }
        }
        ResolverView {
            service: resolvers
                .iter()
                .find_map(|address| service_at(topology, *address)),
            resolvers: resolvers.into_iter().collect(),
            symptoms: signs,
        }
    }
}

/// Returns the Service that owns a resolver's address. Service ports are TCP ports here, and every resolver listens
/// on TCP too (RFC 7766); if the Service does not publish that port, the address alone decides.
fn service_at(topology: &Topology, address: SocketAddr) -> Option<&Service> {
    topology.service_of(&Front::tcp(address)).or_else(|| {
        let mut fronts = topology.fronts().iter();
        let (_, info) = fronts.find(|(front, _)| front.address.ip() == address.ip())?;
        topology.service(&info.service)
    })
}
