//! An unavailable store, a full disk, and the shutdown.

use super::*;

#[test]
fn an_unavailable_store_is_retried_with_backoff_and_loses_nothing_of_value() {
    let mut harness = harness(1_000);
    harness
        .store
        .script(|script| script.refuse_open = Some(StoreErrorKind::Unavailable));
    harness.view(vec![incident("i-1", IncidentState::Open)], 1);
    harness.turn(0);
    assert!(
        matches!(harness.status(), Status::Down { ref reason, .. } if reason == "Unavailable as scripted")
    );
    for _ in 0..120 {
        harness.turn(1);
    }
    let opened = harness.store.script(|script| script.opened);
    assert!(
        (5..=8).contains(&opened),
        "{opened} times in two minutes: after 1, 2, 4, 8, 16, 32 and 60 s"
    );
    harness.store.script(|script| script.refuse_open = None);
    harness.turn(60);
    assert_eq!(harness.status(), Status::Up);
    assert!(
        harness
            .store
            .script(|script| script.incidents.contains_key("i-1"))
    );
}

#[test]
fn a_full_disk_is_down_until_something_was_written_again() {
    let mut harness = harness(1_000);
    harness.turn(0);
    assert_eq!(harness.status(), Status::Up);
    harness
        .store
        .script(|script| script.refuse_write = Some(StoreErrorKind::Full));
    harness.view(vec![closed("i-1", NOW)], 1);
    harness.turn(1);
    let Status::Down { since, .. } = harness.status() else {
        panic!("expected Down")
    };
    // The store opens again, but writes still fail.
    harness.turn(1);
    assert!(matches!(harness.status(), Status::Down { since: still, .. } if still == since));
    harness.store.script(|script| script.refuse_write = None);
    harness.turn(60);
    assert_eq!(harness.status(), Status::Up);
    assert_eq!(harness.handle.current_state().history.len(), 1);
}

#[test]
fn at_shutdown_counts_are_written_and_an_unavailable_store_causes_no_delay() {
    let WorkerHarness {
        store,
        writer: mut keeper,
        worker,
        ..
    } = harness(1_000);
    let topology = parallax_diagnosis::topology::Topology::default();
    keeper.record_observation(
        &failure(1, NOW),
        parallax_diagnosis::ObservationResult::Late,
        &topology,
    );
    drop(keeper);
    worker.run();
    assert_eq!(store.script(|script| script.failures.clone()), [1]);

    let WorkerHarness {
        store,
        writer: mut keeper,
        worker,
        metrics,
        ..
    } = harness(1_000);
    store.script(|script| script.refuse_open = Some(StoreErrorKind::ReadOnly));
    keeper.record_observation(
        &failure(1, NOW),
        parallax_diagnosis::ObservationResult::Late,
        &topology,
    );
    drop(keeper);
    worker.run();
    assert_eq!(
        metrics.dropped_by_store(PendingKind::Failure),
        1,
        "dropped data is counted"
    );
}

#[tokio::test]
async fn a_query_to_an_unavailable_store_returns_the_reason() {
    let mut harness = harness(1_000);
    harness
        .store
        .script(|script| script.refuse_open = Some(StoreErrorKind::Locked));
    let handle = harness.handle.clone();
    let asking = tokio::spawn(async move { handle.query(|store| store.size_bytes()).await });
    tokio::task::yield_now().await;
    harness.turn(0);
    let error = asking.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the store is unavailable: Locked as scripted");
    assert!(matches!(
        StoreHandle::off().query(|store| store.size_bytes()).await,
        Err(QueryError::NotConfigured)
    ));
}
