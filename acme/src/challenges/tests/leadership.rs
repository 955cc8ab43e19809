//! Explanations are made by the leader alone.

use super::*;

const TOPOLOGY: &str = r#"
nodes: [{name: n1, prober: {pod: prober-n1, address: "10.244.1.5:9095"}}]
targets: [{url: "http://shop.example.test/"}]
"#;

/// The task alone, with a replica role that the test sets.
struct Scene {
    waiting: watch::Receiver<Arc<[WaitingChallenge]>>,
    state: watch::Sender<CertManagerState>,
    part: watch::Sender<ReplicaRole>,
    desk: Arc<RunManager>,
    cancelled: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn scene(part: ReplicaRole) -> Scene {
    let spec: TopologySpec = serde_saphyr::from_str(TOPOLOGY).unwrap();
    let topology = Arc::new(Topology::try_from(spec).unwrap());
    let (part, part_out) = watch::channel(part);
    let replica = ReplicaState::for_test(part_out);
    let clock = Clock::starting_at(at(1_000));
    let plan = PlanConfig {
        interval: Micros::from_secs(5),
        timeout: Micros::from_secs(3),
        echo_nonce: String::new(),
    };
    let run_manager = Arc::new(RunManager::new(
        clock,
        parallax_runs::RunOptions::default(),
        plan,
        replica.clone(),
        (StoreHandle::off(), RunMetrics::new()),
    ));
    let (cert_manager, picture_out) =
        watch::channel(CertManagerState::missing(&UnavailableReason::NotListedYet));
    let (waiting, waiting_out) = watch::channel(Arc::from([]));
    let cancelled = CancellationToken::new();
    let following = ChallengeTask {
        options: ChallengeOptions::default(),
        kubernetes: KubernetesSettings::new(ApiServerAccess::Inferred { context: None }),
        cert_manager: picture_out,
        waiting,
        runs: run_manager.clone(),
        replica,
        topology: watch::channel(TopologyState::new(topology)).1,
        views: parallax_runtime::snapshot_channel(fixtures::waiting()).1,
        clock,
    };
    let task = tokio::spawn(run_until_cancelled(following, cancelled.clone()));
    Scene {
        waiting: waiting_out,
        state: cert_manager,
        part,
        desk: run_manager,
        cancelled,
        task,
    }
}

fn state(challenges: &[(&str, Value)]) -> CertManagerState {
    CertManagerState {
        challenges: ObjectStore::Known {
            objects: Arc::new(all(challenges)),
            stale: None,
        },
        ..CertManagerState::missing(&UnavailableReason::NotInstalled)
    }
}

fn leads() -> ReplicaRole {
    ReplicaRole::Leader {
        epoch: 1,
        nonce: Arc::from("nonce"),
    }
}

#[tokio::test(start_paused = true)]
async fn only_who_leads_explains_and_forgets_it_all_with_the_lead() {
    let mut harness = scene(ReplicaRole::Standby { leader: None });
    harness.state.send_replace(state(&[("web", failing("EOF"))]));
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(harness.waiting.borrow().is_empty() && harness.desk.list().is_empty());
    harness.part.send_replace(leads());
    let found = harness
        .waiting
        .wait_for(|list| list.first().is_some_and(|one| one.not_replayed.is_some()))
        .await
        .unwrap()
        .clone();
    // No vantage reports in this mesh, so the run is rejected. The list contains that reason and the usual cause.
    let reason = found[0].not_replayed.as_deref().unwrap();
    assert!(reason.contains("no vantage of nodes reports"), "{reason}");
    assert_eq!(found[0].cause(), "F9");
    harness.part.send_replace(ReplicaRole::Standby { leader: None });
    harness.waiting.wait_for(|list| list.is_empty()).await.unwrap();
    harness.cancelled.cancel();
    harness.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn where_challenges_are_not_known_any_more_nothing_is_said_of_them() {
    let mut harness = scene(leads());
    harness.state.send_replace(state(&[("web", failing("EOF"))]));
    harness.waiting.wait_for(|list| !list.is_empty()).await.unwrap();
    harness
        .state
        .send_replace(CertManagerState::missing(&UnavailableReason::NotInstalled));
    harness.waiting.wait_for(|list| list.is_empty()).await.unwrap();
    harness.cancelled.cancel();
    harness.task.await.unwrap();
}
