//! Changes of objects that change the topology, and those that do not.

use super::*;

#[tokio::test]
async fn a_new_ingress_is_in_the_plan_with_its_entry_dialled_directly() {
    let mut harness = shop().await;
    harness
        .server
        .put("ingresses", ingress("new", "new.example.test"));
    let state = harness
        .until(|state| planned(state, "vip|http://new.example.test/"))
        .await;
    assert!(planned(&state, "direct|http://new.example.test/|nginx-a"));
    assert!(planned(&state, "mesh|n1"));
    harness.server.delete("ingresses", "shop", "new");
    harness
        .until(|state| !planned(state, "vip|http://new.example.test/"))
        .await;
    harness.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_moves_changes_placement_and_plan() {
    let mut harness = shop().await;
    harness
        .server
        .put("endpointslices", nginx_on("n1", "10.244.1.11"));
    harness
        .until(|state| placement(state, "n2") == Placement::NoLocal)
        .await;
    harness
        .server
        .put("endpointslices", nginx_on("n2", "10.244.2.11"));
    let state = harness
        .until(|state| placement(state, "n2") == Placement::SameNode)
        .await;
    assert_eq!(placement(&state, "n1"), Placement::NoLocal);
    assert!(planned(&state, "direct|http://shop.example.test/|nginx-n2"));
    harness.stop().await;
}

#[tokio::test]
async fn gateways_are_found_when_their_definitions_come_and_forgotten_when_they_go() {
    let mut harness = follow_at(server(GATEWAY).await, "", PACE);
    let state = harness
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
    harness
        .until_watch(ResourceKind::Gateways, |watch| {
            watch.condition == WatchCondition::Absent
        })
        .await;
    for resource in GATEWAYS {
        harness.server.define(resource);
    }
    harness.until(has).await;
    for resource in GATEWAYS {
        harness.server.undefine(resource);
    }
    harness.until(|state| !has(state)).await;
    harness.stop().await;
}

#[tokio::test]
async fn an_object_that_cannot_be_read_costs_itself_only() {
    let mut harness = shop().await;
    harness.server.put(
        "ingresses",
        json!({"metadata": {"namespace": "shop", "name": "bad"}, "spec": {"rules": "all"}}),
    );
    harness
        .server
        .put("ingresses", ingress("good", "good.example.test"));
    harness
        .until(|state| planned(state, "vip|http://good.example.test/"))
        .await;
    harness
        .until_watch(ResourceKind::Ingresses, |watch| watch.unreadable == 1)
        .await;
    let state = harness.state.borrow().clone();
    assert!(state.error.is_none() && planned(&state, "vip|http://shop.example.test/"));
    harness.stop().await;
}

#[tokio::test]
async fn what_changes_nothing_of_use_makes_no_new_topology() {
    let mut harness = shop().await;
    let number = harness.state.borrow().revision;
    let heartbeat = json!({
        "metadata": {"name": "n2", "managedFields": [{"manager": "kubelet", "time": "later"}], "annotations": {"x": "y"}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.2"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0"},
            "conditions": [{"type": "Ready", "lastHeartbeatTime": "later"}],
        },
    });
    harness.server.put("nodes", heartbeat);
    harness
        .until_watch(ResourceKind::Nodes, |watch| watch.events == 1)
        .await;
    harness.server.put("nodes", json!({"metadata": {"name": "n3"}}));
    let state = harness.until(|state| state.topology.nodes().len() == 3).await;
    assert_eq!(state.revision, number + 1);
    harness.stop().await;
}
