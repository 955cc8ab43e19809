//! One delivery worker per receiver: sends one due message at a time, with backoff. A slow receiver does not delay
//! others.

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

/// Time between two checks whether this replica leads: a lease can expire without a notification.
const LOOK: Duration = Duration::from_secs(1);
/// How long a delivery under way may take after cancellation.
const DRAIN: Duration = Duration::from_secs(3);

/// A transport to a receiver.
pub(super) trait NotificationTransport {
    /// Its name in log and API.
    fn way(&self) -> &'static str;
    /// When messages to the receiver are due.
    fn manner(&self) -> ReceiverMode;
    /// Sends a message.
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

/// Delivers to one receiver until cancelled; a delivery under way then may end within a bounded time.
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
        // Checked before each delivery, so that only the leader sends.
        let next = if desk.replica.leads() {
            desk.next(&name, &mut pace)
        } else {
            NextDelivery::Nothing
        };
        let until = match next {
            NextDelivery::Go(errand) => {
                let Some(outcome) = within(carrier.carry(&errand), &cancelled).await else {
                    // Whether it was delivered is unknown; the next process sends it again.
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
            // Cannot fail: the sender lives as long as this task.
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

/// Returns the result of `call`, or `None` if it does not end soon after cancellation.
async fn within<T>(call: impl Future<Output = T>, cancelled: &CancellationToken) -> Option<T> {
    tokio::pin!(call);
    tokio::select! {
        answer = &mut call => Some(answer),
        () = cancelled.cancelled() => timeout(DRAIN, call).await.ok(),
    }
}

/// A random number from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "32 bits fit")]
fn chance() -> f64 {
    (parallax_runtime::random() >> 32) as f64 / f64::from(u32::MAX)
}

/// Waits for a time span, or until cancelled.
pub(super) async fn moment(span: Duration, cancelled: &CancellationToken) {
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = sleep(span) => {}
    }
}
