//! One courier a receiver: takes what is owed, one errand at a time, and learns patience. A slow receiver delays nobody else.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    alertmanager::AlertmanagerClient,
    delivery_pace::DeliveryPace,
    events::{AGAIN, EventWriter},
    http::DeliveryOutcome,
    notification::ReceiverMode,
    outbox::Delivery,
    state::{NextDelivery, NotificationState},
    webhook::WebhookClient,
};

/// Time between two looks at whether we lead: a term may end without anybody saying so.
const LOOK: Duration = Duration::from_secs(1);
/// How long an errand that is under way may go on once everything ends.
const DRAIN: Duration = Duration::from_secs(3);

/// A way to a receiver.
pub(super) trait NotificationTransport {
    /// What it is called in log and API.
    fn way(&self) -> &'static str;
    /// How the receiver wants to hear.
    fn manner(&self) -> ReceiverMode;
    /// Says it.
    fn carry(&self, errand: &Delivery) -> impl Future<Output = DeliveryOutcome> + Send;
}

impl NotificationTransport for WebhookClient {
    fn way(&self) -> &'static str {
        "webhook"
    }

    fn manner(&self) -> ReceiverMode {
        ReceiverMode::Messages
    }

    async fn carry(&self, errand: &Delivery) -> DeliveryOutcome {
        Self::carry(self, errand).await
    }
}

impl NotificationTransport for AlertmanagerClient {
    fn way(&self) -> &'static str {
        "alertmanager"
    }

    fn manner(&self) -> ReceiverMode {
        ReceiverMode::Firing(self.resend())
    }

    async fn carry(&self, errand: &Delivery) -> DeliveryOutcome {
        Self::carry(self, errand).await
    }
}

impl NotificationTransport for EventWriter {
    fn way(&self) -> &'static str {
        "events"
    }

    fn manner(&self) -> ReceiverMode {
        ReceiverMode::Reminded(AGAIN)
    }

    async fn carry(&self, errand: &Delivery) -> DeliveryOutcome {
        Self::carry(self, errand).await
    }
}

/// Works for one receiver until cancelled; what is under way then may end, for a bounded time.
pub(super) async fn work(
    desk: Arc<NotificationState>,
    name: String,
    carrier: impl NotificationTransport,
    cancelled: CancellationToken,
) {
    let mut pace = DeliveryPace::default();
    let mut bell = desk.bell();
    while !cancelled.is_cancelled() {
        bell.borrow_and_update();
        // Asked before each errand: of two aggregators one sends.
        let next = if desk.replica.leads() {
            desk.next(&name, &mut pace)
        } else {
            NextDelivery::Nothing
        };
        let until = match next {
            NextDelivery::Go(errand) => {
                let Some(outcome) = within(carrier.carry(&errand), &cancelled).await else {
                    // Nobody knows whether it was heard: it is said again by whoever comes next.
                    return;
                };
                take(&desk, &name, &mut pace, &errand, outcome);
                continue;
            }
            NextDelivery::At(at) => at.min(Instant::now() + LOOK),
            NextDelivery::Nothing => Instant::now() + LOOK,
        };
        tokio::select! {
            () = cancelled.cancelled() => {}
            // The desk lives as long as we do.
            _ = bell.changed() => {}
            () = sleep_until(until) => {}
        }
    }
}

fn take(
    desk: &NotificationState,
    name: &str,
    pace: &mut DeliveryPace,
    errand: &Delivery,
    outcome: DeliveryOutcome,
) {
    let thread = &errand.letter.thread;
    match outcome {
        DeliveryOutcome::Delivered(mark) => {
            pace.done(thread);
            desk.delivered(name, errand, mark);
        }
        DeliveryOutcome::Refused { why } => {
            pace.done(thread);
            desk.refused(name, errand, why);
        }
        DeliveryOutcome::Later { why, after } => {
            pace.failed(thread, Instant::now(), after, chance());
            desk.failed(name, errand, why);
        }
    }
}

/// The answer; nothing where everything ends and it does not come soon.
async fn within<T>(call: impl Future<Output = T>, cancelled: &CancellationToken) -> Option<T> {
    tokio::pin!(call);
    tokio::select! {
        answer = &mut call => Some(answer),
        () = cancelled.cancelled() => timeout(DRAIN, call).await.ok(),
    }
}

/// 0 to 1, as chance has it.
#[expect(clippy::cast_precision_loss, reason = "32 bits fit")]
fn chance() -> f64 {
    (parallax_runtime::random() >> 32) as f64 / f64::from(u32::MAX)
}

/// Waits for a moment, or until cancelled.
pub(super) async fn moment(span: Duration, cancelled: &CancellationToken) {
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = sleep(span) => {}
    }
}
