//! The facts that the checks judge: answers of the aggregator and of the API server, or why there is none.

use parallax_api::installation::{InstallationFacts, InstalledProber};
use parallax_model::{Network, Vantage};

use super::workloads::{PodFacts, Workload};
use crate::commands::query::DEFAULT_NAMESPACE;

/// An answer, or why there is none.
pub(super) type Answer<T> = Result<T, String>;

/// Why the API server was not asked.
pub(super) const NOT_ASKED: &str = "the API server was not asked, because only the URL of the aggregator is known; give its cluster: kubectl parallax verify-install, or --context NAME";

/// Everything that is known about an installation.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Its namespace.
    pub(super) namespace: String,
    /// The answer of the aggregator.
    pub(super) aggregator: Answer<InstallationFacts>,
    /// The answers of the API server.
    pub(super) cluster: ClusterFacts,
}

/// The answers of the API server.
#[derive(Debug, Clone)]
pub(super) struct ClusterFacts {
    /// Deployments and DaemonSets.
    pub(super) workloads: Answer<Vec<Workload>>,
    pub(super) pods: Answer<Vec<PodFacts>>,
    /// Number of PodMonitors and ServiceMonitors.
    pub(super) monitors: Answer<usize>,
}

impl ClusterFacts {
    /// Creates the facts of an API server that does not answer.
    pub(super) fn missing(reason: &str) -> Self {
        Self {
            workloads: Err(reason.to_owned()),
            pods: Err(reason.to_owned()),
            monitors: Err(reason.to_owned()),
        }
    }

    /// Returns a workload by its component.
    pub(super) fn workload(&self, component: &str) -> Answer<Option<&Workload>> {
        let workloads = self.workloads.as_ref().map_err(Clone::clone)?;
        Ok(workloads.iter().find(|workload| workload.component == component))
    }

    /// Returns the Pods that are not ready; none if the Pods are not known.
    pub(super) fn unready_pods(&self) -> impl Iterator<Item = (&PodFacts, &str)> {
        let pods = self.pods.iter().flatten();
        pods.filter_map(|pod| Some((pod, pod.problem.as_deref()?)))
    }
}

impl Facts {
    /// Creates facts without an answer of the API server.
    pub(super) fn without_cluster(aggregator: Answer<InstallationFacts>, reason: &str) -> Self {
        Self {
            namespace: DEFAULT_NAMESPACE.to_owned(),
            aggregator,
            cluster: ClusterFacts::missing(reason),
        }
    }

    /// Returns the aggregator's answer, or why it is unknown in the words of a check.
    pub(super) fn aggregator(&self) -> Answer<&InstallationFacts> {
        self.aggregator
            .as_ref()
            .map_err(|_| "the aggregator could not be asked".to_owned())
    }

    /// Says where the logs of a workload are, such as `deployment/parallax-aggregator`.
    pub(super) fn log_advice(&self, workload: &str) -> String {
        if self.is_standalone() {
            let (_, name) = workload.rsplit_once('-').unwrap_or_default();
            format!("see the log of the {name}")
        } else {
            format!("see: kubectl -n {} logs {workload}", self.namespace)
        }
    }

    /// Reports whether the aggregator watches no cluster, so that there is nothing to check at an API server.
    pub(super) fn is_standalone(&self) -> bool {
        self.aggregator.as_ref().is_ok_and(|facts| !facts.in_cluster)
    }
}

/// Reports whether a prober is the one of its node in the Pod network.
pub(super) fn is_node_prober(prober: &InstalledProber) -> bool {
    matches!(
        prober.vantage,
        Vantage::Cluster {
            network: Network::Pod,
            ..
        }
    )
}
