//! The configuration beside the cluster: read again whenever it changes.
//!
//! What is wrong in it leaves the former one in force. What only a start can change is said.

use std::path::PathBuf;

use super::super::{
    fingerprint,
    startup::{StartupConfig, probe_timing},
};
use crate::config::{Config, TopologySource};
use parallax_kubernetes::topology_state::{ProbeTiming, SourceNote};

/// What the file said last.
pub(super) struct Settings {
    path: PathBuf,
    seen: Option<u64>,
    started: StartupConfig,
}

/// A look at a file that changed.
pub(super) enum FileChange {
    /// It cannot be used, for these reasons.
    Refused(String),
    /// It says this, and notes of what waits for a start.
    Taken(Box<TopologySource>, ProbeTiming, Vec<SourceNote>),
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
            started: StartupConfig::of(&config),
        })
    }

    /// What the file says now, if it changed.
    pub(super) async fn look(&mut self, source: &TopologySource) -> Option<FileChange> {
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
            Err(error) => FileChange::Refused(error.to_string()),
            Ok(config) => {
                let notes = self.started.waiting(&config);
                let timing = probe_timing(&config);
                FileChange::Taken(Box::new(config.source.expecting_as(source)), timing, notes)
            }
        })
    }
}

async fn load(path: PathBuf) -> Option<Result<Config, crate::config::ConfigError>> {
    tokio::task::spawn_blocking(move || Config::load(&path))
        .await
        .ok()
}
