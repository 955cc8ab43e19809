use serde_json::json;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{api_client::ApiClient, replicas::ReplicaMetrics};
use parallax_api_server::{ApiServer, Behaviour};

const PATIENCE: Duration = Duration::from_mins(1);

/// A running election that can be killed.
struct Running {
    replica: ReplicaState,
    cancelled: CancellationToken,
    task: JoinHandle<()>,
}

fn start(api: &ApiServer, name: &str) -> Running {
    let config = kube::Config::new(api.url().parse().unwrap());
    let client = ApiClient(kube::Client::try_from(config).unwrap());
    let options = ReplicaOptions {
        lease: "parallax/parallax-aggregator".parse().unwrap(),
        duration: Duration::from_secs(1),
    };
    let page = Some(format!("{name}.example.test:8080"));
    let (election, replica) = LeaderElection::new(client, &options, name, page, ReplicaMetrics::default());
    let cancelled = CancellationToken::new();
    Running {
        replica,
        task: tokio::spawn(election.run(cancelled.clone())),
        cancelled,
    }
}

impl Running {
    async fn becomes(&self, description: &str, is: impl Fn(&ReplicaRole) -> bool) -> ReplicaRole {
        let mut changes = self.replica.changes();
        let waiting = async {
            loop {
                let part = self.replica.role();
                if is(&part) {
                    return part;
                }
                changes.next().await;
            }
        };
        timeout(PATIENCE, waiting)
            .await
            .unwrap_or_else(|_| panic!("{} never {description}", self.replica.name()))
    }

    async fn leads(&self) -> (u64, Arc<str>) {
        self.becomes("led", |part| matches!(part, ReplicaRole::Leader { .. }))
            .await
            .plan_identity()
            .unwrap()
    }

    /// Like `kill -9`: the Lease is not released.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn stop(self) {
        self.cancelled.cancel();
        self.task.await.unwrap();
    }
}

fn holder(api: &ApiServer) -> String {
    let lease = api.get("leases", "parallax", "parallax-aggregator").unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap_or("").to_owned()
}

#[tokio::test]
async fn the_first_leads_and_the_second_knows_who_and_where_and_follows_it_when_it_dies() {
    let api = ApiServer::start(&[]).await;
    let a = start(&api, "a");
    let (first, nonce) = a.leads().await;
    let b = start(&api, "b");
    let part = b
        .becomes("knew the leader", |part| {
            matches!(part, ReplicaRole::Standby { leader: Some(_) })
        })
        .await;
    let leader = LeaderAddress {
        name: "a".to_owned(),
        page: Some("a.example.test:8080".to_owned()),
    };
    assert_eq!(part, ReplicaRole::Standby { leader: Some(leader) });
    assert!(!b.replica.is_leader());
    a.kill().await;
    let (second, same) = b.leads().await;
    assert!(second > first, "{second} after {first}");
    assert_eq!(nonce, same, "echoes know the nonce of every leader");
    assert_eq!(holder(&api), "b");
    let lease = api.get("leases", "parallax", "parallax-aggregator").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 2, "{lease}");
    b.stop().await;
}

#[tokio::test]
async fn an_orderly_stop_gives_the_lease_back() {
    let api = ApiServer::start(&[]).await;
    let a = start(&api, "a");
    a.leads().await;
    let replica = a.replica.clone();
    a.stop().await;
    assert_eq!(holder(&api), "");
    assert!(!replica.is_leader());
    let b = start(&api, "b");
    b.leads().await;
    b.stop().await;
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_leading_by_itself_and_leads_again_in_a_new_epoch() {
    for manner in [Behaviour::Status(500), Behaviour::Status(403), Behaviour::Hangs] {
        let api = ApiServer::start(&[]).await;
        let a = start(&api, "a");
        let (first, _) = a.leads().await;
        api.set_behaviour("leases", manner);
        a.becomes("stepped down", |part| matches!(part, ReplicaRole::Standby { .. }))
            .await;
        assert!(!a.replica.is_leader());
        api.set_behaviour("leases", Behaviour::Normal);
        let (second, _) = a.leads().await;
        assert!(second > first, "{manner:?}");
        a.stop().await;
    }
}

#[tokio::test]
async fn a_leader_whose_api_server_is_gone_stops_leading_and_the_server_may_come_back() {
    let mut api = ApiServer::start(&[]).await;
    let a = start(&api, "a");
    a.leads().await;
    api.stop_listening().await;
    a.becomes("stepped down", |part| matches!(part, ReplicaRole::Standby { .. }))
        .await;
    api.listen_again().await;
    a.leads().await;
    a.stop().await;
}

#[tokio::test]
async fn of_two_that_are_as_quick_one_leads() {
    let api = ApiServer::start(&[]).await;
    let (a, b) = (start(&api, "a"), start(&api, "b"));
    let led = tokio::select! {
        _ = a.leads() => "a",
        _ = b.leads() => "b",
    };
    assert_eq!(holder(&api), led);
    let other = if led == "a" { &b } else { &a };
    other
        .becomes("knew the leader", |part| {
            matches!(part, ReplicaRole::Standby { leader: Some(_) })
        })
        .await;
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn foreign_changes_to_the_lease_are_kept_and_do_not_end_leadership() {
    let api = ApiServer::start(&[]).await;
    let a = start(&api, "a");
    let (epoch, _) = a.leads().await;
    let mut lease = api.get("leases", "parallax", "parallax-aggregator").unwrap();
    lease["metadata"]["annotations"]["example.test/note"] = json!("hands off");
    api.put("leases", lease.clone());
    let renewed = async {
        loop {
            let now = api.get("leases", "parallax", "parallax-aggregator").unwrap();
            if now["spec"]["renewTime"] != lease["spec"]["renewTime"] {
                return now;
            }
            tokio::task::yield_now().await;
        }
    };
    let now = timeout(PATIENCE, renewed).await.unwrap();
    assert_eq!(now["metadata"]["annotations"]["example.test/note"], "hands off");
    assert_eq!(a.leads().await.0, epoch);
    a.stop().await;
}
