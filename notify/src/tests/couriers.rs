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
struct Scripted {
    manner: ReceiverMode,
    answer: fn(usize) -> DeliveryOutcome,
    /// Duration of a delivery.
    takes: Duration,
    asked: Arc<Mutex<Vec<(Instant, DueMessage, String)>>>,
    count: Arc<AtomicUsize>,
}

impl Scripted {
    fn new(manner: ReceiverMode, answer: fn(usize) -> DeliveryOutcome) -> Self {
        Self {
            manner,
            answer,
            takes: Duration::ZERO,
            asked: Arc::default(),
            count: Arc::default(),
        }
    }

    fn asked(&self) -> Vec<(Instant, DueMessage, String)> {
        self.asked.lock().unwrap().clone()
    }

    fn told(&self) -> Vec<DueMessage> {
        self.asked().into_iter().map(|(_, what, _)| what).collect()
    }
}

impl NotificationTransport for Scripted {
    fn way(&self) -> &'static str {
        "webhook"
    }

    fn manner(&self) -> ReceiverMode {
        self.manner
    }

    async fn carry(&self, errand: &Delivery) -> DeliveryOutcome {
        let now = Instant::now();
        self.asked
            .lock()
            .unwrap()
            .push((now, errand.what, errand.letter.thread.clone()));
        sleep(self.takes).await;
        (self.answer)(self.count.fetch_add(1, Ordering::Relaxed))
    }
}

fn delivered(_: usize) -> DeliveryOutcome {
    DeliveryOutcome::Delivered(Value::Null)
}

