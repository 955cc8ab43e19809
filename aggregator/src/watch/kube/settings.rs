//! The configuration beside the cluster: read again whenever it changes.
//!
//! What is wrong in it leaves the former one in force. What only a start can change is said.

use std::path::PathBuf;

use super::{
    super::{Note, Timing, fingerprint},
    Kubernetes,
};
use crate::{
    config::{Config, TopologySource},
    replicas::ReplicaOptions,
};

/// What the file said last.
pub(super) struct Settings {
    path: PathBuf,
    seen: Option<u64>,
    /// As at the start: what is running.
    started: Started,
}

/// What takes a start to change.
#[derive(Debug, PartialEq, Eq)]
struct Started {
    listen: std::net::SocketAddr,
    kubernetes: Option<Kubernetes>,
    replicas: Option<ReplicaOptions>,
}

impl Started {
    fn of(config: &Config) -> Self {
        Self {
            listen: config.listen,
            kubernetes: config.source.kubernetes.clone(),
            replicas: config.replicas.clone(),
        }
    }

    /// The keys whose values differ.
    fn differing(&self, other: &Self) -> Vec<&'static str> {
        [
            ("listen", self.listen == other.listen),
            ("topology", self.kubernetes == other.kubernetes),
            ("replicas", self.replicas == other.replicas),
        ]
        .into_iter()
        .filter_map(|(key, same)| (!same).then_some(key))
        .collect()
    }
}

/// A look at a file that changed.
pub(super) enum Look {
    /// It cannot be used, for these reasons.
    Refused(String),
    /// It says this, and notes of what waits for a start.
    Taken(Box<TopologySource>, Timing, Vec<Note>),
}

impl Settings {
    /// Begins with the file as it was read at the start; nothing where it is not there any more.
    pub(super) async fn begin(source: &TopologySource) -> Option<Self> {
        let path = source.config_file().to_owned();
        let content = tokio::fs::read(&path).await.ok()?;
        let config = load(path.clone()).await?.ok()?;
        Some(Self {
            path,
            seen: Some(fingerprint(&content)),
            started: Started::of(&config),
        })
    }

    /// What the file says now, if it changed.
    pub(super) async fn look(&mut self, source: &TopologySource) -> Option<Look> {
        let content = tokio::fs::read(&self.path)
            .await
            .ok()
            .map(|bytes| fingerprint(&bytes));
        if content == self.seen {
            return None;
        }
        let read = load(self.path.clone()).await?;
        self.seen = content;
        Some(match read {
            Err(error) => Look::Refused(error.to_string()),
            Ok(config) => {
                let waiting = self.started.differing(&Started::of(&config));
                let notes = waiting.iter().map(|key| Note {
                    object: "configuration".to_owned(),
                    text: format!("{key} changed; it takes effect with the next start"),
                });
                let notes = notes.collect();
                let timing = Timing {
                    interval: config.interval,
                    timeout: config.timeout,
                };
                Look::Taken(Box::new(config.source.expecting_as(source)), timing, notes)
            }
        })
    }
}

async fn load(path: PathBuf) -> Option<Result<Config, crate::config::ConfigError>> {
    tokio::task::spawn_blocking(move || Config::load(&path))
        .await
        .ok()
}
