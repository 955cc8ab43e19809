//! Attempts to tell receivers, counted.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

/// What became of an attempt, as the metric has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryResult {
    /// Heard.
    Delivered,
    /// To be tried again.
    Failed,
    /// Will never be heard.
    Refused,
    /// Given up as there was no room for more.
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

/// What was sent so far. Clones share the counts.
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

    /// Zero from the start: a rate needs something to rise from.
    pub(crate) fn known(&self, receiver: &str) {
        for result in DeliveryResult::ALL {
            drop(self.series(receiver, result));
        }
    }
}
