//! Requirements of every back end. A new one adds a line to `for_each_back_end`.

use parallax_diagnosis::verdict::IncidentState;
use parallax_model::Micros;
use proptest::prelude::*;

use super::{
    super::stored::{IncidentEnd, IncidentEnding},
    *,
};

/// Runs a test against a new store of each back end.
fn for_each_back_end(test: impl Fn(&mut dyn HistoryStore)) {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, notices) = SqliteFile::new(options(&folder)).open(NOW).unwrap();
    assert!(notices.is_empty(), "{notices:?}");
    test(store.as_mut());
}

fn ids(kept: &[StoredIncident]) -> Vec<&str> {
    kept.iter().map(|kept| kept.summary.id.as_str()).collect()
}

#[test]
fn an_incident_is_read_as_it_was_written_and_a_later_state_replaces_an_earlier_one() {
    for_each_back_end(|store| {
        let open = incident("i-1", IncidentState::Open);
        store.write(&with_incidents([open.clone()])).unwrap();
        let kept = store.incident("i-1").unwrap().unwrap();
        assert_eq!(kept.incident, serde_json::to_value(&open).unwrap());
        assert_eq!(kept.summary, IncidentSummary::from_incident(&open, NOW));
        assert_eq!(
            store.unended_incidents().unwrap(),
            [IncidentSummary::from_incident(&open, NOW)]
        );
        assert!(store.ended_incidents(None, 10).unwrap().is_empty());

        let over = closed("i-1", NOW);
        store.write(&with_incidents([over.clone()])).unwrap();
        assert!(store.unended_incidents().unwrap().is_empty());
        let kept = store.ended_incidents(None, 10).unwrap();
        assert_eq!(ids(&kept), ["i-1"]);
        assert_eq!(kept[0].summary, IncidentSummary::from_incident(&over, NOW));
        assert_eq!(store.incident("i-2").unwrap(), None);
    });
}

#[test]
fn the_history_is_paged_latest_first_without_gap_or_repetition_where_many_ended_at_once() {
    for_each_back_end(|store| {
        let all: Vec<_> = (0..25)
            .map(|i| closed(&format!("i-{i:02}"), NOW.minus(Micros::from_secs(i / 10))))
            .collect();
        store.write(&with_incidents(all)).unwrap();
        let mut seen = Vec::new();
        let mut before: Option<HistoryCursor> = None;
        loop {
            let page = store.ended_incidents(before.as_ref(), 7).unwrap();
            let Some(last) = page.last() else { break };
            // Through the text form of the API.
            before = last
                .summary
                .cursor()
                .map(|cursor| cursor.to_string().parse().unwrap());
            seen.extend(ids(&page).into_iter().map(ToOwned::to_owned));
        }
        let expected: Vec<_> = (0..25).map(|i| format!("i-{i:02}")).collect();
        assert_eq!(seen, expected);
        assert_eq!(store.incident_summaries(3).unwrap().len(), 3);
    });
}

