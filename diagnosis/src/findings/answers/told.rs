//! One resolver's answers to one name at one vantage.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{DnsAnswer, Round};

/// Rounds over which answers are put together.
pub(super) const WINDOW: usize = 12;

/// Addresses of one answer that are looked at; an answer of one UDP packet has fewer.
const ADDRESSES: usize = 64;

/// What was said in one round.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Said {
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Somebody was told that the name leads nowhere.
    pub(super) nothing: bool,
    /// The name that was answered, where the search list made it another.
    pub(super) asked_as: Option<String>,
    pub(super) ttl: Option<u32>,
}

impl Said {
    pub(super) fn of(answer: &DnsAnswer, nothing: bool, asked_as: Option<String>) -> Self {
        Self {
            addresses: answer.addresses.iter().copied().take(ADDRESSES).collect(),
            nothing,
            asked_as,
            ttl: answer.ttl_s,
        }
    }

    /// Two answers of one round: what either said. An address outweighs "nothing": a question for the other family
    /// may find none.
    fn and(&mut self, other: Self) {
        self.addresses.extend(other.addresses);
        self.nothing = (self.nothing || other.nothing) && self.addresses.is_empty();
        self.asked_as = self.asked_as.take().max(other.asked_as);
        self.ttl = self.ttl.max(other.ttl);
    }
}

/// The last rounds in which anything was said.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    /// What was said again is kept once.
    rounds: BTreeMap<Round, Arc<Said>>,
}

impl Told {
    pub(super) fn take(&mut self, round: Round, said: Said) {
        let before = self.rounds.last_key_value();
        match before {
            Some((last, before)) if *last == round => {
                if **before != said {
                    let both = self.rounds.entry(round).or_default();
                    Arc::make_mut(both).and(said);
                }
            }
            Some((_, before)) if **before == said => {
                let again = Arc::clone(before);
                self.rounds.insert(round, again);
            }
            _ => {
                self.rounds.insert(round, Arc::new(said));
            }
        }
        while self.rounds.len() > WINDOW {
            self.rounds.pop_first();
        }
    }

    pub(super) fn last(&self) -> Option<Round> {
        self.rounds.last_key_value().map(|(round, _)| *round)
    }

    pub(super) fn first(&self) -> Option<Round> {
        self.rounds.first_key_value().map(|(round, _)| *round)
    }

    pub(super) fn newest(&self) -> Option<&Said> {
        self.rounds.last_key_value().map(|(_, said)| &**said)
    }

    /// Newest first.
    pub(super) fn backwards(&self) -> impl Iterator<Item = (Round, &Arc<Said>)> {
        self.rounds.iter().rev().map(|(round, said)| (*round, said))
    }

    pub(super) fn len(&self) -> usize {
        self.rounds.len()
    }

    /// Every address of the window.
    pub(super) fn union(&self) -> BTreeSet<IpAddr> {
        self.rounds
            .values()
            .flat_map(|said| said.addresses.iter().copied())
            .collect()
    }

    /// Largest TTL seen: a cache may serve an answer that long.
    pub(super) fn ttl(&self) -> Option<u32> {
        self.rounds.values().filter_map(|said| said.ttl).max()
    }
}
