//! The listener for probers: TLS with the aggregator's own CA, and authentication. It is built before any task
//! starts, so that its errors fail the start.

use std::{collections::BTreeSet, io, net::SocketAddr, sync::Arc};

use kube::Client;
use parallax_api::installation::CaPublication;
use parallax_kubernetes::{
    api_client::ApiClient,
    pod_registry::{PodRegistry, follow_pods},
    prober_pods::ProberPods,
};
use parallax_model::Vantage;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{AccessControl, AccessMode, ReviewCache, UserAuthentication},
    config::Config,
    exposition::Metrics,
    identity::{EnrolledAccounts, ProberAuthenticator},
    serve::{self, ProberGate, ServerState},
    tls::{AuthorityError, CaPublisher, ServerTls},
};

/// The listener for probers cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProberListenerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address} for probers: {source}; set another `tls.listen` address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// There is no certificate.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The configuration needs an API server and none was found.
    #[error(
        "cannot find the API server that `identity`, `access.kubernetes`, `customResources`, `replicas`, `incidentActions`, `notify` and `tls.publish` require: {0}; run in a cluster, or set KUBECONFIG"
    )]
    Cluster(#[source] Box<kube::Error>),
}

/// The TLS listener and authentication of probers.
#[derive(Debug)]
pub(crate) struct ProberListener {
    pub(crate) gate: ProberGate,
    /// Client of the API server, if the configuration needs it.
    client: Option<ApiClient>,
    tls: Option<ListenerTask>,
    publisher: Option<CaPublisher>,
    /// Whether the CA is published.
    ca_publication: watch::Receiver<CaPublication>,
    enrolments: Option<(EnrolledAccounts, watch::Receiver<BTreeSet<Vantage>>)>,
    /// Registry of prober Pods, until the watch of the cluster takes it over.
    pod_registry: Option<(ApiClient, Arc<PodRegistry>)>,
}

#[derive(Debug)]
struct ListenerTask {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: ProberTlsAcceptor,
    server_tls: ServerTls,
}

/// Wrapper that adds `Debug`.
struct ProberTlsAcceptor(TlsAcceptor);

impl std::fmt::Debug for ProberTlsAcceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl ProberListener {
    /// Builds the configured parts: finds the API server, binds the port, creates the CA.
    pub(crate) async fn build(config: &Config, metrics: &Metrics) -> Result<Self, ProberListenerError> {
        let needed = config.identity.is_some()
            || config.replicas.is_some()
            || config.custom_resources
            || config.actions_config_map.is_some()
            || config.notify.needs_cluster()
            || config
                .access
                .as_ref()
                .is_some_and(|access| matches!(access.mode, AccessMode::Cluster))
            || config.tls.as_ref().is_some_and(|tls| !tls.publish_to.is_empty());
        let client = match (&config.client, needed) {
            (Some(client), _) => Some(client.clone()),
            (None, true) => Some(ApiClient(
                Client::try_default()
                    .await
                    .map_err(|error| ProberListenerError::Cluster(Box::new(error)))?,
            )),
            (None, false) => None,
        };
        let (publication, ca_publication) = watch::channel(CaPublication::Disabled);
        let mut prober_listener = Self {
            ca_publication,
            gate: config.token.clone().map_or(ProberGate::Open, ProberGate::Secret),
            client: client.clone(),
            tls: None,
            publisher: None,
            enrolments: None,
            pod_registry: None,
        };
        if let Some(options) = &config.tls {
            let address = options.listen;
            let refused = |source| ProberListenerError::Listen { address, source };
            let listener = TcpListener::bind(address).await.map_err(refused)?;
            let side = ServerTls::new(options)?;
            if let (Some(client), false) = (&client, options.publish_to.is_empty()) {
                publication.send_replace(CaPublication::Pending);
                prober_listener.publisher = Some(CaPublisher {
                    state: publication,
                    client: client.clone(),
                    certificate: side.ca_certificate().to_owned(),
                    config_maps: options.publish_to.clone(),
                    metrics: metrics.tls.clone(),
                });
            }
            prober_listener.tls = Some(ListenerTask {
                address: listener.local_addr().map_err(refused)?,
                listener,
                acceptor: ProberTlsAcceptor(side.acceptor()?),
                server_tls: side,
            });
        }
        if let (Some(options), Some(client)) = (&config.identity, client) {
            let pods: Arc<dyn ProberPods> = if let Some(pods) = &config.prober_pods {
                pods.clone()
            } else {
                let registry = Arc::new(PodRegistry::new(options.namespaces()));
                prober_listener.pod_registry = Some((client.clone(), registry.clone()));
                registry
            };
            let identity =
                ProberAuthenticator::new(options.clone(), client.clone(), pods, metrics.identity.clone());
            if let Some(namespace) = &options.vantages {
                let (vantages, out) = watch::channel(BTreeSet::new());
                let enrolments = EnrolledAccounts {
                    client,
                    namespace: namespace.clone(),
                    vantages,
                };
                prober_listener.enrolments = Some((enrolments, out));
            }
            prober_listener.gate = ProberGate::Accounts(Arc::new(identity));
        }
        Ok(prober_listener)
    }

