mod certificates;
mod incidents;

use std::{cell::RefCell, sync::Arc};

use parallax_api::challenges::WaitingChallenge;
use parallax_diagnosis::{
    ObservationResult,
    topology::{Topology, TopologySpec},
    view::View,
};
use parallax_fixtures as fixtures;
use parallax_kubernetes::{
    objects::resource::WatchSource, replicas::ReplicaState, topology_state::TopologyState, watch::WatchHealth,
};
use parallax_model::{EventTime, Micros, Placement, Recorded, Round, TargetSpec};
use parallax_notify::{
    NotificationContext, NotificationState, Notifier, NotifyMetrics, NotifyOptions, OutboxStore,
    WebhookOptions, incident_actions::ActionManager,
};
use parallax_runtime::{
    Clock, SnapshotWriter,
    metrics::{DURATION_BUCKETS, NATIVE_SCHEMA},
    snapshot_channel,
};
use prometheus_client::encoding::{prometheus_protobuf, text};
use tokio::sync::watch;

use super::*;
use crate::ingest::ObservationCounters;

pub(super) struct Scene {
    handling: Arc<ActionManager>,
    counters: RefCell<ObservationCounters>,
    registry: Registry,
    views: SnapshotWriter<View>,
    topology: watch::Sender<TopologyState>,
    forecasts: watch::Sender<Arc<parallax_api::forecasts::RenewalForecastList>>,
}

fn topology(targets: &[&str]) -> Topology {
    let spec = TopologySpec {
        targets: targets.iter().map(|url| TargetSpec::new(*url)).collect(),
        ..TopologySpec::default()
    };
    Topology::try_from(spec).unwrap()
}

pub(super) fn scene(view: View, targets: &[&str]) -> Scene {
    scene_with(HistogramBuckets::default(), view, targets)
}

pub(super) fn scene_with(buckets: HistogramBuckets, view: View, targets: &[&str]) -> Scene {
    let metrics = Metrics::new(buckets);
    let mut counters = ObservationCounters::new(metrics.ingest.clone());
    counters.set_targets(&topology(targets));
    let (views, views_out) = snapshot_channel(view);
    let (sender, topology_out) = watch::channel(TopologyState::new(Arc::new(topology(targets))));
    let (forecasts, forecasts_out) = watch::channel(Arc::new(
        parallax_api::forecasts::RenewalForecastList::unavailable("not yet"),
    ));
    let handling = Arc::new(ActionManager::new(
        Clock::starting_at(fixtures::NOW),
        parallax_history::store::StoreHandle::off(),
        None,
    ));
    let registry = metrics.registry(ScrapeSources {
        clock: Clock::starting_at(fixtures::NOW),
        views: views_out,
        evidence_since: watch::channel(fixtures::NOW).1,
        topology: topology_out,
        store: parallax_history::store::StoreHandle::off().state,
        watch_health: watch::channel(WatchHealth::new(WatchSource::all(&["parallax".into()]))).1,
        challenges: watch::channel(Arc::from([waiting_challenge()])).1,
        cert_manager_watches: watch::channel(WatchHealth::new(
            parallax_acme::cert_manager::CertManagerKind::ALL,
        ))
        .1,
        forecasts: forecasts_out,
        actions: handling.clone(),
        notifications: idle_receiver("oncall", &handling, &metrics.notify),
    });
    Scene {
        handling,
        counters: RefCell::new(counters),
        registry,
        views,
        topology: sender,
        forecasts,
    }
}

fn waiting_challenge() -> WaitingChallenge {
    WaitingChallenge {
        namespace: "shop".to_owned(),
        name: "web-1-2-3".to_owned(),
        host: "a.example.test".to_owned(),
        since: fixtures::NOW,
        reason: String::new(),
        meaning: String::new(),
        causes: Vec::new(),
        explanation: None,
        not_replayed: None,
    }
}

impl Scene {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Sets renewal forecasts, one of each outlook.
    pub(super) fn foresee(&self) {
        self.forecasts.send_replace(Arc::new(foreseen()));
    }

    pub(super) fn observe(&self, line: &str, booked: ObservationResult) {
        let recorded = Recorded {
            vantage: "n1/pod".parse().unwrap(),
            incarnation: "life".parse().unwrap(),
            observation: serde_json::from_str(line).unwrap(),
        };
        self.counters
            .borrow_mut()
            .count_observation(&recorded, booked, &topology(&[]));
    }
}

pub(super) const COUNTED: ObservationResult = ObservationResult::Accepted {
    placement: Placement::NoLocal,
};

pub(super) const OK: &str = r#"{"seq":1,"t_us":1,"target":"http://a.example.test/","channel":"vip","result":"ok","status":200,"times":{"connect_us":900,"total_us":4200}}"#;
const REFUSED: &str = r#"{"seq":2,"t_us":1,"target":"http://a.example.test/","channel":"vip","result":"failed","phase":"connect","kind":"refused","times":{"connect_us":80}}"#;
const DIRECT: &str = r#"{"seq":3,"t_us":1,"target":"http://a.example.test/","channel":"direct","result":"ok","times":{"connect_us":70}}"#;
const STRANGER: &str =
    r#"{"seq":4,"t_us":1,"target":"http://nobody.example.test/","channel":"vip","result":"ok"}"#;

