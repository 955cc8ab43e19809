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
    types::{RunBody, RunResult, RunStatus},
};

/// Interval between checks for completed runs.
const TICK: Duration = Duration::from_millis(500);

/// Maximum number of vantages in a status; an object may have about a megabyte.
const RESULTS: usize = 50;

/// Maximum number of waiting runs that are retried at each tick.
const MOST_WAITING: usize = 200;

struct RunWatch {
    objects: ObjectClient,
    desk: Arc<RunManager>,
    replica: ReplicaState,
    topology: watch::Receiver<TopologyState>,
    views: SnapshotReader<View>,
    known: KnownObjects,
    under_way: BTreeMap<Key, (String, RunId)>,
    /// UIDs of objects that this process has completed or rejected; the watch may not have returned the status yet.
    over: BTreeSet<String>,
    /// Reasons of waiting runs by UID, as written to their status.
    waiting: BTreeMap<String, &'static str>,
}

/// Watches `Run` objects until cancelled.
pub(crate) async fn follow(
    client: ApiClient,
    (desk, replica): (Arc<RunManager>, ReplicaState),
    topology: watch::Receiver<TopologyState>,
    views: SnapshotReader<View>,
    cancelled: CancellationToken,
) {
    let objects = ObjectClient::new(client, "Run");
    let mut events = objects.follow();
    let mut following = RunWatch {
        objects,
        desk,
        replica,
        topology,
        views,
        known: KnownObjects::default(),
        under_way: BTreeMap::new(),
        over: BTreeSet::new(),
        waiting: BTreeMap::new(),
    };
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        tokio::select! {
            () = cancelled.cancelled() => return,
            event = events.next() => match event {
                Some(Ok(event)) => {
                    failing = false;
                    if !following.known.take(event) {
                        continue;
                    }
                }
                Some(Err(error)) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "cannot watch {}.parallax.dev; apply deploy/crds.yaml and check that the aggregator's ServiceAccount may list and watch it", following.objects.plural());
                    }
                    continue;
                }
                None => return,
            },
            _ = tick.tick() => {}
        }
        tokio::select! {
            () = cancelled.cancelled() => return,
            () = following.turn() => {}
        }
    }
}

impl RunWatch {
    async fn turn(&mut self) {
        if !self.replica.leads() {
            // The leader starts all runs afresh; runs in progress here are abandoned.
            self.under_way.clear();
            return;
        }
        let mut waiting = 0;
        let objects: Vec<(Key, DynamicObject)> = self
            .known
            .objects()
            .iter()
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect();
        for (key, object) in objects {
            let uid = object.metadata.uid.clone().unwrap_or_default();
            if is_complete(&object) {
                if is_due(&object) && self.over.insert(format!("removed {uid}")) {
                    self.objects.remove(&key).await;
                }
                continue;
            }
            if self.over.contains(&uid) {
                continue;
            }
            match self.under_way.get(&key).cloned() {
                Some((own, id)) if own == uid => self.see(&key, &object, &uid, &id).await,
                _ if waiting >= MOST_WAITING => {}
                _ => {
                    waiting += 1;
                    self.begin(&key, &object, &uid).await;
                }
            }
        }
        let known = &self.known;
        self.under_way.retain(|key, _| known.objects().contains_key(key));
        let uids: BTreeSet<&str> = known
            .objects()
            .values()
            .filter_map(|object| object.metadata.uid.as_deref())
            .collect();
        self.over
            .retain(|uid| uids.contains(uid.trim_start_matches("removed ")));
        self.waiting.retain(|uid, _| uids.contains(uid.as_str()));
    }

