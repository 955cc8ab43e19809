//! The current aggregators: the configured URLs, or every address of their names. Reports go to each of them.
//!
//! By default a name is one aggregator, because the name of a balancer may have several addresses. With
//! [`crate::Agent::resolve_every_address`], each address is an aggregator: it is reached by its address, with a certificate
//! for the name. A name with a single address is resolved again at each connection. While a name cannot be resolved,
//! the known aggregators stay.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use tokio::{net::lookup_host, sync::watch, time};
use tokio_util::sync::CancellationToken;
use url::Host;

use crate::{
    aggregator_client::{AggregatorClient, ClientError},
    jitter,
    replica_key::ReplicaKey,
    shared_state::Status,
};

/// Average interval at which names are resolved.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of addresses per name; a name with more is not that of an aggregator.
const MAX_ADDRESSES: usize = 8;

/// All aggregators with their clients.
pub(crate) type KnownReplicas = BTreeMap<ReplicaKey, AggregatorClient>;

/// The configured aggregators, whose names are resolved.
#[derive(Debug)]
pub(crate) struct ReplicaResolver {
    configured: Vec<AggregatorClient>,
    replicas: watch::Sender<Arc<KnownReplicas>>,
    status: Arc<Status>,
}

impl ReplicaResolver {
    pub(crate) fn new(
        named: Vec<AggregatorClient>,
        status: Arc<Status>,
    ) -> (Self, watch::Receiver<Arc<KnownReplicas>>) {
        let begin: KnownReplicas = named
            .iter()
            .enumerate()
            .map(|(url, control)| (ReplicaKey::by_name(url), control.clone()))
            .collect();
        status.set_replicas(&begin.keys().cloned().collect());
        let (known, out) = watch::channel(Arc::new(begin));
        let replicas = Self {
            configured: named,
            replicas: known,
            status,
        };
        (replicas, out)
    }

    /// Resolves the names periodically until cancelled.
    pub(crate) async fn run(self, vantage: String, cancel: CancellationToken) {
        let mut turn = 0_u32;
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = self.resolve() => {}
            }
            turn = turn.wrapping_add(1);
            let wait = RESOLVE_INTERVAL / 2
                + jitter::offset_within(RESOLVE_INTERVAL, &[&vantage, &turn.to_string()]);
            tokio::select! {
                () = cancel.cancelled() => return,
                () = time::sleep(wait) => {}
            }
        }
    }

    async fn resolve(&self) {
        let mut found = Vec::new();
        for control in &self.configured {
            found.push(match control.host_and_port() {
                Some((Host::Domain(host), port)) => match lookup_host((host, port)).await {
                    Ok(found) => Some(single_family(found)).filter(|found| !found.is_empty()),
                    Err(error) => {
                        tracing::debug!(%error, host, "the aggregator's name cannot be resolved");
                        None
                    }
                },
                // A URL with a literal address is one aggregator.
                _ => Some(BTreeSet::new()),
            });
        }
        self.update(found);
    }

    /// Applies the addresses of each name; `None` for a name that could not be resolved.
    fn update(&self, found: Vec<Option<BTreeSet<SocketAddr>>>) {
        let before = self.replicas.borrow().clone();
        let mut now = KnownReplicas::new();
        for (url, (control, addresses)) in self.configured.iter().zip(found).enumerate() {
            let Some(addresses) = addresses else {
                let same = before.iter().filter(|(key, _)| key.url_index == url);
                now.extend(same.map(|(key, control)| (key.clone(), control.clone())));
                continue;
            };
            if addresses.len() < 2 {
                now.insert(ReplicaKey::by_name(url), control.clone());
                continue;
            }
            for address in addresses {
                let key = ReplicaKey::at(url, address);
                let made = before
                    .get(&key)
                    .cloned()
                    .map_or_else(|| control.pinned_to(address), Ok);
                match made {
                    Ok(control) => drop(now.insert(key, control)),
                    Err(ClientError::Url) => {}
                    Err(error) => tracing::warn!(%error, %address, "cannot make a client for an aggregator"),
                }
            }
        }
        if now.is_empty() || now.keys().eq(before.keys()) {
            return;
        }
        let names: Vec<String> = now.keys().map(ToString::to_string).collect();
        tracing::info!(aggregators = %names.join(", "), "reporting to these aggregators");
        // The spools must exist before the reporters that empty them.
        self.status.set_replicas(&now.keys().cloned().collect());
        self.replicas.send_replace(Arc::new(now));
    }
}

