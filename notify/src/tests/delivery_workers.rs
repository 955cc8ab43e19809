//! Outbox writer and delivery workers under a paused clock: retry delays, isolation of receivers, duration of a
//! shutdown.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parallax_api::notifications::ReceiverState;
use parallax_kubernetes::replicas::{LeaderAddress, ReplicaRole};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::{
    super::{
        http::DeliveryOutcome,
        notification::{DueMessage, ReceiverMode},
        outbox::Delivery,
    },
    *,
};

/// A transport with scripted results, which records when it got which message.
#[derive(Debug, Clone)]
struct ScriptedTransport {
    mode: ReceiverMode,
    result: fn(usize) -> DeliveryOutcome,
    /// Duration of a delivery.
    duration: Duration,
    calls: Arc<Mutex<Vec<(Instant, DueMessage, String)>>>,
    count: Arc<AtomicUsize>,
}

impl ScriptedTransport {
    fn new(manner: ReceiverMode, answer: fn(usize) -> DeliveryOutcome) -> Self {
        Self {
            mode: manner,
            result: answer,
            duration: Duration::ZERO,
            calls: Arc::default(),
            count: Arc::default(),
        }
    }

    fn calls(&self) -> Vec<(Instant, DueMessage, String)> {
        self.calls.lock().unwrap().clone()
    }

    fn messages(&self) -> Vec<DueMessage> {
        self.calls().into_iter().map(|(_, message, _)| message).collect()
    }
}

impl NotificationTransport for ScriptedTransport {
    fn kind(&self) -> &'static str {
        "webhook"
    }

    fn mode(&self) -> ReceiverMode {
        self.mode
    }

    async fn send(&self, delivery: &Delivery) -> DeliveryOutcome {
        let now = Instant::now();
        self.calls
            .lock()
            .unwrap()
            .push((now, delivery.message, delivery.notification.thread.clone()));
        sleep(self.duration).await;
        (self.result)(self.count.fetch_add(1, Ordering::Relaxed))
    }
}

fn delivered(_: usize) -> DeliveryOutcome {
    DeliveryOutcome::Delivered(Value::Null)
}

fn failed(_: usize) -> DeliveryOutcome {
    DeliveryOutcome::retry("the receiver responded with status 500")
}

