//! One resolver's answers for one name at one vantage.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{DnsAnswer, Round};

/// Number of rounds over which answers are combined.
pub(super) const WINDOW: usize = 12;

/// Maximum number of addresses read from one answer; an answer in one UDP packet has fewer.
const ADDRESSES: usize = 64;

/// Maximum number of distinct answers per name that all vantages share; further answers, as of an endlessly rotating
/// pool, are stored per vantage.
const SAYINGS: usize = 32;

/// The answers of one round.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct RoundAnswers {
    pub(super) addresses: BTreeSet<IpAddr>,
    /// The resolver said that the name does not exist or has no address.
    pub(super) nothing: bool,
    /// The name that was answered, if the search list changed it.
    pub(super) asked_as: Option<String>,
}

impl RoundAnswers {
    pub(super) fn of(answer: &DnsAnswer, nothing: bool, asked_as: Option<String>) -> Self {
        Self {
            addresses: answer.addresses.iter().copied().take(ADDRESSES).collect(),
            nothing,
            asked_as,
        }
    }

    /// Compares without building a value: nearly every answer is the same as in the previous round.
    fn is(&self, answer: &DnsAnswer, nothing: bool, asked_as: Option<&str>) -> bool {
        self.nothing == nothing
            && self.asked_as.as_deref() == asked_as
            && self.addresses.len() == answer.addresses.len()
            && answer
                .addresses
                .iter()
                .all(|address| self.addresses.contains(address))
    }

    /// Merges two answers of one round. An address takes precedence over "nothing", because a query for the other
    /// family may find none.
    fn and(&self, other: &Self) -> Self {
        let addresses: BTreeSet<IpAddr> = self.addresses.union(&other.addresses).copied().collect();
        Self {
            nothing: (self.nothing || other.nothing) && addresses.is_empty(),
            asked_as: self.asked_as.clone().max(other.asked_as.clone()),
            addresses,
        }
    }
}

/// The distinct recent answers for one name, shared because most vantages get the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct AnswerLog(Vec<Arc<RoundAnswers>>);

impl AnswerLog {
    fn keep(&mut self, said: RoundAnswers) -> Arc<RoundAnswers> {
        if let Some(known) = self.0.iter().find(|known| ***known == said) {
            return Arc::clone(known);
        }
        if self.0.len() >= SAYINGS {
            self.0.retain(|said| Arc::strong_count(said) > 1);
        }
        let said = Arc::new(said);
        if self.0.len() < SAYINGS {
            self.0.push(Arc::clone(&said));
        }
        said
    }
}

/// Consecutive rounds with the same answer.
#[derive(Debug, Clone)]
pub(super) struct AnswerRun {
    pub(super) rounds: usize,
    pub(super) said: Arc<RoundAnswers>,
}

/// The last rounds with an answer.
#[derive(Debug, Clone, Default)]
pub(super) struct RecentRounds {
    /// Each with its largest TTL.
    rounds: VecDeque<(Round, Option<u32>)>,
    runs: VecDeque<AnswerRun>,
}

impl RecentRounds {
    /// Adds an answer of a round that is not earlier than any known round.
    pub(super) fn take(
        &mut self,
        round: Round,
        answer: &DnsAnswer,
        nothing: bool,
        asked_as: Option<&str>,
        sayings: &mut AnswerLog,
    ) {
        let again = self
            .runs
            .back()
            .is_some_and(|run| run.said.is(answer, nothing, asked_as));
        let new = || RoundAnswers::of(answer, nothing, asked_as.map(ToOwned::to_owned));
        match self.rounds.back_mut() {
            Some((last, ttl)) if *last == round => {
                *ttl = (*ttl).max(answer.ttl_s);
                if !again && let Some(before) = self.end_run() {
                    self.run_on(sayings.keep(before.and(&new())));
                }
            }
            _ => {
                self.rounds.push_back((round, answer.ttl_s));
                match self.runs.back_mut().filter(|_| again) {
                    Some(run) => run.rounds += 1,
                    None => self.run_on(sayings.keep(new())),
                }
            }
        }
        while self.rounds.len() > WINDOW {
            self.rounds.pop_front();
            let first = self.runs.front_mut();
            if first.is_some_and(|run| {
                run.rounds -= 1;
                run.rounds == 0
            }) {
                self.runs.pop_front();
            }
        }
    }

    /// Removes the last round from its run.
    fn end_run(&mut self) -> Option<Arc<RoundAnswers>> {
        let run = self.runs.back_mut()?;
        let said = Arc::clone(&run.said);
        run.rounds -= 1;
        if run.rounds == 0 {
            self.runs.pop_back();
        }
        Some(said)
    }

    fn run_on(&mut self, said: Arc<RoundAnswers>) {
        match self.runs.back_mut().filter(|run| run.said == said) {
            Some(run) => run.rounds += 1,
            None => self.runs.push_back(AnswerRun { rounds: 1, said }),
        }
    }

    pub(super) fn last(&self) -> Option<Round> {
        self.rounds.back().map(|(round, _)| *round)
    }

    pub(super) fn newest(&self) -> Option<&Arc<RoundAnswers>> {
        self.runs.back().map(|run| &run.said)
    }

    /// The TTL of the newest answer, in seconds.
    pub(super) fn newest_ttl(&self) -> Option<u32> {
        self.rounds.back().and_then(|(_, ttl)| *ttl)
    }

    /// Newest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = &AnswerRun> {
        self.runs.iter().rev()
    }

    /// The round that many rounds before the newest; `None` if there are fewer rounds.
    pub(super) fn back(&self, rounds: usize) -> Option<Round> {
        let at = self.rounds.len().checked_sub(rounds + 1)?;
        self.rounds.get(at).map(|(round, _)| *round)
    }

    pub(super) fn len(&self) -> usize {
        self.rounds.len()
    }

    /// All addresses of the window.
    pub(super) fn union(&self) -> BTreeSet<IpAddr> {
        let addresses = self.runs.iter().flat_map(|run| &run.said.addresses);
        addresses.copied().collect()
    }

    /// The largest observed TTL: a cache may serve an answer for that long.
    pub(super) fn ttl(&self) -> Option<u32> {
        self.rounds.iter().filter_map(|(_, ttl)| *ttl).max()
    }
}
