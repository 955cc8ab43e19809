//! Statistical inference: the posterior over regions from the counted outcomes of a subject.
//!
//! ```text
//! cells ─▶ data ─▶ likelihood ─┐
//! prior ───────────────────────┴▶ posterior (with pool: evidence of the other subjects) ─▶ judgement
//! ```

pub(crate) mod candidates;
pub(crate) mod change_detectors;
pub(crate) mod comparison_data;
mod failure_kinds;
mod first_failure;
pub(crate) mod goodness_of_fit;
pub(crate) mod judgement;
pub(crate) mod judgement_unit;
pub(crate) mod kind_profiles;
pub(crate) mod likelihood;
pub(crate) mod multiple_comparisons;
pub(crate) mod posterior;
pub(crate) mod prior;
pub(crate) mod recovery;
pub(crate) mod sequential_tests;
pub(crate) mod subject_pool;
mod tied_regions;
mod union_shares;
pub(crate) mod window;

#[cfg(test)]
mod worked_example;
