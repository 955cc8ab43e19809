//! Tests that may be looked at after every round: CUSUM to start a window, SPRT to end an incident, goodness of fit.

use parallax_model::Round;

use crate::weights::probes;

/// A running sum that says since when something is wrong. A round is one step: failures push it up, successes pull it
/// down to zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cusum {
    sum: f64,
    /// First round of the present rise.
    start: Round,
}

/// Failure probability of a healthy stream.
const P0: f64 = 0.005;
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

/// A test that decides between healthy and broken with as few probes as possible.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Sprt {
    sum: f64,
}

impl Sprt {
    /// Upper bound (broken) and lower bound (healthy).
    pub(crate) fn bounds() -> (f64, f64) {
        (libm::log((1.0 - BETA) / ALPHA), libm::log(BETA / (1.0 - ALPHA)))
    }

    /// Takes outcomes in whose paths cross the region with this share.
    ///
    /// It is asked only of streams that are known to be broken, so it never climbs above zero: a failure starts it over,
    /// and eleven successes in a row are what healthy takes.
    pub(crate) fn step(&mut self, failures: u64, successes: u64, share: f64) {
        if failures > 0 {
            self.sum = 0.0;
        } else {
            let (_, down) = steps(share * P1 + (1.0 - share) * P0);
            self.sum += probes(successes) * down;
        }
    }

    pub(crate) fn accepts_healthy(self) -> bool {
        self.sum <= Self::bounds().1
    }

    /// More successes than failures so far.
    pub(crate) fn leans_healthy(self) -> bool {
        self.sum < 0.0
    }

    #[cfg(test)]
    pub(crate) const fn sum(self) -> f64 {
        self.sum
    }
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
    crate::likelihood::lse(&[healthy, anything])
}
