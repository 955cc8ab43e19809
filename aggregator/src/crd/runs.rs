//! Controller of `Run` objects: each is run once, gets its result as status, and is deleted after its TTL.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt;
use jiff::Timestamp;
use kube::api::DynamicObject;
use parallax_api::runs::{PreflightRun, RunOutcome, RunRequest, RunState, RunVantages};
use parallax_diagnosis::view::View;
use parallax_kubernetes::{api_client::ApiClient, replicas::ReplicaState, topology_state::TopologyState};
use parallax_model::RunId;
use parallax_runs::{RunManager, RunRefusedError};
use parallax_runtime::SnapshotReader;
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    objects::{Key, KnownObjects, ObjectClient, condition, now},
    resource::CustomResourceKind,
    types::{RunBody, RunResult, RunStatus},
};

/// Interval between checks for completed runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of vantages in a status; an object may have about a megabyte.
const MAX_RESULTS: usize = 50;

/// Maximum number of waiting runs that are retried at each tick.
const MAX_WAITING: usize = 200;

struct RunWatch {
    objects: ObjectClient,
    runs: Arc<RunManager>,
    replica: ReplicaState,
    topology: watch::Receiver<TopologyState>,
    views: SnapshotReader<View>,
    objects_known: KnownObjects,
    in_progress: BTreeMap<Key, (String, RunId)>,
    /// UIDs of objects that this process has completed or rejected; the watch may not have returned the status yet.
    finished_uids: BTreeSet<String>,
    /// Reasons of waiting runs by UID, as written to their status.
    waiting_reasons: BTreeMap<String, &'static str>,
}

/// Watches `Run` objects until cancelled.
pub(crate) async fn watch_runs(
    client: ApiClient,
    (run_manager, replica): (Arc<RunManager>, ReplicaState),
    topology: watch::Receiver<TopologyState>,
    views: SnapshotReader<View>,
    cancelled: CancellationToken,
) {
    let objects = ObjectClient::new(client, CustomResourceKind::Run);
    let mut updates = objects.watch();
    let mut following = RunWatch {
        objects,
        runs: run_manager,
        replica,
        topology,
        views,
        objects_known: KnownObjects::default(),
        in_progress: BTreeMap::new(),
        finished_uids: BTreeSet::new(),
        waiting_reasons: BTreeMap::new(),
    };
    let mut tick = interval(CHECK_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancelled.cancelled() => return,
            update = updates.next() => match update {
                Some(update) => {
                    if !following.objects_known.apply(update) {
                        continue;
                    }
                }
                None => return,
            },
            _ = tick.tick() => {}
        }
        tokio::select! {
            () = cancelled.cancelled() => return,
            () = following.reconcile() => {}
        }
    }
}

impl RunWatch {
    async fn reconcile(&mut self) {
        if !self.replica.is_leader() {
            // The leader starts all runs afresh; runs in progress here are abandoned.
            self.in_progress.clear();
            return;
        }
        let mut waiting = 0;
        let objects: Vec<(Key, DynamicObject)> = self
            .objects_known
            .objects()
            .iter()
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in objects {
            let uid = object.metadata.uid.clone().unwrap_or_default();
            if is_complete(&object) {
                if is_ttl_expired(&object) && self.finished_uids.insert(format!("removed {uid}")) {
                    self.objects.delete(&key).await;
                }
                continue;
            }
            if self.finished_uids.contains(&uid) {
                continue;
            }
            match self.in_progress.get(&key).cloned() {
                Some((own, id)) if own == uid => self.write_result(&key, &object, &uid, &id).await,
                _ if waiting >= MAX_WAITING => {}
                _ => {
                    waiting += 1;
                    self.start_run(&key, &object, &uid).await;
                }
            }
        }
        let known = &self.objects_known;
        self.in_progress
            .retain(|key, _| known.objects().contains_key(key));
        let uids: BTreeSet<&str> = known
            .objects()
            .values()
            .filter_map(|object| object.metadata.uid.as_deref())
            .collect();
        self.finished_uids
            .retain(|uid| uids.contains(uid.trim_start_matches("removed ")));
        self.waiting_reasons.retain(|uid, _| uids.contains(uid.as_str()));
    }

    async fn start_run(&mut self, key: &Key, object: &DynamicObject, uid: &str) {
        let by = format!("Run {}/{}", key.0, key.1);
        let view = self.views.current().await;
        let begun = parse_request(object).and_then(|request| {
            let topology = self.topology.borrow().topology.clone();
            self.runs
                .start(&request, &by, &topology, &view)
                .map_err(|refused| RunRefusal::from_error(&refused))
        });
        match begun {
            Ok(run) => {
                self.waiting_reasons.remove(uid);
                self.in_progress
                    .insert(key.clone(), (uid.to_owned(), run.id.clone()));
                let status = RunStatus {
                    run: Some(run.id.to_string()),
                    conditions: vec![
                        condition(object, "Accepted", ("True", "Begun", "the run is in progress")),
                        condition(object, "Complete", ("False", "Running", "the run is in progress")),
                    ],
                    ..RunStatus::default()
                };
                self.write_status(key, &status).await;
            }
            // Other runs are in progress, or no vantage can make it yet: retry at the next tick.
            Err(RunRefusal::Wait(None)) => {}
            Err(RunRefusal::Wait(Some((reason, message)))) => {
                if self.waiting_reasons.get(uid) == Some(&reason) {
                    return;
                }
                let status = RunStatus {
                    conditions: vec![condition(object, "Accepted", ("Unknown", reason, &message))],
                    ..RunStatus::default()
                };
                if self.write_status(key, &status).await {
                    self.waiting_reasons.insert(uid.to_owned(), reason);
                }
            }
            Err(RunRefusal::Reject(reason, message)) => {
                let passed = "the run was rejected";
                let status = RunStatus {
                    completion_time: Some(now()),
                    conditions: vec![
                        condition(object, "Accepted", ("False", reason, &message)),
                        condition(object, "Complete", ("True", reason, passed)),
                        condition(object, "Passed", ("Unknown", reason, &message)),
                    ],
                    ..RunStatus::default()
                };
                // A failed write is retried at the next turn.
                if self.write_status(key, &status).await {
                    self.runs.count_rejected();
                    self.finished_uids.insert(uid.to_owned());
                }
            }
        }
    }

