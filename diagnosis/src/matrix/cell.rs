//! One cell of the matrix.

use std::collections::VecDeque;

use parallax_model::{Front, KindClass, Outcome, Phase, Placement, PodName, Recorded, Round};

use super::{CellPosition, ProbeOrder};
use crate::{evidence::rounds::OpenRounds, settings::Settings};

/// Rounds shown in a cell.
const SHOWN_ROUNDS: usize = 3;

/// The probes of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RoundCounts {
    /// Probes that are evidence of the present.
    pub(super) probes: u64,
    /// Failures among them.
    pub(super) failures: u64,
    /// Failures with a negative DNS answer, which a cache may still hold (RFC 2308).
    pub(super) negative_answers: u64,
    /// Failed probes of addresses and endpoints that no longer exist; no evidence of the present.
    pub(super) stale: u64,
}

impl RoundCounts {
    /// Returns the counts with negative answers as stale.
    pub(super) fn without_negative_answers(self) -> Self {
        Self {
            probes: self.probes - self.negative_answers,
            failures: self.failures - self.negative_answers,
            negative_answers: 0,
            stale: self.stale + self.negative_answers,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            probes: self.probes + other.probes,
            failures: self.failures + other.failures,
            negative_answers: self.negative_answers + other.negative_answers,
            stale: self.stale + other.stale,
        }
    }
}

/// A front, and whether the newest round of a cell there succeeded.
type FrontOutcome = (Option<Front>, bool);

/// The newest rounds of one target from one vantage.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    pub(super) rounds: VecDeque<(Round, RoundCounts)>,
    pub(super) last: Option<ProbeOrder>,
    pub(super) failure: Option<(Round, ProbeOrder, String)>,
    pub(super) front: Option<Front>,
    pub(super) entry: Option<PodName>,
    pub(super) placement: Option<Placement>,
}

impl Cell {
    pub(super) fn newest_round(&self) -> Option<Round> {
        self.rounds.back().map(|(round, _)| *round)
    }

    /// Whether the newest round succeeded completely; `None` without probes.
    pub(super) fn newest_succeeded(&self) -> Option<bool> {
        let (_, tally) = self.rounds.back()?;
        (tally.probes > 0).then_some(tally.failures == 0)
    }

    /// Adds an observation. Returns the state before and after, if still fresh.
    pub(super) fn add(
        &mut self,
        recorded: &Recorded,
        place: CellPosition,
        settings: Settings,
    ) -> (Option<FrontOutcome>, Option<FrontOutcome>) {
        let observation = &recorded.observation;
        let horizon = observation.started.minus(OpenRounds::silence_timeout(settings));
        let newest = self.newest_round();
        let believed = newest.is_some_and(|round| round.end(settings.interval) > horizon);
        let last_success = |cell: &Self| Some((cell.front, cell.newest_succeeded()?));
        let before = last_success(self).filter(|_| believed);
        let round = observation.started.round(settings.interval);
        self.count(round, counts_of(recorded, place.stale));
        let newness = (observation.started, observation.seq);
        if let Outcome::Failed { phase, kind, status } = &observation.outcome
            && self
                .failure
                .as_ref()
                .is_none_or(|(_, before, _)| *before <= newness)
        {
            let status = status.map(|s| format!(" {s}")).unwrap_or_default();
            self.failure = Some((round, newness, format!("{kind}{status} in {phase}")));
        }
        if self.last.is_none_or(|last| last <= newness) {
            self.last = Some(newness);
            self.front = place.front;
            self.entry.clone_from(&observation.entry);
            self.placement = Some(place.placement);
        }
        (before, last_success(self))
    }

    fn count(&mut self, round: Round, tally: RoundCounts) {
        let at = self.rounds.partition_point(|(known, _)| *known < round);
        match self.rounds.get_mut(at).filter(|(known, _)| *known == round) {
            Some((_, known)) => *known = known.plus(tally),
            None => self.rounds.insert(at, (round, tally)),
        }
        while self.rounds.len() > SHOWN_ROUNDS {
            self.rounds.pop_front();
        }
    }

    /// Maps the rounds to a new round length.
    pub(super) fn change_interval(&mut self, now: impl Fn(Round) -> Round) {
        for (round, tally) in std::mem::take(&mut self.rounds) {
            self.count(now(round), tally);
        }
        if let Some((round, ..)) = &mut self.failure {
            *round = now(*round);
        }
    }
}

fn counts_of(recorded: &Recorded, stale: bool) -> RoundCounts {
    let mut tally = RoundCounts {
        probes: 1,
        ..RoundCounts::default()
    };
    if let Outcome::Failed { phase, kind, .. } = &recorded.observation.outcome {
        if stale {
            return RoundCounts {
                stale: 1,
                ..RoundCounts::default()
            };
        }
        tally.failures = 1;
        let absent = *phase == Phase::Resolve && kind.class(None) == KindClass::NxDomain;
        tally.negative_answers = u64::from(absent);
    }
    tally
}
