//! The heartbeat, sent to a receiver.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    super::{Heartbeat, HeartbeatAddress, HeartbeatOptions, NotifyMetrics},
    receiver::{Receiver, ScriptedResponse},
};

fn options(address: HeartbeatAddress) -> HeartbeatOptions {
    HeartbeatOptions {
        address,
        ca_file: None,
        interval: Duration::from_millis(1),
    }
}

fn delivered(metrics: &NotifyMetrics, result: &'static str) -> u64 {
    let mut text = String::new();
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register("sent", "requests", metrics.notifications.clone());
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let series = format!("sent_total{{receiver=\"heartbeat\",result=\"{result}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&series));
    value.unwrap().parse().unwrap()
}

#[tokio::test]
async fn it_is_sent_at_each_interval_also_after_a_failure_until_it_is_cancelled() {
    let receiver =
        Receiver::with_responses([ScriptedResponse::Status(500), ScriptedResponse::Status(404)]).await;
    let file = receiver.folder.path().join("address");
    std::fs::write(&file, format!("http://{}/ping/a-uuid\n", receiver.address)).unwrap();
    let metrics = NotifyMetrics::default();
    let heartbeat = Heartbeat::new(options(HeartbeatAddress::File(file)), metrics.clone()).unwrap();
    let cancelled = CancellationToken::new();
    let running = tokio::spawn(heartbeat.run(|| true, cancelled.clone()));
    let requests = receiver.wait_for_requests(4).await;
    cancelled.cancel();
    running.await.unwrap();
    assert_eq!(
        (requests[0].path.as_str(), requests[0].body.as_str()),
        ("/ping/a-uuid", "")
    );
    assert_eq!(
        (delivered(&metrics, "failed"), delivered(&metrics, "refused")),
        (1, 1)
    );
    assert!(delivered(&metrics, "delivered") >= 1);
}

#[tokio::test]
async fn it_stops_while_something_does_not_work() {
    static WORKS: AtomicBool = AtomicBool::new(false);
    let receiver = Receiver::with_responses([]).await;
    let url = format!("http://{}/", receiver.address).parse().unwrap();
    let heartbeat = Heartbeat::new(options(HeartbeatAddress::Url(url)), NotifyMetrics::default()).unwrap();
    let cancelled = CancellationToken::new();
    let (asked, mut asks) = tokio::sync::watch::channel(0);
    let works = move || {
        asked.send_modify(|count| *count += 1);
        WORKS.load(Ordering::Relaxed)
    };
    let running = tokio::spawn(heartbeat.run(works, cancelled.clone()));
    asks.wait_for(|count| *count >= 3).await.unwrap();
    assert_eq!(receiver.requests().len(), 0);
    WORKS.store(true, Ordering::Relaxed);
    receiver.wait_for_requests(1).await;
    cancelled.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn an_error_names_the_file_and_not_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("address");
    std::fs::write(&file, "hunter2").unwrap();
    let error = super::super::read_heartbeat_address(&file).unwrap_err();
    assert!(error.contains("address") && !error.contains("hunter2"), "{error}");
}
