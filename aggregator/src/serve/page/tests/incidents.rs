//! Open incidents on the page, and the page of one incident.

use super::*;

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
    let requested = "direct from n1/pod to ingress/nginx-1, would separate every connection through the address from every \
                 probe of the target";
    let html = page("asked", &view, &sound());
    assert!(html.contains("Requested follow-up probes") && html.contains(requested));
    view.incidents[0].state = IncidentState::Closed { closed: NOW };
    assert!(!page("asked-closed", &view, &sound()).contains("Requested follow-up probes"));
    let subject = view.probe_requests[0].subject.clone();
    view.investigations[0].subject = subject;
    assert!(page("asked-investigating", &view, &sound()).contains(requested));
}

#[test]
fn a_missing_incident_has_a_page_with_the_reason() {
    let one = model::IncidentPage::missing("i-gone", "The store is slow.".to_owned());
    assert!(one.card.is_none());
    assert!(one.render().unwrap().contains("Incident i-gone not found"));
    assert!(one.render().unwrap().contains("The store is slow."));
}
