use std::sync::Arc;

use parallax_diagnosis::{
    requests::{ProbeRequest, ProbeVariant, RequestDestination},
    topology::Topology,
    verdict::IncidentState,
    view::{CellState, VantageState, View},
};
use parallax_fixtures::*;
use parallax_history::store::{IncidentEnd, IncidentEnding, IncidentSummary, Status, StoreState};
use parallax_kubernetes::topology_state::{SourceError, SourceNote, TopologyState};
use parallax_model::{Channel, Probability};

use super::*;

fn sound() -> TopologyState {
    TopologyState::new(Arc::new(Topology::default()))
}

/// Renders the whole page. If `PARALLAX_GALLERY` is set, also writes it to that folder, to be viewed in a browser.
fn page(name: &str, view: &View, topology: &TopologyState) -> String {
    page_with(name, view, topology, &StoreState::off())
}

fn page_with(name: &str, view: &View, topology: &TopologyState, store: &StoreState) -> String {
    let overview = OverviewPage::new(view, topology, &[], store, NOW);
    let html = PageFrame::overview(&overview)
        .and_then(|page| page.render())
        .unwrap();
    if let Some(folder) = std::env::var_os("PARALLAX_GALLERY") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.html")), &html).unwrap();
    }
    html
}

/// Returns the text of the first `tag` element up to the next markup.
fn text_of<'a>(html: &'a str, tag: &str) -> &'a str {
    let start = html.find(&format!("<{tag}>")).unwrap() + tag.len() + 2;
    &html[start..start + html[start..].find('<').unwrap()]
}

#[test]
fn each_open_incident_leads_to_its_dashboards_where_there_is_a_grafana() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parallax.yaml");
    std::fs::write(&path, "links: {grafana: \"https://grafana.example.test/\"}").unwrap();
    let config = crate::config::Config::load(&path).unwrap();
    let view = outage();
    let shown = |links| {
        let overview =
            OverviewPage::new(&view, &sound(), &[], &StoreState::off(), NOW).with_links(&view, links);
        let overview = PageFrame::overview(&overview)
            .and_then(|page| page.render())
            .unwrap();
        let one = model::IncidentPage::of(&view.incidents[0], &view).with_links(&view.incidents[0], links);
        [
            overview,
            PageFrame::incident(&one).and_then(|page| page.render()).unwrap(),
        ]
    };
    for html in shown(&config.links) {
        let link = "<a href=\"https://grafana.example.test/d/parallax-target?from=";
        assert_eq!(html.matches(link).count(), 1, "{html}");
    }
    for html in shown(&parallax_api::links::ExternalLinks::default()) {
        assert!(!html.contains("parallax-target"), "{html}");
    }
}

#[test]
fn before_the_first_report_everything_is_unknown() {
    let html = page("waiting", &waiting(), &sound());
    assert_eq!(text_of(&html, "h1"), "Waiting for the first report of 4 vantages");
    assert!(html.contains("headline unknown"));
    assert!(!html.contains("class=\"cell ok\" role"), "no cell is ok");
    assert!(html.contains("n1/pod: unknown; has not reported yet"));
}

#[test]
fn ok_requires_all_vantages_and_fresh_evidence_for_all_targets() {
    let healthy = healthy();
    let html = page("healthy", &healthy, &sound());
    assert_eq!(text_of(&html, "h1"), "All targets reachable");
    let doubtful = |change: fn(&mut View)| {
        let mut view = healthy.clone();
        change(&mut view);
        let html = page("doubtful", &view, &sound());
        assert!(
            html.contains("headline unknown") || html.contains("headline warning"),
            "{html}"
        );
    };
    doubtful(|view| view.vantages[1] = vantage("n2/pod", VantageState::Silent));
    doubtful(|view| view.vantages[1] = vantage("n2/pod", VantageState::Waiting));
    doubtful(|view| {
        for cell in &mut view.matrix[0].cells {
            cell.state = CellState::Unknown;
        }
    });
    doubtful(|view| {
        view.matrix[0].cells[0].state = CellState::Flaky;
        view.matrix[0].cells[0].failures = 2;
    });
    doubtful(|view| view.matrix.clear());
    doubtful(|view| view.vantages.clear());
}

