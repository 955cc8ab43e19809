//! Targets joined to the topology.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::StreamExt;
use parallax_diagnosis::topology::Topology;
use parallax_kubernetes::{api_client::ApiClient, replicas::ReplicaState, topology_state::TopologyState};
use parallax_model::{Assignment, Scope, TargetId, TargetSpec};
use parallax_runs::{RunOptions, scope_of};
use serde_json::Value;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    judgement::{PreflightJudgement, Verdict, judge},
    objects::{KnownObjects, ObjectClient, condition},
    types::TargetStatus,
};

/// Changes within this are taken together.
const TOGETHER: Duration = Duration::from_millis(100);

/// A status that could not be written is written anew after this.
const AGAIN: Duration = Duration::from_secs(2);

/// Targets whose owner is not the mesh's operator, and where their probes may go.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScopedTargets {
    ids: BTreeSet<TargetId>,
    scope: Scope,
}

impl ScopedTargets {
    /// Keeps a probe of such a target to its scope.
    pub(crate) fn bound(&self, assignment: Assignment) -> Assignment {
        if !self.ids.contains(&assignment.target) {
            return assignment;
        }
        Assignment {
            probe: assignment.probe.within(&self.scope),
            ..assignment
        }
    }
}

/// Follows Targets.
#[derive(Debug)]
pub(crate) struct TargetController {
    pub(crate) client: ApiClient,
    pub(crate) options: RunOptions,
    /// Only who leads answers; everybody probes and judges.
    pub(crate) replica: ReplicaState,
    pub(crate) bare: watch::Receiver<TopologyState>,
    pub(crate) full: watch::Sender<TopologyState>,
    pub(crate) owned: watch::Sender<Arc<ScopedTargets>>,
}

impl TargetController {
    /// Runs until cancelled. While the API server cannot be asked, those known stay.
    pub(crate) async fn follow(mut self, cancelled: CancellationToken) {
        let objects = ObjectClient::new(self.client.clone(), "Target");
        let mut events = objects.follow();
        let mut known = KnownObjects::default();
        let (mut failing, mut changes, mut unsaid) = (false, 0, false);
        let mut parts = self.replica.changes();
        loop {
            let own = tokio::select! {
                () = cancelled.cancelled() => return,
                () = parts.next() => false,
                () = sleep(AGAIN), if unsaid => false,
                news = self.bare.changed() => match news {
                    Ok(()) => false,
                    Err(_) => return,
                },
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        failing = false;
                        if !known.take(event) {
                            continue;
                        }
                        true
                    }
                    Some(Err(error)) => {
                        if !std::mem::replace(&mut failing, true) {
                            tracing::warn!(%error, "cannot follow targets.parallax.dev; apply deploy/crds.yaml, and see whether the aggregator's account may list and watch them");
                        }
                        continue;
                    }
                    None => return,
                },
            };
            if own {
                changes += 1;
                // What else is there already is taken along.
                sleep(TOGETHER).await;
                while let Some(Some(Ok(event))) = futures_util::FutureExt::now_or_never(events.next()) {
                    known.take(event);
                }
            }
            let state = self.bare.borrow_and_update().clone();
            let scope = scope_of(&state.topology, &self.options);
            let judged = judge(known.objects(), &state.topology, &scope);
            // The bounds of their probes before the targets themselves.
            self.owned.send_replace(Arc::new(ScopedTargets {
                ids: judged.ids.clone(),
                scope,
            }));
            let topology = joined(&state.topology, &judged.accepted);
            self.full.send_replace(TopologyState {
                // Both only ever grow, so their sum does.
                number: state.number + changes,
                topology,
                ..state
            });
            if !self.replica.leads() {
                unsaid = false;
                continue;
            }
            unsaid = tokio::select! {
                () = cancelled.cancelled() => return,
                all = say(&objects, &known, &judged) => !all,
            };
        }
    }
}

fn joined(bare: &Arc<Topology>, accepted: &[TargetSpec]) -> Arc<Topology> {
    if accepted.is_empty() {
        return Arc::clone(bare);
    }
    let mut spec = bare.spec().clone();
    spec.targets.extend(accepted.iter().cloned());
    spec.vantages = bare.extra_vantages().to_vec();
    match Topology::try_from(spec) {
        Ok(topology) => Arc::new(topology),
        Err(problems) => {
            // Each was checked alone, so this is a defect of ours; the rest of the mesh goes on.
            tracing::error!(?problems, "the Targets cannot be joined to the topology");
            Arc::clone(bare)
        }
    }
}

/// Writes the status of those that say something else; whether all of it was taken.
async fn say(objects: &ObjectClient, known: &KnownObjects, judged: &PreflightJudgement) -> bool {
    let mut all = true;
    for (key, verdict) in &judged.verdicts {
        if let Some(status) = known
            .objects()
            .get(key)
            .and_then(|object| status(object, verdict))
        {
            all &= objects.say(key, &status).await;
        }
    }
    all
}

/// The status, where it is another than the object's.
fn status(object: &kube::api::DynamicObject, verdict: &Verdict) -> Option<Value> {
    let said = match verdict {
        Verdict::Accepted(_) => ("True", "Probed", "it is probed"),
        Verdict::Refused { reason, message } => ("False", *reason, message.as_str()),
    };
    let status = TargetStatus {
        observed_generation: object.metadata.generation,
        target: match verdict {
            Verdict::Accepted(id) => Some(id.to_string()),
            Verdict::Refused { .. } => None,
        },
        conditions: vec![condition(object, "Accepted", said)],
    };
    let mut status = serde_json::to_value(status).ok()?;
    if status == object.data["status"] {
        return None;
    }
    // A merge leaves what is not said; an id of before must go.
    if let Some(fields) = status.as_object_mut() {
        fields.entry("target").or_insert(Value::Null);
    }
    let same = status["target"].is_null()
        && object.data["status"]["target"].is_null()
        && status["conditions"] == object.data["status"]["conditions"];
    (!same).then_some(status)
}
