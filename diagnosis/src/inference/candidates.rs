//! Hypotheses with the cells they affect, computed once for all comparisons on the same data.

use super::{
    comparison_data::{ComparisonData, RegionShares},
    prior::Hypothesis,
};
use crate::regions::paths::SubjectPaths;

/// Up to this many hypotheses all are compared; above it, only those whose region contains a failure. The others
/// explain nothing and differ from "healthy" by less than their prior.
const MAX_COMPARED_WITHOUT_FAILURES: usize = 400;

/// A hypothesis with the cells it affects.
#[derive(Debug)]
pub(crate) struct CandidateHypothesis {
    pub(crate) hypothesis: Hypothesis,
    pub(crate) shares: RegionShares,
    /// The affected cells that have failures.
    pub(crate) failing: Vec<usize>,
}

/// Computes the cells that each hypothesis affects.
pub(crate) fn candidates(
    hypotheses: &[Hypothesis],
    data: &ComparisonData,
    paths: &SubjectPaths,
) -> Vec<CandidateHypothesis> {
    let all = hypotheses.len() <= MAX_COMPARED_WITHOUT_FAILURES;
    let candidates = hypotheses.iter().map(|hypothesis| {
        let shares = data.shares(hypothesis.region, paths);
        CandidateHypothesis {
            hypothesis: *hypothesis,
            failing: data.failing_cells(&shares),
            shares,
        }
    });
    candidates
        .filter(|candidate| all || !candidate.failing.is_empty())
        .collect()
}