/// Returns the addresses of one family, because a Pod may have one of each and is still one aggregator. Prefers the
/// family of the first address, unless the other family has more addresses.
fn single_family(found: impl Iterator<Item = SocketAddr>) -> BTreeSet<SocketAddr> {
    let found: Vec<SocketAddr> = found.take(4 * MAX_ADDRESSES).collect();
    let of = |v6: bool| -> BTreeSet<SocketAddr> {
        let mut family: BTreeSet<SocketAddr> = found.iter().copied().filter(|a| a.is_ipv6() == v6).collect();
        while family.len() > MAX_ADDRESSES {
            family.pop_last();
        }
        family
    };
    let first = found.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second) = (of(first), of(!first));
    if second.len() > first.len() { second } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{aggregator_client::AggregatorRoots, replica_spools::ReplicaSpools, tls::TlsConfigs};

    #[test]
    fn a_name_is_one_aggregator_until_it_leads_to_several_and_what_is_known_stays_while_it_leads_nowhere() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = "http://aggregator.example.test:8443".parse().unwrap();
        let trust = (TlsConfigs::with_roots([]), AggregatorRoots::SameAsProbes);
        let control = AggregatorClient::new(base, None, &trust.0, &trust.1).unwrap();
        let status = Arc::new(Status::new(ReplicaSpools::new(9)));
        let (replicas, known) = ReplicaResolver::new(vec![control], Arc::clone(&status));
        let shown = || -> Vec<String> { known.borrow().keys().map(ToString::to_string).collect() };
        let address = |n: u8| SocketAddr::from(([10, 0, 0, n], 8_443));
        assert_eq!(shown(), ["aggregator 0"]);
        replicas.update(vec![Some([address(1), address(2)].into())]);
        assert_eq!(shown(), ["10.0.0.1:8443", "10.0.0.2:8443"]);
        replicas.update(vec![None]);
        assert_eq!(shown(), ["10.0.0.1:8443", "10.0.0.2:8443"]);
        replicas.update(vec![Some([address(2), address(3)].into())]);
        assert_eq!(shown(), ["10.0.0.2:8443", "10.0.0.3:8443"]);
        assert_eq!(status.waiting(&ReplicaKey::at(0, address(3))), 0);
        replicas.update(vec![Some([address(3)].into())]);
        assert_eq!(shown(), ["aggregator 0"]);
    }

    #[test]
    fn a_pod_with_an_address_of_each_family_is_one_aggregator() {
        let all = [
            "[fd00::1]:8443",
            "[fd00::2]:8443",
            "10.0.0.1:8443",
            "10.0.0.2:8443",
        ];
        let parsed =
            |texts: &[&str]| -> Vec<SocketAddr> { texts.iter().map(|t| t.parse().unwrap()).collect() };
        let family = single_family(parsed(&all).into_iter());
        assert_eq!(Vec::from_iter(family), parsed(&all[..2]));
        let mixed = ["[::1]:8443", "10.0.0.1:8443", "10.0.0.2:8443"];
        assert_eq!(
            Vec::from_iter(single_family(parsed(&mixed).into_iter())),
            parsed(&mixed[1..])
        );
        let many = (0..40).map(|n| SocketAddr::from(([10, 0, 0, n], 1)));
        assert_eq!(single_family(many).len(), MAX_ADDRESSES);
    }
}
