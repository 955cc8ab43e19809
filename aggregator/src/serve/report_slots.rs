//! Limits how many reports are read at the same time, in total and for each sender, so that a sender of slow or large reports
//! delays only its own.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use parallax_model::Vantage;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of reports read at the same time; bounds memory to this times the maximum size of a report.
const MAX_REPORTS: usize = 32;

/// Maximum number of reports of one prober. A prober sends one at a time, and another after a restart.
const MAX_OF_PROBER: usize = 2;

/// Maximum number of reports from one address, if probers have no identity of their own: several may share an address.
const MAX_OF_ADDRESS: usize = MAX_REPORTS / 2;

/// Senders remembered without a report in progress.
const MAX_IDLE_SENDERS: usize = 1024;

/// Who sends a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReportSender {
    /// A prober with a token of its own.
    Prober(Vantage),
    /// A client without one.
    Address(IpAddr),
}

/// The slots for reports.
#[derive(Debug, Clone)]
pub(crate) struct ReportSlots {
    all: Arc<Semaphore>,
    senders: Arc<Mutex<BTreeMap<ReportSender, Arc<Semaphore>>>>,
}

/// A slot, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct ReportSlot {
    _of_sender: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl ReportSlots {
    pub(crate) fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_REPORTS)),
            senders: Arc::default(),
        }
    }

    /// Waits for a slot of the sender, then for one of all.
    pub(crate) async fn acquire(&self, sender: &ReportSender) -> Option<ReportSlot> {
        let of_sender = self.of_sender(sender).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(ReportSlot {
            _of_sender: of_sender,
            _of_all: of_all,
        })
    }

    fn of_sender(&self, sender: &ReportSender) -> Arc<Semaphore> {
        let mut senders = self.senders.lock();
        if senders.len() > MAX_IDLE_SENDERS {
            // A semaphore that nobody else holds has no report in progress.
            senders.retain(|_, slots| Arc::strong_count(slots) > 1);
        }
        let slots = senders.entry(sender.clone()).or_insert_with(|| {
            Arc::new(Semaphore::new(match sender {
                ReportSender::Prober(_) => MAX_OF_PROBER,
                ReportSender::Address(_) => MAX_OF_ADDRESS,
            }))
        });
        Arc::clone(slots)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;

    use super::*;

    fn prober(name: &str) -> ReportSender {
        ReportSender::Prober(name.parse().unwrap())
    }

    #[tokio::test]
    async fn a_prober_with_two_reports_in_progress_waits_and_the_others_do_not() {
        let slots = ReportSlots::new();
        let slow = (
            slots.acquire(&prober("n1/pod")).await.unwrap(),
            slots.acquire(&prober("n1/pod")).await.unwrap(),
        );
        assert!(slots.acquire(&prober("n1/pod")).now_or_never().is_none());
        for n in 2..17 {
            assert!(
                slots
                    .acquire(&prober(&format!("n{n}/pod")))
                    .now_or_never()
                    .is_some()
            );
        }
        drop(slow);
        assert!(slots.acquire(&prober("n1/pod")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn senders_without_a_report_in_progress_are_forgotten() {
        let slots = ReportSlots::new();
        for n in 0..3000_u32 {
            let address = ReportSender::Address(Ipv4Addr::from_bits(n).into());
            drop(slots.acquire(&address).await);
        }
        assert!(slots.senders.lock().len() <= MAX_IDLE_SENDERS + 1);
    }
}
