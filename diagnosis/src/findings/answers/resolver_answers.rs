//! One resolver's answers for one name at one vantage.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{DnsAnswer, Micros, Round};

use super::cache_lifetime::CacheLifetime;

/// Number of rounds over which answers are combined.
pub(super) const WINDOW_ROUNDS: usize = 12;

/// Maximum number of addresses read from one answer; an answer in one UDP packet has fewer.
const MAX_ADDRESSES: usize = 64;

/// Maximum number of distinct answers per name that all vantages share; further answers, as of an endlessly rotating
/// pool, are stored per vantage.
const MAX_SHARED_ANSWERS: usize = 32;

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
            addresses: answer.addresses.iter().copied().take(MAX_ADDRESSES).collect(),
            nothing,
            asked_as,
        }
    }

    /// Compares without building a value: nearly every answer is the same as in the previous round.
    fn matches(&self, answer: &DnsAnswer, nothing: bool, asked_as: Option<&str>) -> bool {
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
    fn merge(&self, other: &Self) -> Self {
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
    fn intern(&mut self, answers: RoundAnswers) -> Arc<RoundAnswers> {
        if let Some(known) = self.0.iter().find(|known| ***known == answers) {
            return Arc::clone(known);
        }
        if self.0.len() >= MAX_SHARED_ANSWERS {
            self.0.retain(|answers| Arc::strong_count(answers) > 1);
        }
        let answers = Arc::new(answers);
        if self.0.len() < MAX_SHARED_ANSWERS {
            self.0.push(Arc::clone(&answers));
        }
        answers
    }
}

/// Consecutive rounds with the same answer.
#[derive(Debug, Clone)]
pub(super) struct AnswerRun {
    pub(super) rounds: usize,
    pub(super) answer: Arc<RoundAnswers>,
}

/// The last rounds with an answer.
#[derive(Debug, Clone, Default)]
pub(super) struct RecentRounds {
    rounds: VecDeque<Round>,
    /// The largest TTL of the newest round, in seconds.
    newest_ttl: Option<u32>,
    runs: VecDeque<AnswerRun>,
    pub(super) cache_lifetime: CacheLifetime,
}

impl RecentRounds {
    /// Adds an answer of a round that is not earlier than any known round.
    pub(super) fn add(
        &mut self,
        round: Round,
        answer: &DnsAnswer,
        nothing: bool,
        asked_as: Option<&str>,
        (answer_log, interval): (&mut AnswerLog, Micros),
    ) {
        self.cache_lifetime.add(round, answer.ttl_s, interval);
        let again = self
            .runs
            .back()
            .is_some_and(|run| run.answer.matches(answer, nothing, asked_as));
        let new = || RoundAnswers::of(answer, nothing, asked_as.map(ToOwned::to_owned));
        match self.rounds.back() {
            Some(last) if *last == round => {
                self.newest_ttl = self.newest_ttl.max(answer.ttl_s);
                if !again && let Some(before) = self.end_run() {
                    self.extend_run(answer_log.intern(before.merge(&new())));
                }
            }
            _ => {
                self.rounds.push_back(round);
                self.newest_ttl = answer.ttl_s;
                match self.runs.back_mut().filter(|_| again) {
                    Some(run) => run.rounds += 1,
                    None => self.extend_run(answer_log.intern(new())),
                }
            }
        }
        while self.rounds.len() > WINDOW_ROUNDS {
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
        let answers = Arc::clone(&run.answer);
        run.rounds -= 1;
        if run.rounds == 0 {
            self.runs.pop_back();
        }
        Some(answers)
    }

    fn extend_run(&mut self, answers: Arc<RoundAnswers>) {
        match self.runs.back_mut().filter(|run| run.answer == answers) {
            Some(run) => run.rounds += 1,
            None => self.runs.push_back(AnswerRun {
                rounds: 1,
                answer: answers,
            }),
        }
    }

    pub(super) fn last(&self) -> Option<Round> {
        self.rounds.back().copied()
    }

    pub(super) fn newest(&self) -> Option<&Arc<RoundAnswers>> {
        self.runs.back().map(|run| &run.answer)
    }

    /// The TTL of the newest answer, in seconds.
    pub(super) const fn newest_ttl(&self) -> Option<u32> {
        self.newest_ttl
    }

    /// Newest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = &AnswerRun> {
        self.runs.iter().rev()
    }

    /// The round that many rounds before the newest; `None` if there are fewer rounds.
    pub(super) fn round_before(&self, rounds: usize) -> Option<Round> {
        let at = self.rounds.len().checked_sub(rounds + 1)?;
        self.rounds.get(at).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.rounds.len()
    }

    /// All addresses of the window.
    pub(super) fn union(&self) -> BTreeSet<IpAddr> {
        let addresses = self.runs.iter().flat_map(|run| &run.answer.addresses);
        addresses.copied().collect()
    }
}
