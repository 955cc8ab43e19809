//! Tracks the waiting Challenges and schedules their explanations. Pure: the caller passes the time.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use parallax_api::challenges::{ChallengeCause, ChallengeExplanation, WaitingChallenge};
use parallax_kubernetes::watch::Key;
use parallax_model::{EventTime, Micros};
use parallax_preflight::{Challenge, SelfCheckFailure, meaning, reason};

use super::Options;

/// The minimum time between two explanations of a Challenge, even if its reason changes.
const SHORTEST: Micros = Micros::from_secs(30);

/// The result of an explanation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExplanationState {
    /// The self check was replayed; with the causes that the replay names.
    Replayed(Box<ChallengeExplanation>, Vec<ChallengeCause>),
    /// The self check could not be replayed; the reason.
    Not(String),
}

/// The state of all waiting Challenges.
#[derive(Debug, Default)]
pub(super) struct ChallengeRegistry {
    entries: BTreeMap<Key, RegistryEntry>,
    /// Whether a state has been taken before: a Challenge that appears later has just begun to wait.
    begun: bool,
}

#[derive(Debug)]
struct RegistryEntry {
    uid: String,
    challenge: Arc<Challenge>,
    waiting: SelfCheckFailure,
    since: EventTime,
    /// The time of the last attempt, and the reason at that time.
    tried: Option<(EventTime, SelfCheckFailure)>,
    under_way: bool,
    told: Option<ExplanationState>,
}

impl ChallengeRegistry {
    /// Takes the current Challenges. An explanation ends when its Challenge is gone or no longer waits.
    pub(super) fn take(&mut self, challenges: &BTreeMap<Key, Arc<Challenge>>, now: EventTime) {
        self.entries.retain(|key, entry| {
            challenges
                .get(key)
                .is_some_and(|challenge| waits(challenge) && challenge.metadata.uid == entry.uid)
        });
        for (key, challenge) in challenges.iter().filter(|(_, challenge)| waits(challenge)) {
            let waiting = reason(&challenge.status.reason);
            if let Some(entry) = self.entries.get_mut(key) {
                entry.waiting = waiting;
                entry.challenge = Arc::clone(challenge);
                continue;
            }
            // A Challenge that already waited when this aggregator started has waited since its creation, as far as
            // is known.
            let since = born(challenge).filter(|_| !self.begun).unwrap_or(now).min(now);
            let entry = RegistryEntry {
                uid: challenge.metadata.uid.clone(),
                challenge: Arc::clone(challenge),
                waiting,
                since,
                tried: None,
                under_way: false,
                told: None,
            };
            self.entries.insert(key.clone(), entry);
        }
        self.begun = true;
    }

    /// Removes all entries, because another replica leads.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the Challenges to explain now, the longest waiting first and up to the limit, and marks them as in
    /// progress.
    pub(super) fn next(&mut self, options: &Options, now: EventTime) -> Vec<(Key, Arc<Challenge>)> {
        let under_way = self.entries.values().filter(|entry| entry.under_way).count();
        let mut due: Vec<(EventTime, EventTime, Key)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_due(options, now))
            .map(|(key, entry)| {
                let last = entry.tried.as_ref().map_or(entry.since, |(at, _)| *at);
                (last, entry.since, key.clone())
            })
            .collect();
        due.sort();
        let mut next = Vec::new();
        for (.., key) in due.into_iter().take(options.at_once.saturating_sub(under_way)) {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.under_way = true;
                entry.tried = Some((now, entry.waiting.clone()));
                next.push((key, Arc::clone(&entry.challenge)));
            }
        }
        next
    }

    /// Takes the result of an explanation, if the Challenge still waits.
    pub(super) fn tell(&mut self, key: &Key, uid: &str, told: ExplanationState) {
        if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.uid == uid) {
            entry.under_way = false;
            entry.told = Some(told);
        }
    }

    /// Lists the Challenges that have waited long enough, the longest waiting first.
    pub(super) fn list(&self, options: &Options, now: EventTime) -> Vec<WaitingChallenge> {
        let mut all: Vec<WaitingChallenge> = self
            .entries
            .iter()
            .filter(|(_, entry)| now - entry.since >= options.after)
            .map(|(key, entry)| entry.view(key))
            .collect();
        all.sort_by(|a, b| (a.since, &a.namespace, &a.name).cmp(&(b.since, &b.namespace, &b.name)));
        all
    }
}

