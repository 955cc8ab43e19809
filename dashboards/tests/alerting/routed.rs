//! From a fault to the call: the recorded incident, real scrapes, real rules, real routing.

use std::{
    collections::BTreeMap,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use parallax_control_plane::say;

use crate::{
    client, dashboards, left_out,
    mesh::{Probing, Told},
    monitoring::{Monitoring, Receiver},
    recording::{Recording, State, Teller},
    repository, until,
};

fn unix() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_fault_calls_once_with_its_cause_and_every_panel_shows_the_difference() {
    if left_out("a_recorded_fault_calls_once_with_its_cause_and_every_panel_shows_the_difference") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let client = client();
    let recording = Recording::read(&repository("dashboards/tests/fixtures/i1.ndjson.gz"));
    let broken = recording.topology(State::Broken);
    let healthy = recording.topology(State::Healthy);
    let told = Told::start(folder.path(), &recording, &client).await;
    let mut probing = Probing::start(folder.path(), &client).await;
    let receiver = Receiver::start().await;
    let monitoring =
        Monitoring::start(folder.path(), &client, (told.address, probing.prober), &receiver).await;
    let teller = Teller::start(recording, told.url(), client.clone());

    // Healthy, for long enough that rates have something to rise from.
    until("every vantage reaches every target", async || {
        let fine = monitoring
            .value(
                "sum(min_over_time(parallax_target_vantages{state=\"ok\"}[10s]))",
                None,
            )
            .await?;
        (fine >= 8.0).then_some(())
    })
    .await;
    let healthy_at = unix();
    dashboards::exposition_is_clean(&client, &told.url()).await;
    dashboards::exposition_is_clean(&client, &format!("http://{}", probing.prober)).await;
    assert_eq!(monitoring.scrape_errors().await, Vec::<String>::new());
    let calling: Vec<_> = monitoring
        .alerts()
        .await
        .into_iter()
        .filter(|(_, state, _)| state == "firing")
        .collect();
    assert!(calling.is_empty(), "{calling:?}");
    assert!(receiver.alerts().is_empty());

    told.know(&broken);
    teller.state.send_replace(State::Broken);
    probing.leave_the_prober_alone();
    let fault = Instant::now();
    let incident = until("the fault is named", async || told.incident(&client).await).await;
    let named = fault.elapsed();
    let verdict = Instant::now();
    until("the incident is called out", async || {
        let called = |(name, status, labels): &(String, String, serde_json::Value)| {
            name == "ParallaxIncident" && status == "firing" && labels["incident"] == incident.as_str()
        };
        receiver.alerts().iter().any(called).then_some(())
    })
    .await;
    let called = verdict.elapsed();
    say(&format!(
        "MEASURED a fault is named after {:.1} s (rounds of 1 s), the receiver hears of it {:.1} s later (scrapes and rules every 1 s, for: 0)",
        named.as_secs_f64(),
        called.as_secs_f64()
    ));
    // A scrape, a look at the rules, and room for a machine that does other things.
    assert!(called.as_secs_f64() < 10.0, "{called:?}");
    let causes: Vec<_> = receiver
        .alerts()
        .into_iter()
        .map(|(_, _, labels)| labels["cause"].clone())
        .collect();
    assert!(causes.iter().any(|cause| cause == "F1"), "{causes:?}");

    // The target that it explains fires too, and Alertmanager keeps it to itself.
    until("the explained target is inhibited", async || {
        let kept = |(name, state, labels): &(String, String, serde_json::Value)| {
            name == "ParallaxTargetUnreachable"
                && state == "suppressed"
                && labels["incident"] == incident.as_str()
        };
        monitoring.routed().await.iter().any(kept).then_some(())
    })
    .await;
    say(&format!(
        "MEASURED the explained target fires, and is inhibited, {:.0} s after the verdict (for: 60); scrapes that failed: {:?}",
        verdict.elapsed().as_secs_f64(),
        monitoring.series("count_over_time((up == 0)[5m:1s])", None).await,
    ));
    let heard = receiver.alerts();
    assert!(
        heard
            .iter()
            .all(|(name, _, _)| name != "ParallaxTargetUnreachable"),
        "{heard:?}"
    );

    let broken_at = unix();
    dashboards::exposition_is_clean(&client, &told.url()).await;
    assert_eq!(monitoring.scrape_errors().await, Vec::<String>::new());
    dashboards::show_the_difference(&monitoring, healthy_at, broken_at).await;

    say(&format!(
        "all expressions are asked {:.0} s after the verdict",
        verdict.elapsed().as_secs_f64()
    ));
    told.know(&healthy);
    teller.state.send_replace(State::Healthy);
    let series = format!("parallax_incident{{incident=\"{incident}\"}}");
    until("an incident that is over has no series", async || {
        (monitoring.series(&series, None).await == Ok(Vec::new())).then_some(())
    })
    .await;
    // A change of severity ends the alert of the former one, so the last word about each counts.
    until("the end is told, too", async || {
        let mut last = BTreeMap::new();
        for (name, status, labels) in receiver.alerts() {
            if name == "ParallaxIncident" && labels["incident"] == incident.as_str() {
                last.insert(labels["severity"].to_string(), status);
            }
        }
        last.values().all(|status| status == "resolved").then_some(())
    })
    .await;
    teller.stop().await;
    receiver.stop().await;
}
