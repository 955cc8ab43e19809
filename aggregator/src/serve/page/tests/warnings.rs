//! Findings, and warnings about objects, challenges, receivers and renewals.

use super::*;

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
    let status = ReceiverStatusList {
        receivers: vec![failing],
        persisted: false,
        not_persisted_because: Some("the ConfigMap does not exist; apply the manifests".to_owned()),
    };
    let shown = |status: &ReceiverStatusList| {
        let overview = OverviewPage::new(&healthy(), &sound(), &[], &StoreState::off(), NOW)
            .with_notifications(status, NOW);
        PageFrame::overview(&overview)
            .and_then(|page| page.render())
            .unwrap()
    };
    let html = shown(&status);
    assert!(
        html.contains("Notifications to oncall have failed for 2 min"),
        "{html}"
    );
    assert!(html.contains("pending: 2 incidents"), "{html}");
    assert!(
        html.contains("apply the manifests") && !html.contains("<500>"),
        "{html}"
    );
    let without_receivers = shown(&ReceiverStatusList {
        receivers: Vec::new(),
        ..status
    });
    assert!(
        !without_receivers.contains("Pending notifications"),
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
    let page = OverviewPage::new(&healthy(), &sound(), &[], &StoreState::off(), NOW)
        .render()
        .unwrap();
    assert!(!page.contains("Certificate renewal forecast"), "{page}");
}
