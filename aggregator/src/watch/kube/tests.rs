//! End-to-end tests from a fake API server to topology and plan, over real connections.

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
    let mut scene = follow_at(server(SHOP).await, "", PACE);
    scene
        .until(|state| state.error.is_none() && state.revision > 0)
        .await;
    scene
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

#[tokio::test]
async fn a_new_ingress_is_in_the_plan_with_its_entry_dialled_directly() {
    let mut scene = shop().await;
    scene.server.put("ingresses", ingress("new", "new.example.test"));
    let state = scene
        .until(|state| planned(state, "vip|http://new.example.test/"))
        .await;
    assert!(planned(&state, "direct|http://new.example.test/|nginx-a"));
    assert!(planned(&state, "mesh|n1"));
    scene.server.delete("ingresses", "shop", "new");
    scene
        .until(|state| !planned(state, "vip|http://new.example.test/"))
        .await;
    scene.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_moves_changes_placement_and_plan() {
    let mut scene = shop().await;
    scene.server.put("endpointslices", nginx_on("n1", "10.244.1.11"));
    scene
        .until(|state| placement(state, "n2") == Placement::NoLocal)
        .await;
    scene.server.put("endpointslices", nginx_on("n2", "10.244.2.11"));
    let state = scene
        .until(|state| placement(state, "n2") == Placement::SameNode)
        .await;
    assert_eq!(placement(&state, "n1"), Placement::NoLocal);
    assert!(planned(&state, "direct|http://shop.example.test/|nginx-n2"));
    scene.stop().await;
}

#[tokio::test]
async fn the_first_topology_waits_for_all_lists_and_is_one() {
    let server = server(SHOP).await;
    server.set_behaviour("endpointslices", Behaviour::Status(503));
    let mut scene = follow_at(server, "", PACE);
    scene
        .until_watch(ResourceKind::Services, |watch| watch.lists > 0)
        .await;
    scene
        .until_watch(ResourceKind::EndpointSlices, |watch| {
            watch.errors.contains_key(&WatchFailureReason::Unavailable)
        })
        .await;
    let state = scene.until(|state| state.error.is_some()).await;
    assert_eq!(
        state.revision, 0,
        "Services without endpoints would be a false alarm"
    );
    scene.server.set_behaviour("endpointslices", Behaviour::Normal);
    let state = scene.until(|state| state.revision > 0).await;
    assert_eq!(state.revision, 1);
    assert_eq!(state.topology.nodes().len(), 2);
    scene.stop().await;
}

#[tokio::test]
async fn an_api_server_that_is_away_costs_nothing_that_is_known_and_its_age_grows() {
    let mut scene = shop().await;
    scene.server.stop_listening().await;
    let state = scene.until(|state| state.error.is_some()).await;
    let message = state.error.clone().unwrap().message;
    assert!(
        message.contains("Connection refused") || message.contains("closed"),
        "{message}"
    );
    assert_eq!((state.topology.nodes().len(), state.revision), (2, 1));
    let (soon, later) = (
        state.age(scene.clock.now()),
        state.age(scene.clock.now().plus(Micros::from_secs(600))),
    );
    assert!(later >= Micros(soon.0 + 600_000_000));

    // Changes in the meantime are not lost.
    scene
        .server
        .put("ingresses", ingress("meanwhile", "meanwhile.example.test"));
    scene.server.delete("ingresses", "shop", "web");
    scene.server.listen_again().await;
    let healed =
        |state: &TopologyState| state.error.is_none() && planned(state, "vip|http://meanwhile.example.test/");
    let state = scene.until(healed).await;
    let state = if planned(&state, "vip|http://shop.example.test/") {
        scene
            .until(|state| !planned(state, "vip|http://shop.example.test/"))
            .await
    } else {
        state
    };
    assert_eq!(state.age(scene.clock.now()), Micros(0));
    scene.stop().await;
}

#[tokio::test]
async fn an_expired_resource_version_is_recovered_by_a_new_list() {
    let mut scene = shop().await;
    let before = scene.server.list_pages("ingresses");
    scene.server.stop_listening().await;
    scene.until(|state| state.error.is_some()).await;
    scene.server.delete("ingresses", "shop", "web");
    scene.server.put("nodes", json!({"metadata": {"name": "n3"}}));
    scene.server.compact();
    scene.server.listen_again().await;
    let mended = |state: &TopologyState| {
        state.error.is_none()
            && !planned(state, "vip|http://shop.example.test/")
            && state.topology.nodes().len() == 3
    };
    scene.until(mended).await;
    scene
        .until_watch(ResourceKind::Ingresses, |watch| {
            watch.errors.contains_key(&WatchFailureReason::Gone) && watch.lists > 1
        })
        .await;
    assert!(scene.server.list_pages("ingresses") > before);
    scene.stop().await;
}

#[tokio::test]
async fn cut_streams_lose_no_change_and_cost_no_list() {
    let mut scene = shop().await;
    let before = scene.server.list_pages("ingresses");
    for i in 0..5 {
        scene.server.interrupt_watches();
        scene.server.put(
            "ingresses",
            ingress(&format!("i{i}"), &format!("h{i}.example.test")),
        );
    }
    let all =
        |state: &TopologyState| (0..5).all(|i| planned(state, &format!("vip|http://h{i}.example.test/")));
    scene.until(all).await;
    assert_eq!(scene.server.list_pages("ingresses"), before);
    scene.stop().await;
}

#[tokio::test]
async fn refusals_and_overload_are_shown_with_what_to_do_and_heal() {
    let mut scene = shop().await;
    for (code, reason, advice) in [
        (
            403,
            WatchFailureReason::Forbidden,
            "grant list and watch on ingresses.networking.k8s.io",
        ),
        (429, WatchFailureReason::Unavailable, "429"),
        (500, WatchFailureReason::Unavailable, "500"),
    ] {
        scene.server.set_behaviour("ingresses", Behaviour::Status(code));
        scene.server.interrupt_watches();
        let state = scene.until(|state| state.error.is_some()).await;
        let message = state.error.unwrap().message;
        assert!(
            message.starts_with("ingresses: ") && message.contains(advice),
            "{message}"
        );
        scene
            .until_watch(ResourceKind::Ingresses, |watch| {
                watch.errors.get(&reason).is_some_and(|n| *n > 1)
            })
            .await;
        // The other watches continue.
        scene
            .server
            .put("nodes", json!({"metadata": {"name": format!("n{code}")}}));
        let node = format!("n{code}").parse().unwrap();
        scene
            .until(|state| state.topology.nodes().contains_key(&node))
            .await;
        scene.server.set_behaviour("ingresses", Behaviour::Normal);
        scene.until(|state| state.error.is_none()).await;
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_list_that_does_not_come_is_noticed() {
    let server = server(SHOP).await;
    server.set_behaviour("services", Behaviour::Hangs);
    let pace = WatchTiming {
        request_timeout: Duration::from_millis(100),
        ..PACE
    };
    let mut scene = follow_at(server, "", pace);
    let hangs = |state: &TopologyState| {
        let message = state.error.as_ref().map(|trouble| trouble.message.as_str());
        message.is_some_and(|message| message.contains("services: no list within 0.1 s"))
    };
    scene.until(hangs).await;
    scene.stop().await;
}

#[tokio::test]
async fn a_silent_watch_is_no_trouble_as_long_as_lists_come_and_loses_no_change() {
    let server = server(SHOP).await;
    server.set_behaviour("nodes", Behaviour::Mute);
    let pace = WatchTiming {
        request_timeout: Duration::from_millis(100),
        idle_timeout: Duration::from_millis(100),
        ..PACE
    };
    let mut scene = follow_at(server, "", pace);
    scene
        .until_watch(ResourceKind::Nodes, |watch| {
            watch.condition == WatchCondition::Live
        })
        .await;
    scene.server.put("nodes", json!({"metadata": {"name": "late"}}));
    let late = "late".parse().unwrap();
    scene
        .until(|state| state.topology.nodes().contains_key(&late))
        .await;
    scene
        .until_watch(ResourceKind::Nodes, |watch| watch.lists > 2)
        .await;
    let nodes = scene.watches.borrow().by_kind()["nodes"].clone();
    assert_eq!((nodes.condition, nodes.errors.len()), (WatchCondition::Live, 0));
    scene.server.set_behaviour("nodes", Behaviour::Hangs);
    let state = scene.until(|state| state.error.is_some()).await;
    assert!(
        state.age(scene.clock.now()) >= Micros::from_millis(100),
        "the age starts at the last response, not at the missed one"
    );
    scene.stop().await;
}

#[tokio::test]
async fn gateways_are_found_when_their_definitions_come_and_forgotten_when_they_go() {
    let mut scene = follow_at(server(GATEWAY).await, "", PACE);
    let state = scene
        .until(|state| state.error.is_none() && state.revision > 0)
        .await;
    let target = "vip|http://shop.example.test/ok";
    let has = |state: &TopologyState| {
        state
            .topology
            .targets()
            .keys()
            .any(|id| target.ends_with(id.as_str()))
    };
    assert!(!has(&state), "without definitions there are no routes");
    scene
        .until_watch(ResourceKind::Gateways, |watch| {
            watch.condition == WatchCondition::Absent
        })
        .await;
    for resource in GATEWAYS {
        scene.server.define(resource);
    }
    scene.until(has).await;
    for resource in GATEWAYS {
        scene.server.undefine(resource);
    }
    scene.until(|state| !has(state)).await;
    scene.stop().await;
}

#[tokio::test]
async fn an_object_that_cannot_be_read_costs_itself_only() {
    let mut scene = shop().await;
    scene.server.put(
        "ingresses",
        json!({"metadata": {"namespace": "shop", "name": "bad"}, "spec": {"rules": "all"}}),
    );
    scene
        .server
        .put("ingresses", ingress("good", "good.example.test"));
    scene
        .until(|state| planned(state, "vip|http://good.example.test/"))
        .await;
    scene
        .until_watch(ResourceKind::Ingresses, |watch| watch.unreadable == 1)
        .await;
    let state = scene.state.borrow().clone();
    assert!(state.error.is_none() && planned(&state, "vip|http://shop.example.test/"));
    scene.stop().await;
}

#[tokio::test]
async fn what_changes_nothing_of_use_makes_no_new_topology() {
    let mut scene = shop().await;
    let number = scene.state.borrow().revision;
    let heartbeat = json!({
        "metadata": {"name": "n2", "managedFields": [{"manager": "kubelet", "time": "later"}], "annotations": {"x": "y"}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.2"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0"},
            "conditions": [{"type": "Ready", "lastHeartbeatTime": "later"}],
        },
    });
    scene.server.put("nodes", heartbeat);
    scene
        .until_watch(ResourceKind::Nodes, |watch| watch.events == 1)
        .await;
    scene.server.put("nodes", json!({"metadata": {"name": "n3"}}));
    let state = scene.until(|state| state.topology.nodes().len() == 3).await;
    assert_eq!(state.revision, number + 1);
    scene.stop().await;
}

#[tokio::test]
async fn the_configuration_adds_targets_and_overrides_probes() {
    let config = "targets:\n- {url: 'https://shop.example.test/', expectStatus: 204}\n- {url: 'tcp://db.example.test:5432'}\n\
                  resolvers: {public: [192.0.2.53]}\n";
    let mut scene = follow_at(server(SHOP).await, config, PACE);
    let state = scene
        .until(|state| state.error.is_none() && state.revision > 0)
        .await;
    let id = "https://shop.example.test/".parse().unwrap();
    let placed = &state.topology.targets()[&id];
    assert_eq!(
        placed.entry,
        Some(("ingress/nginx".parse().unwrap(), 8443)),
        "the cluster defines the entry"
    );
    assert!(
        format!("{:?}", placed.target.probe).contains("(204, 204)"),
        "the configuration defines the probe"
    );
    assert!(
        state
            .topology
            .targets()
            .contains_key(&"tcp://db.example.test:5432".parse().unwrap())
    );
    assert_eq!(state.topology.public_resolvers().len(), 1);
    assert_eq!(&*state.notes, &[]);
    scene.stop().await;
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_trouble_until_it_can() {
    let server = server(SHOP).await;
    let kubeconfig = server.kubeconfig();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later");
    let file = folder.path().join("parallax.yaml");
    std::fs::write(
        &file,
        "topology: {kubernetes: {kubeconfig: later}}\ntargets: [{url: 'http://a.example.test/'}]\n",
    )
    .unwrap();
    let config = Config::load(&file).unwrap();
    let kubernetes = KubernetesSettings {
        timing: PACE,
        ..config.source.kubernetes.clone().unwrap()
    };
    let (sender, mut state) = watch::channel(SourceState::new(Arc::clone(config.topology())));
    let (watches, _watches) = watch::channel(WatchHealth::default());
    let cancelled = CancellationToken::new();
    let task = tokio::spawn(watch_cluster(
        config.source,
        kubernetes,
        sender,
        watches,
        None,
        Clock::system(),
        cancelled.clone(),
    ));
    let found = state
        .wait_for(|state| state.error.is_some())
        .await
        .unwrap()
        .clone();
    assert!(found.error.unwrap().message.contains("later"));
    assert_eq!(
        found.topology.targets().len(),
        1,
        "targets of the configuration are probed regardless"
    );
    std::fs::write(&path, kubeconfig).unwrap();
    let waiting = state.wait_for(|state| state.error.is_none() && state.topology.nodes().len() == 2);
    tokio::time::timeout(DEADLINE, waiting).await.unwrap().unwrap();
    cancelled.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_changed_configuration_is_taken_without_a_start_and_a_wrong_one_leaves_the_former() {
    let mut scene = shop().await;
    let file = scene.folder.path().join("parallax.yaml");
    let source = "topology: {kubernetes: {kubeconfig: kubeconfig}}\n";
    std::fs::write(
        &file,
        format!("{source}targets: [{{url: 'http://more.example.test/'}}]\n"),
    )
    .unwrap();
    scene
        .until(|state| planned(state, "vip|http://more.example.test/"))
        .await;

    std::fs::write(
        &file,
        format!("{source}targets: [{{ulr: 'http://less.example.test/'}}]\n"),
    )
    .unwrap();
    let state = scene.until(|state| state.error.is_some()).await;
    let message = &state.error.as_ref().unwrap().message;
    assert!(
        message.contains("parallax.yaml:2:12: targets[0].ulr: unknown field"),
        "{message}"
    );
    assert!(planned(&state, "vip|http://more.example.test/"));

    std::fs::write(
        &file,
        format!("{source}listen: 127.0.0.1:1\nintervalMs: 1000\ntimeoutMs: 700\n"),
    )
    .unwrap();
    let state = scene
        .until(|state| state.error.is_none() && !planned(state, "vip|http://more.example.test/"))
        .await;
    assert_eq!(
        state.timing,
        Some(ProbeTiming {
            interval: Micros::from_secs(1),
            timeout: Micros::from_millis(700)
        })
    );
    let notes: Vec<String> = state.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["configuration: listen changed; it takes effect after a restart"]
    );
    scene.stop().await;
}
