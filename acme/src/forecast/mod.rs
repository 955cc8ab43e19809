//! Renewal forecasts: every host of a Certificate that is validated over HTTP-01 is checked periodically, as far as
//! that is possible without a token. The result is labelled a forecast, because the solver's route and Pod do not
//! exist yet.
//!
//! ```text
//! cert-manager's objects ─▶ subjects (pick, approach) ─┐
//! mesh ─▶ check (DNS facts, self check, CA; few vantages) ─▶ evidence ─▶ judge (pure) ─▶ RenewalForecastList (watch)
//! ```
//!
//! Only conditions that are certain lead to "would fail". Unknown never becomes "would pass". Only the leader
//! checks.

mod judge;
mod next_check;
mod subjects;
mod task;
#[cfg(test)]
mod tests;
mod unknowns;

pub use subjects::empty_forecasts;
pub use task::ForecastTask;
