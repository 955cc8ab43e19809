//! The usual answers of a working target, and whether an answer deviates from them.
//!
//! Without an expectation of its own, a target passes with any status below 500: some server responded, and only the
//! owner knows whether a 401 or a 404 is wrong. But a response does not prove that the target works: an ingress
//! controller itself answers 404 for a host whose Pods are gone. Therefore the answers of a working target are its
//! baseline, and an answer of a worse class is a failure. A target that has answered 404 from the start may continue
//! to do so.
//!
//! The baseline is learned from closed rounds only, so it does not depend on the order of arrival.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Micros, Round, ServerProduct, Vantage};
use serde::{Deserialize, Serialize};

/// Rounds with an answer after which the baseline is established.
const LEARNING_ROUNDS: u32 = 6;
/// Rounds after which an absent class leaves the baseline, if better classes were seen meanwhile.
const FORGET_ROUNDS: i64 = 24;
/// Maximum number of servers remembered per class.
const MAX_SERVERS: usize = 4;

/// Class of an answer with a status below 500, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerClass {
    /// 1xx to 3xx.
    Served,
    /// 401, 403, 407: the server requires authentication or denies access.
    Denied,
    /// Any other 4xx status.
    Rejected,
    /// 404, 410, 421: no such name or path.
    Missing,
}

impl AnswerClass {
    /// Returns the class of a status below 500.
    #[must_use]
    pub const fn of(status: u16) -> Self {
        match status {
            401 | 403 | 407 => Self::Denied,
            404 | 410 | 421 => Self::Missing,
            400.. => Self::Rejected,
            _ => Self::Served,
        }
    }
}

/// One answer with a status below 500.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BaselineAnswer {
    pub(crate) status: u16,
    /// `None` if the answer does not name its software.
    pub(crate) server: Option<ServerProduct>,
}

/// One class of usual answers of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsualAnswer {
    /// The class.
    pub class: AnswerClass,
    /// The newest status of the class.
    pub status: u16,
    /// Server software that gave such answers; empty if no answer named any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub servers: BTreeSet<ServerProduct>,
    /// Whether some answers of the class named no software.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anonymous: bool,
    /// Start of the first round with such an answer.
    pub since: EventTime,
    /// End of the last round with such an answer.
    pub last: EventTime,
}

/// The usual answers of a working target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Baseline {
    /// Classes of answers that count as working, best first.
    pub answers: Vec<UsualAnswer>,
    /// Rounds learned from, capped at the number that establishes the baseline.
    pub rounds: u32,
}

/// Answers of one target in open rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenAnswers(BTreeMap<Round, BTreeSet<BaselineAnswer>>);

impl OpenAnswers {
    /// Adds an answer to a round.
    pub(crate) fn add(&mut self, round: Round, answer: BaselineAnswer) {
        self.0.entry(round).or_default().insert(answer);
    }

    /// Returns the answers of a closed round and drops those of earlier rounds.
    pub(crate) fn close(&mut self, round: Round) -> BTreeSet<BaselineAnswer> {
        let later = self.0.split_off(&Round(round.0 + 1));
        let closed = self.0.remove(&round).unwrap_or_default();
        self.0 = later;
        closed
    }
}

impl Baseline {
    /// Reports whether enough rounds were seen.
    #[must_use]
    pub const fn is_established(&self) -> bool {
        self.rounds >= LEARNING_ROUNDS
    }

    /// Reports whether an answer is worse than the usual answers of the target.
    pub(crate) fn deviates(&self, answer: &BaselineAnswer) -> bool {
        if !self.is_established() {
            return false;
        }
        let class = AnswerClass::of(answer.status);
        let Some(best) = self.answers.first() else {
            return false;
        };
        match self.answers.iter().find(|usual| usual.class == class) {
            // An error of another server: the application named itself in each of its own errors.
            Some(usual) if class > AnswerClass::Served => {
                !usual.anonymous
                    && !usual.servers.is_empty()
                    && answer
                        .server
                        .as_ref()
                        .is_none_or(|server| !usual.servers.contains(server))
            }
            Some(_) => false,
            None => class > best.class,
        }
    }

    /// Learns from the answers of a closed round; deviating answers are ignored.
    pub(crate) fn learn(&mut self, round: Round, answers: &BTreeSet<BaselineAnswer>, interval: Micros) {
        let (start, end) = (round.start(interval), round.end(interval));
        let mut taught = false;
        for answer in answers {
            if self.deviates(answer) {
                continue;
            }
            taught = true;
            let class = AnswerClass::of(answer.status);
            let at = self.answers.partition_point(|usual| usual.class < class);
            if self.answers.get(at).is_none_or(|usual| usual.class != class) {
                let usual = UsualAnswer {
                    class,
                    status: answer.status,
                    servers: BTreeSet::new(),
                    anonymous: false,
                    since: start,
                    last: end,
                };
                self.answers.insert(at, usual);
            }
            let usual = &mut self.answers[at];
            usual.status = answer.status;
            usual.last = end;
            match &answer.server {
                Some(server) if usual.servers.len() < MAX_SERVERS => {
                    usual.servers.insert(server.clone());
                }
                // No server, or too many servers to recognize an answer by.
                _ => usual.anonymous = true,
            }
        }
        if !taught {
            return;
        }
        self.rounds = self.rounds.saturating_add(1).min(LEARNING_ROUNDS);
        if let Some(best) = self.answers.first().cloned() {
            let horizon = Micros(interval.0.saturating_mul(FORGET_ROUNDS.unsigned_abs()));
            self.answers.retain(|usual| {
                usual.class == best.class
                    || best.last - usual.last < horizon
                    || best.last - best.since < horizon
            });
        }
    }

