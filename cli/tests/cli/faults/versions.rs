//! Aggregator and probers of different releases.

use std::{env, path::PathBuf};

use parallax_skip::skip;

use super::processes::{Launch, Processes, assert_no_incident, incidents};
use crate::{identity::mesh::until, up::Server};

/// Path of the binary of the previous release.
const PREVIOUS: &str = "PARALLAX_PREVIOUS_BINARY";

fn previous(name: &str) -> Option<Launch> {
    let Some(binary) = env::var_os(PREVIOUS).map(PathBuf::from) else {
        let command = format!("{PREVIOUS}=FILE cargo test -p parallax-cli --test cli faults::versions");
        skip(name, "no binary of the previous release", &command);
        return None;
    };
    Some(Launch {
        binary: Some(binary),
        ..Launch::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn probers_and_aggregator_of_neighbouring_releases_understand_each_other() {
    let Some(old) = previous("faults::versions (skew)") else {
        return;
    };
    let new = Launch::default();
    for (aggregator, probers) in [(&old, &new), (&new, &old)] {
        let (server, failing) = (Server::start(), Server::start());
        let [healthy, target] = [&server, &failing].map(|server| format!("http://{}/", server.address));
        let mut mesh = Processes::start_aggregator(&[healthy.clone(), target.clone()], "", aggregator).await;
        mesh.start_probers(probers);
        mesh.wait_until_all(&target, "ok").await;
        mesh.wait_for_rounds(10, |view| assert_no_incident(view.unwrap()))
            .await;
        drop(failing);
        mesh.wait_until_named().await;
        assert_eq!(incidents(&mesh.state().await.unwrap()).len(), 1);
        mesh.wait_until_all(&healthy, "ok").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_and_a_rollback_of_the_aggregator_keep_the_incident() {
    let Some(old) = previous("faults::versions (upgrade)") else {
        return;
    };
    let server = Server::start();
    let target = format!("http://{}/", server.address);
    let store = "store: {path: history.db}\n";
    let mut mesh = Processes::start_aggregator(std::slice::from_ref(&target), store, &old).await;
    mesh.start_probers(&old);
    mesh.wait_until_all(&target, "ok").await;
    mesh.wait_for_rounds(5, |view| assert_no_incident(view.unwrap()))
        .await;
    drop(server);
    mesh.wait_until_named().await;
    let id = incidents(&mesh.state().await.unwrap()).remove(0).0;
    for binary in [Launch::default(), old] {
        mesh.aggregator.signal("TERM");
        assert_eq!(mesh.aggregator.wait(), Some(0));
        mesh.restart(&binary).await;
        until("it has the incident", async || {
            let view = mesh.state().await.unwrap();
            let known = incidents(&view);
            assert!(known.iter().all(|one| one.0 == id), "{known:?}");
            !known.is_empty()
        })
        .await;
        mesh.wait_for_rounds(5, |view| assert!(view.is_some())).await;
        assert_eq!(incidents(&mesh.state().await.unwrap()).len(), 1);
    }
}
