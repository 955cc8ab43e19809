//! An aggregator that is killed in the middle of an outage and started again: a real Prometheus with the committed
//! rules does not resolve the alert before the outage ends.

use std::time::Instant;

use parallax_control_plane::print_uncaptured;

use crate::{
    client, is_skipped,
    mesh::{ProbedAggregator, RecordedAggregator},
    monitoring::{Monitoring, Receiver},
    recording::{Recording, Replayer, State},
    repository, wait_until,
};

/// Seconds without an aggregator: several scrapes, and more than the resolution of the rules' lookback.
const DOWNTIME_SECONDS: f64 = 25.0;

/// The number of firing alerts about incidents.
const FIRING: &str = "count(ALERTS{alertname=\"ParallaxIncident\",alertstate=\"firing\"})";

fn recording() -> Recording {
    Recording::read(&repository("dashboards/tests/fixtures/i1.ndjson.gz"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incidents_alert_fires_while_the_aggregator_is_away_and_catches_up_and_ends_with_the_outage() {
    if is_skipped(
        "an_incidents_alert_fires_while_the_aggregator_is_away_and_catches_up_and_ends_with_the_outage",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let client = client();
    let [healthy, broken] = [State::Healthy, State::Broken].map(|state| recording().topology(state));
    let mut aggregator = RecordedAggregator::start(folder.path(), &recording(), &client).await;
    let probing = ProbedAggregator::start(folder.path(), &client).await;
    let receiver = Receiver::start().await;
    let scraped = (aggregator.address, probing.prober);
    let monitoring = Monitoring::start(folder.path(), &client, scraped, &receiver).await;
    let teller = Replayer::start(recording(), aggregator.url(), client.clone());
    let leader = "max(parallax_aggregator_leader{job=\"parallax/parallax-aggregator\"})";
    let ready = format!(
        "{leader} == 1 and max(parallax_aggregator_catching_up{{job=\"parallax/parallax-aggregator\"}}) == 0"
    );
    wait_until("the aggregator is ready", async || {
        monitoring.value(&ready, None).await
    })
    .await;
    aggregator.replace_topology(&broken);
    teller.state.send_replace(State::Broken);
    wait_until("the incident's alert fires", async || {
        monitoring.value(FIRING, None).await
    })
    .await;
    let incident = aggregator.incident(&client).await.unwrap();
    let fired = Instant::now();
    // The lookback has a resolution of ten seconds: an incident that opened after the last step is not remembered.
    let settled = format!("min_over_time(({FIRING})[12s:1s]) and count_over_time(({FIRING})[12s:1s]) >= 11");
    wait_until("the alert has fired for a while", async || {
        monitoring.value(&settled, None).await
    })
    .await;

    teller.stop().await;
    aggregator.kill();
    let away = "time() - max_over_time(timestamp(parallax_aggregator_leader{job=\"parallax/parallax-aggregator\"})[5m:1s])";
    wait_until("the aggregator has been away for long enough", async || {
        monitoring
            .value(away, None)
            .await
            .filter(|age| *age > DOWNTIME_SECONDS)
    })
    .await;
    let kept = monitoring.alerts().await;
    assert!(
        kept.iter().any(|(name, state, labels)| name == "ParallaxIncident"
            && state == "firing"
            && labels["incident"] == incident.as_str()),
        "{kept:?}"
    );
    aggregator.restart(&client).await;
    let teller = Replayer::start_in_state(State::Broken, recording(), aggregator.url(), client.clone());
    wait_until("the successor is ready", async || {
        monitoring.value(&ready, None).await
    })
    .await;
    wait_until("the successor has the incident", async || {
        aggregator.incident(&client).await
    })
    .await;
    let seconds = fired.elapsed().as_secs();
    let window = format!("[{}s:1s]", seconds.saturating_sub(2));
    let looked = monitoring
        .value(&format!("count_over_time(({FIRING}){window})"), None)
        .await;
    let absent = "absent(ALERTS{alertname=\"ParallaxIncident\",alertstate=\"firing\"})";
    let silent = monitoring
        .value(&format!("count_over_time({absent}{window})"), None)
        .await;
    print_uncaptured(&format!(
        "MEASURED over {seconds} s with the aggregator away for more than {DOWNTIME_SECONDS} s: {looked:?} checks, {silent:?} without the alert"
    ));
    assert!(looked.unwrap() >= DOWNTIME_SECONDS, "{looked:?}");
    assert_eq!(silent, None);

    aggregator.replace_topology(&healthy);
    teller.state.send_replace(State::Healthy);
    wait_until("the outage is over", async || {
        aggregator.incident(&client).await.is_none().then_some(())
    })
    .await;
    let over = Instant::now();
    wait_until("no alert about an incident fires", async || {
        let firing = monitoring.alerts().await;
        (!firing.iter().any(|(name, _, _)| name == "ParallaxIncident")).then_some(())
    })
    .await;
    print_uncaptured(&format!(
        "MEASURED the alert ends {:.1} s after the incident",
        over.elapsed().as_secs_f64()
    ));
    assert!(over.elapsed().as_secs_f64() < 10.0);
    teller.stop().await;
    receiver.stop().await;
}
