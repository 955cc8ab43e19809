//! What a run asks: one target as a user would, its endpoints, and the controls to hold them against.

use parallax_model::{Assignment, TargetId, Vantage};

use super::{PlanConfig, Planner};
use crate::topology::Topology;

/// What one vantage is to do in a run of one target, whoever asks for the target in the base plan. `endpoints` adds
/// each usable endpoint by its own address. Empty where the vantage cannot ask for it: from outside there are no
/// cluster addresses.
#[must_use]
pub fn on_demand(
    topology: &Topology,
    config: &PlanConfig,
    vantage: &Vantage,
    target: &TargetId,
    endpoints: bool,
) -> Vec<Assignment> {
    let Some(placed) = topology.targets().get(target) else {
        return Vec::new();
    };
    if vantage.node().is_none() && placed.dial.is_some() {
        return Vec::new();
    }
    let mut planner = Planner {
        topology,
        config,
        vantage,
        out: std::collections::BTreeMap::new(),
    };
    planner.approach(target, placed);
    if endpoints && vantage.node().is_some() {
        planner.direct(target, placed);
    }
    planner.mesh();
    planner.out.into_values().collect()
}
