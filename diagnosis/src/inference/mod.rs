//! Statistical inference: the posterior over regions from the counted outcomes of a subject.
//!
//! ```text
//! cells ─▶ data ─▶ likelihood ─┐
//! prior ───────────────────────┴▶ posterior (with pool: evidence of the other subjects) ─▶ judgement
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
