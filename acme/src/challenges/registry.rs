//! Tracks the waiting Challenges and schedules their explanations. Pure: the caller passes the time.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use parallax_api::challenges::{ChallengeCause, ChallengeExplanation, WaitingChallenge};
use parallax_kubernetes::watch::Key;
use parallax_model::{EventTime, Micros};
use parallax_preflight::{Challenge, ChallengeReason, explain_reason, parse_reason};

use super::ChallengeOptions;

/// The minimum time between two explanations of a Challenge, even if its reason changes.
const MIN_INTERVAL: Micros = Micros::from_secs(30);

/// The result of an explanation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExplanationState {
    /// The self check was replayed; with the causes that the replay names.
    Replayed(Box<ChallengeExplanation>, Vec<ChallengeCause>),
    /// The self check could not be replayed; the reason.
    NotReplayed(String),
}

/// The state of all waiting Challenges.
#[derive(Debug, Default)]
pub(super) struct ChallengeRegistry {
    entries: BTreeMap<Key, RegistryEntry>,
    /// Whether a state has been taken before: a Challenge that appears later has just begun to wait.
    initialized: bool,
}

#[derive(Debug)]
struct RegistryEntry {
    uid: String,
    challenge: Arc<Challenge>,
    reason: ChallengeReason,
    since: EventTime,
    /// The time of the last attempt, and the reason at that time.
    last_attempt: Option<(EventTime, ChallengeReason)>,
    in_progress: bool,
    state: Option<ExplanationState>,
}

impl ChallengeRegistry {
    /// Takes the current Challenges. An explanation ends when its Challenge is gone or no longer waits.
    pub(super) fn sync(&mut self, challenges: &BTreeMap<Key, Arc<Challenge>>, now: EventTime) {
        self.entries.retain(|key, entry| {
            challenges
                .get(key)
                .is_some_and(|challenge| is_waiting(challenge) && challenge.metadata.uid == entry.uid)
        });
        for (key, challenge) in challenges.iter().filter(|(_, challenge)| is_waiting(challenge)) {
            let waiting = parse_reason(&challenge.status.reason);
            if let Some(entry) = self.entries.get_mut(key) {
                entry.reason = waiting;
                entry.challenge = Arc::clone(challenge);
                continue;
            }
            // A Challenge that already waited when this aggregator started has waited since its creation, as far as
            // is known.
            let since = created_at(challenge)
                .filter(|_| !self.initialized)
                .unwrap_or(now)
                .min(now);
            let entry = RegistryEntry {
                uid: challenge.metadata.uid.clone(),
                challenge: Arc::clone(challenge),
                reason: waiting,
                since,
                last_attempt: None,
                in_progress: false,
                state: None,
            };
            self.entries.insert(key.clone(), entry);
        }
        self.initialized = true;
    }

    /// Removes all entries, because another replica leads.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the Challenges to explain now, the longest waiting first and up to the limit, and marks them as in
    /// progress.
    pub(super) fn start_due(
        &mut self,
        options: &ChallengeOptions,
        now: EventTime,
    ) -> Vec<(Key, Arc<Challenge>)> {
        let under_way = self.entries.values().filter(|entry| entry.in_progress).count();
        let mut due: Vec<(EventTime, EventTime, Key)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.is_due(options, now))
            .map(|(key, entry)| {
                let last = entry.last_attempt.as_ref().map_or(entry.since, |(at, _)| *at);
                (last, entry.since, key.clone())
            })
            .collect();
        due.sort();
        let mut next = Vec::new();
        for (.., key) in due
            .into_iter()
            .take(options.max_concurrent.saturating_sub(under_way))
        {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.in_progress = true;
                entry.last_attempt = Some((now, entry.reason.clone()));
                next.push((key, Arc::clone(&entry.challenge)));
            }
        }
        next
    }

    /// Takes the result of an explanation, if the Challenge still waits.
    pub(super) fn set_state(&mut self, key: &Key, uid: &str, state: ExplanationState) {
        if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.uid == uid) {
            entry.in_progress = false;
            entry.state = Some(state);
        }
    }

    /// Lists the Challenges that have waited long enough, the longest waiting first.
    pub(super) fn list(&self, options: &ChallengeOptions, now: EventTime) -> Vec<WaitingChallenge> {
        let mut all: Vec<WaitingChallenge> = self
            .entries
            .iter()
            .filter(|(_, entry)| now - entry.since >= options.wait_before)
            .map(|(key, entry)| entry.view(key))
            .collect();
        all.sort_by(|a, b| (a.since, &a.namespace, &a.name).cmp(&(b.since, &b.namespace, &b.name)));
        all
    }
}

