//! Incidents that a restart interrupted.

use super::*;

#[test]
fn an_interrupted_incident_continues_under_its_id_or_by_one_with_the_same_subject_and_region() {
    let store = ScriptedStore::default();
    let old = |id: &str, subject: &str| {
        let mut summary = IncidentSummary::from_incident(&incident(id, IncidentState::Open), NOW);
        if !subject.is_empty() {
            subject.clone_into(&mut summary.subject);
        }
        (id.to_owned(), summary)
    };
    store.script(|script| {
        script.incidents = [
            old("same-id", "other"),
            old("same-kind", ""),
            old("unseen", "gone"),
        ]
        .into();
    });
    let clock = Clock::starting_at(NOW);
    let mut harness = WorkerHarness::new(store, 1_000, clock);
    harness.turn(0);
    let listed = harness
        .handle
        .current_state()
        .history
        .iter()
        .map(|one| one.id.clone())
        .collect::<Vec<_>>();
    assert_eq!(
        listed,
        ["same-id", "same-kind", "unseen"],
        "listed although their end is unknown"
    );
    let mut other = incident("same-id", IncidentState::Open);
    other.verdict.subject = parallax_diagnosis::verdict::Subject::Network;
    harness.view(vec![other, incident("new-id", IncidentState::Open)], 1);
    harness.turn(1);
    let continued = IncidentEnd {
        ended_at: NOW,
        ending: IncidentEnding::Continued {
            by: "new-id".to_owned(),
        },
    };
    assert_eq!(
        harness.store.script(|script| script.ends.clone()),
        [("same-kind".to_owned(), continued)]
    );
}

#[tokio::test(start_paused = true)]
async fn an_incident_not_found_again_within_ten_minutes_gets_a_restart_end() {
    let store = ScriptedStore::default();
    store.script(|script| {
        let summary = IncidentSummary::from_incident(
            &incident("unseen", IncidentState::Open),
            NOW.minus(Micros::from_secs(60)),
        );
        script.incidents = [("unseen".to_owned(), summary)].into();
    });
    let mut harness = WorkerHarness::new(store, 1_000, Clock::starting_at(NOW));
    harness.turn(0);
    tokio::time::advance(Duration::from_secs(599)).await;
    harness.turn(1);
    assert!(harness.store.script(|script| script.ends.is_empty()));
    tokio::time::advance(Duration::from_secs(1)).await;
    harness.turn(1);
    let end = IncidentEnd {
        ended_at: NOW.minus(Micros::from_secs(60)),
        ending: IncidentEnding::Restart,
    };
    assert_eq!(
        harness.store.script(|script| script.ends.clone()),
        [("unseen".to_owned(), end)]
    );
}
