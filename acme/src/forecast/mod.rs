//! Renewals foreseen: every host with a Certificate whose challenge would be answered over HTTP is looked at now and then,
//! as far as that goes without a token. A forecast, and it says so: the solver's route and its pod do not exist yet.
//!
//! ```text
//! cert-manager's objects ─▶ subjects (pick, approach) ─┐
//! mesh ─▶ look (names, self check, CA; few vantages) ─▶ evidence ─▶ judge (pure) ─▶ Forecasts (a watch channel)
//! ```
//!
//! Only what is certain says that a renewal would fail. Unknown is never "would pass". Only the leader looks.

mod judge;
mod next_check;
mod subjects;
mod task;
#[cfg(test)]
mod tests;
mod unknowns;

pub use subjects::not_checked;
pub use task::ForecastTask;
