//! Unavailable, slow and overloaded API servers, expired versions and interrupted watches.

use super::*;

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