/// Three names of two Certificates, and a Certificate that is not validated by HTTP-01.
fn foreseen() -> parallax_api::forecasts::RenewalForecastList {
    serde_json::from_value(serde_json::json!({
        "note": "", "skipped": 0,
        "certificates": [
            {"namespace": "shop", "certificate": "web", "renewal": 1_797_000_000_000_000_i64, "not_after": 1_799_592_000_000_000_i64},
            {"namespace": "shop", "certificate": "new"},
            {"namespace": "team", "certificate": "by-dns", "renewal": 1_798_000_000_000_000_i64, "not_after": 1_800_592_000_000_000_i64}],
        "forecasts": [
            {"namespace": "shop", "certificate": "web", "host": "shop.example.test", "issuer": "", "solver": "",
             "outlook": "would_fail", "cause": "caa", "sentence": ""},
            {"namespace": "shop", "certificate": "web", "host": "www.shop.example.test", "issuer": "", "solver": "",
             "outlook": "would_pass", "sentence": ""},
            {"namespace": "shop", "certificate": "new", "host": "new.shop.example.test", "issuer": "", "solver": "",
             "outlook": "unknown", "sentence": ""}]}))
    .unwrap()
}

#[test]
fn names_types_and_help_texts_are_an_api() {
    let harness = scene(fixtures::outage(), &["http://a.example.test/"]);
    harness.observe(OK, COUNTED);
    let text = harness.text();
    let described: Vec<_> = text.lines().filter(|line| line.starts_with("# ")).collect();
    insta::assert_snapshot!(described.join("\n"));
}

