//! The task that owns the topology.

use std::{collections::BTreeSet, sync::Arc};

use parallax_kubernetes::topology_state::{SourceState, TopologyState};
use parallax_model::Vantage;
use parallax_runs::RunOptions;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::reduction::{Reduction, reduce};
use crate::crd::{TargetObjects, TargetReview, TenantOptions};

/// Input and output for Target objects: the objects, and their review.
#[derive(Debug)]
pub(crate) struct TargetInput {
    pub(crate) objects: watch::Receiver<Arc<TargetObjects>>,
    pub(crate) review: watch::Sender<Arc<TargetReview>>,
}

/// Builds the topology from its inputs and publishes each revision.
#[derive(Debug)]
pub(crate) struct TopologyReducer {
    pub(crate) source: watch::Receiver<SourceState>,
    /// Enrolled vantages outside the cluster, if enrolment is enabled.
    pub(crate) enrolled: Option<watch::Receiver<BTreeSet<Vantage>>>,
    /// Target objects, if custom resources are watched.
    pub(crate) targets: Option<TargetInput>,
    pub(crate) options: RunOptions,
    pub(crate) tenants: TenantOptions,
    pub(crate) out: watch::Sender<TopologyState>,
}

impl TopologyReducer {
    /// Runs until cancelled.
    pub(crate) async fn run(mut self, cancelled: CancellationToken) {
        loop {
            let targets = self.targets.as_mut().map(|input| &mut input.objects);
            let changed = tokio::select! {
                () = cancelled.cancelled() => return,
                changed = self.source.changed() => changed,
                changed = wait_for_change(self.enrolled.as_mut()) => changed,
                changed = wait_for_change(targets) => changed,
            };
            if changed.is_err() {
                // The inputs are final, as with a topology that is not watched; the engine still needs the output.
                cancelled.cancelled().await;
                return;
            }
            self.publish();
        }
    }

    fn publish(&mut self) {
        let source = self.source.borrow_and_update().clone();
        let enrolled = match &mut self.enrolled {
            Some(enrolled) => enrolled.borrow_and_update().clone(),
            None => BTreeSet::new(),
        };
        let objects = self
            .targets
            .as_mut()
            .map(|input| input.objects.borrow_and_update().clone());
        let Reduction {
            topology,
            scoped_targets: scoped,
            review,
        } = reduce(&source, &enrolled, objects.as_ref(), &self.options, &self.tenants);
        self.out.send_if_modified(|state| {
            let same = Arc::ptr_eq(&state.topology, &topology) || *state.topology == *topology;
            let planned = !same || state.timing != source.timing || *state.scoped != scoped;
            if planned {
                state.revision += 1;
                if !same {
                    state.topology = topology;
                    tracing::info!(revision = state.revision, "topology changed");
                }
                state.timing = source.timing;
                state.scoped = Arc::new(scoped);
            }
            let described = state.error != source.error
                || state.notes != source.notes
                || state.publishers != source.publishers;
            state.error = source.error;
            state.notes = source.notes;
            state.publishers = source.publishers;
            planned || described
        });
        if let Some(input) = &self.targets {
            input.review.send_replace(Arc::new(review));
        }
    }
}

/// Waits for a change of an input; forever if there is no such input.
async fn wait_for_change<T>(input: Option<&mut watch::Receiver<T>>) -> Result<(), watch::error::RecvError> {
    match input {
        Some(input) => input.changed().await,
        None => std::future::pending().await,
    }
}
