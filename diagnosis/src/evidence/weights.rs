//! Fixed-point weights, and the guard against one stall that counts many times.
//!
//! Failures of one client in one round fall together (a stalled CPU, a full conntrack table), so each of m ≥ 2 enters
//! with weight 1/m. Taken alone this hides an incident that strikes many fronts at once: with all of a client's
//! failures at 1/20, three rounds still look healthy. Hence the guard: where the client's controls of that round (its
//! mesh probes) all passed, the client itself is fine and every failure keeps weight 1.

/// One probe. Divisible by every number up to 16, so that shares of a front add up exactly.
pub(crate) const ONE: u64 = 720_720;

/// A weight as a number of probes.
#[expect(
    clippy::cast_precision_loss,
    reason = "sums of weights stay far below 2^53; the conversion is the same on every machine"
)]
pub(crate) fn probes(weight: u64) -> f64 {
    weight as f64 / ONE as f64
}

/// A weight as whole probes, rounded.
pub(crate) const fn whole(weight: u64) -> u64 {
    (weight + ONE / 2) / ONE
}

/// What one client went through in one round.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientRound {
    /// Failures, a front counted once.
    pub(crate) failures: u64,
    /// Mesh probes.
    pub(crate) controls: u64,
    /// Failed ones among them.
    pub(crate) failed_controls: u64,
}

impl ClientRound {
    /// What a failure of this client in this round weighs, as a divisor.
    pub(crate) const fn divisor(self) -> u64 {
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
            .divisor()
        };
        assert_eq!(round(4, 2, 1), 4);
        assert_eq!(round(4, 0, 0), 4);
        assert_eq!(round(20, 2, 0), 1);
        assert_eq!(round(1, 2, 1), 1);
    }
}
