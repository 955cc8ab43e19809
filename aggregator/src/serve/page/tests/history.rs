//! The state of the store, and incidents of earlier processes.

use super::*;

fn kept(id: &str, ending: Option<IncidentEnding>) -> IncidentSummary {
    let incident = outage().incidents.remove(0);
    let mut summary = IncidentSummary::from_incident(&incident, ago(60));
    id.clone_into(&mut summary.id);
    summary.end = ending.map(|ending| IncidentEnd {
        ended_at: ago(60),
        ending,
    });
    summary
}

#[test]
fn the_page_says_whether_history_survives_a_restart() {
    let html = page("healthy", &healthy(), &sound());
    assert!(
        html.contains("History is kept in memory only and lost at a restart. To persist it, set store.path")
    );
    let mut store = StoreState::off();
    store.location = "/data/history.db".to_owned();
    store.bytes = 3 << 20;
    store.status = Status::Up;
    let html = page_with("kept", &healthy(), &sound(), &store);
    assert!(
        html.contains("History is stored in /data/history.db (3.0 MiB)."),
        "{html}"
    );

    store.status = Status::Down {
        since: ago(90),
        reason: "cannot write to the store: <disk full>".to_owned(),
    };
    let html = page_with("store-down", &healthy(), &sound(), &store);
    assert!(html.contains("History has not been stored for 1 min 30 s; probing and diagnosis continue"));
    assert!(html.contains("&#60;disk full&#62;"));
    assert!(
        html.contains("headline ok"),
        "the state of the store is not evidence about a target"
    );
}

#[test]
fn a_replaced_store_is_reported_for_a_day() {
    let mut store = StoreState::off();
    store.status = Status::Up;
    store.notices = vec![(ago(3_600), "moved aside".to_owned())];
    assert!(page_with("anew", &healthy(), &sound(), &store).contains("A new history store was started at"));
    store.notices = vec![(ago(90_000), "moved aside".to_owned())];
    assert!(!page_with("anew", &healthy(), &sound(), &store).contains("A new history store"));
}

#[test]
fn incidents_of_earlier_processes_are_listed_once_with_their_end() {
    let mut view = healthy();
    let mut over = outage().incidents.remove(0);
    over.state = IncidentState::Closed { closed: ago(30) };
    view.incidents = vec![over.clone()];
    let mut store = StoreState::off();
    store.status = Status::Up;
    store.history = Arc::new(vec![
        kept(&over.id, Some(IncidentEnding::Judged)),
        kept("i-judged", Some(IncidentEnding::Judged)),
        kept("i-missed", Some(IncidentEnding::Restart)),
        kept(
            "i-goes-on",
            Some(IncidentEnding::Continued {
                by: "i-next".to_owned(),
            }),
        ),
        kept("i-open", None),
    ]);
    let html = page_with("history", &view, &sound(), &store);
    let listed = |id: &str| html.matches(&format!("href=\"/incident/{id}\"")).count();
    for id in [over.id.as_str(), "i-judged", "i-missed", "i-goes-on", "i-open"] {
        assert_eq!(listed(id), 1, "{id}");
    }
    for words in [
        "closed 12:59:00 UTC, after 3 min 12 s",
        "its end was missed because the aggregator restarted",
        "continued as #i-next after the aggregator restarted",
        "open when the aggregator stopped, last seen 12:59:00 UTC",
    ] {
        assert!(html.contains(words), "{words}\n{html}");
    }
    assert!(
        html.contains("headline ok"),
        "past incidents do not affect the headline"
    );
}
