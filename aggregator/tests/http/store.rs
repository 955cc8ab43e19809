//! The store over HTTP: history across a restart, paging, and an unusable store.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::common::{HEADER, Running, observation};

/// Short rounds, so that an incident opens within a second or two.
const QUICK: &str = "intervalMs: 200\ntimeoutMs: 100\n";

fn with_store(path: &Path) -> String {
    format!("{QUICK}store: {{path: {}}}\n", path.display())
}

/// Polls the state until that of the store matches.
async fn until(running: &Running, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let state = running.json("/v1/state").await;
        if wanted(&state["store"]) {
            return state;
        }
        tokio::task::yield_now().await;
    }
}

fn refused(seq: u64) -> String {
    observation(seq).replace(
        r#""result":"ok","status":200"#,
        r#""result":"failed","phase":"connect","kind":"refused""#,
    )
}

#[tokio::test]
async fn without_a_store_page_and_history_api_say_what_to_do() {
    let running = Running::start().await;
    assert_eq!(running.json("/v1/state").await["store"]["state"], "off");
    assert!(
        running
            .text("/")
            .await
            .contains("kept in memory only and lost at a restart")
    );
    assert_eq!(running.metric("parallax_store_up").await, None);
    let answer = running.json("/v1/incidents").await;
    assert_eq!(answer["incidents"], json!([]));
    assert!(
        answer["incomplete_because"]
            .as_str()
            .unwrap()
            .contains("set `store`")
    );
    let failures = running
        .get("/v1/history/failures?target=http://a.example.test/")
        .send()
        .await
        .unwrap();
    assert_eq!(failures.status(), 404);
    for wrong in ["before=yesterday", "limit=0", "limit=501", "befor=1"] {
        let answer = running
            .get(&format!("/v1/incidents?{wrong}"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 400, "{wrong}");
    }
    running.stop().await;
}

#[tokio::test]
async fn what_failed_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let first = Running::with(&with_store(&path)).await;
    until(&first, |store| store["state"] == "up").await;
    let sent = first
        .send(&[HEADER, &observation(1), &refused(2), &refused(3)])
        .await;
    assert!(sent.status().is_success());
    assert_eq!(first.metric("parallax_store_up").await, Some(1.0));
    first.stop().await;

    let second = Running::with(&with_store(&path)).await;
    until(&second, |store| store["state"] == "up").await;
    let failures = second
        .json("/v1/history/failures?target=http://a.example.test/")
        .await;
    let seqs: Vec<_> = failures["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["seq"].clone())
        .collect();
    assert_eq!(seqs, [json!(3), json!(2)]);
    for step in ["5m", "1h"] {
        let answer = second
            .json(&format!(
                "/v1/history/rollups?target=http://a.example.test/&step={step}"
            ))
            .await;
        let rows = answer["rollups"].as_array().unwrap();
        let sum = |field: &str| rows.iter().map(|row| row[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("probes"), sum("failures")), (3, 2), "{answer}");
        assert_eq!(rows[0]["channel"], "vip");
        assert!(
            rows.iter()
                .any(|row| row["p50_us"].as_u64().is_some_and(|us| us.abs_diff(4_200) < 210))
        );
    }
    let wrong = second
        .get("/v1/history/rollups?target=http://a/&step=2m")
        .send()
        .await
        .unwrap();
    assert_eq!(wrong.status(), 400);
    second.stop().await;
}

#[tokio::test]
async fn incidents_of_earlier_processes_are_listed_and_paged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let dump = include_str!("../../../history/tests/store/v1.sql");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(dump)
        .unwrap();
    let running = Running::with(&with_store(&path)).await;
    until(&running, |store| store["state"] == "up").await;
    let answer = running.json("/v1/incidents?limit=1").await;
    assert_eq!(answer["incidents"][0]["id"], "i-1");
    assert_eq!(answer["incidents"][0]["ended"], json!({"how": "judged"}));
    assert_eq!(
        (&answer["next"], &answer["incomplete_because"]),
        (&Value::Null, &Value::Null)
    );
    let before = running.json("/v1/incidents?before=1795179100000000").await;
    assert_eq!(before["incidents"], json!([]), "strictly before");
    let one = running.json("/v1/incidents/i-2").await;
    assert_eq!(
        one["ended"],
        json!({"how": "interrupted"}),
        "the engine does not know it, so it is not open"
    );
    assert_eq!(
        running.json("/v1/incidents/i-1/verdicts").await["verdicts"][0]["changed_at"],
        1_795_179_010_000_000_i64
    );
    let page = running.text("/").await;
    assert!(
        page.contains("Pods on n2 are refused by their own node"),
        "{page}"
    );
    assert!(page.contains("open when the aggregator stopped"));
    // The fixture lacks fields that this version needs, as the data of another version may.
    let one = running.get("/incident/i-1").send().await.unwrap();
    assert_eq!(one.status(), 404);
    assert!(
        one.text()
            .await
            .unwrap()
            .contains("It was stored by another version")
    );
    running.stop().await;
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_stops_nothing_and_heals_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume/history.db");
    let running = Running::with(&with_store(&path)).await;
    let state = until(&running, |store| store["state"] == "down").await;
    let reason = state["store"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("history.db") && reason.contains("folder exists"),
        "{reason}"
    );
    assert_eq!(running.metric("parallax_store_up").await, Some(0.0));
    assert!(
        running
            .text("/")
            .await
            .contains("History has not been stored for")
    );
    assert!(
        running
            .send(&[HEADER, &observation(1), &refused(2)])
            .await
            .status()
            .is_success()
    );
    running
        .views
        .wait_for(|view| view.last_judged_round.is_some())
        .await;
    let answer = running.json("/v1/incidents").await;
    assert!(
        answer["incomplete_because"]
            .as_str()
            .unwrap()
            .contains("the store is unavailable"),
        "{answer}"
    );

    fs::create_dir(folder.path().join("volume")).unwrap();
    until(&running, |store| store["state"] == "up").await;
    running.stop().await;
    let again = Running::with(&with_store(&path)).await;
    until(&again, |store| store["state"] == "up").await;
    let failures = again
        .json("/v1/history/failures?target=http://a.example.test/")
        .await;
    assert_eq!(
        failures["failures"].as_array().unwrap().len(),
        1,
        "the failure reported in the meantime was stored"
    );
    again.stop().await;
}

#[tokio::test]
async fn replacing_a_corrupt_store_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    fs::write(&path, "not a database at all, whatever its name says".repeat(100)).unwrap();
    let running = Running::with(&with_store(&path)).await;
    let state = until(&running, |store| store["state"] == "up").await;
    let notice = state["store"]["notices"][0]["text"].as_str().unwrap();
    assert!(notice.contains("moved aside"), "{notice}");
    assert!(
        running
            .text("/")
            .await
            .contains("A new history store was started")
    );
    running.stop().await;
}

#[tokio::test]
async fn a_second_aggregator_on_the_same_file_runs_without_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let first = Running::with(&with_store(&path)).await;
    until(&first, |store| store["state"] == "up").await;
    let second = Running::with(&with_store(&path)).await;
    let state = until(&second, |store| store["state"] == "down").await;
    let reason = state["store"]["reason"].as_str().unwrap();
    assert!(reason.contains("has it open"), "{reason}");
    first.stop().await;
    until(&second, |store| store["state"] == "up").await;
    second.stop().await;
}
