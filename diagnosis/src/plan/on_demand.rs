//! What a run asks: one target as a user would, its endpoints, and the controls to hold them against.

use parallax_model::{Assignment, TargetId, Vantage};

use super::{PlanConfig, Planner, may_ask, number};
use crate::topology::Topology;

/// What one vantage is to do in a run of one target, whoever asks for the target in the base plan. `endpoints` adds
/// each usable endpoint by its own address. A vantage that must get no answer asks for nothing but that, and everybody
/// asks where nothing must answer. Empty where the vantage cannot ask for it: from outside there are no cluster
/// addresses.
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
    if !may_ask(vantage, placed) {
        return Vec::new();
    }
    let mut planner = Planner::new(topology, config, vantage);
    planner.forbidden(placed);
    let answers = placed.target.answers(vantage);
    if answers {
        planner.approach(target, placed);
    }
    if answers && endpoints && vantage.node().is_some() {
        let index = topology.plan_index();
        let mut sampled = topology.targets().keys().zip(index.targets());
        let sampled = sampled.find_map(|(id, sampled)| (id == target).then_some(sampled));
        let own = number(topology, vantage);
        planner.direct(target, placed, |endpoints| {
            sampled.map_or((0, endpoints), |sampled| {
                sampled.dials(own, &vantage.to_string(), endpoints)
            })
        });
    }
    planner.mesh();
    planner.out.into_values().collect()
}

/// What one vantage is to do in a run of the mesh itself: every peer's echo. Empty outside the cluster.
#[must_use]
pub fn mesh(topology: &Topology, config: &PlanConfig, vantage: &Vantage) -> Vec<Assignment> {
    let mut planner = Planner::new(topology, config, vantage);
    planner.mesh();
    planner.out.into_values().collect()
}
