//! Reloads the configuration file while the topology comes from the cluster.
//!
//! An invalid file leaves the previous configuration in effect. Changes that need a restart are reported as notes.

use std::path::PathBuf;

use super::super::{
    fingerprint,
    startup::{StartupConfig, probe_timing},
};
use crate::config::{Config, TopologySource};
use parallax_kubernetes::topology_state::{ProbeTiming, SourceNote};

/// The configuration file and its last seen content.
pub(super) struct Settings {
    path: PathBuf,
    content_hash: Option<u64>,
    startup_config: StartupConfig,
}

/// A change of the file.
pub(super) enum FileChange {
    /// It is invalid; the message lists the errors.
    Invalid(String),
    /// It is valid; with notes about changes that need a restart.
    Valid(Box<TopologySource>, ProbeTiming, Vec<SourceNote>),
}

impl Settings {
    /// Reads the file as it is at the start. `None` if it no longer exists or is invalid.
    pub(super) async fn read_initial(source: &TopologySource) -> Option<Self> {
        let path = source.config_file().to_owned();
        let content = tokio::fs::read(&path).await.ok()?;
        let config = load(path.clone()).await?.ok()?;
        Some(Self {
            path,
            content_hash: Some(fingerprint(&content)),
            startup_config: StartupConfig::new(&config),
        })
    }

    /// Reads the file if it changed.
    pub(super) async fn poll(&mut self, source: &TopologySource) -> Option<FileChange> {
        let content = tokio::fs::read(&self.path)
            .await
            .ok()
            .map(|bytes| fingerprint(&bytes));
        if content == self.content_hash {
            return None;
        }
        let read = load(self.path.clone()).await?;
        self.content_hash = content;
        Some(match read {
            Err(error) => FileChange::Invalid(error.to_string()),
            Ok(config) => {
                let notes = self.startup_config.restart_notes(&config);
                let timing = probe_timing(&config);
                FileChange::Valid(
                    Box::new(config.source.with_embedded_vantages_of(source)),
                    timing,
                    notes,
                )
            }
        })
    }
}

async fn load(path: PathBuf) -> Option<Result<Config, crate::config::ConfigError>> {
    tokio::task::spawn_blocking(move || Config::load(&path))
        .await
        .ok()
}
