//! Clients whose controls fail round after round: not a stall, but a fault.
//!
//! The failures of one client in one round share one vote because a stall breaks them together (see [`super::weights`]).
//! Stalls are independent from round to round and rare. A client that fails in every control of several rounds in a row is
//! broken, and its failures are evidence like those of any other client.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Round;

use super::cells::ClosedCells;
use crate::ids::VantageIx;

/// Rounds in a row in which all controls of a client fail, from which its failures keep their full weight. With stalls in one
/// round of twenty, this happens by chance once in 8,000 rounds of a client.
const MIN_ROUNDS: u32 = 3;

/// The clients whose controls all failed in the last round, and for how many rounds in a row.
#[derive(Debug, Default)]
pub(crate) struct LastingFailures {
    rounds: BTreeMap<VantageIx, (Round, u32)>,
}

impl LastingFailures {
    /// Adds the controls of a round, and returns the clients that have failed for too many rounds for a stall.
    pub(crate) fn add_round(&mut self, round: Round, controls: &ClosedCells) -> BTreeSet<VantageIx> {
        let mut failing: BTreeMap<VantageIx, bool> = BTreeMap::new();
        for (key, counts) in controls.iter() {
            let all = failing.entry(key.client).or_insert(true);
            *all &= counts.unweighted_failures == counts.unweighted_probes;
        }
        let before = std::mem::take(&mut self.rounds);
        for (client, _) in failing.into_iter().filter(|(_, all)| *all) {
            let earlier = before.get(&client).filter(|(last, _)| last.0 == round.0 - 1);
            let count = earlier.map_or(1, |(_, count)| count.saturating_add(1));
            self.rounds.insert(client, (round, count));
        }
        let lasting = self.rounds.iter().filter(|(_, (_, count))| *count >= MIN_ROUNDS);
        lasting.map(|(client, _)| *client).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::{
            cells::{CellCounts, CellKey, Destination},
            weights::ONE_PROBE,
        },
        ids::NodeIx,
    };

    fn controls(failing: &[(u32, u32, bool)]) -> ClosedCells {
        let cells = failing.iter().map(|(client, peer, fails)| {
            let key = CellKey {
                channel: parallax_model::Channel::Mesh,
                client: VantageIx(*client),
                dest: Destination::Peer(NodeIx(*peer)),
            };
            let counts = CellCounts {
                unweighted_probes: ONE_PROBE,
                unweighted_failures: if *fails { ONE_PROBE } else { 0 },
                ..CellCounts::default()
            };
            (key, counts)
        });
        ClosedCells::new(cells.collect())
    }

    #[test]
    fn a_client_is_broken_when_all_of_its_controls_fail_in_three_rounds_in_a_row() {
        let mut failures = LastingFailures::default();
        let round = [(0, 1, true), (0, 2, true), (1, 0, true), (1, 2, false)];
        for i in 0..2 {
            assert!(failures.add_round(Round(i), &controls(&round)).is_empty());
        }
        assert_eq!(
            failures.add_round(Round(2), &controls(&round)),
            BTreeSet::from([VantageIx(0)])
        );
    }

    #[test]
    fn a_success_and_a_round_without_controls_begin_anew() {
        let mut failures = LastingFailures::default();
        let failing = controls(&[(0, 1, true)]);
        for i in 0..2 {
            failures.add_round(Round(i), &failing);
        }
        failures.add_round(Round(2), &controls(&[(0, 1, false)]));
        for i in [3, 4, 6, 7] {
            assert!(failures.add_round(Round(i), &failing).is_empty(), "{i}");
        }
        assert!(!failures.add_round(Round(8), &failing).is_empty());
    }
}
