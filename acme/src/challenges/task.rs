//! The task that explains waiting Challenges while this replica leads.

use std::{collections::HashMap, sync::Arc};

use parallax_api::challenges::WaitingChallenge;
use parallax_diagnosis::view::View;
use parallax_kubernetes::{
    api_client::ApiClient,
    replicas::ReplicaState,
    topology_state::TopologyState,
    watch::{Key, KubernetesSettings, connect},
};
use parallax_runs::RunManager;
use parallax_runtime::{Clock, SnapshotReader};
use tokio::{
    sync::watch,
    task::{Id, JoinSet},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    ChallengeOptions,
    explain::ChallengeExplainer,
    registry::{ChallengeRegistry, ExplanationState},
};
use crate::cert_manager::CertManagerState;

/// The inputs of the task.
#[derive(Debug)]
pub struct ChallengeTask {
    /// The configuration.
    pub options: ChallengeOptions,
    /// The cluster in which to locate cert-manager's Pod.
    pub kubernetes: KubernetesSettings,
    /// The objects of cert-manager.
    pub cert_manager: watch::Receiver<CertManagerState>,
    /// Receives the waiting Challenges with their explanations.
    pub waiting: watch::Sender<Arc<[WaitingChallenge]>>,
    /// Makes the runs that replay self checks.
    pub runs: Arc<RunManager>,
    /// Whether this replica leads; only the leader replays.
    pub replica: ReplicaState,
    /// The current topology.
    pub topology: watch::Receiver<TopologyState>,
    /// The current incidents.
    pub views: SnapshotReader<View>,
    /// Event time.
    pub clock: Clock,
}

/// Explains Challenges until cancelled.
pub async fn run_until_cancelled(task: ChallengeTask, cancelled: CancellationToken) {
    cancelled.run_until_cancelled(task.run()).await;
}

impl ChallengeTask {
    async fn run(mut self) {
        let client = if self.options.cert_manager_namespace.is_some() {
            // The watch of cert-manager's objects reports connection errors.
            let connecting = connect(&self.kubernetes.access, self.kubernetes.timing, |_| {});
            Some(ApiClient(connecting.await))
        } else {
            None
        };
        let explainer = ChallengeExplainer {
            options: self.options.clone(),
            client,
            runs: self.runs.clone(),
            topology: self.topology.clone(),
            views: self.views.clone(),
            clock: self.clock,
        };
        let mut registry = ChallengeRegistry::default();
        let mut under_way: JoinSet<ExplanationState> = JoinSet::new();
        let mut challenge_by_task: HashMap<Id, (Key, String)> = HashMap::new();
        let mut tick = interval(self.options.check_interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(ended) = under_way.join_next_with_id() => match ended {
                    Ok((id, explanation)) => if let Some((key, uid)) = challenge_by_task.remove(&id) {
                        log_state(&key, &explanation);
                        registry.set_state(&key, &uid, explanation);
                    },
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // Aborted because another replica leads.
                    Err(error) => drop(challenge_by_task.remove(&error.id())),
                },
                Ok(()) = self.cert_manager.changed() => {}
                _ = tick.tick() => {}
            }
            if !self.replica.is_leader() {
                // The leader explains the Challenges, from the beginning.
                under_way.abort_all();
                challenge_by_task.clear();
                registry.clear();
                self.publish(Vec::new());
                continue;
            }
            let now = self.clock.now();
            let state = self.cert_manager.borrow_and_update().clone();
            match state.challenges.objects() {
                Some(challenges) => registry.sync(challenges, now),
                // The Challenges are not known, so none is reported.
                None => registry.clear(),
            }
            for (key, challenge) in registry.start_due(&self.options, now) {
                let (explainer, uid) = (explainer.clone(), challenge.metadata.uid.clone());
                let task = under_way.spawn(async move { explainer.explain(&challenge).await });
                challenge_by_task.insert(task.id(), (key, uid));
            }
            self.publish(registry.list(&self.options, now));
        }
    }

    fn publish(&self, list: Vec<WaitingChallenge>) {
        self.waiting.send_if_modified(|known| {
            let changed = **known != *list;
            if changed {
                *known = list.into();
            }
            changed
        });
    }
}

fn log_state(key: &Key, state: &ExplanationState) {
    match state {
        ExplanationState::Replayed(explanation, causes) => {
            let cause = causes.first().map_or("unknown", |cause| cause.id.as_str());
            tracing::info!(challenge = %key, cause, self_check = %explanation.self_check.sentence, "Challenge waits; self check replayed");
        }
        ExplanationState::NotReplayed(reason) => {
            tracing::info!(challenge = %key, why = %reason, "Challenge waits; self check not replayed");
        }
    }
}
