//! Persistence of the outbox in the store, without a cluster.

use std::{thread::JoinHandle, time::Duration};

use parallax_history::store::{HistoryWriter, SqliteFile, StoreMetrics, StoreOptions, StoreWorker};

use super::{super::webhook::WebhookClient, receiver::Receiver, *};

/// A store of one process lifetime: the engine task's writer, the store's thread, and the outbox store in it.
fn start_store(path: &std::path::Path) -> (HistoryWriter, JoinHandle<()>, OutboxStore) {
    let file = Box::new(SqliteFile::new(StoreOptions::with_defaults(path)));
    let (keeper, worker, store) = StoreWorker::new(file, Clock::system(), &StoreMetrics::new());
    let outbox_store = OutboxStore::Store {
        store,
        _hold: keeper.hold(),
    };
    (keeper, std::thread::spawn(move || worker.run()), outbox_store)
}

#[tokio::test]
async fn the_store_persists_the_last_delivery_and_closes_after_the_last_hold() {
    // A second call finds a provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let receiver = Receiver::with_responses([]).await;
    let webhook = || WebhookClient::new(receiver.webhook()).unwrap();

    let (keeper, thread, outbox_store) = start_store(&path);
    let harness =
        NotifierHarness::new(outbox_store, ReplicaState::standalone(1, "n")).with_receiver("r", webhook());
    harness.show(open());
    receiver.wait_for_requests(1).await;
    // The engine task ends first, as on shutdown.
    drop(keeper);
    harness.stop().await;
    tokio::task::spawn_blocking(|| thread.join().unwrap())
        .await
        .unwrap();

    let (keeper, thread, outbox_store) = start_store(&path);
    let harness =
        NotifierHarness::new(outbox_store, ReplicaState::standalone(2, "n")).with_receiver("r", webhook());
    harness.show(open());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(receiver.requests().len(), 1, "it was delivered before");
    assert!(harness.state.status().persisted);
    harness.show(closed());
    let requests = receiver.wait_for_requests(2).await;
    assert_eq!(requests[1].json()["type"], "incident.recovered");
    drop(keeper);
    harness.stop().await;
    tokio::task::spawn_blocking(|| thread.join().unwrap())
        .await
        .unwrap();
}