#[test]
fn a_silent_vantage_is_unknown_with_the_time_since_when() {
    let html = page("troubled", &troubled(), &sound());
    assert!(html.contains("n4/pod: unknown; silent since 12:56:53 UTC (3 min 7 s)"));
}

#[test]
fn an_incident_shows_its_sentence_proof_alternatives_and_remedies() {
    let html = page("outage", &outage(), &sound());
    assert_eq!(text_of(&html, "h1"), "1 open incident");
    for part in [
        "Clients on nodes without an ingress pod are refused by their own node",
        "<strong class=\"num\">0.98</strong>",
        "since 12:55:48 UTC",
        "<span class=\"key\">50 targets</span>",
        "and 46 more",
        "<tr class=\"predicted\">",
        "untouched TTL of 64",
        "n3 and n5 fail alike",
        "kubectl -n ingress patch service nginx",
        "node addresses instead of client addresses",
        "÷2",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("cannot tell these apart"), "there is no tie");
    let html = page("troubled", &troubled(), &sound());
    assert!(html.contains("cannot tell these apart") && html.contains("connections from node n2 to node n1"));
}

#[test]
fn requested_probes_are_shown_until_the_incident_closes() {
    let mut view = troubled();
    view.probe_requests = vec![ProbeRequest {
        id: "ask|1".parse().unwrap(),
        subject: view.incidents[0].verdict.subject.clone(),
        vantage: "n1/pod".parse().unwrap(),
        channel: Channel::Direct,
        target: "http://shop.example.test/".parse().unwrap(),
        destination: RequestDestination::Entry("ingress/nginx-1".parse().unwrap()),
        variant: ProbeVariant::Plain,
        separated_regions: vec![region("vip", &[]), region("target", &[])],
        reason: "it tells most".to_owned(),
        gain_bits: 0.8,
        requested_at: NOW,
    }];
    let asked = "direct from n1/pod to ingress/nginx-1, would separate vip from target";
    let html = page("asked", &view, &sound());
    assert!(html.contains("Requested on-demand probes") && html.contains(asked));
    view.incidents[0].state = IncidentState::Closed { closed: NOW };
    assert!(!page("asked-closed", &view, &sound()).contains("Requested on-demand probes"));
    let subject = view.probe_requests[0].subject.clone();
    view.investigations[0].subject = subject;
    assert!(page("asked-investigating", &view, &sound()).contains(asked));
}

#[test]
fn the_hosts_of_one_front_are_one_group_and_what_fails_comes_first() {
    let matrix = matrix::Matrix::new(&outage());
    let labels: Vec<_> = matrix
        .groups
        .iter()
        .map(|group| (group.head.label.as_str(), group.members.len()))
        .collect();
    assert_eq!(
        labels,
        [
            ("203.0.113.10:80", 50),
            ("https://new.example.test/", 0),
            ("dns://kubernetes.default.svc", 0),
            ("http://10.96.0.50:80/", 0),
            ("tcp://db.example.test:5432", 0),
        ]
    );
    let html = page("wide", &wide(), &sound());
    assert!(html.contains("matrix upright"));
}

#[test]
fn a_cell_has_symbol_word_and_age_of_its_evidence() {
    let html = page("outage", &outage(), &sound());
    assert!(html.contains(
        "title=\"n2/pod: failing; 12 of 12 probes failed (connection refused in connect); placement no-local; last \
         probe 3 s ago\"><span aria-hidden=\"true\">✕</span><span class=\"sr\">failing</span>"
    ));
}

