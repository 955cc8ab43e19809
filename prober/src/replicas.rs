//! The current aggregators: the configured URLs, or every address of their names. Reports go to each of them.
//!
//! By default a name is one aggregator, because the name of a balancer may have several addresses. With
//! [`crate::Agent::at_every_address`], each address is an aggregator: it is reached by its address, with a certificate
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
    aggregator_client::{AggregatorClient, NoControl},
    jitter,
    replica_key::ReplicaKey,
    status::Status,
};

/// Average interval at which names are resolved.
const LOOK: Duration = Duration::from_secs(10);

/// Maximum number of addresses per name; a name with more is not that of an aggregator.
const MOST: usize = 8;

/// All aggregators with their clients.
pub(crate) type KnownReplicas = BTreeMap<ReplicaKey, AggregatorClient>;

/// The configured aggregators, whose names are resolved.
#[derive(Debug)]
pub(crate) struct NamedReplicas {
    named: Vec<AggregatorClient>,
    known: watch::Sender<Arc<KnownReplicas>>,
    status: Arc<Status>,
}

impl NamedReplicas {
    pub(crate) fn new(
        named: Vec<AggregatorClient>,
        status: Arc<Status>,
    ) -> (Self, watch::Receiver<Arc<KnownReplicas>>) {
        let begin: KnownReplicas = named
            .iter()
            .enumerate()
            .map(|(url, control)| (ReplicaKey::by_name(url), control.clone()))
            .collect();
        status.keep(&begin.keys().cloned().collect());
        let (known, out) = watch::channel(Arc::new(begin));
        let replicas = Self { named, known, status };
        (replicas, out)
    }

    /// Resolves the names periodically until cancelled.
    pub(crate) async fn follow(self, who: String, cancel: CancellationToken) {
        let mut turn = 0_u32;
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = self.look() => {}
            }
            turn = turn.wrapping_add(1);
            let wait = LOOK / 2 + jitter::within(LOOK, &[&who, &turn.to_string()]);
            tokio::select! {
                () = cancel.cancelled() => return,
                () = time::sleep(wait) => {}
            }
        }
    }

    async fn look(&self) {
        let mut found = Vec::new();
        for control in &self.named {
            found.push(match control.place() {
                Some((Host::Domain(host), port)) => match lookup_host((host, port)).await {
                    Ok(found) => Some(one_family(found)).filter(|found| !found.is_empty()),
                    Err(error) => {
                        tracing::debug!(%error, host, "the aggregator's name cannot be resolved");
                        None
                    }
                },
                // A URL with a literal address is one aggregator.
                _ => Some(BTreeSet::new()),
            });
        }
        self.take(found);
    }

    /// Applies the addresses of each name; `None` for a name that could not be resolved.
    fn take(&self, found: Vec<Option<BTreeSet<SocketAddr>>>) {
        let before = self.known.borrow().clone();
        let mut now = KnownReplicas::new();
        for (url, (control, addresses)) in self.named.iter().zip(found).enumerate() {
            let Some(addresses) = addresses else {
                let same = before.iter().filter(|(key, _)| key.url == url);
                now.extend(same.map(|(key, control)| (key.clone(), control.clone())));
                continue;
            };
            if addresses.len() < 2 {
                now.insert(ReplicaKey::by_name(url), control.clone());
                continue;
            }
            for address in addresses {
                let key = ReplicaKey::at(url, address);
                let made = before.get(&key).cloned().map_or_else(|| control.at(address), Ok);
                match made {
                    Ok(control) => drop(now.insert(key, control)),
                    Err(NoControl::Url) => {}
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
        self.status.keep(&now.keys().cloned().collect());
        self.known.send_replace(Arc::new(now));
    }
}

/// Returns the addresses of one family, because a Pod may have one of each and is still one aggregator. Prefers the
/// family of the first address, unless the other family has more addresses.
fn one_family(found: impl Iterator<Item = SocketAddr>) -> BTreeSet<SocketAddr> {
    let found: Vec<SocketAddr> = found.take(4 * MOST).collect();
    let of = |v6: bool| -> BTreeSet<SocketAddr> {
        let mut family: BTreeSet<SocketAddr> = found.iter().copied().filter(|a| a.is_ipv6() == v6).collect();
        while family.len() > MOST {
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
    use crate::{aggregator_client::AggregatorRoots, spools::ReplicaSpools, tls::TlsConfigs};

    #[test]
    fn a_name_is_one_aggregator_until_it_leads_to_several_and_what_is_known_stays_while_it_leads_nowhere() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let base = "http://aggregator.example.test:8443".parse().unwrap();
        let trust = (TlsConfigs::with_roots([]), AggregatorRoots::AsProbes);
        let control = AggregatorClient::new(base, None, &trust.0, &trust.1).unwrap();
        let status = Arc::new(Status::new(ReplicaSpools::new(9)));
        let (replicas, known) = NamedReplicas::new(vec![control], Arc::clone(&status));
        let shown = || -> Vec<String> { known.borrow().keys().map(ToString::to_string).collect() };
        let address = |n: u8| SocketAddr::from(([10, 0, 0, n], 8_443));
        assert_eq!(shown(), ["aggregator 0"]);
        replicas.take(vec![Some([address(1), address(2)].into())]);
        assert_eq!(shown(), ["10.0.0.1:8443", "10.0.0.2:8443"]);
        replicas.take(vec![None]);
        assert_eq!(shown(), ["10.0.0.1:8443", "10.0.0.2:8443"]);
        replicas.take(vec![Some([address(2), address(3)].into())]);
        assert_eq!(shown(), ["10.0.0.2:8443", "10.0.0.3:8443"]);
        assert_eq!(status.waiting(&ReplicaKey::at(0, address(3))), 0);
        replicas.take(vec![Some([address(3)].into())]);
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
        let family = one_family(parsed(&all).into_iter());
        assert_eq!(Vec::from_iter(family), parsed(&all[..2]));
        let mixed = ["[::1]:8443", "10.0.0.1:8443", "10.0.0.2:8443"];
        assert_eq!(
            Vec::from_iter(one_family(parsed(&mixed).into_iter())),
            parsed(&mixed[1..])
        );
        let many = (0..40).map(|n| SocketAddr::from(([10, 0, 0, n], 1)));
        assert_eq!(one_family(many).len(), MOST);
    }
}
