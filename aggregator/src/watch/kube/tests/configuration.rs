//! Targets and probe settings of the configuration, and unusable kubeconfigs.

use super::*;

#[tokio::test]
async fn the_configuration_adds_targets_and_overrides_probes() {
    let config = "targets:\n- {url: 'https://shop.example.test/', expectStatus: 204}\n- {url: 'tcp://db.example.test:5432'}\n\
                  resolvers: {public: [192.0.2.53]}\n";
    let mut harness = follow_at(server(SHOP).await, config, PACE);
    let state = harness
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
    harness.stop().await;
}

#[tokio::test]
async fn an_unusable_kubeconfig_is_an_error_until_it_is_usable() {
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
    let mut harness = shop().await;
    let file = harness.folder.path().join("parallax.yaml");
    let source = "topology: {kubernetes: {kubeconfig: kubeconfig}}\n";
    std::fs::write(
        &file,
        format!("{source}targets: [{{url: 'http://more.example.test/'}}]\n"),
    )
    .unwrap();
    harness
        .until(|state| planned(state, "vip|http://more.example.test/"))
        .await;

    std::fs::write(
        &file,
        format!("{source}targets: [{{ulr: 'http://less.example.test/'}}]\n"),
    )
    .unwrap();
    let state = harness.until(|state| state.error.is_some()).await;
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
    let state = harness
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
    harness.stop().await;
}