#[test]
fn a_topology_error_is_shown_with_line_and_age() {
    let mut topology = sound();
    topology.error = Some(SourceError {
        message: "topology.yaml:3:7: nodes[1].nam: unknown field \"nam\"; did you mean \"name\"?".to_owned(),
        since: ago(75),
    });
    let html = page("broken-topology", &troubled(), &topology);
    assert!(
        html.contains(
            "Reading the topology has failed for 1 min 15 s; this page uses the last known topology"
        )
    );
    assert!(html.contains("topology.yaml:3:7: nodes[1].nam: unknown field &#34;nam&#34;"));
}

#[test]
fn a_stale_view_is_marked() {
    let mut view = healthy();
    view.at = ago(40);
    assert!(page("stale", &view, &sound()).contains("The diagnosis has not advanced for 40 s"));
    view.at = ago(1);
    assert!(!page("fresh", &view, &sound()).contains("has not advanced"));
}

#[test]
fn text_from_outside_stays_text() {
    const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";
    let mut view = troubled();
    let incident = &mut view.incidents[0];
    incident.id = EVIL.to_owned();
    let verdict = &mut incident.verdict;
    verdict.sentence = EVIL.to_owned();
    verdict.probability = Probability::new(0.5).unwrap();
    verdict.region = region(EVIL, &[EVIL]);
    verdict.class = vec![verdict.region.clone(), verdict.region.clone()];
    verdict.separating_probes = vec![EVIL.to_owned()];
    verdict.locality = vec![EVIL.to_owned()];
    verdict.evidence[0].clients = EVIL.to_owned();
    verdict.evidence[0].kinds = vec![(EVIL.to_owned(), 1)];
    verdict.targets = vec!["http://a/<script>alert(3)</script>".parse().unwrap()];
    view.investigations[0].sentence = EVIL.to_owned();
    view.matrix[0].target = "http://a/\"onmouseover=alert(4)".parse().unwrap();
    view.matrix[0].cells[0].last_failure = Some(EVIL.to_owned());
    view.vantages[0].vantage = named("<b>n1</b>\"onclick=x/pod");
    let mut topology = sound();
    topology.error = Some(SourceError {
        message: EVIL.to_owned(),
        since: ago(1),
    });
    let html = page("hostile", &view, &topology);
    for raw in [
        "<script>alert",
        "<img src=x",
        "<b>n1",
        "\"onclick",
        "\"onmouseover",
    ] {
        assert!(!html.contains(raw), "{raw} reached the page as markup");
    }
    assert!(html.contains("&#60;script&#62;alert(1)"), "it is still shown");
    let one = model::IncidentPage::of(&view.incidents[0], &view);
    let html = PageFrame::incident(&one).and_then(|page| page.render()).unwrap();
    assert!(!html.contains("<script>alert"));
    assert!(html.contains("data-fragment=\"/incident/%3Cscript%3E"));
}

#[test]
fn a_missing_incident_has_a_page_with_the_reason() {
    let one = model::IncidentPage::missing("i-gone", "The store is slow.".to_owned());
    assert!(one.card.is_none());
    assert!(one.render().unwrap().contains("Incident i-gone not found"));
    assert!(one.render().unwrap().contains("The store is slow."));
}

#[test]
fn findings_and_hazards_stand_on_the_page_with_what_to_do_and_what_it_would_not_cure() {
    let html = page("warned", &warned(), &sound());
    for words in [
        "wiki.example.test of ingress class inner is exposed on 203.0.113.10:80 of class public",
        "finding · I4",
        "Pods on 1 of 4 nodes (n3) would be refused at 203.0.113.10",
        "hazard · I1 · nothing fails yet",
        "won't help if</span> nothing can be done",
        "What these probes can't rule out",
        "needs a vantage outside the cluster that reports",
    ] {
        assert!(html.contains(words), "{words}\n{html}");
    }
    assert!(!html.contains("about <it>"), "text is escaped");
    assert!(!html.contains("headline ok"), "there is something to do");
}

