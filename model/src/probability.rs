//! A number that is guaranteed to be a probability.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A probability in units of 1/10 000. The printed value is the one that is compared and stored, so two
/// machines cannot disagree in digits that are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Probability(u16);

/// The number is not between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("expected a probability between 0 and 1, got {0}")]
pub struct InvalidProbability(f64);

impl Probability {
    const SCALE: u16 = 10_000;

    /// Rounds to four decimal places.
    pub fn new(value: f64) -> Result<Self, InvalidProbability> {
        // A sum of posteriors can exceed 1 by a rounding error, never by more.
        if !(0.0..=1.0 + 1e-9).contains(&value) {
            return Err(InvalidProbability(value));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to lie within 0 and 1 above"
        )]
        let units = (value.min(1.0) * f64::from(Self::SCALE)).round() as u16;
        Ok(Self(units))
    }

    /// The value as a float between 0 and 1.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from(self.0) / f64::from(Self::SCALE)
    }
}

impl TryFrom<f64> for Probability {
    type Error = InvalidProbability;
    fn try_from(value: f64) -> Result<Self, InvalidProbability> {
        Self::new(value)
    }
}

impl From<Probability> for f64 {
    fn from(value: Probability) -> Self {
        value.get()
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.precision() {
            Some(precision) => write!(f, "{:.precision$}", self.get()),
            None => write!(f, "{:.4}", self.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_from_zero_to_one_are_probabilities() {
        assert!(Probability::new(-0.1).is_err());
        assert!(Probability::new(1.1).is_err());
        assert!(Probability::new(f64::NAN).is_err());
        assert_eq!(Probability::new(0.999_96).unwrap().to_string(), "1.0000");
        assert_eq!(
            serde_json::to_string(&Probability::new(0.9773).unwrap()).unwrap(),
            "0.9773"
        );
    }
}
