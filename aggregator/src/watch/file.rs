//! Reloads the configuration and the topology file whenever the content of one changes and stays for one poll. If a file
//! is invalid, the last topology and timing stay in effect.

use parallax_diagnosis::topology::Topology;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    POLL_INTERVAL,
    content::{Content, ContentTracker, FilesHash},
    startup::{StartupConfig, probe_timing},
};
use crate::config::{Config, ConfigError, TopologySource};
use parallax_kubernetes::topology_state::SourceState;
use parallax_runtime::Clock;

/// Watches both files until cancelled. Returns at once for a configuration without a file.
pub(super) async fn watch_files(
    source: TopologySource,
    started: StartupConfig,
    state: watch::Sender<SourceState>,
    clock: Clock,
    cancelled: CancellationToken,
) {
    if source.config_file().as_os_str().is_empty() {
        return;
    }
    let mut poll = interval(POLL_INTERVAL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut files = FileWatcher {
        source,
        state,
        startup_config: started,
    };
    let (mut tracker, mut last_good) = (ContentTracker::new(None), clock.now());
    loop {
        tokio::select! {
            () = cancelled.cancelled() => return,
            _ = poll.tick() => {}
        }
        let content = FilesHash::of(&files.source).await;
        match tracker.observe(content) {
            Content::Unchanged => {
                if files.state.borrow().error.is_none() {
                    last_good = clock.now();
                }
                continue;
            }
            Content::Changing => continue,
            Content::Changed => {}
        }
        let source = files.source.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || TopologyFiles::read(&source)).await else {
            continue;
        };
        if FilesHash::of(&files.source).await != content {
            // A part of the files may have been read.
            continue;
        }
        tracker.mark_read(content);
        match read {
            TopologyFiles::Valid(config) => {
                last_good = clock.now();
                files.apply(*config);
            }
            TopologyFiles::Invalid(error, topology) => {
                let message = error.to_string();
                tracing::warn!(%message, "the configuration or the topology is invalid; keeping the previous one");
                files.state.send_modify(|state| {
                    if let Some(topology) = topology {
                        state.replace(*topology);
                    }
                    state.fail(message, last_good);
                });
            }
        }
    }
}

/// Result of reading both files.
enum TopologyFiles {
    /// Both are valid.
    Valid(Box<Config>),
    /// The configuration is invalid; with the topology if its file is valid in itself.
    Invalid(ConfigError, Option<Box<Topology>>),
}

impl TopologyFiles {
    fn read(source: &TopologySource) -> Self {
        match Config::load(source.config_file()) {
            Ok(config) => Self::Valid(Box::new(config)),
            Err(error) => {
                let topology = source.file.as_ref().and_then(|_| source.reload().ok());
                Self::Invalid(error, topology.map(Box::new))
            }
        }
    }
}

/// State of the file watch.
struct FileWatcher {
    source: TopologySource,
    state: watch::Sender<SourceState>,
    startup_config: StartupConfig,
}

