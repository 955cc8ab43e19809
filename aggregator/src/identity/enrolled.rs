//! Vantages outside the cluster, as their accounts say: an input of the topology.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, api::ListParams};
use parallax_model::{Namespace, Vantage};
use tokio::{
    sync::{Notify, watch},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::review::{VANTAGE_LABEL, enrolled};
use parallax_kubernetes::api_client::ApiClient;

/// How often the accounts are listed: a revoked vantage has no plan any more after this.
const EVERY: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(10);

/// Follows the accounts of enrolled vantages.
#[derive(Debug)]
pub(crate) struct EnrolledAccounts {
    pub(crate) client: ApiClient,
    pub(crate) namespace: Namespace,
    /// Rings when one shows itself that may not be known yet.
    pub(crate) newcomer: Arc<Notify>,
    pub(crate) vantages: watch::Sender<BTreeSet<Vantage>>,
}

impl EnrolledAccounts {
    /// Lists until cancelled. While that fails, those known stay.
    pub(crate) async fn follow(self, cancelled: CancellationToken) {
        let api = Api::<ServiceAccount>::namespaced(self.client.0.clone(), self.namespace.as_str());
        let wanted = ListParams::default().labels(VANTAGE_LABEL);
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                _ = tick.tick() => {}
                () = self.newcomer.notified() => {}
            }
            let listed = tokio::select! {
                () = cancelled.cancelled() => return,
                listed = timeout(PATIENCE, api.list(&wanted)) => listed,
            };
            let reason = match listed {
                Ok(Ok(accounts)) => {
                    let now: BTreeSet<_> = accounts.items.iter().filter_map(enrolled).collect();
                    self.vantages.send_if_modified(|known| {
                        let changed = *known != now;
                        *known = now;
                        changed
                    });
                    failing = false;
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            if !std::mem::replace(&mut failing, true) {
                tracing::warn!(%reason, namespace = %self.namespace, "cannot list the accounts of enrolled vantages; keeping those known");
            }
        }
    }
}
