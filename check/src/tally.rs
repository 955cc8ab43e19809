//! Statistics over several passes.

use std::net::SocketAddr;

use parallax_model::{Micros, Outcome, PhaseTimes};

use super::round::CheckRound;

/// A phase of a probe with its duration.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbePhase {
    /// The column heading in tables.
    pub(super) heading: &'static str,
    /// The field name in JSON.
    pub(super) label: &'static str,
    pub(super) duration: fn(&PhaseTimes) -> Option<Micros>,
}

/// The phases, in order.
pub(super) const PHASES: &[ProbePhase] = &[
    ProbePhase {
        heading: "connect",
        label: "connect",
        duration: |times| times.connect,
    },
    ProbePhase {
        heading: "PROXY",
        label: "proxy_header",
        duration: |times| times.proxy_header,
    },
    ProbePhase {
        heading: "TLS",
        label: "tls",
        duration: |times| times.tls,
    },
    ProbePhase {
        heading: "first byte",
        label: "first_byte",
        duration: |times| times.first_byte,
    },
    ProbePhase {
        heading: "body",
        label: "body",
        duration: |times| times.body,
    },
    ProbePhase {
        heading: "total",
        label: "total",
        duration: |times| times.total,
    },
];

/// Percentiles of durations, by nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Percentiles {
    pub(super) min: Micros,
    pub(super) median: Micros,
    pub(super) p90: Micros,
    pub(super) max: Micros,
}

impl Percentiles {
    /// Returns `None` if there are no durations.
    pub(super) fn from_durations(mut times: Vec<Micros>) -> Option<Self> {
        times.sort_unstable();
        let rank = |per_cent: usize| {
            times
                .get((times.len() * per_cent).div_ceil(100).max(1) - 1)
                .copied()
        };
        Some(Self {
            min: *times.first()?,
            median: rank(50)?,
            p90: rank(90)?,
            max: *times.last()?,
        })
    }
}

/// The results of all passes for one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressTally {
    pub(super) address: SocketAddr,
    pub(super) ok: usize,
    pub(super) failed: usize,
    /// Probes that this machine could not make.
    pub(super) unknown: usize,
    /// Percentiles of the first request of the successful probes, one entry for each of [`PHASES`]. Failed probes are
    /// left out: their duration is when the prober gave up, not how fast the server is.
    pub(super) phase_percentiles: Vec<Option<Percentiles>>,
}

/// Returns the statistics of each address, in the order in which the addresses appeared.
pub(super) fn tally_addresses(rounds: &[CheckRound]) -> Vec<AddressTally> {
    let mut order: Vec<SocketAddr> = Vec::new();
    for one in rounds.iter().flat_map(|round| &round.reached) {
        if !order.contains(&one.address) {
            order.push(one.address);
        }
    }
    order
        .into_iter()
        .map(|address| tally_address(address, rounds))
        .collect()
}

fn tally_address(address: SocketAddr, rounds: &[CheckRound]) -> AddressTally {
    let all: Vec<_> = rounds
        .iter()
        .flat_map(|round| &round.reached)
        .filter(|one| one.address == address)
        .collect();
    let ok: Vec<_> = all
        .iter()
        .filter(|one| matches!(one.outcome, Outcome::Ok { .. }))
        .collect();
    let unknown = all
        .iter()
        .filter(|one| matches!(one.outcome, Outcome::NotProbed { .. }))
        .count();
    let spreads = PHASES
        .iter()
        .map(|part| {
            let times = ok
                .iter()
                .filter_map(|one| (part.duration)(&one.requests.first()?.result.times));
            Percentiles::from_durations(times.collect())
        })
        .collect();
    AddressTally {
        address,
        ok: ok.len(),
        failed: all.len() - ok.len() - unknown,
        unknown,
        phase_percentiles: spreads,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_times_have_the_ninth_as_their_ninetieth_per_cent() {
        let spread = Percentiles::from_durations((1..=10).rev().map(Micros).collect()).unwrap();
        assert_eq!(
            (spread.min, spread.median, spread.p90, spread.max),
            (Micros(1), Micros(5), Micros(9), Micros(10))
        );
        assert_eq!(Percentiles::from_durations(Vec::new()), None);
    }

    proptest! {
        #[test]
        fn whatever_was_measured_the_numbers_are_in_order_and_were_measured(
            times in proptest::collection::vec(any::<u64>().prop_map(Micros), 1..40)
        ) {
            let spread = Percentiles::from_durations(times.clone()).unwrap();
            prop_assert!(spread.min <= spread.median && spread.median <= spread.p90 && spread.p90 <= spread.max);
            prop_assert!([spread.median, spread.p90].iter().all(|time| times.contains(time)));
        }
    }
}