#[test]
fn changes_of_a_verdict_are_kept_in_order() {
    for_each_back_end(|store| {
        let incident = incident("i-1", IncidentState::Open);
        let mut batch = WriteBatch::default();
        for i in [2, 1] {
            let mut verdict = incident.verdict.clone();
            verdict.sentence = format!("sentence {i}");
            batch.changes.push_back(VerdictRow {
                incident: "i-1".to_owned(),
                changed_at: NOW.plus(Micros::from_secs(i)),
                verdict,
            });
        }
        store.write(&batch).unwrap();
        let sentences: Vec<_> = store
            .verdict_changes("i-1")
            .unwrap()
            .iter()
            .map(|change| change.verdict["sentence"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(sentences, ["sentence 1", "sentence 2"]);
    });
}

#[test]
fn an_incident_that_a_restart_interrupted_gets_an_end_once_and_one_that_has_an_end_keeps_it() {
    for_each_back_end(|store| {
        store
            .write(&with_incidents([
                incident("i-1", IncidentState::Open),
                closed("i-2", NOW),
            ]))
            .unwrap();
        let end = |ending| IncidentEnd {
            ended_at: NOW.minus(Micros(5)),
            ending,
        };
        let batch = WriteBatch {
            ends: vec![
                (
                    "i-1".to_owned(),
                    end(IncidentEnding::Continued { by: "i-3".to_owned() }),
                ),
                ("i-2".to_owned(), end(IncidentEnding::Restart)),
            ],
            ..WriteBatch::default()
        };
        store.write(&batch).unwrap();
        let ending = |store: &mut dyn HistoryStore, id: &str| {
            store.incident(id).unwrap().unwrap().summary.end.unwrap().ending
        };
        assert_eq!(
            ending(store, "i-1"),
            IncidentEnding::Continued { by: "i-3".to_owned() }
        );
        assert_eq!(ending(store, "i-2"), IncidentEnding::Judged);
        let document = store.incident("i-1").unwrap().unwrap().into_json();
        assert_eq!(document["state"], "closed");
        assert_eq!(document["ended"], json!({"how": "continued", "by": "i-3"}));
    });
}

#[test]
fn failures_of_a_target_are_read_newest_first_from_before_a_time() {
    for_each_back_end(|store| {
        let batch = WriteBatch {
            failures: (0..5)
                .map(|i| failure(i, EventTime(NOW.0 + i64::try_from(i).unwrap())))
                .collect(),
            ..WriteBatch::default()
        };
        store.write(&batch).unwrap();
        let seqs = |rows: Vec<serde_json::Value>| -> Vec<u64> {
            rows.iter().map(|row| row["seq"].as_u64().unwrap()).collect()
        };
        let target = "http://a.example.test/";
        assert_eq!(
            seqs(store.failures(target, EventTime(i64::MAX), 3).unwrap()),
            [4, 3, 2]
        );
        assert_eq!(
            seqs(store.failures(target, EventTime(NOW.0 + 2), 3).unwrap()),
            [1, 0]
        );
        assert!(
            store
                .failures("http://nobody/", EventTime(i64::MAX), 3)
                .unwrap()
                .is_empty()
        );
    });
}

/// Counts as the engine task may produce them: minute, target, result and time.
fn observations() -> impl Strategy<Value = Vec<(i64, u8, bool, u64)>> {
    prop::collection::vec((0_i64..200, 0_u8..3, any::<bool>(), 1_u64..5_000_000), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn roll_ups_add_up_to_what_was_counted_in_however_many_parts_they_came(
        parts in prop::collection::vec(observations(), 1..4)
    ) {
        for_each_back_end(|store| {
            let mut whole: std::collections::BTreeMap<RollupKey, ProbeRollup> = std::collections::BTreeMap::new();
            for part in &parts {
                let mut batch = WriteBatch::default();
                for (minute, target, ok, total) in part {
                    let at = EventTime(NOW.0 + minute * 60_000_000);
                    for step in RollupStep::ALL {
                        let key = RollupKey {
                            start: step.start(at),
                            step,
                            target: format!("http://t{target}/").parse().unwrap(),
                            channel: "vip".into(),
                            placement: "self".into(),
                        };
                        for rollups in [&mut batch.rollups, &mut whole] {
                            let result = if *ok { "ok" } else { "refused" };
                            rollups.entry(key.clone()).or_default().count(result, Some(Micros(*total)));
                        }
                    }
                }
                store.write(&batch).unwrap();
            }
            let all = EventTime(0)..EventTime(i64::MAX);
            let mut read = Vec::new();
            for step in RollupStep::ALL {
                for target in 0..3 {
                    read.extend(store.rollups(step, &format!("http://t{target}/"), all.clone(), 10_000).unwrap());
                }
            }
            read.sort_by(|(a, _), (b, _)| a.cmp(b));
            assert_eq!(read, whole.into_iter().collect::<Vec<_>>());
        });
    }

    #[test]
    fn whatever_text_and_numbers_an_incident_carries_they_are_read_back(
        id in "[a-z0-9]{1,16}", sentence in any::<String>(), member in any::<String>(), factor in 1e-6_f64..1e6,
        since in any::<i64>(), digits in 0.0_f64..=1.0
    ) {
        for_each_back_end(|store| {
            let mut one = closed(&id, NOW);
            one.verdict.sentence.clone_from(&sentence);
            one.verdict.region.members = vec![member.clone()];
            one.verdict.facts[0].multiplier = factor;
            one.verdict.probability = parallax_model::Probability::new(digits).unwrap();
            one.since = EventTime(since);
            store.write(&with_incidents([one.clone()])).unwrap();
            let kept = store.incident(&id).unwrap().unwrap();
            assert_eq!(&kept.summary, &IncidentSummary::from_incident(&one, NOW));
            let text = |value: &serde_json::Value| serde_json::to_string(value).unwrap();
            let written: serde_json::Value = serde_json::from_str(&serde_json::to_string(&one).unwrap()).unwrap();
            assert_eq!(text(&kept.incident), text(&written));
        });
    }
}

#[test]
fn a_document_is_replaced_as_a_whole_and_kept_as_long_after_its_last_change_as_an_incident() {
    for_each_back_end(|store| {
        let document = |sort, id: &str, at| StoredDocument {
            kind: sort,
            id: id.to_owned(),
            changed_at: at,
            value: serde_json::json!({"id": id, "at": at}),
        };
        let old = NOW.minus(Micros::from_secs(3_650 * 86_400));
        store
            .put_document(&document(DocumentKind::IncidentActions, "i-1", old))
            .unwrap();
        store
            .put_document(&document(
                DocumentKind::MaintenanceWindow,
                "i-1",
                NOW.minus(Micros(5)),
            ))
            .unwrap();
        assert!(store.documents(DocumentKind::Run, 10).unwrap().is_empty());
        assert_eq!(
            store.document(DocumentKind::IncidentActions, "i-1").unwrap(),
            Some(document(DocumentKind::IncidentActions, "i-1", old))
        );
        store
            .put_document(&document(DocumentKind::IncidentActions, "i-1", NOW))
            .unwrap();
        store
            .put_document(&document(DocumentKind::IncidentActions, "i-0", old))
            .unwrap();
        let handled = store.documents(DocumentKind::IncidentActions, 10).unwrap();
        assert_eq!(
            handled,
            [
                document(DocumentKind::IncidentActions, "i-1", NOW),
                document(DocumentKind::IncidentActions, "i-0", old)
            ]
        );
        while store.prune_step(NOW).unwrap() {}
        assert_eq!(
            store.document(DocumentKind::IncidentActions, "i-0").unwrap(),
            None
        );
        assert!(
            store
                .document(DocumentKind::IncidentActions, "i-1")
                .unwrap()
                .is_some()
        );
        assert!(
            store
                .document(DocumentKind::MaintenanceWindow, "i-1")
                .unwrap()
                .is_some()
        );
    });
}