#[tokio::test(start_paused = true)]
async fn a_failed_delivery_is_retried_forever_with_backoff_up_to_five_minutes() {
    let transport = ScriptedTransport::new(ReceiverMode::Messages, failed);
    let harness = NotifierHarness::standalone().with_receiver("r", transport.clone());
    harness.show(open());
    sleep(Duration::from_hours(2)).await;
    let calls = transport.calls();
    let gaps: Vec<f64> = calls
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0).as_secs_f64())
        .collect();
    // The check of the lease, once a second, may come in between.
    for (i, gap) in gaps.iter().take(9).enumerate() {
        let whole = f64::from(1_u32 << i);
        assert!((whole * 0.5..=whole + 1.1).contains(gap), "{i}: {gaps:?}");
    }
    assert!(gaps.iter().all(|gap| *gap <= 301.1), "{gaps:?}");
    assert!(calls.len() > 25, "it is still retried after two hours: {gaps:?}");
    let distinct: std::collections::BTreeSet<u64> = gaps.iter().skip(10).map(|gap| gap.to_bits()).collect();
    assert!(distinct.len() > 3, "the delays have jitter: {gaps:?}");
    let shown = harness.state.status();
    assert_eq!(shown.receivers[0].pending, 1);
    let ReceiverState::Failing { reason, since } = &shown.receivers[0].state else {
        panic!("{shown:?}");
    };
    assert!(
        reason == "the receiver responded with status 500"
            && *since < NOW.plus(parallax_model::Micros::from_secs(5))
    );
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let transport = ScriptedTransport::new(ReceiverMode::Messages, |n| match n {
        0 => DeliveryOutcome::Retry {
            why: "the receiver responded with status 429".to_owned(),
            after: Some(Duration::from_secs(90)),
        },
        _ => delivered(n),
    });
    let harness = NotifierHarness::standalone().with_receiver("r", transport.clone());
    harness.show(open());
    sleep(Duration::from_mins(5)).await;
    let calls = transport.calls();
    assert_eq!(calls.len(), 2, "{calls:?}");
    let gap = (calls[1].0 - calls[0].0).as_secs_f64();
    assert!((90.0..=91.1).contains(&gap), "{gap}");
    assert_eq!(harness.state.status().receivers[0].state, ReceiverState::Healthy);
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rejected_message_is_dropped_and_shown_and_the_next_one_is_sent() {
    let transport = ScriptedTransport::new(ReceiverMode::Messages, |n| match n {
        0 => DeliveryOutcome::Rejected {
            why: "the receiver responded with status 400".to_owned(),
        },
        _ => delivered(n),
    });
    let harness = NotifierHarness::standalone().with_receiver("r", transport.clone());
    harness.show(open());
    sleep(Duration::from_hours(1)).await;
    assert_eq!(transport.messages().len(), 1, "only once");
    let shown = harness.state.status();
    assert_eq!(
        shown.receivers[0].rejected_because.as_deref(),
        Some("the receiver responded with status 400")
    );
    assert_eq!(shown.receivers[0].pending, 0);
    harness.show(closed());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(transport.messages().last(), Some(&DueMessage::Recovered));
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_receiver_does_not_delay_others() {
    let mut slow = ScriptedTransport::new(ReceiverMode::Messages, delivered);
    slow.duration = Duration::from_hours(24);
    let quick = ScriptedTransport::new(ReceiverMode::Messages, delivered);
    let mut harness = NotifierHarness::standalone();
    harness.start(|notifier| {
        notifier.add_receiver("slow", slow.clone());
        notifier.add_receiver("quick", quick.clone());
    });
    let begin = Instant::now();
    harness.show(open());
    sleep(Duration::from_secs(5)).await;
    harness.show(closed());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        quick.messages(),
        [DueMessage::Open { first: true }, DueMessage::Recovered]
    );
    assert!(quick.calls()[0].0 - begin < Duration::from_secs(1));
    assert_eq!(slow.messages().len(), 1);
    // A shutdown waits for it, for a bounded time.
    let stop = Instant::now();
    harness.stop().await;
    assert!(stop.elapsed() < Duration::from_secs(5), "{:?}", stop.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_delivery_under_way_at_shutdown_completes_and_no_other_starts() {
    let mut transport = ScriptedTransport::new(ReceiverMode::Messages, delivered);
    transport.duration = Duration::from_secs(2);
    let harness = NotifierHarness::standalone().with_receiver("r", transport.clone());
    harness.show(open());
    sleep(Duration::from_secs(1)).await;
    let state = harness.state.clone();
    harness.views.send_replace(Arc::new(closed()));
    harness.stop().await;
    assert_eq!(transport.messages(), [DueMessage::Open { first: true }]);
    assert!(
        state.status().receivers[0].last_delivered.is_some(),
        "the shutdown waited for its result"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failing_notification_does_not_delay_others() {
    // Every attempt but the second fails.
    let transport = ScriptedTransport::new(ReceiverMode::Messages, |n| {
        if n == 1 { delivered(n) } else { failed(n) }
    });
    let harness = NotifierHarness::standalone().with_receiver("r", transport.clone());
    let mut two = open();
    let mut second = two.incidents[0].clone();
    second.id = "second".to_owned();
    two.incidents.push(second);
    harness.show(two);
    sleep(Duration::from_secs(10)).await;
    let threads: Vec<String> = transport
        .calls()
        .into_iter()
        .map(|(_, _, thread)| thread)
        .collect();
    assert_ne!(
        threads[0], threads[1],
        "after a failure it is the other notification's turn: {threads:?}"
    );
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silenced_incident_is_notified_when_the_silence_ends() {
    let transport = ScriptedTransport::new(ReceiverMode::Messages, delivered);
    let harness = NotifierHarness::standalone().with_receiver("r", transport.clone());
    let id = open().incidents[0].id.clone();
    harness.actions.silence(&id, "ann", 600, None).await.unwrap();
    harness.show(open());
    sleep(Duration::from_secs(590)).await;
    assert_eq!(transport.messages(), []);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(transport.messages(), [DueMessage::Open { first: true }]);
    harness.actions.acknowledge(&id, "ann", None).await.unwrap();
    harness.show(closed());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(transport.messages().last(), Some(&DueMessage::Recovered));
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_incident_in_a_maintenance_window_is_not_notified() {
    let transport = ScriptedTransport::new(ReceiverMode::Firing(Duration::from_mins(1)), delivered);
    let harness = NotifierHarness::standalone().with_receiver("r", transport.clone());
    let window = serde_json::from_value(serde_json::json!({"duration_s": 300})).unwrap();
    harness.actions.open_window("ann", window).await.unwrap();
    harness.show(open());
    sleep(Duration::from_secs(290)).await;
    harness.show(closed());
    sleep(Duration::from_mins(10)).await;
    assert_eq!(transport.messages(), [], "neither its opening nor its recovery");
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_firing_alert_is_pushed_every_minute_until_it_resolves() {
    let transport = ScriptedTransport::new(ReceiverMode::Firing(Duration::from_mins(1)), delivered);
    let harness = NotifierHarness::standalone().with_receiver("r", transport.clone());
    harness.show(open());
    sleep(Duration::from_secs(310)).await;
    let messages = transport.messages();
    assert_eq!(messages[0], DueMessage::Open { first: true });
    assert_eq!(messages.len(), 6, "{messages:?}");
    harness.show(closed());
    sleep(Duration::from_mins(5)).await;
    assert_eq!(transport.messages().len(), 7);
    assert_eq!(transport.messages().last(), Some(&DueMessage::Recovered));
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_notifies() {
    let by = ReplicaRole::Standby {
        leader: Some(LeaderAddress {
            name: "other".to_owned(),
            page: None,
        }),
    };
    let leads = ReplicaRole::Leader {
        epoch: 7,
        nonce: Arc::from("n"),
    };
    let (part, parts) = watch::channel(by.clone());
    let transport = ScriptedTransport::new(ReceiverMode::Messages, delivered);
    let harness = NotifierHarness::new(OutboxStore::Memory, ReplicaState::for_test(parts))
        .with_receiver("r", transport.clone());
    harness.show(open());
    sleep(Duration::from_mins(2)).await;
    assert_eq!(transport.messages(), []);
    assert_eq!(harness.state.status().receivers[0].pending, 0);
    part.send_replace(leads);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(transport.messages(), [DueMessage::Open { first: true }]);
    part.send_replace(by);
    harness.show(closed());
    sleep(Duration::from_mins(2)).await;
    assert_eq!(transport.messages().len(), 1);
    timeout(Duration::from_secs(10), harness.stop()).await.unwrap();
}
