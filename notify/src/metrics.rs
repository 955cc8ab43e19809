//! Delivery attempts, counted.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

/// The result of an attempt, as a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryResult {
    /// Delivered.
    Delivered,
    /// Failed; it is retried.
    Failed,
    /// Permanently rejected.
    Refused,
    /// Dropped because the outbox was full.
    Dropped,
}

impl DeliveryResult {
    pub(crate) const ALL: [Self; 4] = [Self::Delivered, Self::Failed, Self::Refused, Self::Dropped];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Dropped => "dropped",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReceiverResult {
    receiver: String,
    result: &'static str,
}

/// Counters of deliveries. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct NotifyMetrics {
    /// Deliveries by receiver and result.
    pub notifications: Family<ReceiverResult, Counter>,
}

impl NotifyMetrics {
    pub(crate) fn count(&self, receiver: &str, result: DeliveryResult) {
        self.series(receiver, result).inc();
    }

    fn series(
        &self,
        receiver: &str,
        result: DeliveryResult,
    ) -> impl std::ops::Deref<Target = Counter> + use<'_> {
        self.notifications.get_or_create(&ReceiverResult {
            receiver: receiver.to_owned(),
            result: result.label(),
        })
    }

    /// Creates the counters of a receiver with value zero, so that `rate()` sees the first increment.
    pub(crate) fn initialize(&self, receiver: &str) {
        for result in DeliveryResult::ALL {
            drop(self.series(receiver, result));
        }
    }
}
