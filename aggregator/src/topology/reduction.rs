//! Pure reduction of the inputs to the topology.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_diagnosis::topology::Topology;
use parallax_kubernetes::topology_state::{ScopedTargets, SourceState};
use parallax_model::{Scope, TargetId, TargetSpec, Vantage};
use parallax_runs::{RunOptions, scope_of};

use crate::crd::{TargetObjects, TargetReview, TargetRules, TenantOptions, validate};

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
    tenants: &TenantOptions,
) -> Reduction {
    let topology = with_vantages(&source.topology, enrolled);
    let mut scopes = published_scopes(source, options);
    let Some(objects) = objects else {
        return Reduction {
            topology,
            scoped_targets: ScopedTargets(scopes),
            review: TargetReview::default(),
        };
    };
    let scope = scope_of(&topology, options);
    let judgement = validate(
        objects,
        TargetRules {
            topology: &topology,
            publishers: &source.publishers,
            scope: &scope,
            options: tenants,
        },
    );
    scopes.extend(
        judgement
            .scopes
            .iter()
            .map(|(id, scope)| (id.clone(), Arc::clone(scope))),
    );
    Reduction {
        topology: with_targets(topology, &judgement.accepted),
        scoped_targets: ScopedTargets(scopes),
        review: TargetReview {
            objects: Arc::clone(objects),
            judgement,
        },
    }
}

/// Returns the scope of the hosts that Ingresses and routes publish: their names are free text of a namespace's users,
/// so they never lead to addresses local to a machine or to a metadata service. Balancers on private addresses and
/// nodes stay reachable.
fn published_scopes(source: &SourceState, options: &RunOptions) -> BTreeMap<TargetId, Arc<Scope>> {
    let scope = Arc::new(Scope {
        refuse: Vec::new(),
        allow: options.allow.clone(),
    });
    let published = source.publishers.keys();
    published.map(|id| (id.clone(), Arc::clone(&scope))).collect()
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
