//! When the known causes of a subject's failures were there, and when a further fault may have begun.

use parallax_model::Round;

use super::Engine;
use crate::{
    evidence::block::CellBlock,
    incident::CausePeriod,
    inference::{
        judgement_unit::JudgementUnit,
        window::{KnownSpan, KnownSpans},
    },
    regions::{Region, paths::SubjectPaths, share::alpha},
};

/// How many rounds before the first failure of an incident the failures of other subjects may begin: causes do not show
/// everywhere in the same round.
const MAX_ONSET_ROUNDS: i64 = 2;

impl Engine {
    /// Returns when each known cause of a subject's failures was there.
    pub(super) fn known_spans(&self, unit: &JudgementUnit) -> KnownSpans {
        let known = self.incidents.known_causes(unit, self.front_of_unit(unit));
        let state = self.judgement.units.get(unit);
        let rise = state.and_then(|state| state.detectors.rising_since());
        let span = |region: Region, period: CausePeriod| {
            let since = period.since.round(self.settings.interval);
            // Nothing counts against a node while the echoes to it are withheld.
            let silent = region
                .node()
                .and_then(|node| self.presence.withheld.silent_from(node));
            let since = silent.map_or(since, |silent| silent.min(since));
            let earliest = Round(since.0 - MAX_ONSET_ROUNDS);
            KnownSpan {
                first: rise
                    .filter(|rise| *rise >= earliest)
                    .map_or(since, |rise| rise.min(since)),
                last: period.last_failure,
            }
        };
        known
            .into_iter()
            .map(|(region, period)| (region, span(region, period)))
            .collect()
    }

    /// Returns the first round with a failure of a subject that none of the known causes explains.
    pub(super) fn onset_beside_known(
        &self,
        (own, paths): (&[CellBlock], &SubjectPaths),
        start: Round,
        known: &KnownSpans,
    ) -> Option<Round> {
        let (_, failing) = self.failing_cells(own, &[], start, false);
        let onset = failing.iter().find(|(round, cells)| {
            let present = known.iter().filter(|(_, span)| span.contains(**round));
            let present: Vec<Region> = present.map(|(region, _)| *region).collect();
            cells.iter().any(|key| alpha(&present, key, paths).is_zero())
        });
        onset.map(|(round, _)| *round)
    }
}
