//! Pure reduction of the inputs to the topology.

use std::{collections::BTreeSet, sync::Arc};

use parallax_diagnosis::topology::Topology;
use parallax_kubernetes::topology_state::{ScopedTargets, SourceState};
use parallax_model::{TargetSpec, Vantage};
use parallax_runs::{RunOptions, scope_of};

use crate::crd::{TargetObjects, TargetReview, validate};

/// Result of a reduction.
pub(super) struct Reduction {
    pub(super) topology: Arc<Topology>,
    pub(super) scoped_targets: ScopedTargets,
    pub(super) review: TargetReview,
}

/// Adds enrolled vantages and accepted targets to the source's topology. Without either, returns the source's topology.
pub(super) fn reduce(
    source: &SourceState,
    enrolled: &BTreeSet<Vantage>,
    objects: Option<&Arc<TargetObjects>>,
    options: &RunOptions,
) -> Reduction {
    let topology = with_vantages(&source.topology, enrolled);
    let Some(objects) = objects else {
        return Reduction {
            topology,
            scoped_targets: ScopedTargets::default(),
            review: TargetReview::default(),
        };
    };
    let scope = scope_of(&topology, options);
    let judgement = validate(objects, &topology, &scope);
    Reduction {
        topology: with_targets(topology, &judgement.accepted),
        scoped_targets: ScopedTargets {
            ids: judgement.restricted_ids.clone(),
            scope,
        },
        review: TargetReview {
            objects: Arc::clone(objects),
            judgement,
        },
    }
}

fn with_vantages(topology: &Arc<Topology>, enrolled: &BTreeSet<Vantage>) -> Arc<Topology> {
    let known = topology.vantages();
    let mut unknown = enrolled
        .iter()
        .filter(|vantage| !known.contains(vantage))
        .cloned()
        .peekable();
    if unknown.peek().is_none() {
        return Arc::clone(topology);
    }
    Arc::new(unknown.fold(Topology::clone(topology), Topology::with_vantage))
}

fn with_targets(topology: Arc<Topology>, accepted: &[TargetSpec]) -> Arc<Topology> {
    if accepted.is_empty() {
        return topology;
    }
    let mut spec = topology.spec().clone();
    spec.targets.extend(accepted.iter().cloned());
    spec.vantages = topology.extra_vantages().to_vec();
    match Topology::try_from(spec) {
        Ok(joined) => Arc::new(joined),
        Err(problems) => {
            // A bug, since each object was validated alone; the topology continues without them.
            tracing::error!(?problems, "cannot add the Target objects to the topology");
            topology
        }
    }
}
