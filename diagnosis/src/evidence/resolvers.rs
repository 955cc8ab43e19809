//! Who is asked for names, and what became of questions that got no answer.
//!
//! A lost question says little of itself: a resolver that is away, a port that is filtered and a race for a translation
//! all look like silence. What tells them apart is what went along with it ([`UnansweredQuestions`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use parallax_model::{Front, Round, UnansweredQuestions};

use super::row::Row;
use crate::{
    ids::VantageIx,
    topology::{Service, Topology},
};

/// Rounds that are remembered: as many as a window of evidence has at most.
const REMEMBERED: i64 = 120;

/// What went along with lost questions, counted by lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LossSigns {
    /// One of two questions was lost while the other was answered, and asking again helped.
    pub(crate) one_of_two: u64,
    /// All questions of a lookup were lost, or asking again from another port did not help.
    pub(crate) all: u64,
    /// The question got no answer over TCP either.
    pub(crate) over_tcp: u64,
}

impl LossSigns {
    fn add(&mut self, unanswered: UnansweredQuestions) {
        let other = unanswered.other_answered;
        let helped = unanswered.again_answered == Some(true);
        self.one_of_two += u64::from(other == Some(true) && helped);
        self.all += u64::from(other == Some(false) || unanswered.again_answered == Some(false));
        self.over_tcp += u64::from(unanswered.tcp_answered == Some(false));
    }

    /// The signs of a race for a translation, and none against it: of two questions one is lost and the other is not,
    /// asking again from another port helps, and TCP is not concerned. Where a resolver hangs, both questions of a pair
    /// are lost as well, and so are questions over TCP.
    pub(crate) const fn one_of_two(self) -> bool {
        self.one_of_two > 1 && self.all == 0 && self.over_tcp == 0
    }

    /// Questions over TCP are lost, too.
    pub(crate) const fn lost_over_tcp(self) -> bool {
        self.over_tcp > 0
    }
}

/// Who was asked for names, and what became of questions without an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolverView<'a> {
    /// Addresses that the failing clients asked, in order.
    pub(crate) asked: Vec<SocketAddr>,
    /// The Service behind them, where they are one's.
    pub(crate) service: Option<&'a Service>,
    pub(crate) signs: LossSigns,
}

/// Who asked whom last, and what was lost of late.
#[derive(Debug, Default)]
pub(crate) struct ResolverHistory {
    asked: BTreeMap<VantageIx, SocketAddr>,
    lost: BTreeMap<Round, BTreeMap<VantageIx, LossSigns>>,
}

impl ResolverHistory {
    /// Takes the answers of a round in.
    pub(crate) fn take(&mut self, round: Round, rows: &[Row]) {
        for row in rows {
            let Some(answer) = &row.dns else { continue };
            self.asked.insert(row.client, answer.resolver);
            if let Some(unanswered) = &answer.unanswered {
                let lost = self.lost.entry(round).or_default();
                lost.entry(row.client).or_default().add(*unanswered);
            }
        }
        let oldest = Round(round.0 - REMEMBERED);
        if self
            .lost
            .first_key_value()
            .is_some_and(|(first, _)| *first < oldest)
        {
            self.lost = self.lost.split_off(&oldest);
        }
    }

    /// What concerns some clients since a round.
    pub(crate) fn view<'a>(
        &self,
        topology: &'a Topology,
        clients: &BTreeSet<VantageIx>,
        since: Round,
    ) -> ResolverView<'a> {
        let asked: BTreeSet<SocketAddr> = clients
            .iter()
            .filter_map(|client| self.asked.get(client).copied())
            .collect();
        let mut signs = LossSigns::default();
        for lost in self.lost.range(since..).map(|(_, lost)| lost) {
            for (_, of_client) in lost.iter().filter(|(client, _)| clients.contains(client)) {
                signs.one_of_two += of_client.one_of_two;
                signs.all += of_client.all;
                signs.over_tcp += of_client.over_tcp;
            }
        }
        ResolverView {
            service: asked.iter().find_map(|address| service_at(topology, *address)),
            asked: asked.into_iter().collect(),
            signs,
        }
    }
}

/// The Service whose address a resolver has. Ports of Services are those of TCP here, which every resolver listens on, too
/// (RFC 7766); where one does not say so, its address alone tells.
fn service_at(topology: &Topology, address: SocketAddr) -> Option<&Service> {
    topology.service_of(&Front::tcp(address)).or_else(|| {
        let mut fronts = topology.fronts().iter();
        let (_, info) = fronts.find(|(front, _)| front.address.ip() == address.ip())?;
        topology.service(&info.service)
    })
}
