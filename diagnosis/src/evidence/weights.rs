//! Fixed-point weights, and the guard against counting one stall many times.
//!
//! Failures of one client in one round are correlated (a stalled CPU, a full conntrack table), so each of m ≥ 2
//! failures gets weight 1/m. This alone would hide an incident that affects many fronts at once: with weights of
//! 1/20, three rounds still look healthy. Therefore, if all of the client's controls of that round (its mesh probes)
//! passed, the client is fine and every failure keeps weight 1. The same holds if they fail, but not because of a stall (see
//! [`super::stalls`]).

/// Weight of one probe. Divisible by every number up to 16, so that shares of a front add up exactly.
pub(crate) const ONE_PROBE: u64 = 720_720;

/// Converts a weight to a number of probes.
#[expect(
    clippy::cast_precision_loss,
    reason = "sums of weights stay far below 2^53; the conversion is the same on every machine"
)]
pub(crate) fn to_probes(weight: u64) -> f64 {
    weight as f64 / ONE_PROBE as f64
}

/// Converts a weight to whole probes, rounded.
pub(crate) const fn to_whole_probes(weight: u64) -> u64 {
    (weight + ONE_PROBE / 2) / ONE_PROBE
}

/// Counts of one client in one round.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientRound {
    /// Failures; a front counts once.
    pub(crate) failures: u64,
    /// Mesh probes.
    pub(crate) controls: u64,
    /// Failed mesh probes.
    pub(crate) failed_controls: u64,
}

impl ClientRound {
    /// Returns the divisor of the weight of this client's failures in this round.
    pub(crate) const fn weight_divisor(self) -> u64 {
        let stall_possible = self.controls == 0 || self.failed_controls > 0;
        if stall_possible && self.failures >= 2 {
            self.failures
        } else {
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_share_one_vote_unless_the_controls_of_that_round_all_passed() {
        let round = |failures, controls, failed_controls| {
            ClientRound {
                failures,
                controls,
                failed_controls,
            }
            .weight_divisor()
        };
        assert_eq!(round(4, 2, 1), 4);
        assert_eq!(round(4, 0, 0), 4);
        assert_eq!(round(20, 2, 0), 1);
        assert_eq!(round(1, 2, 1), 1);
    }
}