    /// Returns the client of the API server, if the configuration needs it.
    pub(crate) const fn client(&self) -> Option<&ApiClient> {
        self.client.as_ref()
    }

    /// Returns the access control for users, who use the main listener.
    pub(crate) fn access_control(&self, config: &Config, local: SocketAddr) -> AccessControl {
        let cluster = || {
            self.client
                .clone()
                .map(|client| UserAuthentication::Cluster(Arc::new(ReviewCache::new(client))))
        };
        let allowed_hosts = Arc::new(own_hosts(config));
        let unauthenticated = UserAuthentication::Unauthenticated {
            local: local.ip().is_loopback(),
        };
        let Some(options) = &config.access else {
            let known = match (&config.identity, &config.token) {
                (Some(_), _) => cluster(),
                (None, token) => token.clone().map(UserAuthentication::Secret),
            };
            return AccessControl {
                authentication: known.unwrap_or(unauthenticated),
                open_read: true,
                allowed_hosts,
            };
        };
        let known = match &options.mode {
            AccessMode::Secret(token) => Some(UserAuthentication::Secret(token.clone())),
            AccessMode::Cluster => cluster(),
            AccessMode::Proxy(proxy) => Some(UserAuthentication::Proxy(Arc::new(proxy.clone()))),
        };
        AccessControl {
            // Without a client, users cannot be authenticated, and connections do not count as local.
            authentication: known.unwrap_or(UserAuthentication::Unauthenticated { local: false }),
            open_read: options.open_read,
            allowed_hosts,
        }
    }

    /// Returns whether the CA is published.
    pub(crate) fn ca_publication(&self) -> watch::Receiver<CaPublication> {
        self.ca_publication.clone()
    }

    /// Returns the address of the TLS listener.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.tls.as_ref().map(|tls| tls.address)
    }

    /// Returns the CA certificate as PEM.
    pub(crate) fn certificate(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.server_tls.ca_certificate())
    }

    /// Hands the registry of Pods to the watch of the cluster.
    pub(crate) fn take_pod_registry(&mut self) -> Option<Arc<PodRegistry>> {
        self.pod_registry.take().map(|(_, registry)| registry)
    }

    /// Takes the task that lists enrolled vantages and its output, if enrolment is enabled.
    pub(crate) fn take_enrolled(&mut self) -> Option<(EnrolledAccounts, watch::Receiver<BTreeSet<Vantage>>)> {
        self.enrolments.take()
    }

    /// Starts the tasks.
    pub(crate) fn start(
        self,
        shared: &ServerState,
        parts: &mut JoinSet<()>,
        start: &mut impl FnMut(&'static str, AbortHandle),
        stopping: &CancellationToken,
    ) {
        if let Some(tls) = self.tls {
            let routes = serve::prober_router(shared.clone());
            let serving = serve::serve(tls.listener, Some(tls.acceptor.0), routes, stopping.clone());
            start("TLS server", parts.spawn(serving));
            start(
                "certificate renewal",
                parts.spawn(tls.server_tls.renew(stopping.clone())),
            );
        }
        if let Some((client, pods)) = self.pod_registry {
            let following = follow_pods(client, pods, stopping.clone());
            start("prober Pod watch", parts.spawn(following));
        }
        if let Some(publisher) = self.publisher {
            start("CA publication", parts.spawn(publisher.run(stopping.clone())));
        }
    }
}

/// Returns the host names under which clients may read without authentication: those of the configuration, of the page's own
/// address, and of the certificate for probers, also as `SERVICE.NAMESPACE`.
fn own_hosts(config: &Config) -> BTreeSet<String> {
    let page = config.links.page.as_ref().and_then(|page| page.host_str());
    let certified = config
        .tls
        .iter()
        .flat_map(|tls| &tls.hosts)
        .map(ToString::to_string);
    let certified = certified.flat_map(|host| {
        let short = host.strip_suffix(".svc").map(ToOwned::to_owned);
        [Some(host), short].into_iter().flatten()
    });
    let all = config.allowed_hosts.iter().cloned();
    all.chain(page.map(ToOwned::to_owned))
        .chain(certified)
        .map(|host| host.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::Topology;

    use super::*;
    use crate::tls::TlsOptions;

    #[test]
    fn the_names_of_the_certificate_are_the_aggregators_own() {
        let mut config = Config::embedded(Topology::default());
        config.allowed_hosts.insert("status.example.test".to_owned());
        config.tls = Some(TlsOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            hosts: vec!["Parallax.Monitoring.svc".to_owned(), "10.0.0.1".to_owned()],
            publish_to: Vec::new(),
            ca_folder: None,
        });
        let own = own_hosts(&config);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        assert_eq!(
            own,
            [
                "10.0.0.1",
                "parallax.monitoring",
                "parallax.monitoring.svc",
                "status.example.test"
            ]
        );
    }
}