    async fn begin(&mut self, key: &Key, object: &DynamicObject, uid: &str) {
        let by = format!("Run {}/{}", key.0, key.1);
        let view = self.views.current().await;
        let begun = read(object).and_then(|request| {
            let topology = self.topology.borrow().topology.clone();
            self.desk
                .begin(&request, &by, &topology, &view)
                .map_err(|refused| RunRefusal::of(&refused))
        });
        match begun {
            Ok(run) => {
                self.waiting.remove(uid);
                self.under_way
                    .insert(key.clone(), (uid.to_owned(), run.id.clone()));
                let status = RunStatus {
                    run: Some(run.id.to_string()),
                    conditions: vec![
                        condition(object, "Accepted", ("True", "Begun", "the run is in progress")),
                        condition(object, "Complete", ("False", "Running", "the run is in progress")),
                    ],
                    ..RunStatus::default()
                };
                self.say(key, &status).await;
            }
            // Other runs are in progress, or no vantage can make it yet: retry at the next tick.
            Err(RunRefusal::Later(None)) => {}
            Err(RunRefusal::Later(Some((reason, message)))) => {
                if self.waiting.get(uid) == Some(&reason) {
                    return;
                }
                let status = RunStatus {
                    conditions: vec![condition(object, "Accepted", ("Unknown", reason, &message))],
                    ..RunStatus::default()
                };
                if self.say(key, &status).await {
                    self.waiting.insert(uid.to_owned(), reason);
                }
            }
            Err(RunRefusal::Never(reason, message)) => {
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
                if self.say(key, &status).await {
                    self.desk.refused();
                    self.over.insert(uid.to_owned());
                }
            }
        }
    }

    /// Writes the result of a run once it has completed.
    async fn see(&mut self, key: &Key, object: &DynamicObject, uid: &str, id: &RunId) {
        let Some(run) = self.desk.get(id.as_str()) else {
            // Evicted by newer runs before it completed: start it again.
            self.under_way.remove(key);
            return;
        };
        if run.state == RunState::Running {
            return;
        }
        if self.say(key, &judged(object, &run)).await {
            self.over.insert(uid.to_owned());
            self.under_way.remove(key);
        }
    }

    async fn say(&self, key: &Key, status: &RunStatus) -> bool {
        match serde_json::to_value(status) {
            Ok(status) => self.objects.say(key, &status).await,
            // Retrying would not help.
            Err(_) => true,
        }
    }
}

fn judged(object: &DynamicObject, run: &PreflightRun) -> RunStatus {
    let (passed, reason) = match run.outcome {
        Some(RunOutcome::Passed) => ("True", "Passed"),
        Some(RunOutcome::Failed) => ("False", "Failed"),
        Some(RunOutcome::Unknown) | None => ("Unknown", "NotProved"),
    };
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let results = run.vantages.iter().take(RESULTS).map(|part| RunResult {
        vantage: part.vantage.to_string(),
        probes: count(part.planned),
        failures: count(part.failures),
        said: part.said.clone(),
    });
    let more = run.vantages.len().saturating_sub(RESULTS);
    RunStatus {
        run: Some(run.id.to_string()),
        completion_time: Some(now()),
        conditions: vec![
            condition(object, "Accepted", ("True", "Begun", "the run was made")),
            condition(object, "Complete", ("True", reason, "the run is complete")),
            condition(object, "Passed", (passed, reason, &run.sentence)),
        ],
        results: results.collect(),
        more: (more > 0).then(|| count(more as u64)),
    }
}

enum RunRefusal {
    /// The run waits; with a reason if that may take long.
    Later(Option<(&'static str, String)>),
    Never(&'static str, String),
}

impl RunRefusal {
    fn of(refused: &RunRefusedError) -> Self {
        match refused {
            RunRefusedError::StandsBy => Self::Later(None),
            RunRefusedError::TooMany(_) => {
                let said = "waiting: too many runs are in progress or were started recently";
                Self::Later(Some(("TooMany", said.to_owned())))
            }
            RunRefusedError::Nobody(_) | RunRefusedError::NoMesh(_) => {
                Self::Later(Some(("Nobody", format!("waiting: {refused}"))))
            }
            RunRefusedError::Forbidden(_) => Self::Never("Forbidden", refused.to_string()),
            RunRefusedError::Target(_)
            | RunRefusedError::Value { .. }
            | RunRefusedError::Challenge(_)
            | RunRefusedError::Names(_)
            | RunRefusedError::NotFromThere { .. }
            | RunRefusedError::TooLarge(_) => Self::Never("Invalid", refused.to_string()),
        }
    }
}

fn read(object: &DynamicObject) -> Result<RunRequest, RunRefusal> {
    let invalid = |text: String| RunRefusal::Never("Invalid", format!("spec: {text}"));
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
fn is_due(object: &DynamicObject) -> bool {
    let Some(ttl) = object.data["spec"]["ttlSecondsAfterFinished"].as_i64() else {
        return false;
    };
    object.data["status"]["completionTime"]
        .as_str()
        .and_then(|time| time.parse::<Timestamp>().ok())
        .is_some_and(|completed| Timestamp::now().as_second() >= completed.as_second().saturating_add(ttl))
}
