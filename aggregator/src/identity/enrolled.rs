//! Vantages outside the cluster, from their `ServiceAccounts`: an input of the topology.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, pin,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ServiceAccount;
use parallax_kubernetes::{
    api_client::ApiClient,
    watch::{WatchTiming, WatchUpdate, WatchedResource, watch_updates},
};
use parallax_model::{Namespace, Vantage};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::review::{VANTAGE_LABEL, enrolled_vantage};

/// Watches the `ServiceAccounts` of enrolled vantages.
#[derive(Debug)]
pub(crate) struct EnrolledAccounts {
    pub(crate) client: ApiClient,
    pub(crate) namespace: Namespace,
    pub(crate) vantages: watch::Sender<BTreeSet<Vantage>>,
}

impl EnrolledAccounts {
    /// Watches until cancelled. While the API server is unavailable, the known vantages are kept.
    pub(crate) async fn watch(self, cancelled: CancellationToken) {
        let accounts = LabelledAccounts {
            namespace: self.namespace,
        };
        let updates = watch_updates(
            self.client.0.clone(),
            accounts,
            Some(VANTAGE_LABEL.to_owned()),
            WatchTiming::default(),
        );
        let mut updates = pin::pin!(updates);
        let mut known = BTreeMap::new();
        loop {
            let update = tokio::select! {
                () = cancelled.cancelled() => return,
                update = updates.next() => update,
            };
            match update {
                Some(WatchUpdate::Listed(accounts, _)) => {
                    known = accounts.into_iter().map(|one| (one.name, one.vantage)).collect();
                }
                Some(WatchUpdate::Applied(account)) => {
                    known.insert(account.name, account.vantage);
                }
                Some(WatchUpdate::Deleted(key)) => {
                    known.remove(&key.name);
                }
                Some(
                    WatchUpdate::Unreadable
                    | WatchUpdate::Live
                    | WatchUpdate::Absent
                    | WatchUpdate::Failed(_),
                ) => continue,
                None => return,
            }
            let now: BTreeSet<Vantage> = known.values().flatten().cloned().collect();
            self.vantages.send_if_modified(|vantages| {
                let changed = *vantages != now;
                *vantages = now;
                changed
            });
        }
    }
}

/// The `ServiceAccounts` of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LabelledAccounts {
    namespace: Namespace,
}

/// A `ServiceAccount` with the label of an enrolled vantage.
#[derive(Debug)]
struct LabelledAccount {
    name: String,
    /// The vantage; absent if the labels do not name one.
    vantage: Option<Vantage>,
}

impl fmt::Display for LabelledAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "serviceaccounts in {}", self.namespace)
    }
}

impl WatchedResource for LabelledAccounts {
    type Object = LabelledAccount;

    fn plural(&self) -> &'static str {
        "serviceaccounts"
    }

    fn group(&self) -> &'static str {
        ""
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace)
    }

    fn is_optional(&self) -> bool {
        false
    }

    fn read(&self, value: Value) -> Result<LabelledAccount, String> {
        let account: ServiceAccount = serde_json::from_value(value).map_err(|error| error.to_string())?;
        Ok(LabelledAccount {
            vantage: enrolled_vantage(&account),
            name: account.metadata.name.unwrap_or_default(),
        })
    }
}
