use super::*;
use crate::evidence::weights::ONE_PROBE;

/// Returns how much likelier one endpoint of three is than all of them, in nats, if nothing shows which one responds.
fn factor_for_one_of_three(grid: RateGrid, failures: u64, successes: u64) -> f64 {
    let mut likelihood = Likelihood::with_grid(grid);
    let mut ln_marginal = |share| {
        let counts = (failures * ONE_PROBE, successes * ONE_PROBE);
        likelihood.ln_marginal(&ShareGroups::from([(share, counts)]))
    };
    ln_marginal(PathShare::new(1, 3)) - ln_marginal(PathShare::FULL)
}

/// One endpoint of three that fails with a rate r, and all of them with r/3: both fit, so nothing but the prior of the rate may decide.
#[test]
fn a_dense_grid_does_not_decide_between_one_endpoint_and_all() {
    let dense = RateGrid {
        fine: true,
        dense: true,
        ..RateGrid::default()
    };
    for (failures, successes) in [(60, 540), (60, 180), (100, 200), (95, 951)] {
        let factor = factor_for_one_of_three(dense, failures, successes);
        assert!(
            factor.abs() < 3.0,
            "{failures} of {}: {factor}",
            failures + successes
        );
    }
}

/// The reason for [`crate::engine`]'s dense grid: .091 lies between two points of the coarse one, a third of .25 close to it.
#[test]
fn a_coarse_grid_decides_by_the_position_of_its_points() {
    let coarse = RateGrid::default();
    let factor = factor_for_one_of_three(coarse, 95, 951);
    assert!(factor > 2.5, "{factor}");
}
