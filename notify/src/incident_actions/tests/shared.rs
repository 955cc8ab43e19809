//! Actions that two replicas share.

use std::time::Duration;

use parallax_api_server::{ApiServer, Manner};
use parallax_kubernetes::{
    api_client::ApiClient,
    replicas::{ReplicaRole, ReplicaState},
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

/// The action manager of one replica.
struct One {
    desk: Arc<ActionManager>,
    part: watch::Sender<ReplicaRole>,
    cancelled: CancellationToken,
    task: JoinHandle<()>,
}

async fn server() -> ApiServer {
    let api = ApiServer::start(&[]).await;
    api.put(
        "configmaps",
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "parallax-handling", "namespace": "parallax"},
            "data": {"note": "of another writer"}}),
    );
    api
}

fn lines(api: &ApiServer) -> serde_json::Value {
    api.get("configmaps", "parallax", "parallax-handling").unwrap()["data"].clone()
}

fn leads(epoch: u64) -> ReplicaRole {
    ReplicaRole::Leads {
        epoch,
        nonce: Arc::from("n"),
    }
}

impl One {
    fn start(api: &ApiServer, part: ReplicaRole) -> Self {
        let client = kube::Client::try_from(kube::Config::new(api.url().parse().unwrap())).unwrap();
        let (part, part_out) = watch::channel(part);
        let place = "parallax/parallax-handling".parse().unwrap();
        let replica = ReplicaState::following(part_out);
        let ledger = ActionConfigMap::new(
            ApiClient(client),
            place,
            replica,
            IncidentActionMetrics::default(),
        );
        let desk = Arc::new(ActionManager::new(
            Clock::system(),
            StoreHandle::off(),
            Some(ledger),
        ));
        let cancelled = CancellationToken::new();
        Self {
            task: tokio::spawn(desk.clone().run(cancelled.clone())),
            desk,
            part,
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

    async fn knows(&self, what: &str, holds: impl Fn(&ActionManager) -> bool) {
        let waiting = async {
            while !holds(&self.desk) {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, waiting)
            .await
            .unwrap_or_else(|_| panic!("never learned {what}"));
    }
}

#[tokio::test]
async fn what_was_answered_as_kept_is_known_to_whoever_leads_after_the_leader_died() {
    let api = server().await;
    let leader = One::start(&api, leads(1));
    let standby = One::start(&api, ReplicaRole::StandsBy { leader: None });
    let said = leader.desk.acknowledge("i-1", "ann", None).await.unwrap();
    assert!(said.persisted);
    assert!(
        leader
            .desk
            .silence("i-2", "ann", 3_600, None)
            .await
            .unwrap()
            .persisted
    );
    assert!(leader.desk.of("i-1").unwrap().persisted, "and reports it");
    let request = WindowRequest {
        from: None,
        for_s: 600,
        targets: None,
        note: None,
    };
    let window = leader.desk.open("ann", request).await.unwrap();
    assert!(window.persisted);
    assert_eq!(lines(&api)["note"], "of another writer");
    leader.kill().await;
    standby.part.send_replace(leads(2));
    // The first action on the new leader applies to the previous state.
    let handling = standby.desk.unsilence("i-2", "ben").await.unwrap();
    let silence = handling.silenced.expect("the former leader's silence");
    assert_eq!((silence.mark.by.as_str(), handling.persisted), ("ann", true));
    assert_eq!(
        standby.desk.quiet("i-1", &[]),
        Some("acknowledged by ann".to_owned())
    );
    assert_eq!(standby.desk.windows()[0].id, window.id);
    standby.desk.end(&window.id, "ben").await.unwrap();
    assert!(standby.desk.windows().is_empty());
    standby.stop().await;
}

#[tokio::test]
async fn one_that_stands_by_learns_of_it_without_being_told_and_writes_nothing() {
    let api = server().await;
    let leader = One::start(&api, leads(1));
    leader.desk.acknowledge("i-1", "ann", None).await.unwrap();
    let standby = One::start(&api, ReplicaRole::StandsBy { leader: None });
    standby
        .knows("what was done before it started", |desk| desk.of("i-1").is_some())
        .await;
    leader.desk.acknowledge("i-2", "ann", None).await.unwrap();
    standby
        .knows("what was done since", |desk| desk.of("i-2").is_some())
        .await;
    let version = |api: &ApiServer| {
        api.get("configmaps", "parallax", "parallax-handling").unwrap()["metadata"]["resourceVersion"].clone()
    };
    let before = version(&api);
    standby.part.send_replace(ReplicaRole::StandsBy { leader: None });
    standby.stop().await;
    assert_eq!(version(&api), before);
    leader.stop().await;
}

#[tokio::test]
async fn while_it_cannot_be_written_it_is_said_to_be_kept_here_only_and_it_is_written_as_soon_as_it_can_be() {
    for manner in [Manner::Answers(403), Manner::Answers(500), Manner::Hangs] {
        let api = server().await;
        let leader = One::start(&api, leads(1));
        leader.desk.acknowledge("i-1", "ann", None).await.unwrap();
        api.behave("configmaps", manner);
        let said = leader.desk.acknowledge("i-2", "ann", None).await.unwrap();
        assert!(
            !said.persisted && !leader.desk.of("i-2").unwrap().persisted,
            "{manner:?}"
        );
        assert!(lines(&api)["handled.i-2"].is_null());
        api.behave("configmaps", Manner::Sound);
        leader
            .knows("that the action is persisted after all", |desk| {
                desk.of("i-2").unwrap().persisted
            })
            .await;
        assert!(lines(&api)["handled.i-2"].is_string());
        leader.stop().await;
    }
}

#[tokio::test]
async fn a_former_leader_that_writes_late_takes_nothing_back() {
    let api = server().await;
    let former = One::start(&api, leads(1));
    former.desk.acknowledge("i-1", "ann", None).await.unwrap();
    let leader = One::start(&api, leads(2));
    leader.desk.acknowledge("i-1", "ben", None).await.unwrap();
    former.desk.acknowledge("i-2", "ann", None).await.unwrap();
    assert_eq!(former.desk.of("i-1").unwrap().acknowledged.unwrap().by, "ben");
    let line = lines(&api)["handled.i-1"].as_str().unwrap().to_owned();
    assert!(line.contains("\"by\":\"ben\""), "{line}");
    leader
        .knows("what the other one wrote", |desk| desk.of("i-2").is_some())
        .await;
    former.stop().await;
    leader.stop().await;
}
