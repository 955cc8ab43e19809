//! Clients whose failures of a round do not come from stalls, and keep their full weight.
//!
//! The failures of one client in one round share one vote because a stall breaks them together (see [`super::weights`]).
//! Stalls are rare, and independent of each other. A client that fails in every control of several rounds in a row is broken,
//! and where the controls of many clients fail at once, the network is. A control that fails because of a cause that is named already
//! is no sign of a stall.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Round;

use super::cells::{CellKey, ClosedCells};
use crate::ids::VantageIx;

/// Rounds in a row in which all controls of a client fail, from which its failures keep their full weight. With stalls in one
/// round of twenty, this happens by chance once in 8,000 rounds of a client.
const MIN_LASTING_ROUNDS: u32 = 3;
/// Share of the clients whose controls fail in one round from which they do not fail because of stalls of each.
const MAX_STALLED_SHARE: usize = 3;
const MIN_FAILING_CLIENTS: usize = 3;

/// The clients whose failures of a round keep their full weight.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientsWithoutStalls {
    /// All of them: too many fail for stalls of single clients.
    All,
    /// Those that have failed for too many rounds for a stall, or for a known reason.
    Lasting(BTreeSet<VantageIx>),
}

/// What the controls of former rounds show of stalls.
#[derive(Debug, Default)]
pub(crate) struct StallHistory {
    /// The clients whose controls all failed in the last round, and for how many rounds in a row.
    lasting: BTreeMap<VantageIx, (Round, u32)>,
    /// The last round in which the controls of too many clients failed for stalls of single clients.
    many_failed: Option<Round>,
}

/// The controls of one client in one round.
#[derive(Debug)]
struct ControlResults {
    any_failed: bool,
    all_failed: bool,
}

impl ClientsWithoutStalls {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Lasting(clients) if clients.is_empty())
    }

    pub(crate) fn contains(&self, client: VantageIx) -> bool {
        match self {
            Self::All => true,
            Self::Lasting(clients) => clients.contains(&client),
        }
    }

    /// Adds the clients all of whose failed controls are explained by a cause that is named already.
    pub(crate) fn with_explained(
        self,
        controls: &ClosedCells,
        is_explained: impl Fn(&CellKey) -> bool,
    ) -> Self {
        let Self::Lasting(mut clients) = self else {
            return self;
        };
        let mut failing: BTreeMap<VantageIx, bool> = BTreeMap::new();
        for (key, _) in controls
            .iter()
            .filter(|(_, counts)| counts.unweighted_failures > 0)
        {
            *failing.entry(key.client).or_insert(true) &= is_explained(key);
        }
        clients.extend(
            failing
                .into_iter()
                .filter(|(_, all)| *all)
                .map(|(client, _)| client),
        );
        Self::Lasting(clients)
    }
}

impl StallHistory {
    /// Adds the controls of a round, and returns the clients that do not stall in it.
    pub(crate) fn add_round(&mut self, round: Round, controls: &ClosedCells) -> ClientsWithoutStalls {
        let results = results_by_client(controls);
        let before = std::mem::take(&mut self.lasting);
        for (client, _) in results.iter().filter(|(_, results)| results.all_failed) {
            let earlier = before.get(client).filter(|(last, _)| last.0 == round.0 - 1);
            let count = earlier.map_or(1, |(_, count)| count.saturating_add(1));
            self.lasting.insert(*client, (round, count));
        }
        let failing = results.values().filter(|results| results.any_failed).count();
        if are_too_many_for_stalls(failing, results.len()) {
            let before = self.many_failed.replace(round);
            // The machine that all clients share (a test cluster on a laptop) stalls for less than two rounds.
            if before == Some(Round(round.0 - 1)) {
                return ClientsWithoutStalls::All;
            }
        }
        let lasting = self.lasting.iter();
        let lasting = lasting.filter(|(_, (_, count))| *count >= MIN_LASTING_ROUNDS);
        ClientsWithoutStalls::Lasting(lasting.map(|(client, _)| *client).collect())
    }
}

fn results_by_client(controls: &ClosedCells) -> BTreeMap<VantageIx, ControlResults> {
    let mut by_client = BTreeMap::new();
    for (key, counts) in controls.iter() {
        let results = by_client.entry(key.client).or_insert(ControlResults {
            any_failed: false,
            all_failed: true,
        });
        results.any_failed |= counts.unweighted_failures > 0;
        results.all_failed &= counts.unweighted_failures == counts.unweighted_probes;
    }
    by_client
}

/// Reports whether so many clients have failed controls in one round that the network is the cause, not a stall of each.
const fn are_too_many_for_stalls(failing: usize, clients: usize) -> bool {
    failing >= MIN_FAILING_CLIENTS && failing * MAX_STALLED_SHARE >= clients
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
        let mut failures = StallHistory::default();
        let round = [(0, 1, true), (0, 2, true), (1, 0, true), (1, 2, false)];
        for i in 0..2 {
            assert!(failures.add_round(Round(i), &controls(&round)).is_empty());
        }
        assert_eq!(
            failures.add_round(Round(2), &controls(&round)),
            ClientsWithoutStalls::Lasting(BTreeSet::from([VantageIx(0)]))
        );
    }

    #[test]
    fn a_success_and_a_round_without_controls_begin_anew() {
        let mut failures = StallHistory::default();
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

    #[test]
    fn a_client_whose_failed_controls_have_a_known_cause_does_not_stall() {
        let mut history = StallHistory::default();
        let round = controls(&[(0, 9, true), (0, 1, false), (1, 9, true), (1, 2, true)]);
        let stalls = history.add_round(Round(0), &round);
        let to_named_node = |key: &CellKey| key.dest == Destination::Peer(NodeIx(9));
        assert_eq!(
            stalls.with_explained(&round, to_named_node),
            ClientsWithoutStalls::Lasting(BTreeSet::from([VantageIx(0)]))
        );
    }
}