    /// Forgets the baseline; answers from now on define what works.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// An answer of a worse class since a rollout of the application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerChange {
    pub(crate) status: u16,
    #[serde(rename = "before")]
    pub(crate) previous_status: u16,
    pub(crate) rollout: EventTime,
    pub(crate) since: EventTime,
    pub(crate) last: EventTime,
    pub(crate) vantages: BTreeSet<Vantage>,
    /// Consecutive closed rounds with only worse answers, up to the number that confirms the change. It stays low if
    /// an ingress controller answers 404 until it has updated its routes, or if only one Pod answers so, because
    /// other answers are still as before.
    #[serde(default)]
    #[serde(rename = "uniform")]
    pub(crate) uniform_rounds: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Micros = Micros::from_secs(5);

    fn answer(status: u16, server: &str) -> BaselineAnswer {
        BaselineAnswer {
            status,
            server: ServerProduct::from_field(server),
        }
    }

    /// Returns the baseline learned from rounds with these answers.
    fn learned(rounds: &[(usize, &[(u16, &str)])]) -> Baseline {
        let mut baseline = Baseline::default();
        let all = rounds
            .iter()
            .flat_map(|(n, answers)| std::iter::repeat_n(answers, *n));
        for (round, answers) in (0..).zip(all) {
            let answers = answers
                .iter()
                .map(|(status, server)| answer(*status, server))
                .collect();
            baseline.learn(Round(round), &answers, INTERVAL);
        }
        baseline
    }

    fn deviating(baseline: &Baseline, statuses: &[u16]) -> Vec<u16> {
        let deviates = |status: &&u16| baseline.deviates(&answer(**status, ""));
        statuses.iter().filter(deviates).copied().collect()
    }

    #[test]
    fn what_worked_and_is_missing_now_deviates_and_what_was_always_missing_does_not() {
        let works = learned(&[(6, &[(200, "")])]);
        assert_eq!(
            deviating(&works, &[200, 204, 302, 401, 404, 400]),
            [401, 404, 400]
        );
        let missing = learned(&[(6, &[(404, "")])]);
        assert_eq!(deviating(&missing, &[200, 302, 401, 404, 400]), [0_u16; 0]);
        let guarded = learned(&[(6, &[(401, "")])]);
        assert_eq!(deviating(&guarded, &[200, 401, 403, 404]), [404]);
    }

    #[test]
    fn nothing_deviates_before_there_is_a_baseline() {
        let young = learned(&[(5, &[(200, "")])]);
        assert_eq!(deviating(&young, &[404]), [0_u16; 0]);
    }

    #[test]
    fn a_target_that_mixes_its_answers_may_go_on_mixing_them() {
        let mixed = learned(&[(6, &[(200, ""), (404, "")]), (10, &[(200, "")])]);
        assert_eq!(deviating(&mixed, &[200, 404]), [0_u16; 0]);
    }

    #[test]
    fn once_it_works_for_a_while_what_it_answered_before_is_an_outage() {
        let later = learned(&[(30, &[(404, "")]), (30, &[(200, "")])]);
        assert_eq!(deviating(&later, &[404]), [404]);
        let just = learned(&[(30, &[(404, "")]), (5, &[(200, "")])]);
        assert_eq!(deviating(&just, &[404]), [0_u16; 0]);
    }

    #[test]
    fn a_baseline_learns_nothing_from_an_outage_however_long_it_lasts() {
        let mut baseline = learned(&[(30, &[(200, "")])]);
        for round in 30..1_000 {
            baseline.learn(Round(round), &BTreeSet::from([answer(404, "")]), INTERVAL);
        }
        assert_eq!(deviating(&baseline, &[404]), [404]);
        baseline.reset();
        assert_eq!(deviating(&baseline, &[404]), [0_u16; 0]);
    }

    #[test]
    fn the_error_of_another_server_is_not_that_of_the_application() {
        let own = learned(&[(30, &[(404, "gunicorn/20")])]);
        assert!(!own.deviates(&answer(404, "gunicorn/21")));
        assert!(own.deviates(&answer(404, "nginx")));
        assert!(own.deviates(&answer(404, "")));
        assert!(!own.deviates(&answer(200, "nginx")));
        let anonymous = learned(&[(30, &[(404, ""), (404, "gunicorn")])]);
        assert!(!anonymous.deviates(&answer(404, "nginx")));
    }
}
