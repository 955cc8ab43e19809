//! Persistence of the outbox in the store, without a cluster.

use std::{thread::JoinHandle, time::Duration};

use parallax_history::store::{HistoryWriter, SqliteFile, StoreMetrics, StoreOptions, StoreWorker};

use super::{super::webhook::WebhookClient, receiver::Receiver, *};

/// A store of one process lifetime: the engine task's writer, the store's thread, and the outbox store in it.
fn life(path: &std::path::Path) -> (HistoryWriter, JoinHandle<()>, OutboxStore) {
    let file = Box::new(SqliteFile::new(StoreOptions::at(path)));
    let (keeper, worker, store) = StoreWorker::new(file, Clock::system(), &StoreMetrics::new());
    let vault = OutboxStore::Store {
        store,
        _hold: keeper.hold(),
    };
    (keeper, std::thread::spawn(move || worker.run()), vault)
}

#[tokio::test]
async fn the_store_remembers_what_was_told_to_the_last_moment_and_ends_when_nobody_holds_it() {
    // A second call finds a provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let receiver = Receiver::answering([]).await;
    let webhook = || WebhookClient::new(receiver.webhook()).unwrap();

    let (keeper, thread, vault) = life(&path);
    let office = Office::of(vault, ReplicaState::alone(1, "n")).with("r", webhook());
    office.sees(open());
    receiver.heard(1).await;
    // The engine task ends first, as on shutdown.
    drop(keeper);
    office.end().await;
    tokio::task::spawn_blocking(|| thread.join().unwrap())
        .await
        .unwrap();

    let (keeper, thread, vault) = life(&path);
    let office = Office::of(vault, ReplicaState::alone(2, "n")).with("r", webhook());
    office.sees(open());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(receiver.now().len(), 1, "it was delivered before");
    assert!(office.desk.shown().kept);
    office.sees(over());
    let heard = receiver.heard(2).await;
    assert_eq!(heard[1].json()["type"], "incident.recovered");
    drop(keeper);
    office.end().await;
    tokio::task::spawn_blocking(|| thread.join().unwrap())
        .await
        .unwrap();
}
