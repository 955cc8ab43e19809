//! How the aggregator learns of the cluster: from a file, or from an API server of the lab's own.

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

/// A kind that this cluster does not have.
const ABSENT: [&str; 2] = ["gateways", "httproutes"];

/// Who publishes.
#[derive(Debug)]
pub(crate) enum Publisher {
    /// A file in the run's folder.
    File,
    /// An API server, with what it was told last.
    ApiServer {
        /// The server.
        server: Box<ApiServer>,
        /// What it knows.
        known: BTreeMap<Key, Value>,
    },
}

impl Publisher {
    /// Starts it and publishes the cluster. Of an API server the run's folder gets the kubeconfig.
    pub(crate) async fn start(run: &RunDir, incident: &Incident, cluster: &Cluster) -> anyhow::Result<Self> {
        let mut publisher = match incident.topology.published_by {
            PublishedBy::File => Self::File,
            PublishedBy::ApiServer => {
                let server = ApiServer::start(&ABSENT).await;
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

    /// Publishes the cluster as it now is. An API server that nobody can reach knows it as well: others may.
    pub(crate) fn publish(&mut self, run: &RunDir, cluster: &Cluster) -> anyhow::Result<()> {
        match self {
            Self::File => aggregator_config::publish(run, cluster),
            Self::ApiServer { server, known } => {
                let now = objects::of(cluster);
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

    /// The API server, where there is one.
    pub(crate) fn api_server(&self) -> Option<&ApiServer> {
        match self {
            Self::File => None,
            Self::ApiServer { server, .. } => Some(server),
        }
    }

    /// Refuses everybody, and breaks the connections there are; or listens again.
    pub(crate) async fn reachable(&mut self, reachable: bool) -> anyhow::Result<()> {
        let Self::ApiServer { server, .. } = self else {
            bail!("there is no API server to go away or come back");
        };
        if reachable {
            server.come_back().await;
        } else {
            server.go_away().await;
        }
        Ok(())
    }
}
