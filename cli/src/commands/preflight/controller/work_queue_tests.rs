use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn key(name: &str) -> Key {
    ("shop".to_owned(), name.to_owned())
}

fn object(name: &str, uid: &str, generation: i64, status: &Value) -> (Key, DynamicObject) {
    let object = json!({"apiVersion": "parallax.dev/v1alpha1", "kind": "Preflight",
        "metadata": {"namespace": "shop", "name": name, "uid": uid, "generation": generation,
                     "creationTimestamp": "2026-11-22T11:00:00Z"},
        "spec": {"ttlSecondsAfterFinished": 60}, "status": status});
    (key(name), serde_json::from_value(object).unwrap())
}

fn new(name: &str) -> (Key, DynamicObject) {
    object(name, name, 1, &Value::Null)
}

fn answered(name: &str, generation: i64) -> (Key, DynamicObject) {
    let status = json!({"observedGeneration": 1, "completionTime": "2026-11-22T12:00:00Z",
        "conditions": [{"type": "Complete", "status": "True"}]});
    object(name, name, generation, &status)
}

/// A queue for two at once, and the token that stops it.
fn docket() -> (WorkQueue, CancellationToken) {
    let stop = CancellationToken::new();
    (WorkQueue::new(2, &stop), stop)
}

/// The work items as text, and the tokens of the started preflights.
fn turn(
    queue: &mut WorkQueue,
    all: &[(Key, DynamicObject)],
    at: Timestamp,
) -> (Vec<String>, Vec<CancellationToken>, Option<Duration>) {
    let (steps, wake) = queue.poll(all.iter().map(|(key, object)| (key, object)), at);
    let mut tokens = Vec::new();
    let words = steps
        .into_iter()
        .map(|step| match step {
            WorkItem::Start(key, _, stop) => {
                tokens.push(stop);
                format!("begin {}", key.1)
            }
            WorkItem::Delete(key) => format!("remove {}", key.1),
        })
        .collect();
    (words, tokens, wake)
}

#[test]
fn a_few_are_made_at_once_and_the_others_when_there_is_room() {
    let (mut queue, _stop) = docket();
    let all = [new("a"), new("b"), new("c")];
    let (words, _, wake) = turn(&mut queue, &all, now());
    assert_eq!(
        (words, wake),
        (vec!["begin a".to_owned(), "begin b".to_owned()], None)
    );
    assert!(
        turn(&mut queue, &all, now()).0.is_empty(),
        "no preflight runs twice at a time"
    );
    queue.finish(&key("a"), AttemptResult::Finished, now());
    assert_eq!(
        turn(&mut queue, &all, now()).0,
        ["begin c"],
        "the watch has not returned the result of a yet, and a does not run again"
    );
}

#[test]
fn one_that_came_to_nothing_waits_and_a_change_of_it_does_not() {
    let (mut queue, _stop) = docket();
    let all = [new("a")];
    turn(&mut queue, &all, now());
    queue.finish(
        &key("a"),
        AttemptResult::Retry(Duration::from_secs(10), None),
        now(),
    );
    let (words, _, wake) = turn(&mut queue, &all, later(4));
    assert!(words.is_empty());
    assert_eq!(wake, Some(Duration::from_secs(6)));
    let changed = [object("a", "a", 2, &Value::Null)];
    assert_eq!(turn(&mut queue, &changed, later(4)).0, ["begin a"]);
    queue.finish(
        &key("a"),
        AttemptResult::Retry(Duration::from_secs(10), None),
        later(4),
    );
    assert_eq!(turn(&mut queue, &changed, later(14)).0, ["begin a"]);
}

#[test]
fn an_answer_stands_until_the_object_is_changed_and_goes_after_its_time() {
    let (mut queue, _stop) = docket();
    let (words, _, wake) = turn(&mut queue, &[answered("a", 1)], later(10));
    assert!(words.is_empty());
    assert_eq!(wake, Some(Duration::from_secs(50)));
    assert_eq!(
        turn(&mut queue, &[answered("a", 2)], later(10)).0,
        ["begin a"],
        "a new generation"
    );
    queue.finish(&key("a"), AttemptResult::Stopped, later(10));
    assert_eq!(turn(&mut queue, &[answered("a", 1)], later(60)).0, ["remove a"]);
    assert!(
        turn(&mut queue, &[answered("a", 1)], later(61)).0.is_empty(),
        "deleted once"
    );
}

#[test]
fn what_is_changed_deleted_or_made_anew_in_the_middle_is_stopped_and_begun_again_only_once_it_has_ended() {
    for (change, after) in [
        ("changed", vec![object("a", "a", 2, &Value::Null)]),
        ("recreated", vec![object("a", "other", 1, &Value::Null)]),
        ("deleted", vec![]),
    ] {
        let (mut queue, _stop) = docket();
        let (_, tokens, _) = turn(&mut queue, &[new("a")], now());
        assert!(!tokens[0].is_cancelled());
        assert!(turn(&mut queue, &after, now()).0.is_empty(), "{change}");
        assert!(tokens[0].is_cancelled(), "{change}");
        queue.finish(&key("a"), AttemptResult::Stopped, now());
        let again = turn(&mut queue, &after, now()).0;
        assert_eq!(again.len(), after.len(), "{change}: {again:?}");
    }
}

#[test]
fn one_that_is_being_deleted_is_not_begun() {
    let (mut queue, _stop) = docket();
    let (key, mut going) = new("a");
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-22T12:00:00Z")).unwrap();
    assert!(turn(&mut queue, &[(key, going)], now()).0.is_empty());
}

#[test]
fn a_stop_reaches_everything_that_is_under_way_and_nothing_more_is_begun() {
    let (mut queue, stop) = docket();
    let all = [new("a"), new("b"), new("c")];
    let (_, tokens, _) = turn(&mut queue, &all, now());
    stop.cancel();
    assert!(tokens.iter().all(CancellationToken::is_cancelled));
    queue.finish(&key("a"), AttemptResult::Stopped, now());
    assert!(turn(&mut queue, &all, now()).0.is_empty());
}

#[test]
fn a_retry_continues_from_the_status_that_was_written_although_the_watch_is_late() {
    let (mut queue, _stop) = docket();
    let stale = [new("a")];
    turn(&mut queue, &stale, now());
    let written = PreflightStatus {
        attempts: Some(3),
        ..PreflightStatus::default()
    };
    let retry = AttemptResult::Retry(Duration::from_secs(1), Some(Box::new(written)));
    queue.finish(&key("a"), retry, now());
    let (steps, _) = queue.poll(stale.iter().map(|(key, object)| (key, object)), later(1));
    let [WorkItem::Start(_, object, _)] = steps.as_slice() else {
        panic!("{steps:?}");
    };
    assert_eq!(object.data["status"]["attempts"], 3);
}