fn fails(_: usize) -> DeliveryOutcome {
    DeliveryOutcome::later("the receiver responded with status 500")
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_later_each_time_up_to_five_minutes_and_never_given_up() {
    let courier = Scripted::new(ReceiverMode::Messages, fails);
    let office = Office::alone().with("r", courier.clone());
    office.sees(open());
    sleep(Duration::from_hours(2)).await;
    let asked = courier.asked();
    let gaps: Vec<f64> = asked
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0).as_secs_f64())
        .collect();
    // The check of the lease, once a second, may come in between.
    for (i, gap) in gaps.iter().take(9).enumerate() {
        let whole = f64::from(1_u32 << i);
        assert!((whole * 0.5..=whole + 1.1).contains(gap), "{i}: {gaps:?}");
    }
    assert!(gaps.iter().all(|gap| *gap <= 301.1), "{gaps:?}");
    assert!(asked.len() > 25, "it is still retried after two hours: {gaps:?}");
    let distinct: std::collections::BTreeSet<u64> = gaps.iter().skip(10).map(|gap| gap.to_bits()).collect();
    assert!(distinct.len() > 3, "the delays have jitter: {gaps:?}");
    let shown = office.desk.shown();
    assert_eq!(shown.receivers[0].pending, 1);
    let ReceiverState::Failing { reason, since } = &shown.receivers[0].standing else {
        panic!("{shown:?}");
    };
    assert!(
        reason == "the receiver responded with status 500"
            && *since < NOW.plus(parallax_model::Micros::from_secs(5))
    );
    office.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_asks_for_time_gets_it() {
    let courier = Scripted::new(ReceiverMode::Messages, |n| match n {
        0 => DeliveryOutcome::Later {
            why: "the receiver responded with status 429".to_owned(),
            after: Some(Duration::from_secs(90)),
        },
        _ => delivered(n),
    });
    let office = Office::alone().with("r", courier.clone());
    office.sees(open());
    sleep(Duration::from_mins(5)).await;
    let asked = courier.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let gap = (asked[1].0 - asked[0].0).as_secs_f64();
    assert!((90.0..=91.1).contains(&gap), "{gap}");
    assert_eq!(office.desk.shown().receivers[0].standing, ReceiverState::Well);
    office.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_not_tried_again_and_is_shown_and_what_comes_next_is_told() {
    let courier = Scripted::new(ReceiverMode::Messages, |n| match n {
        0 => DeliveryOutcome::Refused {
            why: "the receiver responded with status 400".to_owned(),
        },
        _ => delivered(n),
    });
    let office = Office::alone().with("r", courier.clone());
    office.sees(open());
    sleep(Duration::from_hours(1)).await;
    assert_eq!(courier.told().len(), 1, "only once");
    let shown = office.desk.shown();
    assert_eq!(
        shown.receivers[0].refused_because.as_deref(),
        Some("the receiver responded with status 400")
    );
    assert_eq!(shown.receivers[0].pending, 0);
    office.sees(over());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(courier.told().last(), Some(&DueMessage::Over));
    office.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_never_answers_holds_up_no_other_one() {
    let mut slow = Scripted::new(ReceiverMode::Messages, delivered);
    slow.takes = Duration::from_hours(24);
    let quick = Scripted::new(ReceiverMode::Messages, delivered);
    let mut office = Office::alone();
    office.begin(|staff| {
        staff.engage("slow", slow.clone());
        staff.engage("quick", quick.clone());
    });
    let begin = Instant::now();
    office.sees(open());
    sleep(Duration::from_secs(5)).await;
    office.sees(over());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(quick.told(), [DueMessage::Open { first: true }, DueMessage::Over]);
    assert!(quick.asked()[0].0 - begin < Duration::from_secs(1));
    assert_eq!(slow.told().len(), 1);
    // A shutdown waits for it, for a bounded time.
    let stop = Instant::now();
    office.end().await;
    assert!(stop.elapsed() < Duration::from_secs(5), "{:?}", stop.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_at_a_stop_may_end_and_nothing_begins_any_more() {
    let mut courier = Scripted::new(ReceiverMode::Messages, delivered);
    courier.takes = Duration::from_secs(2);
    let office = Office::alone().with("r", courier.clone());
    office.sees(open());
    sleep(Duration::from_secs(1)).await;
    let desk = office.desk.clone();
    office.views.send_replace(Arc::new(over()));
    office.end().await;
    assert_eq!(courier.told(), [DueMessage::Open { first: true }]);
    assert!(
        desk.shown().receivers[0].delivered.is_some(),
        "the shutdown waited for its result"
    );
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_a_receiver_cannot_bear_does_not_hold_up_the_others() {
    // Every attempt but the second fails.
    let courier = Scripted::new(ReceiverMode::Messages, |n| {
        if n == 1 { delivered(n) } else { fails(n) }
    });
    let office = Office::alone().with("r", courier.clone());
    let mut two = open();
    let mut second = two.incidents[0].clone();
    second.id = "second".to_owned();
    two.incidents.push(second);
    office.sees(two);
    sleep(Duration::from_secs(10)).await;
    let threads: Vec<String> = courier.asked().into_iter().map(|(_, _, thread)| thread).collect();
    assert_ne!(
        threads[0], threads[1],
        "after a failure it is the other notification's turn: {threads:?}"
    );
    office.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_somebody_silences_is_not_told_until_the_silence_is_over() {
    let courier = Scripted::new(ReceiverMode::Messages, delivered);
    let office = Office::alone().with("r", courier.clone());
    let id = open().incidents[0].id.clone();
    office.handling.silence(&id, "ann", 600, None).await.unwrap();
    office.sees(open());
    sleep(Duration::from_secs(590)).await;
    assert_eq!(courier.told(), []);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(courier.told(), [DueMessage::Open { first: true }]);
    office.handling.acknowledge(&id, "ann", None).await.unwrap();
    office.sees(over());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(courier.told().last(), Some(&DueMessage::Over));
    office.end().await;
}

#[tokio::test(start_paused = true)]
async fn maintenance_that_was_announced_calls_nobody_from_its_beginning_to_its_end() {
    let courier = Scripted::new(ReceiverMode::Firing(Duration::from_mins(1)), delivered);
    let office = Office::alone().with("r", courier.clone());
    let window = serde_json::from_value(serde_json::json!({"for_s": 300})).unwrap();
    office.handling.open("ann", window).await.unwrap();
    office.sees(open());
    sleep(Duration::from_secs(290)).await;
    office.sees(over());
    sleep(Duration::from_mins(10)).await;
    assert_eq!(courier.told(), [], "neither its opening nor its recovery");
    office.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_fires_is_pushed_again_each_minute_until_it_is_over() {
    let courier = Scripted::new(ReceiverMode::Firing(Duration::from_mins(1)), delivered);
    let office = Office::alone().with("r", courier.clone());
    office.sees(open());
    sleep(Duration::from_secs(310)).await;
    let told = courier.told();
    assert_eq!(told[0], DueMessage::Open { first: true });
    assert_eq!(told.len(), 6, "{told:?}");
    office.sees(over());
    sleep(Duration::from_mins(5)).await;
    assert_eq!(courier.told().len(), 7);
    assert_eq!(courier.told().last(), Some(&DueMessage::Over));
    office.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_by_tells_nobody_and_one_that_stops_leading_stops_telling() {
    let by = ReplicaRole::StandsBy {
        leader: Some(LeaderAddress {
            name: "other".to_owned(),
            page: None,
        }),
    };
    let leads = ReplicaRole::Leads {
        epoch: 7,
        nonce: Arc::from("n"),
    };
    let (part, parts) = watch::channel(by.clone());
    let courier = Scripted::new(ReceiverMode::Messages, delivered);
    let office = Office::of(OutboxStore::Nowhere, ReplicaState::following(parts)).with("r", courier.clone());
    office.sees(open());
    sleep(Duration::from_mins(2)).await;
    assert_eq!(courier.told(), []);
    assert_eq!(office.desk.shown().receivers[0].pending, 0);
    part.send_replace(leads);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(courier.told(), [DueMessage::Open { first: true }]);
    part.send_replace(by);
    office.sees(over());
    sleep(Duration::from_mins(2)).await;
    assert_eq!(courier.told().len(), 1);
    timeout(Duration::from_secs(10), office.end()).await.unwrap();
}
