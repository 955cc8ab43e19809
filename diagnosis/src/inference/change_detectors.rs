//! Detects when the results of a subject change: in all, from one client, to one endpoint, or to one peer.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Round;

use super::sequential_tests::{Cusum, hard_steps, partial_loss_steps};
use crate::{
    evidence::cells::{Destination, RoundCells},
    ids::{NodeIx, PodIx, VantageIx},
};

/// CUSUM change detectors of a subject: overall, per client, per endpoint and per peer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChangeDetectors {
    cusums: BTreeMap<DetectorScope, [Cusum; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DetectorScope {
    All,
    Client(VantageIx),
    Entry(PodIx),
    Peer(NodeIx),
}

impl ChangeDetectors {
    /// Adds the subject's own cells of one round.
    pub(crate) fn step(&mut self, round: Round, cells: &RoundCells) {
        let mut sums: BTreeMap<DetectorScope, (u64, u64)> = BTreeMap::new();
        for (key, counts) in cells {
            let by_dest = match key.dest {
                Destination::Entry(pod) => Some(DetectorScope::Entry(pod)),
                Destination::Peer(node) => Some(DetectorScope::Peer(node)),
                Destination::Unknown | Destination::Name(_) | Destination::Lookup(_) => None,
            };
            for stream in [
                Some(DetectorScope::All),
                Some(DetectorScope::Client(key.client)),
                by_dest,
            ]
            .into_iter()
            .flatten()
            {
                let sum = sums.entry(stream).or_default();
                sum.0 += counts.failures;
                sum.1 += counts.probes - counts.failures;
            }
        }
        for (stream, (failures, successes)) in sums {
            if failures == 0 && !self.cusums.contains_key(&stream) {
                continue;
            }
            let pair = self.cusums.entry(stream).or_insert([Cusum::new(round); 2]);
            pair[0].step(round, failures, successes, hard_steps());
            pair[1].step(round, failures, successes, partial_loss_steps());
        }
        self.cusums
            .retain(|_, pair| pair.iter().any(|cusum| cusum.rising_since().is_some()));
    }

    pub(crate) fn any_rising(&self) -> bool {
        !self.cusums.is_empty()
    }

    /// Returns the start of the earliest rise.
    pub(crate) fn rising_since(&self) -> Option<Round> {
        let pairs = self.cusums.values().flatten();
        pairs.filter_map(Cusum::rising_since).min()
    }

    pub(crate) fn clear(&mut self) {
        self.cusums.clear();
    }

    /// Returns the candidate start rounds of the window: the start of the earliest rise of the hard trigger, of
    /// the soft trigger, and `floor` (all evidence).
    pub(crate) fn windows(&self, floor: Round) -> BTreeSet<Round> {
        let first = |i: usize| {
            self.cusums
                .values()
                .filter_map(|pair| pair[i].rising_since())
                .min()
        };
        [first(0), first(1), Some(floor)]
            .into_iter()
            .flatten()
            .map(|start| start.max(floor))
            .collect()
    }
}
