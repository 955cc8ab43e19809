//! From counts to probabilities: which regions fail, how sure that is, and what cannot be told apart.
//!
//! ```text
//! cells ─▶ data ─▶ likelihood ─┐
//! prior ───────────────────────┴▶ posterior (with pool: what other subjects say) ─▶ judgement
//! ```

pub(crate) mod data;
pub(crate) mod fit;
pub(crate) mod judgement;
pub(crate) mod likelihood;
pub(crate) mod look_elsewhere;
pub(crate) mod pool;
pub(crate) mod posterior;
pub(crate) mod prior;
pub(crate) mod profiles;
pub(crate) mod recovery;
pub(crate) mod sequential;
pub(crate) mod unit;

#[cfg(test)]
mod worked_example;
