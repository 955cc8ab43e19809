//! One resolver's answers to one name at one vantage.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{DnsAnswer, Round};

/// Rounds over which answers are put together.
pub(super) const WINDOW: usize = 12;

/// Addresses of one answer that are looked at; an answer of one UDP packet has fewer.
const ADDRESSES: usize = 64;

/// Different answers to one name that are kept once for all vantages; a pool that rotates without end is not.
const SAYINGS: usize = 32;

/// What was said in one round.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct RoundAnswers {
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Somebody was told that the name leads nowhere.
    pub(super) nothing: bool,
    /// The name that was answered, where the search list made it another.
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

    /// The same without the work of making it: nearly every answer is what it was the round before.
    fn is(&self, answer: &DnsAnswer, nothing: bool, asked_as: Option<&str>) -> bool {
        self.nothing == nothing
            && self.asked_as.as_deref() == asked_as
            && self.addresses.len() == answer.addresses.len()
            && answer
                .addresses
                .iter()
                .all(|address| self.addresses.contains(address))
    }

    /// Two answers of one round: what either said. An address outweighs "nothing": a question for the other family
    /// may find none.
    fn and(&self, other: &Self) -> Self {
        let addresses: BTreeSet<IpAddr> = self.addresses.union(&other.addresses).copied().collect();
        Self {
            nothing: (self.nothing || other.nothing) && addresses.is_empty(),
            asked_as: self.asked_as.clone().max(other.asked_as.clone()),
            addresses,
        }
    }
}

/// Everything that was lately said of one name, each answer once: vantages mostly hear the same.
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

/// Rounds one after the other in which the same was said.
#[derive(Debug, Clone)]
pub(super) struct AnswerRun {
    pub(super) rounds: usize,
    pub(super) said: Arc<RoundAnswers>,
}

/// The last rounds in which anything was said.
#[derive(Debug, Clone, Default)]
pub(super) struct RecentRounds {
    /// With the largest TTL of each.
    rounds: VecDeque<(Round, Option<u32>)>,
    runs: VecDeque<AnswerRun>,
}

impl RecentRounds {
    /// Takes an answer of a round in that is not before any it knows.
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

    /// Takes the last round off its run.
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

    /// The round that came some rounds before the newest; none where there were not so many.
    pub(super) fn back(&self, rounds: usize) -> Option<Round> {
        let at = self.rounds.len().checked_sub(rounds + 1)?;
        self.rounds.get(at).map(|(round, _)| *round)
    }

    pub(super) fn len(&self) -> usize {
        self.rounds.len()
    }

    /// Every address of the window.
    pub(super) fn union(&self) -> BTreeSet<IpAddr> {
        let addresses = self.runs.iter().flat_map(|run| &run.said.addresses);
        addresses.copied().collect()
    }

    /// Largest TTL seen: a cache may serve an answer that long.
    pub(super) fn ttl(&self) -> Option<u32> {
        self.rounds.iter().filter_map(|(_, ttl)| *ttl).max()
    }
}
