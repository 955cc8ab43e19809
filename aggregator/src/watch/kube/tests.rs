//! End-to-end tests from a fake API server to topology and plan, over real connections.

mod configuration;
mod topology_changes;
mod watch_failures;

use std::time::Duration;

use parallax_diagnosis::plan::{PlanConfig, assignments};
use parallax_model::{Front, Micros, Placement, Vantage};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;
use crate::{config::Config, topology::TopologyReducer};
use parallax_api_server::{ApiServer, Behaviour};
use parallax_kubernetes::{
    topology_state::{ProbeTiming, TopologyState},
    watch::{WatchCondition, WatchFailureReason, WatchState, WatchTiming},
};

const SHOP: &str = include_str!("../../../../kubernetes/src/discovery/fixtures/shop.yaml");
const GATEWAY: &str = include_str!("../../../../kubernetes/src/discovery/fixtures/gateway.yaml");
const GATEWAYS: &[&str] = &["gateways", "httproutes"];

/// Timeout; reached only by a failing test.
const DEADLINE: Duration = Duration::from_mins(1);

/// Short periods, to keep the tests fast.
const PACE: WatchTiming = WatchTiming {
    debounce: Duration::from_millis(5),
    max_debounce: Duration::from_millis(50),
    first_retry_delay: Duration::from_millis(10),
    max_retry_delay: Duration::from_millis(50),
    recheck_interval: Duration::from_millis(20),
    request_timeout: Duration::from_secs(20),
    idle_timeout: Duration::from_secs(20),
};

struct Scene {
    server: ApiServer,
    state: watch::Receiver<TopologyState>,
    watches: watch::Receiver<WatchHealth<WatchSource>>,
    cancelled: CancellationToken,
    clock: Clock,
    task: JoinHandle<()>,
    folder: TempDir,
}

async fn server(yaml: &str) -> ApiServer {
    let server = ApiServer::start(GATEWAYS).await;
    server.apply(yaml);
    server
}

fn follow_at(server: ApiServer, config: &str, pace: WatchTiming) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).unwrap();
    let file = folder.path().join("parallax.yaml");
    let config = format!("topology: {{kubernetes: {{kubeconfig: kubeconfig}}}}\n{config}");
    std::fs::write(&file, config).unwrap();
    let config = Config::load(&file).unwrap();
    let kubernetes = KubernetesSettings {
        timing: pace,
        ..config.source.kubernetes.clone().unwrap()
    };
    let (sender, source) = watch::channel(SourceState::new(Arc::clone(config.topology())));
    let (out, state) = watch::channel(TopologyState::new(Arc::clone(config.topology())));
    let reducer = TopologyReducer {
        source,
        enrolled: None,
        targets: None,
        tenants: crate::crd::TenantOptions::default(),
        options: config.runs.clone(),
        out,
    };
    let (watches, watches_out) = watch::channel(WatchHealth::default());
    let (clock, cancelled) = (Clock::system(), CancellationToken::new());
    let following = watch_cluster(
        config.source,
        kubernetes,
        sender,
        watches,
        None,
        clock,
        cancelled.clone(),
    );
    let reducing = reducer.run(cancelled.clone());
    let task = tokio::spawn(async move {
        tokio::join!(following, reducing);
    });
    Scene {
        server,
        state,
        watches: watches_out,
        cancelled,
        clock,
        task,
        folder,
    }
}

async fn shop() -> Scene {
    let mut harness = follow_at(server(SHOP).await, "", PACE);
    harness
        .until(|state| state.error.is_none() && state.revision > 0)
        .await;
    harness
}

impl Scene {
    async fn until(&mut self, holds: impl FnMut(&TopologyState) -> bool) -> TopologyState {
        let waiting = tokio::time::timeout(DEADLINE, self.state.wait_for(holds));
        let found = waiting.await.map(|state| state.map(|state| state.clone()));
        found
            .unwrap_or_else(|_| panic!("timed out; the state is {:?}", self.state.borrow().error))
            .unwrap()
    }

    async fn until_watch(&mut self, resource: ResourceKind, holds: impl Fn(&WatchState) -> bool) {
        let holds =
            |watches: &WatchHealth<WatchSource>| watches.by_kind().get(resource.label()).is_some_and(&holds);
        let waiting = tokio::time::timeout(DEADLINE, self.watches.wait_for(holds)).await;
        waiting
            .unwrap_or_else(|_| panic!("timed out waiting for {resource}"))
            .unwrap();
    }

    async fn stop(self) {
        self.cancelled.cancel();
        self.task.await.unwrap();
    }
}

fn pod_of(node: &str) -> Vantage {
    Vantage::pod(node.parse().unwrap())
}

fn plan(topology: &Topology, node: &str) -> Vec<String> {
    let config = PlanConfig {
        interval: Micros::from_secs(5),
        timeout: Micros::from_secs(3),
        echo_nonce: "nonce".to_owned(),
    };
    let plan = assignments(topology, &config, &pod_of(node));
    plan.iter().map(|assignment| assignment.id.to_string()).collect()
}

fn planned(state: &TopologyState, id: &str) -> bool {
    plan(&state.topology, "n2").iter().any(|planned| planned == id)
}

fn ingress(name: &str, host: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"ingressClassName": "public", "rules": [{"host": host, "http": {"paths": [
            {"path": "/", "backend": {"service": {"name": "web"}}},
        ]}}]},
    })
}

fn nginx_on(node: &str, address: &str) -> Value {
    json!({
        "metadata": {"namespace": "ingress", "name": "nginx-1", "labels": {"kubernetes.io/service-name": "nginx"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "nodeName": node, "targetRef": {"kind": "Pod", "name": format!("nginx-{node}")}}],
        "ports": [{"name": "http", "port": 8080}, {"name": "https", "port": 8443}],
    })
}

fn placement(state: &TopologyState, node: &str) -> Placement {
    let balancer: Front = "203.0.113.10:80".parse().unwrap();
    state.topology.placement(&pod_of(node), Some(&balancer), None)
}
