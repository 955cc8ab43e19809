//! Reads the topology file again whenever its content changes. A file that cannot be used keeps the last topology.

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{POLL, TopologyState, fingerprint};
use crate::{clock::Clock, config::TopologySource};

/// Follows the file until cancelled; without a file there is nothing to follow.
pub(super) async fn follow(
    source: TopologySource,
    state: watch::Sender<TopologyState>,
    clock: Clock,
    cancelled: CancellationToken,
) {
    let Some(path) = source.file.clone() else {
        return;
    };
    let mut poll = interval(POLL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = None;
    let mut last_good = clock.now();
    loop {
        tokio::select! {
            () = cancelled.cancelled() => return,
            _ = poll.tick() => {}
        }
        let content = tokio::fs::read(&path).await.ok().map(|bytes| fingerprint(&bytes));
        if seen == Some(content) {
            if state.borrow().trouble.is_none() {
                last_good = clock.now();
            }
            continue;
        }
        let source = source.clone();
        let read = tokio::task::spawn_blocking(move || source.reload()).await;
        let Ok(read) = read else { continue };
        seen = Some(content);
        match read {
            Ok(topology) => {
                last_good = clock.now();
                state.send_if_modified(|state| {
                    let before = (state.number, state.trouble.is_some());
                    state.heal(topology);
                    let changed = before != (state.number, false);
                    if changed {
                        tracing::info!(file = %path.display(), revision = state.number, "topology read");
                    }
                    changed
                });
            }
            Err(error) => {
                let message = error.to_string();
                tracing::warn!(%message, "the topology file cannot be used; the last topology stays");
                state.send_modify(|state| state.fail(message, last_good));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use parallax_model::Micros;

    use super::*;
    use crate::config::Config;

    struct Followed {
        _folder: tempfile::TempDir,
        topology: std::path::PathBuf,
        state: watch::Receiver<TopologyState>,
        cancelled: CancellationToken,
        clock: Clock,
        task: tokio::task::JoinHandle<()>,
    }

    fn start(topology: &str) -> Followed {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("topology.yaml");
        fs::write(&file, topology).unwrap();
        let config = folder.path().join("parallax.yaml");
        fs::write(&config, "topology: topology.yaml\n").unwrap();
        let config = Config::load(Path::new(&config)).unwrap();
        let (sender, state) = watch::channel(TopologyState::new(config.initial.clone()));
        let (clock, cancelled) = (Clock::system(), CancellationToken::new());
        let task = tokio::spawn(follow(config.source, sender, clock, cancelled.clone()));
        Followed {
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
            .wait_for(|s| s.trouble.is_some())
            .await
            .unwrap()
            .clone();
        let message = state.trouble.as_ref().unwrap().message.clone();
        assert!(
            message.contains("topology.yaml:1:22: nodes[1].nam: unknown field"),
            "{message}"
        );
        assert_eq!(state.topology.nodes().len(), 1);
        assert!(state.age(followed.clock.now()) > Micros(0));

        fs::write(&followed.topology, "nodes: [{name: n1}, {name: n2}]\n").unwrap();
        let state = followed
            .state
            .wait_for(|s| s.trouble.is_none())
            .await
            .unwrap()
            .clone();
        assert_eq!((state.topology.nodes().len(), state.number), (2, 1));
        assert_eq!(state.age(followed.clock.now()), Micros(0));

        fs::remove_file(&followed.topology).unwrap();
        let state = followed
            .state
            .wait_for(|s| s.trouble.is_some())
            .await
            .unwrap()
            .clone();
        assert_eq!(
            state.topology.nodes().len(),
            2,
            "a missing file is no empty topology"
        );
        followed.cancelled.cancel();
        followed.task.await.unwrap();
    }
}
