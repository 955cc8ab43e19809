//! The prober Pods by uid, kept current by a watch on each account's Pods: a list and a stream of changes of a few hundred
//! bytes a Pod, in the aggregator alone.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use parallax_model::{Network, NodeName, PodName};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use super::pods::{Lookup, Pods, ProberPod};
use crate::{api_client::ApiClient, config::ObjectKey};

/// What is known of each account's Pods; nothing before its first list.
#[derive(Debug, Default)]
pub(crate) struct WatchedPods(RwLock<BTreeMap<ObjectKey, Option<ByUid>>>);

type ByUid = BTreeMap<String, ProberPod>;

impl WatchedPods {
    /// For these accounts.
    pub(crate) fn of(accounts: impl IntoIterator<Item = ObjectKey>) -> Self {
        Self(RwLock::new(
            accounts.into_iter().map(|account| (account, None)).collect(),
        ))
    }

    fn accounts(&self) -> Vec<ObjectKey> {
        self.0.read().keys().cloned().collect()
    }

    fn change(&self, account: &ObjectKey, change: impl FnOnce(&mut Option<ByUid>)) {
        if let Some(pods) = self.0.write().get_mut(account) {
            change(pods);
        }
    }
}

impl Pods for WatchedPods {
    fn find(&self, uid: &str) -> Lookup {
        let accounts = self.0.read();
        let known = accounts.values().flatten().find_map(|pods| pods.get(uid));
        match known {
            Some(pod) => Lookup::Known(pod.clone()),
            None if accounts.values().any(Option::is_none) => Lookup::NotYet,
            None => Lookup::Unknown,
        }
    }
}

/// Follows the Pods of all accounts until cancelled. While the API server is away, those known stay.
pub(crate) async fn follow(client: ApiClient, pods: Arc<WatchedPods>, cancelled: CancellationToken) {
    let followed = pods
        .accounts()
        .into_iter()
        .map(|account| follow_one(&client, &pods, account));
    tokio::select! {
        () = cancelled.cancelled() => {}
        _ = futures_util::future::join_all(followed) => {}
    }
}

async fn follow_one(client: &ApiClient, pods: &WatchedPods, account: ObjectKey) {
    let api = Api::<Pod>::namespaced(client.0.clone(), account.namespace.as_str());
    let wanted = watcher::Config::default().fields(&format!("spec.serviceAccountName={}", account.name));
    // An error is an item among others, and the stream goes on behind it, with its own patience (R30).
    let mut events = watcher(api, wanted).default_backoff().into_stream().boxed();
    let mut listing = ByUid::new();
    let mut failing = false;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, %account, "cannot watch the Pods of an account; those known stay");
                }
                continue;
            }
        };
        failing = false;
        match event {
            Event::Init => listing.clear(),
            Event::InitApply(pod) => {
                listing.extend(running(&pod));
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut listing);
                pods.change(&account, |known| *known = Some(listed));
            }
            Event::Apply(pod) => pods.change(&account, |known| {
                let known = known.get_or_insert_default();
                match (running(&pod), pod.metadata.uid) {
                    (Some((uid, pod)), _) => drop(known.insert(uid, pod)),
                    (None, Some(uid)) => drop(known.remove(&uid)),
                    (None, None) => {}
                }
            }),
            Event::Delete(pod) => pods.change(&account, |known| {
                if let (Some(known), Some(uid)) = (known, pod.metadata.uid) {
                    known.remove(&uid);
                }
            }),
        }
    }
}

/// A Pod that is on a node and has not ended.
fn running(pod: &Pod) -> Option<(String, ProberPod)> {
    let spec = pod.spec.as_ref()?;
    let ended = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .is_some_and(|phase| phase == "Succeeded" || phase == "Failed");
    if ended {
        return None;
    }
    let network = if spec.host_network == Some(true) {
        Network::Host
    } else {
        Network::Pod
    };
    let known = ProberPod {
        name: PodName::new(pod.metadata.name.as_deref()?).ok()?,
        node: NodeName::new(spec.node_name.as_deref()?).ok()?,
        network,
    };
    Some((pod.metadata.uid.clone()?, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, node: Option<&str>, host: bool, phase: &str) -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": format!("prober-{uid}"), "uid": uid},
            "spec": {"containers": [], "nodeName": node, "hostNetwork": host},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_counts_from_its_node_to_its_end_in_the_network_it_is_in() {
        let (uid, known) = running(&pod("a", Some("n1"), false, "Running")).unwrap();
        assert_eq!(
            (uid.as_str(), known.node.as_str(), known.network),
            ("a", "n1", Network::Pod)
        );
        let (_, known) = running(&pod("a", Some("n1"), true, "Pending")).unwrap();
        assert_eq!(known.network, Network::Host);
        assert_eq!(running(&pod("a", None, false, "Pending")), None);
        assert_eq!(running(&pod("a", Some("n1"), false, "Failed")), None);
    }

    #[test]
    fn an_unknown_uid_is_nobody_only_once_every_account_was_listed() {
        let account = |text: &str| text.parse::<ObjectKey>().unwrap();
        let pods = WatchedPods::of([account("a/prober"), account("b/prober")]);
        pods.change(&account("a/prober"), |known| {
            *known = Some(
                running(&pod("a", Some("n1"), false, "Running"))
                    .into_iter()
                    .collect(),
            );
        });
        assert!(matches!(pods.find("a"), Lookup::Known(_)));
        assert_eq!(pods.find("z"), Lookup::NotYet);
        pods.change(&account("b/prober"), |known| *known = Some(ByUid::new()));
        assert_eq!(pods.find("z"), Lookup::Unknown);
    }
}