#[test]
fn every_watch_has_its_series_from_the_start() {
    let text = scene(fixtures::waiting(), &[]).text();
    for line in [
        r#"parallax_watch_up{resource="endpointslices"} 0.0"#,
        r#"parallax_watch_objects{resource="services"} 0.0"#,
        r#"parallax_watch_events_total{resource="nodes"} 0"#,
        r#"parallax_watch_lists_total{resource="nodes"} 0"#,
        r#"parallax_watch_unreadable_total{resource="ingresses"} 0"#,
        r#"parallax_watch_errors_total{resource="httproutes",reason="forbidden"} 0"#,
        "parallax_topology_problems 0.0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn probes_are_counted_by_placement_and_result_and_timed_where_they_succeed_on_the_users_way() {
    let harness = scene(fixtures::waiting(), &["http://a.example.test/"]);
    harness.observe(OK, COUNTED);
    harness.observe(REFUSED, COUNTED);
    harness.observe(DIRECT, COUNTED);
    harness.observe(STRANGER, ObservationResult::Unknown);
    harness.observe(OK, ObservationResult::Late);
    let text = harness.text();
    for line in [
        r#"parallax_probes_total{target="http://a.example.test/",channel="vip",placement="no-local",result="ok"} 1"#,
        r#"parallax_probes_total{target="http://a.example.test/",channel="vip",placement="no-local",result="refused"} 1"#,
        r#"parallax_probes_total{target="http://a.example.test/",channel="vip",placement="unknown",result="ok"} 1"#,
        r#"parallax_probe_phase_seconds_count{target="http://a.example.test/",phase="connect"} 2"#,
        r#"parallax_ingest_observations_total{result="late"} 1"#,
        r#"parallax_ingest_observations_total{result="unknown"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(
        !text.contains("nobody.example.test"),
        "an unknown target creates no series"
    );
}

#[test]
fn current_state_is_read_from_the_view() {
    let text = scene(fixtures::outage(), &[]).text();
    for line in [
        r#"parallax_target_reachable_ratio{target="http://shop-07.example.test/",placement="no-local"} 0.5"#,
        r#"parallax_verdict_probability{target="http://shop-07.example.test/",cause="F1"} 0.892892"#,
        r#"parallax_incident_open{cause="F1",severity="critical"} 1"#,
        r#"parallax_vantage_silent_seconds{vantage="n1/pod"} 2"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn evidence_ages_from_the_last_judged_round_and_before_that_from_the_start() {
    let age = |view| {
        let text = scene(view, &[]).text();
        let line = text
            .lines()
            .find(|line| line.starts_with("parallax_evidence_age_seconds "));
        line.unwrap().split(' ').nth(1).unwrap().parse::<f64>().unwrap()
    };
    // The clock of the harness starts at `NOW` and stands still.
    let fresh = 0.0..1.0;
    assert!(fresh.contains(&age(fixtures::waiting())));
    let judged = |until: EventTime| {
        let mut view = fixtures::healthy();
        view.last_judged_round = Some(Round(until.round(view.interval).0 - 1));
        view
    };
    assert!((20.0..21.0).contains(&age(judged(fixtures::ago(20)))));
    let future = fixtures::NOW.plus(Micros::from_secs(600));
    assert!(fresh.contains(&age(judged(future))), "no age is below zero");
}

#[test]
fn findings_have_a_series_from_the_start_and_hazards_one_each_while_they_stand() {
    let text = scene(fixtures::warned(), &[]).text();
    for line in [
        r#"parallax_finding{finding="exposed",catalogue="I4",severity="critical"} 1"#,
        r#"parallax_finding{finding="stale-answer",catalogue="I3",severity="warning"} 0"#,
        r#"parallax_hazard{hazard="local-policy",subject="Service ingress/nginx",severity="warning"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let text = scene(fixtures::healthy(), &[]).text();
    assert!(!text.contains("parallax_hazard{"), "{text}");
}

#[test]
fn a_view_in_which_nothing_is_known_claims_no_reachability() {
    let text = scene(fixtures::waiting(), &[]).text();
    assert!(!text.contains("parallax_target_reachable_ratio{"), "{text}");
}

#[test]
fn the_series_of_a_target_that_is_gone_are_gone() {
    let both = ["http://a.example.test/", "http://b.example.test/"];
    let mut harness = scene(fixtures::outage(), &both);
    harness.observe(OK, COUNTED);
    harness.observe(&OK.replace("a.example", "b.example"), COUNTED);
    let series = |text: &str, host: &str| text.lines().filter(|line| line.contains(host)).count();
    assert_eq!(
        series(&harness.text(), "//a.example.test"),
        series(&harness.text(), "//b.example.test")
    );
    assert!(series(&harness.text(), "shop-07") > 0);

    harness.counters.borrow_mut().set_targets(&topology(&both[1..]));
    let mut view = fixtures::waiting();
    view.matrix.retain(|row| row.target.as_str() != both[0]);
    harness.views.publish(Arc::new(view));
    let text = harness.text();
    assert_eq!(series(&text, "a.example.test"), 0, "{text}");
    assert!(series(&text, "//b.example.test") > 0);
    assert_eq!(series(&text, "shop-07"), 0);
    harness.observe(OK, COUNTED);
    assert_eq!(
        series(&harness.text(), "a.example.test"),
        0,
        "a late observation does not bring it back"
    );
}

#[tokio::test(start_paused = true)]
async fn the_age_of_the_topology_counts_while_its_source_cannot_be_read() {
    let harness = scene(fixtures::waiting(), &[]);
    assert!(harness.text().contains("parallax_topology_age_seconds 0.0"));
    harness.topology.send_modify(|state| {
        state.error = Some(parallax_kubernetes::topology_state::SourceError {
            message: "broken".to_owned(),
            since: EventTime(fixtures::NOW.0).minus(Micros::from_secs(90)),
        });
    });
    assert!(
        harness.text().contains("parallax_topology_age_seconds 90.0"),
        "{}",
        harness.text()
    );
}

#[test]
fn protobuf_carries_the_native_histogram_at_the_schema_that_the_buckets_of_the_rollups_use() {
    let harness = scene(fixtures::waiting(), &["http://a.example.test/"]);
    harness.observe(OK, COUNTED);
    let families = prometheus_protobuf::encode(&harness.registry).unwrap();
    let family = families
        .iter()
        .find(|family| family.name == "parallax_probe_phase_seconds")
        .unwrap();
    let histogram = family.metric[0].histogram.as_ref().unwrap();
    assert_eq!(histogram.schema, i32::from(NATIVE_SCHEMA));
    assert!(!histogram.positive_span.is_empty());
    assert_eq!(histogram.bucket.len(), DURATION_BUCKETS.len() + 1);
}

#[test]
fn no_series_names_a_node_and_a_target_together() {
    let harness = scene(fixtures::wide(), &["http://a.example.test/"]);
    harness.observe(OK, COUNTED);
    for line in harness.text().lines() {
        assert!(!(line.contains("target=") && line.contains("vantage=")), "{line}");
    }
}

/// Notifications with one webhook to which nothing is pending.
fn idle_receiver(
    name: &str,
    handling: &Arc<ActionManager>,
    metrics: &NotifyMetrics,
) -> Arc<NotificationState> {
    let context = NotificationContext {
        clock: Clock::starting_at(fixtures::NOW),
        replica: ReplicaState::standalone(1, "n"),
        actions: handling.clone(),
        views: watch::channel(Arc::new(fixtures::healthy())).1,
        topology: watch::channel(TopologyState::new(Arc::default())).1,
        links: Arc::default(),
    };
    let state = Arc::new(NotificationState::new(
        context,
        OutboxStore::Memory,
        metrics.clone(),
    ));
    let options = NotifyOptions {
        webhooks: vec![WebhookOptions {
            name: name.to_owned(),
            url: "https://receiver.example.test/".parse().unwrap(),
            secret_file: "secret".into(),
            ca_file: None,
        }],
        ..NotifyOptions::default()
    };
    Notifier::new(state.clone(), &options, None).unwrap();
    state
}
