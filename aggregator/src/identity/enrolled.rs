//! Vantages outside the cluster, from their `ServiceAccounts`: an input of the topology.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, api::ListParams};
use parallax_model::{Namespace, Vantage};
use tokio::{
    sync::{Notify, watch},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::review::{VANTAGE_LABEL, enrolled_vantage};
use parallax_kubernetes::api_client::ApiClient;

/// Interval between lists of the accounts; a revoked vantage loses its plan within it.
const LIST_INTERVAL: Duration = Duration::from_secs(15);
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Polls the `ServiceAccounts` of enrolled vantages.
#[derive(Debug)]
pub(crate) struct EnrolledAccounts {
    pub(crate) client: ApiClient,
    pub(crate) namespace: Namespace,
    /// Notified when a vantage authenticates that may not have been listed yet.
    pub(crate) enrolled_seen: Arc<Notify>,
    pub(crate) vantages: watch::Sender<BTreeSet<Vantage>>,
}

impl EnrolledAccounts {
    /// Lists until cancelled. While listing fails, the known vantages are kept.
    pub(crate) async fn poll(self, cancelled: CancellationToken) {
        let api = Api::<ServiceAccount>::namespaced(self.client.0.clone(), self.namespace.as_str());
        let wanted = ListParams::default().labels(VANTAGE_LABEL);
        let mut tick = interval(LIST_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                _ = tick.tick() => {}
                () = self.enrolled_seen.notified() => {}
            }
            let listed = tokio::select! {
                () = cancelled.cancelled() => return,
                listed = timeout(LIST_TIMEOUT, api.list(&wanted)) => listed,
            };
            let reason = match listed {
                Ok(Ok(accounts)) => {
                    let now: BTreeSet<_> = accounts.items.iter().filter_map(enrolled_vantage).collect();
                    self.vantages.send_if_modified(|known| {
                        let changed = *known != now;
                        *known = now;
                        changed
                    });
                    failing = false;
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "request timed out".to_owned(),
            };
            if !std::mem::replace(&mut failing, true) {
                tracing::warn!(%reason, namespace = %self.namespace, "cannot list the ServiceAccounts of enrolled vantages; keeping the known vantages");
            }
        }
    }
}