impl RegistryEntry {
    fn is_due(&self, options: &ChallengeOptions, now: EventTime) -> bool {
        if self.in_progress
            || now - self.since < options.wait_before
            || !is_replayable(&self.challenge, &self.reason)
        {
            return false;
        }
        match &self.last_attempt {
            None => true,
            Some((at, waiting)) => {
                let wait = if *waiting == self.reason {
                    options.explanation_ttl
                } else {
                    MIN_INTERVAL.min(options.explanation_ttl)
                };
                now - *at >= wait
            }
        }
    }

    fn view(&self, key: &Key) -> WaitingChallenge {
        let (explanation, seen, not_replayed) = match &self.state {
            Some(ExplanationState::Replayed(explanation, causes)) => {
                (Some((**explanation).clone()), causes.clone(), None)
            }
            Some(ExplanationState::NotReplayed(reason)) => (None, Vec::new(), Some(reason.clone())),
            None if is_replayable(&self.challenge, &self.reason) => (None, Vec::new(), None),
            None => (
                None,
                Vec::new(),
                Some(not_replayed_reason(&self.challenge, &self.reason)),
            ),
        };
        let causes = if explanation.is_some() {
            seen
        } else {
            usual_causes(&self.reason)
        };
        WaitingChallenge {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            host: self.challenge.spec.dns_name.clone(),
            since: self.since,
            reason: self.challenge.status.reason.replace(char::is_control, " "),
            meaning: explain_reason(&self.challenge, &self.reason),
            causes,
            explanation,
            not_replayed,
        }
    }
}

/// Returns the usual causes of a reason.
fn usual_causes(reason: &ChallengeReason) -> Vec<ChallengeCause> {
    let ChallengeReason::SelfCheck(failure) = reason else {
        return Vec::new();
    };
    let cause = |id: &&str| ChallengeCause {
        id: (*id).to_owned(),
        title: String::new(),
        diagnosed: false,
    };
    failure.usual_causes.iter().map(cause).collect()
}

/// Reports whether the Challenge is started and not over, and either its solver exists or its reason explains why
/// not.
fn is_waiting(challenge: &Challenge) -> bool {
    let status = &challenge.status;
    let alive = matches!(status.state.as_str(), "" | "pending" | "ready" | "processing");
    let pending = status.state == "pending" && status.presented;
    alive && challenge.metadata.deletion_timestamp.is_none() && (pending || !status.reason.trim().is_empty())
}

/// Reports whether a replayed fetch can add information.
fn is_replayable(challenge: &Challenge, reason: &ChallengeReason) -> bool {
    is_http01(challenge)
        && challenge.status.presented
        && matches!(
            reason,
            ChallengeReason::NoReason | ChallengeReason::SelfCheck(_) | ChallengeReason::Unrecognized(_)
        )
}

fn is_http01(challenge: &Challenge) -> bool {
    challenge.spec.challenge_type.eq_ignore_ascii_case("HTTP-01")
}

fn not_replayed_reason(challenge: &Challenge, reason: &ChallengeReason) -> String {
    match reason {
        _ if !is_http01(challenge) => "it uses DNS-01, which requires no reachable address",
        ChallengeReason::SelfCheckSkipped(_) => "its self check is skipped",
        ChallengeReason::RejectedByCa(_) => "the CA has already decided",
        _ => "its solver does not exist",
    }
    .to_owned()
}

fn created_at(challenge: &Challenge) -> Option<EventTime> {
    let born: Timestamp = challenge.metadata.creation_timestamp.parse().ok()?;
    Some(EventTime(born.as_microsecond()))
}
