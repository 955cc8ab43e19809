//! Sequential tests, valid after every round: CUSUM to locate the start of a fault, Wald's bounds for the test
//! that ends an incident, and the saturated model of the goodness-of-fit test.

use parallax_model::Round;

use crate::evidence::weights::to_probes;

/// A one-sided CUSUM: the sum of log-likelihood ratios, reset at zero. Failures raise it, successes lower it; one
/// step per round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cusum {
    sum: f64,
    /// First round of the current rise.
    start: Round,
}

/// Failure probability of a healthy stream.
pub(crate) const P0: f64 = 0.005;
/// Failure probability of a broken stream.
const P1: f64 = 0.5;
/// Failure probability of a stream with partial loss.
const P1_PARTIAL: f64 = 0.2;

/// Returns the log-likelihood ratios of one failure and of one success.
pub(crate) fn steps(p1: f64) -> (f64, f64) {
    (libm::log(p1 / P0), libm::log((1.0 - p1) / (1.0 - P0)))
}

/// Steps of the trigger for hard faults.
pub(crate) fn hard_steps() -> (f64, f64) {
    steps(P1)
}

/// Steps of the trigger for partial loss.
pub(crate) fn partial_loss_steps() -> (f64, f64) {
    steps(P1_PARTIAL)
}

impl Cusum {
    pub(crate) const fn new(start: Round) -> Self {
        Self { sum: 0.0, start }
    }

    /// Adds one round.
    pub(crate) fn step(&mut self, round: Round, failures: u64, successes: u64, (up, down): (f64, f64)) {
        if self.sum <= 0.0 {
            self.start = round;
        }
        self.sum = (self.sum + to_probes(failures) * up + to_probes(successes) * down).max(0.0);
    }

    /// Returns the first round of the current rise, if any.
    pub(crate) fn rising_since(&self) -> Option<Round> {
        (self.sum > 0.0).then_some(self.start)
    }

    #[cfg(test)]
    pub(crate) const fn sum(&self) -> f64 {
        self.sum
    }
}

/// Error probabilities of the test that ends an incident: accepting a broken stream as healthy, and the reverse.
const FALSE_HEALTHY: f64 = 1e-6;
const FALSE_BROKEN: f64 = 1e-3;

/// Wald's bound: the log-likelihood ratio at which the test accepts "healthy".
pub(crate) fn healthy_bound() -> f64 {
    libm::log(FALSE_BROKEN / (1.0 - FALSE_HEALTHY))
}

/// Wald's bound at which the test accepts "broken". Recovery does not need it: its subject is known to be broken.
#[cfg(test)]
pub(crate) fn broken_bound() -> f64 {
    libm::log((1.0 - FALSE_BROKEN) / FALSE_HEALTHY)
}

/// ln of the beta function.
fn ln_beta(a: f64, b: f64) -> f64 {
    libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b)
}

/// ln of the beta-binomial likelihood, without the binomial coefficient.
pub(crate) fn ln_beta_binomial(failures: f64, n: f64, a: f64, b: f64) -> f64 {
    ln_beta(a + failures, b + n - failures) - ln_beta(a, b)
}

/// Returns the ln marginal likelihood of one independent cell: a mixture of "healthy" (weight 0.95) and "any rate"
/// (0.05).
pub(crate) fn ln_marginal_independent_cell(failures: f64, n: f64) -> f64 {
    let healthy = libm::log(0.95) + ln_beta_binomial(failures, n, 0.5, 100.0);
    let uniform = libm::log(0.05) + ln_beta_binomial(failures, n, 1.0, 1.0);
    crate::inference::likelihood::log_sum_exp(&[healthy, uniform])
}
