//! One delivery worker per receiver: sends one due message at a time, with backoff. A slow receiver does not delay
//! others.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    alertmanager::AlertmanagerClient,
    events::{EventWriter, SERIES_RENEWAL_INTERVAL},
    http::DeliveryOutcome,
    notification::ReceiverMode,
    outbox::Delivery,
    retry_schedule::RetrySchedule,
    state::{NextDelivery, NotificationState},
    webhook::WebhookClient,
};

/// Time between two checks whether this replica leads: a lease can expire without a notification.
const LEADERSHIP_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a delivery under way may take after cancellation.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// A transport to a receiver.
pub(super) trait NotificationTransport {
    /// Its name in log and API.
    fn kind(&self) -> &'static str;
    /// When messages to the receiver are due.
    fn mode(&self) -> ReceiverMode;
    /// Sends a message.
    fn send(&self, delivery: &Delivery) -> impl Future<Output = DeliveryOutcome> + Send;
}

impl NotificationTransport for WebhookClient {
    fn kind(&self) -> &'static str {
        "webhook"
    }

    fn mode(&self) -> ReceiverMode {
        ReceiverMode::Messages
    }

    async fn send(&self, delivery: &Delivery) -> DeliveryOutcome {
        Self::send_delivery(self, delivery).await
    }
}

impl NotificationTransport for AlertmanagerClient {
    fn kind(&self) -> &'static str {
        "alertmanager"
    }

    fn mode(&self) -> ReceiverMode {
        ReceiverMode::Firing(self.resend())
    }

    async fn send(&self, delivery: &Delivery) -> DeliveryOutcome {
        Self::send(self, delivery).await
    }
}

impl NotificationTransport for EventWriter {
    fn kind(&self) -> &'static str {
        "events"
    }

    fn mode(&self) -> ReceiverMode {
        ReceiverMode::Reminders(SERIES_RENEWAL_INTERVAL)
    }

    async fn send(&self, delivery: &Delivery) -> DeliveryOutcome {
        Self::send(self, delivery).await
    }
}

/// Delivers to one receiver until cancelled; a delivery under way then may end within a bounded time.
pub(super) async fn run(
    state: Arc<NotificationState>,
    name: String,
    transport: impl NotificationTransport,
    cancelled: CancellationToken,
) {
    let mut pace = RetrySchedule::default();
    let mut bell = state.subscribe_outbox();
    while !cancelled.is_cancelled() {
        bell.borrow_and_update();
        // Checked before each delivery, so that only the leader sends.
        let next = if state.replica.is_leader() {
            state.next_delivery(&name, &mut pace)
        } else {
            NextDelivery::Idle
        };
        let until = match next {
            NextDelivery::Send(delivery) => {
                let Some(outcome) =
                    finish_within_shutdown_timeout(transport.send(&delivery), &cancelled).await
                else {
                    // Whether it was delivered is unknown; the next process sends it again.
                    return;
                };
                apply_outcome(&state, &name, &mut pace, &delivery, outcome);
                continue;
            }
            NextDelivery::WaitUntil(at) => at.min(Instant::now() + LEADERSHIP_POLL_INTERVAL),
            NextDelivery::Idle => Instant::now() + LEADERSHIP_POLL_INTERVAL,
        };
        tokio::select! {
            () = cancelled.cancelled() => {}
            // Cannot fail: the sender lives as long as this task.
            _ = bell.changed() => {}
            () = sleep_until(until) => {}
        }
    }
}

fn apply_outcome(
    state: &NotificationState,
    name: &str,
    schedule: &mut RetrySchedule,
    delivery: &Delivery,
    outcome: DeliveryOutcome,
) {
    let thread = &delivery.notification.thread;
    match outcome {
        DeliveryOutcome::Delivered(mark) => {
            schedule.record_completion(thread);
            state.record_delivery(name, delivery, mark);
        }
        DeliveryOutcome::Rejected { why } => {
            schedule.record_completion(thread);
            state.record_rejection(name, delivery, why);
        }
        DeliveryOutcome::Retry { why, after } => {
            schedule.record_failure(thread, Instant::now(), after, random_fraction());
            state.record_failure(name, delivery, why);
        }
    }
}

/// Returns the result of `call`, or `None` if it does not end soon after cancellation.
async fn finish_within_shutdown_timeout<T>(
    call: impl Future<Output = T>,
    cancelled: &CancellationToken,
) -> Option<T> {
    tokio::pin!(call);
    tokio::select! {
        answer = &mut call => Some(answer),
        () = cancelled.cancelled() => timeout(SHUTDOWN_TIMEOUT, call).await.ok(),
    }
}

/// A random number from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "32 bits fit")]
fn random_fraction() -> f64 {
    (parallax_runtime::random() >> 32) as f64 / f64::from(u32::MAX)
}

/// Waits for a time span, or until cancelled.
pub(super) async fn sleep_or_cancelled(span: Duration, cancelled: &CancellationToken) {
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = sleep(span) => {}
    }
}
