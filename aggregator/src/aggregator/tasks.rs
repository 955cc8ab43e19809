//! Runs the tasks of an aggregator until they are cancelled or one of them fails.

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Aggregator, error::RunError};
use crate::{
    crd,
    serve::{self, ServerState},
    watch as topology_watch,
};

/// Tasks without which the aggregator is of no use: each runs until it is cancelled. Others end by themselves if they have
/// nothing to do.
const ENDLESS_TASKS: [&str; 3] = ["diagnosis", "server", "TLS server"];

impl Aggregator {
    /// Runs until cancelled, then finishes requests in flight and returns.
    pub async fn run(mut self, cancelled: CancellationToken) -> Result<(), RunError> {
        // A child token, so that a failed task stops the others without cancelling the caller.
        let stopping = cancelled.child_token();
        let shared = ServerState {
            stopping: stopping.clone(),
            ..self.server_state
        };
        let mut parts = JoinSet::new();
        let mut names = Vec::new();
        let mut start = |name, handle: tokio::task::AbortHandle| names.push((handle.id(), name));
        start("diagnosis", parts.spawn(self.engine_task.run(stopping.clone())));
        // Ends once the engine task has dropped its sender and the last checkpoint is written.
        start(
            "checkpoint",
            parts.spawn(self.checkpoint_task.run(stopping.clone())),
        );
        if let Some(writer) = self.record_writer {
            // Ends once the engine task has dropped its sender and the queue is written.
            start("recording", parts.spawn_blocking(move || writer.run()));
        }
        if let Some(keeping) = self.store_worker {
            // As the recording.
            start("store", parts.spawn_blocking(move || keeping.run()));
        }
        let in_cluster = self.topology_source.kubernetes.is_some();
        let registry = in_cluster
            .then(|| self.prober_listener.take_pod_registry())
            .flatten();
        start(
            "topology watch",
            parts.spawn(topology_watch::watch_source(
                (self.topology_source, self.startup_config),
                self.source_state,
                self.watch_health,
                registry,
                self.clock,
                stopping.clone(),
            )),
        );
        start(
            "server",
            parts.spawn(serve::serve(
                self.listener,
                None,
                serve::router(shared.clone()),
                stopping.clone(),
            )),
        );
        let actions = shared.actions.clone();
        start("user actions", parts.spawn(actions.run(stopping.clone())));
        start("notifications", parts.spawn(self.notifier.run(stopping.clone())));
        if let Some(heartbeat) = self.heartbeat {
            let works = shared.clone().into_heartbeat_condition();
            start("heartbeat", parts.spawn(heartbeat.run(works, stopping.clone())));
        }
        start("runs", parts.spawn(shared.runs.clone().run(stopping.clone())));
        self.prober_listener
            .start(&shared, &mut parts, &mut start, &stopping);
        start("topology", parts.spawn(self.reducer.run(stopping.clone())));
        if let Some(enrolment) = self.enrolled_accounts {
            start("enrolment", parts.spawn(enrolment.watch(stopping.clone())));
        }
        if let Some(election) = self.leader_election {
            start("leader election", parts.spawn(election.run(stopping.clone())));
        }
        start("forecast", parts.spawn(self.forecast_task.run(stopping.clone())));
        if let Some(cert_manager) = self.cert_manager {
            cert_manager.run(&shared, &mut parts, &mut start, &stopping);
        }
        if let Some((client, targets)) = self.target_controller {
            start("Target controller", parts.spawn(targets.run(stopping.clone())));
            let following = crd::follow_runs(
                client,
                (shared.runs.clone(), shared.replica.clone()),
                shared.topology.clone(),
                shared.engine_snapshot.views.clone(),
                stopping.clone(),
            );
            start("Run controller", parts.spawn(following));
        }
        drop(shared);
        let mut failure = None;
        while let Some(ended) = parts.join_next_with_id().await {
            let id = match &ended {
                Ok((id, ())) => *id,
                Err(error) => error.id(),
            };
            let part = names
                .iter()
                .find(|(known, _)| *known == id)
                .map_or("task", |(_, name)| *name);
            let reason = match ended {
                Err(error) => error.to_string(),
                Ok(_) if ENDLESS_TASKS.contains(&part) && !stopping.is_cancelled() => {
                    "it ended before the aggregator was stopped".to_owned()
                }
                Ok(_) => continue,
            };
            failure.get_or_insert(RunError::Failed { task: part, reason });
            stopping.cancel();
        }
        failure.map_or(Ok(()), Err)
    }
}