    /// Writes the result of a run once it has completed.
    async fn write_result(&mut self, key: &Key, object: &DynamicObject, uid: &str, id: &RunId) {
        let Some(run) = self.runs.get(id.as_str()) else {
            // Evicted by newer runs before it completed: start it again.
            self.in_progress.remove(key);
            return;
        };
        if run.state == RunState::Running {
            return;
        }
        if self.write_status(key, &result_status(object, &run)).await {
            self.finished_uids.insert(uid.to_owned());
            self.in_progress.remove(key);
        }
    }

    async fn write_status(&self, key: &Key, status: &RunStatus) -> bool {
        match serde_json::to_value(status) {
            Ok(status) => self.objects.write_status(key, &status).await,
            // Retrying would not help.
            Err(_) => true,
        }
    }
}

fn result_status(object: &DynamicObject, run: &PreflightRun) -> RunStatus {
    let (passed, reason) = match run.outcome {
        Some(RunOutcome::Passed) => ("True", "Passed"),
        Some(RunOutcome::Failed) => ("False", "Failed"),
        Some(RunOutcome::Unknown) | None => ("Unknown", "NotProved"),
    };
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let results = run.vantages.iter().take(MAX_RESULTS).map(|part| RunResult {
        vantage: part.vantage.to_string(),
        probes: count(part.planned),
        failures: count(part.failures),
        failure: part.detail.clone(),
    });
    let more = run.vantages.len().saturating_sub(MAX_RESULTS);
    RunStatus {
        run: Some(run.id.to_string()),
        completion_time: Some(now()),
        conditions: vec![
            condition(object, "Accepted", ("True", "Begun", "the run was made")),
            condition(object, "Complete", ("True", reason, "the run is complete")),
            condition(object, "Passed", (passed, reason, &run.sentence)),
        ],
        results: results.collect(),
        omitted_vantages: (more > 0).then(|| count(more as u64)),
    }
}

enum RunRefusal {
    /// The run waits; with a reason if that may take long.
    Wait(Option<(&'static str, String)>),
    Reject(&'static str, String),
}

impl RunRefusal {
    fn from_error(refused: &RunRefusedError) -> Self {
        match refused {
            RunRefusedError::NotLeader => Self::Wait(None),
            RunRefusedError::RateLimited(_) => {
                let message = "waiting: too many runs are in progress or were started recently";
                Self::Wait(Some(("TooMany", message.to_owned())))
            }
            RunRefusedError::NoReportingVantage(_) | RunRefusedError::MeshTooSmall(_) => {
                Self::Wait(Some(("NoReportingVantage", format!("waiting: {refused}"))))
            }
            RunRefusedError::OutOfScope(_) => Self::Reject("Forbidden", refused.to_string()),
            RunRefusedError::Target(_)
            | RunRefusedError::OutOfRange { .. }
            | RunRefusedError::Challenge(_)
            | RunRefusedError::Names(_)
            | RunRefusedError::Unreachable { .. }
            | RunRefusedError::TooLarge(_) => Self::Reject("Invalid", refused.to_string()),
        }
    }
}

fn parse_request(object: &DynamicObject) -> Result<RunRequest, RunRefusal> {
    let invalid = |text: String| RunRefusal::Reject("Invalid", format!("spec: {text}"));
    let body: RunBody =
        serde_json::from_value(object.data["spec"].clone()).map_err(|error| invalid(error.to_string()))?;
    let from = match body.from {
        None => RunVantages::All,
        Some(word) => serde_json::from_value(Value::String(word))
            .map_err(|_| invalid("from: expected all, nodes, zones or outside".to_owned()))?,
    };
    Ok(RunRequest {
        url: body.url,
        from,
        rounds: body.rounds,
        timeout_ms: body.timeout_ms,
        challenge: None,
        names: None,
    })
}

fn is_complete(object: &DynamicObject) -> bool {
    object.data["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Complete" && condition["status"] == "True")
}

/// Reports whether the TTL has expired.
fn is_ttl_expired(object: &DynamicObject) -> bool {
    let Some(ttl) = object.data["spec"]["ttlSecondsAfterFinished"].as_i64() else {
        return false;
    };
    object.data["status"]["completionTime"]
        .as_str()
        .and_then(|time| time.parse::<Timestamp>().ok())
        .is_some_and(|completed| Timestamp::now().as_second() >= completed.as_second().saturating_add(ttl))
}
