//! From a fault to the notification: the recorded incident, real scrapes, real rules, real routing.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use parallax_control_plane::print_uncaptured;
use serde_json::Value;

use crate::{
    client, dashboards, is_skipped,
    mesh::{ProbedAggregator, RecordedAggregator},
    monitoring::{Monitoring, Receiver},
    recording::{Recording, Replayer, State},
    repository, wait_until,
};

/// Longest time from a verdict to the notification: a scrape and a rule evaluation of a second each, and room for a
/// busy machine.
const MAX_NOTIFICATION_SECONDS: f64 = 10.0;

fn unix() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs_f64()
}

/// All processes of the test.
struct AlertingHarness {
    client: reqwest::Client,
    topologies: [String; 2],
    aggregator: RecordedAggregator,
    probing: ProbedAggregator,
    receiver: Receiver,
    monitoring: Monitoring,
    replayer: Replayer,
}

impl AlertingHarness {
    async fn start(folder: &Path) -> Self {
        let client = client();
        let recording = Recording::read(&repository("dashboards/tests/fixtures/i1.ndjson.gz"));
        let topologies = [State::Healthy, State::Broken].map(|state| recording.topology(state));
        let aggregator = RecordedAggregator::start(folder, &recording, &client).await;
        let probing = ProbedAggregator::start(folder, &client).await;
        let receiver = Receiver::start().await;
        let scraped = (aggregator.address, probing.prober);
        let monitoring = Monitoring::start(folder, &client, scraped, &receiver).await;
        let teller = Replayer::start(recording, aggregator.url(), client.clone());
        Self {
            client,
            topologies,
            aggregator,
            probing,
            receiver,
            monitoring,
            replayer: teller,
        }
    }

    /// Changes the state that the aggregator receives.
    fn set_state(&self, state: State) {
        self.aggregator.replace_topology(&self.topologies[state as usize]);
        self.replayer.state.send_replace(state);
    }

    /// Healthy long enough for rates to have a baseline; nothing fires.
    async fn wait_until_healthy(&self) {
        let fine = "sum(min_over_time(parallax_target_vantages{state=\"ok\"}[10s]))";
        wait_until("every vantage reaches every target", async || {
            (self.monitoring.value(fine, None).await? >= 8.0).then_some(())
        })
        .await;
        let alerts = self.monitoring.alerts().await;
        let firing: Vec<_> = alerts.iter().filter(|(_, state, _)| state == "firing").collect();
        assert!(firing.is_empty(), "{firing:?}");
        assert!(self.receiver.alerts().is_empty());
    }

    /// The expositions pass promtool, and Prometheus scrapes them as `OpenMetrics`.
    async fn check_expositions(&self, urls: &[String]) {
        for url in urls {
            dashboards::exposition_is_clean(&self.client, url).await;
        }
        let aggregator = self.aggregator.address.to_string();
        let errors = self.monitoring.scrape_errors(&aggregator).await;
        assert_eq!(errors, Vec::<String>::new());
    }

    /// The id of the incident, once the receiver is notified of it.
    async fn wait_for_notification(&self) -> String {
        let fault = Instant::now();
        let incident = wait_until("the fault is named", async || {
            self.aggregator.incident(&self.client).await
        })
        .await;
        let named = fault.elapsed().as_secs_f64();
        let verdict = Instant::now();
        let labels = wait_until("the incident is notified", async || {
            let alerts = self.receiver.alerts().into_iter();
            alerts
                .filter(|(name, status, _)| name == "ParallaxIncident" && status == "firing")
                .map(|(_, _, labels)| labels)
                .find(|labels| labels["incident"] == incident.as_str())
        })
        .await;
        let called = verdict.elapsed().as_secs_f64();
        print_uncaptured(&format!(
            "MEASURED a fault is named after {named:.1} s (rounds of 1 s), the receiver is notified {called:.1} s later \
             (scrapes and rules every 1 s, for: 0)"
        ));
        assert!(called < MAX_NOTIFICATION_SECONDS, "{called}");
        assert_eq!(labels["cause"], "F1", "{labels}");
        incident
    }

    /// The alert of a target that an incident explains fires too, and Alertmanager inhibits it.
    async fn check_inhibition(&self, incident: &str) {
        let begin = Instant::now();
        let kept = |(name, state, labels): &(String, String, Value)| {
            name == "ParallaxTargetUnreachable" && state == "suppressed" && labels["incident"] == incident
        };
        wait_until("the explained target is inhibited", async || {
            self.monitoring
                .alertmanager_alerts()
                .await
                .iter()
                .any(kept)
                .then_some(())
        })
        .await;
        let failed = self
            .monitoring
            .series("count_over_time((up == 0)[5m:1s])", None)
            .await;
        print_uncaptured(&format!(
            "MEASURED the explained target fires, and is inhibited, {:.0} s after the notification (for: 60); scrapes that failed: {failed:?}",
            begin.elapsed().as_secs_f64(),
        ));
        let alerts = self.receiver.alerts();
        assert!(
            alerts
                .iter()
                .all(|(name, _, _)| name != "ParallaxTargetUnreachable"),
            "{alerts:?}"
        );
    }

    /// A closed incident has no series, and the receiver is notified of its end.
    async fn wait_for_resolution(&self, incident: &str) {
        let series = format!("parallax_incident{{incident=\"{incident}\"}}");
        wait_until("a closed incident has no series", async || {
            (self.monitoring.series(&series, None).await == Ok(Vec::new())).then_some(())
        })
        .await;
        // A change of severity resolves the alert with the former one, so only the last message of each counts.
        wait_until("the end is notified, too", async || {
            let mut last = BTreeMap::new();
            for (name, status, labels) in self.receiver.alerts() {
                if name == "ParallaxIncident" && labels["incident"] == incident {
                    last.insert(labels["severity"].to_string(), status);
                }
            }
            last.values().all(|status| status == "resolved").then_some(())
        })
        .await;
    }

    async fn stop(self) {
        self.replayer.stop().await;
        self.receiver.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_fault_notifies_once_with_its_cause_and_every_panel_shows_the_difference() {
    if is_skipped("a_recorded_fault_notifies_once_with_its_cause_and_every_panel_shows_the_difference") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut harness = AlertingHarness::start(folder.path()).await;
    harness.wait_until_healthy().await;
    let healthy_at = unix();
    let prober = format!("http://{}", harness.probing.prober);
    harness
        .check_expositions(&[harness.aggregator.url(), prober])
        .await;

    harness.set_state(State::Broken);
    harness.probing.stop_aggregator();
    let incident = harness.wait_for_notification().await;
    harness.check_inhibition(&incident).await;
    let broken_at = unix();
    harness.check_expositions(&[harness.aggregator.url()]).await;
    dashboards::show_the_difference(&harness.monitoring, healthy_at, broken_at).await;

    harness.set_state(State::Healthy);
    harness.wait_for_resolution(&incident).await;
    harness.stop().await;
}
