//! Unavailable, slow and overloaded API servers, expired versions and interrupted watches.

use super::*;

#[tokio::test]
async fn the_first_topology_waits_for_all_lists_and_is_one() {
    let server = server(SHOP).await;
    server.set_behaviour("endpointslices", Behaviour::Status(503));
    let mut harness = follow_at(server, "", PACE);
    harness
        .until_watch(ResourceKind::Services, |watch| watch.lists > 0)
        .await;
    harness
        .until_watch(ResourceKind::EndpointSlices, |watch| {
            watch.errors.contains_key(&WatchFailureReason::Unavailable)
        })
        .await;
    let state = harness.until(|state| state.error.is_some()).await;
    assert_eq!(
        state.revision, 0,
        "Services without endpoints would be a false alarm"
    );
    harness.server.set_behaviour("endpointslices", Behaviour::Normal);
    let state = harness.until(|state| state.revision > 0).await;
    assert_eq!(state.revision, 1);
    assert_eq!(state.topology.nodes().len(), 2);
    harness.stop().await;
}

#[tokio::test]
async fn an_api_server_that_is_away_costs_nothing_that_is_known_and_its_age_grows() {
    let mut harness = shop().await;
    harness.server.stop_listening().await;
    let state = harness.until(|state| state.error.is_some()).await;
    let message = state.error.clone().unwrap().message;
    assert!(
        message.contains("Connection refused") || message.contains("closed"),
        "{message}"
    );
    assert_eq!((state.topology.nodes().len(), state.revision), (2, 1));
    let (soon, later) = (
        state.age(harness.clock.now()),
        state.age(harness.clock.now().plus(Micros::from_secs(600))),
    );
    assert!(later >= Micros(soon.0 + 600_000_000));

    // Changes in the meantime are not lost.
    harness
        .server
        .put("ingresses", ingress("meanwhile", "meanwhile.example.test"));
    harness.server.delete("ingresses", "shop", "web");
    harness.server.listen_again().await;
    let healed =
        |state: &TopologyState| state.error.is_none() && planned(state, "vip|http://meanwhile.example.test/");
    let state = harness.until(healed).await;
    let state = if planned(&state, "vip|http://shop.example.test/") {
        harness
            .until(|state| !planned(state, "vip|http://shop.example.test/"))
            .await
    } else {
        state
    };
    assert_eq!(state.age(harness.clock.now()), Micros(0));
    harness.stop().await;
}

#[tokio::test]
async fn an_expired_resource_version_is_recovered_by_a_new_list() {
    let mut harness = shop().await;
    let before = harness.server.list_pages("ingresses");
    harness.server.stop_listening().await;
    harness.until(|state| state.error.is_some()).await;
    harness.server.delete("ingresses", "shop", "web");
    harness.server.put("nodes", json!({"metadata": {"name": "n3"}}));
    harness.server.compact();
    harness.server.listen_again().await;
    let recovered = |state: &TopologyState| {
        state.error.is_none()
            && !planned(state, "vip|http://shop.example.test/")
            && state.topology.nodes().len() == 3
    };
    harness.until(recovered).await;
    harness
        .until_watch(ResourceKind::Ingresses, |watch| {
            watch.errors.contains_key(&WatchFailureReason::Gone) && watch.lists > 1
        })
        .await;
    assert!(harness.server.list_pages("ingresses") > before);
    harness.stop().await;
}

#[tokio::test]
async fn cut_streams_lose_no_change_and_cost_no_list() {
    let mut harness = shop().await;
    let before = harness.server.list_pages("ingresses");
    for i in 0..5 {
        harness.server.interrupt_watches();
        harness.server.put(
            "ingresses",
            ingress(&format!("i{i}"), &format!("h{i}.example.test")),
        );
    }
    let all =
        |state: &TopologyState| (0..5).all(|i| planned(state, &format!("vip|http://h{i}.example.test/")));
    harness.until(all).await;
    assert_eq!(harness.server.list_pages("ingresses"), before);
    harness.stop().await;
}

#[tokio::test]
async fn refusals_and_overload_are_shown_with_what_to_do_and_heal() {
    let mut harness = shop().await;
    for (code, reason, advice) in [
        (
            403,
            WatchFailureReason::Forbidden,
            "grant list and watch on ingresses.networking.k8s.io",
        ),
        (429, WatchFailureReason::Unavailable, "429"),
        (500, WatchFailureReason::Unavailable, "500"),
    ] {
        harness.server.set_behaviour("ingresses", Behaviour::Status(code));
        harness.server.interrupt_watches();
        let state = harness.until(|state| state.error.is_some()).await;
        let message = state.error.unwrap().message;
        assert!(
            message.starts_with("ingresses: ") && message.contains(advice),
            "{message}"
        );
        harness
            .until_watch(ResourceKind::Ingresses, |watch| {
                watch.errors.get(&reason).is_some_and(|n| *n > 1)
            })
            .await;
        // The other watches continue.
        harness
            .server
            .put("nodes", json!({"metadata": {"name": format!("n{code}")}}));
        let node = format!("n{code}").parse().unwrap();
        harness
            .until(|state| state.topology.nodes().contains_key(&node))
            .await;
        harness.server.set_behaviour("ingresses", Behaviour::Normal);
        harness.until(|state| state.error.is_none()).await;
    }
    harness.stop().await;
}

#[tokio::test]
async fn a_list_that_does_not_come_is_noticed() {
    let server = server(SHOP).await;
    server.set_behaviour("services", Behaviour::Hangs);
    let pace = WatchTiming {
        request_timeout: Duration::from_millis(100),
        ..PACE
    };
    let mut harness = follow_at(server, "", pace);
    let hangs = |state: &TopologyState| {
        let message = state.error.as_ref().map(|error| error.message.as_str());
        message.is_some_and(|message| message.contains("services: no list within 0.1 s"))
    };
    harness.until(hangs).await;
    harness.stop().await;
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
    let mut harness = follow_at(server, "", pace);
    harness
        .until_watch(ResourceKind::Nodes, |watch| {
            watch.condition == WatchCondition::Live
        })
        .await;
    harness.server.put("nodes", json!({"metadata": {"name": "late"}}));
    let late = "late".parse().unwrap();
    harness
        .until(|state| state.topology.nodes().contains_key(&late))
        .await;
    harness
        .until_watch(ResourceKind::Nodes, |watch| watch.lists > 2)
        .await;
    let nodes = harness.watches.borrow().by_kind()["nodes"].clone();
    assert_eq!((nodes.condition, nodes.errors.len()), (WatchCondition::Live, 0));
    harness.server.set_behaviour("nodes", Behaviour::Hangs);
    let state = harness.until(|state| state.error.is_some()).await;
    assert!(
        state.age(harness.clock.now()) >= Micros::from_millis(100),
        "the age starts at the last response, not at the missed one"
    );
    harness.stop().await;
}