impl RegistryEntry {
    fn is_due(&self, options: &Options, now: EventTime) -> bool {
        if self.under_way || now - self.since < options.after || !replayable(&self.challenge, &self.waiting) {
            return false;
        }
        match &self.tried {
            None => true,
            Some((at, waiting)) => {
                let wait = if *waiting == self.waiting {
                    options.again
                } else {
                    SHORTEST.min(options.again)
                };
                now - *at >= wait
            }
        }
    }

    fn view(&self, key: &Key) -> WaitingChallenge {
        let (explanation, seen, not_replayed) = match &self.told {
            Some(ExplanationState::Replayed(explanation, causes)) => {
                (Some((**explanation).clone()), causes.clone(), None)
            }
            Some(ExplanationState::Not(why)) => (None, Vec::new(), Some(why.clone())),
            None if replayable(&self.challenge, &self.waiting) => (None, Vec::new(), None),
            None => (None, Vec::new(), Some(why_not(&self.challenge, &self.waiting))),
        };
        let causes = if explanation.is_some() {
            seen
        } else {
            usual(&self.waiting)
        };
        WaitingChallenge {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            host: self.challenge.spec.dns_name.clone(),
            since: self.since,
            reason: self.challenge.status.reason.replace(char::is_control, " "),
            meaning: meaning(&self.challenge, &self.waiting),
            causes,
            explanation,
            not_replayed,
        }
    }
}

/// Returns the usual causes of a reason.
fn usual(waiting: &SelfCheckFailure) -> Vec<ChallengeCause> {
    let SelfCheckFailure::SelfCheck(failure) = waiting else {
        return Vec::new();
    };
    let cause = |id: &&str| ChallengeCause {
        id: (*id).to_owned(),
        title: String::new(),
        diagnosed: false,
    };
    failure.usual.iter().map(cause).collect()
}

/// Reports whether the Challenge is started and not over, and either its solver exists or its reason explains why
/// not.
fn waits(challenge: &Challenge) -> bool {
    let status = &challenge.status;
    let alive = matches!(status.state.as_str(), "" | "pending" | "ready" | "processing");
    let pending = status.state == "pending" && status.presented;
    alive && challenge.metadata.deletion_timestamp.is_none() && (pending || !status.reason.trim().is_empty())
}

/// Reports whether a replayed fetch can add information.
fn replayable(challenge: &Challenge, waiting: &SelfCheckFailure) -> bool {
    by_http(challenge)
        && challenge.status.presented
        && matches!(
            waiting,
            SelfCheckFailure::Nothing | SelfCheckFailure::SelfCheck(_) | SelfCheckFailure::Other(_)
        )
}

fn by_http(challenge: &Challenge) -> bool {
    challenge.spec.sort.eq_ignore_ascii_case("HTTP-01")
}

fn why_not(challenge: &Challenge, waiting: &SelfCheckFailure) -> String {
    match waiting {
        _ if !by_http(challenge) => "it uses DNS-01, which requires no reachable address",
        SelfCheckFailure::Delay(_) => "its self check is skipped",
        SelfCheckFailure::Refused(_) => "the CA has already decided",
        _ => "its solver does not exist",
    }
    .to_owned()
}

fn born(challenge: &Challenge) -> Option<EventTime> {
    let born: Timestamp = challenge.metadata.creation_timestamp.parse().ok()?;
    Some(EventTime(born.as_microsecond()))
}
