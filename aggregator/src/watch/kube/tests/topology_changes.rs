//! Changes of objects that change the topology, and those that do not.

use super::*;

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
