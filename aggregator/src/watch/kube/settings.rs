//! Reloads the configuration file while the topology comes from the cluster.
//!
//! An invalid file leaves the previous configuration in effect. Changes that need a restart are reported as notes.

use std::path::PathBuf;

use super::super::{
    content::{Content, ContentTracker, FileHash},
    startup::{StartupConfig, probe_timing},
};
use crate::config::{Config, TopologySource};
use parallax_kubernetes::topology_state::{ProbeTiming, SourceNote};

/// The configuration file and its content over polls.
pub(super) struct Settings {
    path: PathBuf,
    tracker: ContentTracker<FileHash>,
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
        let content = FileHash::of(Some(&path)).await;
        let config = load(path.clone()).await?.ok()?;
        Some(Self {
            path,
            tracker: ContentTracker::new(Some(content)),
            startup_config: StartupConfig::new(&config),
        })
    }

    /// Reads the file if it changed, and the change is complete.
    pub(super) async fn poll(&mut self, source: &TopologySource) -> Option<FileChange> {
        let content = FileHash::of(Some(&self.path)).await;
        if self.tracker.observe(content) != Content::Changed {
            return None;
        }
        let read = load(self.path.clone()).await?;
        if FileHash::of(Some(&self.path)).await != content {
            // A part of the file may have been read.
            return None;
        }
        self.tracker.mark_read(content);
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
