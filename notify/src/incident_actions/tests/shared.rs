//! Actions that two replicas share.

use std::time::Duration;

use parallax_api_server::{ApiServer, Behaviour};
use parallax_kubernetes::{
    api_client::ApiClient,
    replicas::{ReplicaRole, ReplicaState},
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use super::*;

const TIMEOUT: Duration = Duration::from_mins(1);

/// The action manager of one replica.
struct Replica {
    actions: Arc<ActionManager>,
    role: watch::Sender<ReplicaRole>,
    cancelled: CancellationToken,
    task: JoinHandle<()>,
}

async fn server() -> ApiServer {
    let api = ApiServer::start(&[]).await;
    api.put(
        "configmaps",
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "parallax-incident-actions", "namespace": "parallax"},
            "data": {"note": "of another writer"}}),
    );
    api
}

fn lines(api: &ApiServer) -> serde_json::Value {
    api.get("configmaps", "parallax", "parallax-incident-actions")
        .unwrap()["data"]
        .clone()
}

fn leads(epoch: u64) -> ReplicaRole {
    ReplicaRole::Leader {
        epoch,
        nonce: Arc::from("n"),
    }
}

impl Replica {
    fn start(api: &ApiServer, part: ReplicaRole) -> Self {
        let client = kube::Client::try_from(kube::Config::new(api.url().parse().unwrap())).unwrap();
        let (part, part_out) = watch::channel(part);
        let place = "parallax/parallax-incident-actions".parse().unwrap();
        let replica = ReplicaState::for_test(part_out);
        let config_map = ActionConfigMap::new(
            ApiClient(client),
            place,
            replica,
            IncidentActionMetrics::default(),
        );
        let actions = Arc::new(ActionManager::new(
            Clock::system(),
            StoreHandle::off(),
            Some(config_map),
        ));
        let cancelled = CancellationToken::new();
        Self {
            task: tokio::spawn(actions.clone().run(cancelled.clone())),
            actions,
            role: part,
            cancelled,
        }
    }

    /// Ends without a last write, like `kill -9`.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn stop(self) {
        self.cancelled.cancel();
        self.task.await.unwrap();
    }

    async fn wait_until(&self, description: &str, holds: impl Fn(&ActionManager) -> bool) {
        let waiting = async {
            while !holds(&self.actions) {
                tokio::task::yield_now().await;
            }
        };
        timeout(TIMEOUT, waiting)
            .await
            .unwrap_or_else(|_| panic!("never learned {description}"));
    }
}

#[tokio::test]
async fn an_action_reported_as_persisted_is_known_to_the_next_leader() {
    let api = server().await;
    let leader = Replica::start(&api, leads(1));
    let standby = Replica::start(&api, ReplicaRole::Standby { leader: None });
    let acknowledgement = leader.actions.acknowledge("i-1", "ann", None).await.unwrap();
    assert!(acknowledgement.persisted);
    assert!(
        leader
            .actions
            .silence("i-2", "ann", 3_600, None)
            .await
            .unwrap()
            .persisted
    );
    assert!(
        leader.actions.actions_on("i-1").unwrap().persisted,
        "and reports it"
    );
    let request = WindowRequest {
        from: None,
        duration_s: 600,
        targets: None,
        note: None,
    };
    let window = leader.actions.open_window("ann", request).await.unwrap();
    assert!(window.persisted);
    assert_eq!(lines(&api)["note"], "of another writer");
    leader.kill().await;
    standby.role.send_replace(leads(2));
    // The first action on the new leader applies to the previous state.
    let handling = standby.actions.unsilence("i-2", "ben").await.unwrap();
    let silence = handling.silenced.expect("the former leader's silence");
    assert_eq!((silence.author.by.as_str(), handling.persisted), ("ann", true));
    assert_eq!(
        standby.actions.quiet_reason("i-1", &[]),
        Some("acknowledged by ann".to_owned())
    );
    assert_eq!(standby.actions.windows()[0].id, window.id);
    standby.actions.end_window(&window.id, "ben").await.unwrap();
    assert!(standby.actions.windows().is_empty());
    standby.stop().await;
}

#[tokio::test]
async fn a_standby_reads_actions_and_writes_nothing() {
    let api = server().await;
    let leader = Replica::start(&api, leads(1));
    leader.actions.acknowledge("i-1", "ann", None).await.unwrap();
    let standby = Replica::start(&api, ReplicaRole::Standby { leader: None });
    standby
        .wait_until("what was done before it started", |actions| {
            actions.actions_on("i-1").is_some()
        })
        .await;
    leader.actions.acknowledge("i-2", "ann", None).await.unwrap();
    standby
        .wait_until("what was done since", |actions| {
            actions.actions_on("i-2").is_some()
        })
        .await;
    let version = |api: &ApiServer| {
        api.get("configmaps", "parallax", "parallax-incident-actions")
            .unwrap()["metadata"]["resourceVersion"]
            .clone()
    };
    let before = version(&api);
    standby.role.send_replace(ReplicaRole::Standby { leader: None });
    standby.stop().await;
    assert_eq!(version(&api), before);
    leader.stop().await;
}

#[tokio::test]
async fn an_action_that_cannot_be_written_is_reported_unpersisted_and_written_later() {
    for manner in [Behaviour::Status(403), Behaviour::Status(500), Behaviour::Hangs] {
        let api = server().await;
        let leader = Replica::start(&api, leads(1));
        leader.actions.acknowledge("i-1", "ann", None).await.unwrap();
        api.set_behaviour("configmaps", manner);
        let acknowledgement = leader.actions.acknowledge("i-2", "ann", None).await.unwrap();
        assert!(
            !acknowledgement.persisted && !leader.actions.actions_on("i-2").unwrap().persisted,
            "{manner:?}"
        );
        assert!(lines(&api)["handled.i-2"].is_null());
        api.set_behaviour("configmaps", Behaviour::Normal);
        leader
            .wait_until("that the action is persisted after all", |actions| {
                actions.actions_on("i-2").unwrap().persisted
            })
            .await;
        assert!(lines(&api)["handled.i-2"].is_string());
        leader.stop().await;
    }
}

#[tokio::test]
async fn a_late_write_of_a_former_leader_reverts_nothing() {
    let api = server().await;
    let former = Replica::start(&api, leads(1));
    former.actions.acknowledge("i-1", "ann", None).await.unwrap();
    let leader = Replica::start(&api, leads(2));
    leader.actions.acknowledge("i-1", "ben", None).await.unwrap();
    former.actions.acknowledge("i-2", "ann", None).await.unwrap();
    assert_eq!(
        former.actions.actions_on("i-1").unwrap().acknowledged.unwrap().by,
        "ben"
    );
    let line = lines(&api)["handled.i-1"].as_str().unwrap().to_owned();
    assert!(line.contains("\"by\":\"ben\""), "{line}");
    leader
        .wait_until("what the other one wrote", |actions| {
            actions.actions_on("i-2").is_some()
        })
        .await;
    former.stop().await;
    leader.stop().await;
}
