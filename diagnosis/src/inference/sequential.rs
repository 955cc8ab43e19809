//! Tests that may be looked at after every round: CUSUM to start a window, the bounds of the test that ends an incident,
//! goodness of fit.

use parallax_model::Round;

use crate::evidence::weights::probes;

/// A running sum that says since when something is wrong. A round is one step: failures push it up, successes pull it
/// down to zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cusum {
    sum: f64,
    /// First round of the present rise.
    start: Round,
}

/// Failure probability of a healthy stream.
pub(crate) const P0: f64 = 0.005;
/// Failure probability of a broken one.
const P1: f64 = 0.5;
/// Failure probability of one that loses little.
const P1_SOFT: f64 = 0.2;

/// Steps of one failure and of one success.
pub(crate) fn steps(p1: f64) -> (f64, f64) {
    (libm::log(p1 / P0), libm::log((1.0 - p1) / (1.0 - P0)))
}

/// Steps of the hard trigger.
pub(crate) fn hard() -> (f64, f64) {
    steps(P1)
}

/// Steps of the trigger for small losses.
pub(crate) fn soft() -> (f64, f64) {
    steps(P1_SOFT)
}

impl Cusum {
    pub(crate) const fn new(start: Round) -> Self {
        Self { sum: 0.0, start }
    }

    /// Takes one round in.
    pub(crate) fn step(&mut self, round: Round, failures: u64, successes: u64, (up, down): (f64, f64)) {
        if self.sum <= 0.0 {
            self.start = round;
        }
        self.sum = (self.sum + probes(failures) * up + probes(successes) * down).max(0.0);
    }

    /// The first round of the rise, while there is one.
    pub(crate) fn rising_since(&self) -> Option<Round> {
        (self.sum > 0.0).then_some(self.start)
    }

    #[cfg(test)]
    pub(crate) const fn sum(&self) -> f64 {
        self.sum
    }
}

/// Accepted errors of the test that ends an incident: a broken stream called healthy, a healthy one called broken.
const ALPHA: f64 = 1e-6;
const BETA: f64 = 1e-3;

/// ln of the odds at which a sequential test accepts "healthy" (Wald).
pub(crate) fn healthy_bound() -> f64 {
    libm::log(BETA / (1.0 - ALPHA))
}

/// ln of the odds at which it accepts "broken". Recovery never asks for it: what is tested is known to be broken.
#[cfg(test)]
pub(crate) fn broken_bound() -> f64 {
    libm::log((1.0 - BETA) / ALPHA)
}

/// ln of the beta function.
fn ln_beta(a: f64, b: f64) -> f64 {
    libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b)
}

/// ln of the beta-binomial without its coefficient.
pub(crate) fn ln_bb(failures: f64, n: f64, a: f64, b: f64) -> f64 {
    ln_beta(a + failures, b + n - failures) - ln_beta(a, b)
}

/// ln m of one cell that owes nothing to any other: mostly healthy, sometimes anything.
pub(crate) fn ln_saturated(failures: f64, n: f64) -> f64 {
    let healthy = libm::log(0.95) + ln_bb(failures, n, 0.5, 100.0);
    let anything = libm::log(0.05) + ln_bb(failures, n, 1.0, 1.0);
    crate::inference::likelihood::lse(&[healthy, anything])
}
