use std::sync::Arc;

use parallax_api::incident_actions::WindowRequest;
use parallax_history::store::{SqliteFile, StoreMetrics, StoreOptions, StoreWorker};
use parallax_model::{EventTime, Micros, TargetId};

use super::*;

fn manager() -> ActionManager {
    ActionManager::new(Clock::system(), StoreHandle::off(), None)
}

fn target(host: &str) -> TargetId {
    format!("http://{host}.example.test/").parse().unwrap()
}

#[tokio::test]
async fn an_action_has_user_and_time_and_is_not_persisted_without_a_store() {
    let actions = manager();
    let before = actions.clock.now();
    let handling = actions
        .acknowledge("i-1", "ann", Some(" rolling\nback ".to_owned()))
        .await
        .unwrap();
    let mark = handling.acknowledged.unwrap();
    assert_eq!(
        (mark.by.as_str(), mark.note.as_deref()),
        ("ann", Some("rolling back"))
    );
    assert!(mark.at >= before && !handling.persisted);
    assert_eq!(
        actions.quiet_reason("i-1", &[]),
        Some("acknowledged by ann".to_owned())
    );
    assert_eq!(actions.quiet_reason("i-2", &[]), None);
}

#[tokio::test]
async fn a_silence_has_an_end_and_can_be_ended_before() {
    let actions = manager();
    let handling = actions.silence("i-1", "ann", 3_600, None).await.unwrap();
    let silence = handling.silenced.unwrap();
    assert_eq!(silence.until - silence.author.at, Micros::from_secs(3_600));
    assert_eq!(
        actions.quiet_reason("i-1", &[]),
        Some("silenced by ann".to_owned())
    );
    actions.unsilence("i-1", "ben").await.unwrap();
    assert_eq!(actions.quiet_reason("i-1", &[]), None);
    for seconds in [0, 59, 31 * 86_400, u64::MAX] {
        let error = actions
            .silence("i-1", "ann", seconds, None)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("duration_s: expected 60 to 2592000 seconds"),
            "{error}"
        );
    }
    let long = Some("x".repeat(501));
    assert!(matches!(
        actions.silence("i-1", "ann", 60, long).await,
        Err(ActionError::NoteTooLong(501))
    ));
}

#[tokio::test]
async fn a_maintenance_window_covers_its_targets_while_it_lasts() {
    let actions = manager();
    let request = |from, targets: Option<&str>| WindowRequest {
        from,
        duration_s: 60,
        targets: targets.map(ToOwned::to_owned),
        note: None,
    };
    let window = actions
        .open_window("ann", request(None, Some("shop.")))
        .await
        .unwrap();
    let (shop, blog) = (target("shop"), target("blog"));
    let reason = actions.quiet_reason("i-1", std::slice::from_ref(&shop));
    assert_eq!(reason, Some("maintenance by ann".to_owned()));
    assert_eq!(
        actions.quiet_reason("i-1", &[shop.clone(), blog]),
        None,
        "another target fails too"
    );
    assert_eq!(actions.quiet_reason("i-1", &[]), None);
    actions.end_window(&window.id, "ben").await.unwrap();
    assert_eq!(actions.quiet_reason("i-1", std::slice::from_ref(&shop)), None);
    assert!(actions.windows().is_empty());
    let all = actions.open_window("ann", request(None, None)).await.unwrap();
    assert!(
        actions.quiet_reason("i-1", &[]).is_some(),
        "a window for everything covers a node's failure too"
    );
    actions.end_window(&all.id, "ann").await.unwrap();
    let later = actions.clock.now().plus(Micros::from_secs(600));
    actions
        .open_window("ann", request(Some(later), None))
        .await
        .unwrap();
    assert_eq!(actions.quiet_reason("i-1", &[shop]), None, "not yet");
    assert_eq!(actions.windows().len(), 1);
    assert!(matches!(
        actions.end_window("m-none", "ann").await,
        Err(ActionError::UnknownWindow(_))
    ));
    assert!(matches!(
        actions.open_window("ann", request(None, Some(" "))).await,
        Err(ActionError::EmptyTargetFilter)
    ));
}

/// Runs `doing` in one process lifetime of an aggregator with a store.
async fn with_store<T>(path: &std::path::Path, doing: impl AsyncFnOnce(&Arc<ActionManager>) -> T) -> T {
    let file = Box::new(SqliteFile::new(StoreOptions::with_defaults(path.to_owned())));
    let (keeper, worker, handle) =
        StoreWorker::new(file, Clock::starting_at(EventTime(5)), &StoreMetrics::new());
    let keeping = std::thread::spawn(move || worker.run());
    let actions = Arc::new(ActionManager::new(Clock::system(), handle, None));
    actions.clone().run(CancellationToken::new()).await;
    let done = doing(&actions).await;
    drop(keeper);
    tokio::task::spawn_blocking(move || keeping.join().unwrap())
        .await
        .unwrap();
    done
}

#[tokio::test]
async fn actions_survive_a_restart_with_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    with_store(&path, async |actions| {
        assert!(
            actions
                .silence("i-1", "ann", 3_600, None)
                .await
                .unwrap()
                .persisted
        );
        let request = WindowRequest {
            from: None,
            duration_s: 600,
            targets: None,
            note: Some("upgrade".to_owned()),
        };
        assert!(actions.open_window("ann", request).await.unwrap().persisted);
    })
    .await;
    with_store(&path, async |actions| {
        assert_eq!(
            actions.actions_on("i-1").unwrap().silenced.unwrap().author.by,
            "ann"
        );
        assert_eq!(actions.windows()[0].author.note.as_deref(), Some("upgrade"));
    })
    .await;
}

mod shared;
