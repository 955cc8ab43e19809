//! How the aggregator learns of the cluster: from a file, or from the lab's own API server.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::{
    aggregator_config,
    cluster::Cluster,
    incident::{Incident, PublishedBy},
    objects::{self, Key},
    run_dir::RunDir,
};
use parallax_api_server::ApiServer;

/// Kinds that this cluster does not have.
const ABSENT_RESOURCES: [&str; 2] = ["gateways", "httproutes"];

/// Publisher of the topology.
#[derive(Debug)]
pub(crate) enum Publisher {
    /// A file in the run's directory.
    File,
    /// An API server and the objects last written to it.
    ApiServer {
        /// The server.
        server: Box<ApiServer>,
        /// Its objects.
        known: BTreeMap<Key, Value>,
    },
}

impl Publisher {
    /// Starts it and publishes the cluster. For an API server, writes a kubeconfig to the run's directory.
    pub(crate) async fn start(run: &RunDir, incident: &Incident, cluster: &Cluster) -> anyhow::Result<Self> {
        let mut publisher = match incident.topology.published_by {
            PublishedBy::File => Self::File,
            PublishedBy::ApiServer => {
                let server = ApiServer::start(&ABSENT_RESOURCES).await;
                let path = run.file(aggregator_config::KUBECONFIG);
                fs::write(&path, server.kubeconfig())
                    .with_context(|| format!("writing {}", path.display()))?;
                Self::ApiServer {
                    server: Box::new(server),
                    known: BTreeMap::new(),
                }
            }
        };
        publisher.publish(run, cluster)?;
        Ok(publisher)
    }

    /// Publishes the current cluster. An unreachable API server is updated too: it may be reachable for others.
    pub(crate) fn publish(&mut self, run: &RunDir, cluster: &Cluster) -> anyhow::Result<()> {
        match self {
            Self::File => aggregator_config::publish(run, cluster),
            Self::ApiServer { server, known } => {
                let now = objects::from_cluster(cluster);
                for (key, object) in &now {
                    if known.get(key) != Some(object) {
                        server.put(key.0, object.clone());
                    }
                }
                for (resource, namespace, name) in known.keys().filter(|key| !now.contains_key(*key)) {
                    server.delete(resource, namespace, name);
                }
                *known = now;
                Ok(())
            }
        }
    }

    /// Returns the API server, if there is one.
    pub(crate) fn api_server(&self) -> Option<&ApiServer> {
        match self {
            Self::File => None,
            Self::ApiServer { server, .. } => Some(server),
        }
    }

    /// Makes the API server unreachable and closes its connections, or makes it reachable again.
    pub(crate) async fn set_reachable(&mut self, reachable: bool) -> anyhow::Result<()> {
        let Self::ApiServer { server, .. } = self else {
            bail!("the topology is published in a file: there is no API server");
        };
        if reachable {
            server.listen_again().await;
        } else {
            server.stop_listening().await;
        }
        Ok(())
    }
}