impl FileWatcher {
    fn apply(&mut self, config: Config) {
        let timing = probe_timing(&config);
        let waiting = self.startup_config.restart_notes(&config);
        let begun = self.startup_config.initial_timing;
        // A change to the cluster as source needs a restart; until then, the topology stays.
        let topology = config.source.kubernetes.is_none().then(|| {
            self.source = config.source.with_embedded_vantages_of(&self.source);
            self.source.with_embedded_vantages(&config.initial_topology)
        });
        let file = self.source.config_file().display();
        self.state.send_if_modified(|state| {
            let mut changed = state.error.take().is_some() || *state.notes != *waiting;
            if let Some(topology) = topology {
                changed |= state.replace(topology);
            }
            if state.timing.is_some() || timing != begun {
                changed |= state.set_timing(Some(timing));
            }
            state.notes = waiting.into();
            if changed {
                tracing::info!(%file, "reloaded configuration and topology");
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
        time::Duration,
    };

    use parallax_model::Micros;

    use super::*;

    struct FileWatch {
        _folder: tempfile::TempDir,
        topology: PathBuf,
        state: watch::Receiver<SourceState>,
        cancelled: CancellationToken,
        clock: Clock,
        task: tokio::task::JoinHandle<()>,
    }

    impl FileWatch {
        async fn until(&mut self, so: impl Fn(&SourceState) -> bool) -> SourceState {
            let waiting = self.state.wait_for(|state| so(state));
            let found = tokio::time::timeout(Duration::from_mins(1), waiting).await;
            found.expect("timed out waiting for the state").unwrap().clone()
        }

        async fn stop(self) {
            self.cancelled.cancel();
            self.task.await.unwrap();
        }
    }

    fn start(topology: &str) -> FileWatch {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("topology.yaml");
        fs::write(&file, topology).unwrap();
        let config = folder.path().join("parallax.yaml");
        fs::write(&config, "topology: topology.yaml\n").unwrap();
        let config = Config::load(Path::new(&config)).unwrap();
        let (sender, state) = watch::channel(SourceState::new(config.initial_topology.clone()));
        let (clock, cancelled) = (Clock::system(), CancellationToken::new());
        let started = StartupConfig::new(&config);
        let task = tokio::spawn(watch_files(
            config.source,
            started,
            sender,
            clock,
            cancelled.clone(),
        ));
        FileWatch {
            _folder: folder,
            topology: file,
            state,
            cancelled,
            clock,
            task,
        }
    }

    #[tokio::test]
    async fn a_broken_file_keeps_the_last_topology_says_why_and_heals() {
        let mut followed = start("nodes: [{name: n1}]\n");
        fs::write(&followed.topology, "nodes: [{name: n1}, {nam: n2}]\n").unwrap();
        let state = followed
            .state
            .wait_for(|s| s.error.is_some())
            .await
            .unwrap()
            .clone();
        let message = state.error.as_ref().unwrap().message.clone();
        assert!(
            message.contains("topology.yaml:1:22: nodes[1].nam: unknown field"),
            "{message}"
        );
        assert_eq!(state.topology.nodes().len(), 1);
        assert!(state.error.as_ref().unwrap().since <= followed.clock.now());

        fs::write(&followed.topology, "nodes: [{name: n1}, {name: n2}]\n").unwrap();
        let state = followed
            .state
            .wait_for(|s| s.error.is_none())
            .await
            .unwrap()
            .clone();
        assert_eq!(state.topology.nodes().len(), 2);

        fs::remove_file(&followed.topology).unwrap();
        let state = followed
            .state
            .wait_for(|s| s.error.is_some())
            .await
            .unwrap()
            .clone();
        assert_eq!(
            state.topology.nodes().len(),
            2,
            "a missing file is not an empty topology"
        );
        followed.stop().await;
    }

    #[tokio::test]
    async fn intervals_and_targets_of_the_configuration_take_effect_as_it_is_written() {
        let mut followed = start("nodes: [{name: n1}]\n");
        let config = followed.topology.with_file_name("parallax.yaml");
        let write = |text: &str| fs::write(&config, format!("topology: topology.yaml\n{text}")).unwrap();
        write("intervalMs: 1000\ntimeoutMs: 700\ntargets: [{url: 'http://a.example.test/'}]\n");
        let timing = parallax_kubernetes::topology_state::ProbeTiming {
            interval: Micros::from_secs(1),
            timeout: Micros::from_millis(700),
        };
        let state = followed.until(|state| state.timing.is_some()).await;
        assert_eq!(state.timing, Some(timing));
        assert_eq!(
            (state.topology.targets().len(), state.topology.nodes().len()),
            (1, 1)
        );

        // An invalid configuration keeps the timing, and the topology file is still reloaded.
        write("intervalMs: 1\n");
        let state = followed.until(|state| state.error.is_some()).await;
        let message = &state.error.as_ref().unwrap().message;
        assert!(
            message.contains("parallax.yaml:2:13: intervalMs: expected 200"),
            "{message}"
        );
        fs::write(&followed.topology, "nodes: [{name: n1}, {name: n2}]\n").unwrap();
        let state = followed.until(|state| state.topology.nodes().len() == 2).await;
        assert_eq!((state.timing, state.topology.targets().len()), (Some(timing), 1));
        assert!(state.error.is_some());

        // Back to the initial configuration, plus a change that needs a restart.
        write("listen: 127.0.0.1:1\n");
        let state = followed.until(|state| state.error.is_none()).await;
        assert_eq!(state.timing.unwrap().interval, Micros::from_secs(5));
        assert!(state.topology.targets().is_empty());
        let notes: Vec<String> = state.notes.iter().map(ToString::to_string).collect();
        assert_eq!(
            notes,
            ["configuration: listen changed; it takes effect after a restart"]
        );
        write(
            "allowedHosts: [status.example.test]\ncheckpoint: {file: state.json}\nmetrics: {classicBuckets: false}\n\
             tenants: {maxTargets: 3}\n",
        );
        let state = followed.until(|state| state.notes.len() == 4).await;
        let notes: Vec<&str> = state
            .notes
            .iter()
            .filter_map(|note| {
                note.text
                    .strip_suffix(" changed; it takes effect after a restart")
            })
            .collect();
        assert_eq!(notes, ["allowedHosts", "tenants", "metrics", "checkpoint"]);
        write("");
        followed.until(|state| state.notes.is_empty()).await;
        followed.stop().await;
    }

    #[tokio::test]
    async fn a_topology_within_the_configuration_is_followed_and_one_of_a_cluster_waits_for_a_start() {
        let mut followed = start("nodes: []\n");
        let config = followed.topology.with_file_name("parallax.yaml");
        fs::write(&config, "topology: {nodes: [{name: n1}, {name: n2}]}\n").unwrap();
        followed.until(|state| state.topology.nodes().len() == 2).await;
        fs::write(&config, "topology: {nodes: [{name: n3}]}\n").unwrap();
        followed.until(|state| state.topology.nodes().len() == 1).await;
        fs::write(&config, "topology: {kubernetes: {}}\n").unwrap();
        let state = followed.until(|state| !state.notes.is_empty()).await;
        assert_eq!(
            state.notes[0].text,
            "topology changed; it takes effect after a restart"
        );
        assert_eq!(state.topology.nodes().len(), 1);
        followed.stop().await;
    }
}