fn kept(id: &str, how: Option<IncidentEnding>) -> IncidentSummary {
    let incident = outage().incidents.remove(0);
    let mut summary = IncidentSummary::from_incident(&incident, ago(60));
    id.clone_into(&mut summary.id);
    summary.end = how.map(|how| IncidentEnd {
        ended_at: ago(60),
        ending: how,
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

#[test]
fn warnings_about_cluster_objects_are_shown_escaped() {
    assert!(!page("healthy", &healthy(), &sound()).contains("Warnings about cluster objects"));
    let mut topology = sound();
    topology.notes = Arc::from([SourceNote {
        object: "Ingress shop/web".to_owned(),
        text: "parallax.dev/path: expected a path, got \"<b>\"".to_owned(),
    }]);
    let html = page("noted", &healthy(), &topology);
    assert!(html.contains("Warnings about cluster objects"));
    assert!(html.contains("Ingress shop/web") && html.contains("parallax.dev/path: expected a path"));
    assert!(!html.contains("<b>\"") && !html.contains("\"<b>"));
}

#[test]
fn of_more_vantages_than_fit_the_columns_are_placements_and_the_failing_ones_are_named() {
    let matrix = matrix::Matrix::new(&sampled());
    let names: Vec<_> = matrix.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["same-node", "no-local"]);
    let worst = &matrix.groups[0].members[0];
    let signs: Vec<_> = worst.cells.iter().map(|cell| cell.class).collect();
    assert_eq!(signs, ["ok", "failing"]);
    let title = &worst.cells[1].title;
    assert!(
        title.starts_with("no-local: 22 failing; not ok from node-0") && title.ends_with(", …"),
        "{title}"
    );
    let html = page("sampled", &sampled(), &sound());
    assert!(html.len() < 200_000, "{} bytes", html.len());
}

#[test]
fn a_cell_without_probes_is_neither_ok_nor_unknown() {
    let mut view = healthy();
    view.matrix[0].cells.remove(1);
    let matrix = matrix::Matrix::new(&view);
    let rows = matrix
        .groups
        .iter()
        .flat_map(|group| [&group.head].into_iter().chain(&group.members));
    let row = rows
        .into_iter()
        .find(|row| row.label == view.matrix[0].target.as_str())
        .unwrap();
    assert_eq!(row.cells.len(), view.vantages.len());
    assert_eq!(row.cells[1].class, "apart");
    assert!(row.cells[1].title.ends_with("not probed from here"));
}

#[test]
fn pending_challenges_are_listed_with_cause_and_remedy_and_escaped() {
    let check = serde_json::json!({"state": "failed", "sentence": "it fails on n2", "passing": [], "failing": [], "silent": [], "caveats": []});
    let waiting: Vec<parallax_api::challenges::WaitingChallenge> = serde_json::from_value(serde_json::json!([
        {"namespace": "shop", "name": "web-1", "host": "a.example.test", "since": NOW, "reason": "<script>", "meaning": "refused",
         "causes": [{"id": "F1", "title": "no local endpoint", "diagnosed": true}],
         "explanation": {"replayed_at": NOW, "runs": [], "self_check": check, "ca": check, "placement": [],
            "remedies": [{"action": "run it everywhere", "price": "a pod a node"}], "incident": "i-1"}},
        {"namespace": "shop", "name": "web-2", "host": "b.example.test", "since": NOW, "reason": "", "meaning": "queued", "causes": []},
    ]))
    .unwrap();
    let shown = |waiting: &[_]| {
        let overview = OverviewPage::new(&healthy(), &sound(), &[], &StoreState::off(), NOW)
            .with_challenges(waiting, NOW);
        PageFrame::overview(&overview)
            .and_then(|page| page.render())
            .unwrap()
    };
    let html = shown(&waiting);
    for words in [
        "Pending ACME challenges",
        "It fails on n2",
        "cause: F1 no local endpoint",
        "Run it everywhere",
        "trade-off: a pod a node",
        "href=\"/incident/i-1\"",
        "The explanation is in progress.",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("<code><script>"));
    assert!(!shown(&[]).contains("Pending ACME challenges"));
}

#[test]
fn failing_receivers_are_shown_with_reason_and_duration() {
    use parallax_api::notifications::{ReceiverState, ReceiverStatusList, ReceiverView};

    let failing = ReceiverView {
        name: "oncall".to_owned(),
        kind: "webhook".to_owned(),
        state: ReceiverState::Failing {
            since: ago(120),
            reason: "it answered <500>".to_owned(),
        },
        pending: 2,
        oldest_pending: Some(ago(120)),
        last_delivered: None,
        last_rejected: None,
        rejected_because: None,
    };
    let told = ReceiverStatusList {
        receivers: vec![failing],
        persisted: false,
        not_persisted_because: Some("the ConfigMap does not exist; apply the manifests".to_owned()),
    };
    let shown = |told: &ReceiverStatusList| {
        let overview = OverviewPage::new(&healthy(), &sound(), &[], &StoreState::off(), NOW)
            .with_notifications(told, NOW);
        PageFrame::overview(&overview)
            .and_then(|page| page.render())
            .unwrap()
    };
    let html = shown(&told);
    assert!(
        html.contains("Notifications to oncall have failed for 2 min"),
        "{html}"
    );
    assert!(html.contains("pending: 2 incidents"), "{html}");
    assert!(
        html.contains("apply the manifests") && !html.contains("<500>"),
        "{html}"
    );
    let nobody = shown(&ReceiverStatusList {
        receivers: Vec::new(),
        ..told
    });
    assert!(
        !nobody.contains("Pending notifications"),
        "without receivers there is nothing to persist"
    );
}

#[test]
fn renewals_that_would_fail_stand_on_the_page_in_both_words_and_only_as_text() {
    let forecasts: parallax_api::forecasts::RenewalForecastList = serde_json::from_value(serde_json::json!({
        "note": "A forecast.", "certificates": [], "forecasts": [
            {"namespace": "shop", "certificate": "web", "host": "shop.example.test", "issuer": "", "solver": "", "renewal": NOW.0 + 3_600_000_000_i64,
             "outlook": "would_fail", "cause": "caa", "sentence": "the records allow <b>pki.goog</b> only",
             "ca_error": "caa: CAA record for example.test prevents issuance", "remedy": "add a record"},
            {"namespace": "shop", "certificate": "new", "host": "new.example.test", "issuer": "", "solver": "", "renewal": 1,
             "outlook": "unknown", "sentence": "it cannot be told"},
            {"namespace": "shop", "certificate": "www", "host": "www.example.test", "issuer": "", "solver": "",
             "outlook": "would_pass", "sentence": "fine"}]}))
    .unwrap();
    let renewals = renewals::RenewalsSection::new(&forecasts, NOW);
    let overview =
        OverviewPage::new(&healthy(), &sound(), &[], &StoreState::off(), NOW).with_renewals(renewals);
    let html = overview.render().unwrap();
    assert!(
        html.contains("1 would fail, 1 unknown, 1 would pass as far as can be checked in advance"),
        "{html}"
    );
    assert!(html.contains("prevents issuance") && html.contains("add a record"));
    assert!(
        html.contains("renewal in 1 h") && html.contains("renewal is due"),
        "{html}"
    );
    assert!(
        !html.contains("<b>pki.goog</b>") && !html.contains("www.example.test"),
        "text is escaped, and renewals that would pass are only counted"
    );
    let nothing = OverviewPage::new(&healthy(), &sound(), &[], &StoreState::off(), NOW)
        .render()
        .unwrap();
    assert!(!nothing.contains("Certificate renewal forecast"), "{nothing}");
}
