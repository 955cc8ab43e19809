//! Checkpoints across restarts: written, read, partly readable, and unreadable.

use std::{path::Path, sync::Arc};

use parallax_diagnosis::Checkpoint;
use parallax_model::{EventTime, TargetId};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{CheckpointStorage, CheckpointTask, NonceSource, document::CheckpointDocument};
use crate::checkpoint::CheckpointMetrics;
use parallax_api_server::ApiServer;
use parallax_kubernetes::{
    api_client::ApiClient,
    replicas::{ReplicaRole, ReplicaState},
    topology_state::TopologyState,
};
use parallax_runtime::Clock;

fn checkpoint(target: &str, judged: i64) -> Checkpoint {
    serde_json::from_value(json!({
        "version": 1,
        "judged": judged,
        "targets": {target: {"worked": true}},
        "nodes": ["n1"],
    }))
    .unwrap()
}

/// One process lifetime: the restored state, and the engine task's side.
struct Life {
    nonce: String,
    restored: Checkpoint,
    latest: watch::Sender<Option<Arc<Checkpoint>>>,
    cancelled: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Life {
    async fn start(storage: CheckpointStorage, fresh: &str) -> Self {
        let (replica, part) = ReplicaState::starting();
        let mut changes = replica.changes();
        let (restored, restored_in) = oneshot::channel();
        let (latest, latest_out) = watch::channel(None);
        let (_, topology) = watch::channel(TopologyState::new(Arc::default()));
        let task = CheckpointTask {
            storage,
            nonce: NonceSource::Storage {
                epoch: 1,
                fallback: Arc::from(fresh),
                role: part,
            },
            clock: Clock::system(),
            replica: replica.clone(),
            metrics: CheckpointMetrics::new(),
            topology,
            restored,
            latest: latest_out,
        };
        assert_eq!(replica.role(), ReplicaRole::Starting);
        assert!(
            !replica.is_leader(),
            "nothing is written before the checkpoint is read"
        );
        let cancelled = CancellationToken::new();
        let task = tokio::spawn(task.run(cancelled.clone()));
        changes.next().await;
        let (_, nonce) = replica.role().plan_identity().unwrap();
        Self {
            nonce: nonce.to_string(),
            restored: restored_in.await.unwrap(),
            latest,
            cancelled,
            task,
        }
    }

    /// Ends it as the engine task does: with a last checkpoint, then dropping the sender.
    async fn end(self, last: Checkpoint) {
        self.cancelled.cancel();
        self.latest.send_replace(Some(Arc::new(last)));
        drop(self.latest);
        self.task.await.unwrap();
    }
}

const FIRST: &str = "00112233445566778899aabbccddeeff";
const SECOND: &str = "ffeeddccbbaa99887766554433221100";

#[tokio::test]
async fn a_file_keeps_the_last_word_and_the_nonce() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/checkpoint.json");
    let first = Life::start(CheckpointStorage::File(path.clone()), FIRST).await;
    assert_eq!(
        (first.nonce.as_str(), &first.restored),
        (FIRST, &Checkpoint::default())
    );
    first.end(checkpoint("http://a.example.test/", 7)).await;
    assert_eq!(mode(&path), 0o600, "it contains names and the nonce");
    let second = Life::start(CheckpointStorage::File(path.clone()), SECOND).await;
    assert_eq!(second.nonce, FIRST, "echoes of the previous process keep working");
    assert_eq!(second.restored, checkpoint("http://a.example.test/", 7));
    second.end(checkpoint("http://b.example.test/", 8)).await;
    let third = Life::start(CheckpointStorage::File(path), SECOND).await;
    assert_eq!(third.restored.judged_until, Some(EventTime(8)));
    third.end(Checkpoint::default()).await;
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_config_map_keeps_it_compressed_and_its_uid_is_the_secret() {
    let server = ApiServer::start(&[]).await;
    server.put(
        "configmaps",
        json!({"metadata": {"namespace": "parallax", "name": "parallax-checkpoint", "uid": "uid-1"}}),
    );
    let storage = || CheckpointStorage::ConfigMap {
        client: ApiClient(kube::Client::try_from(kube::Config::new(server.url().parse().unwrap())).unwrap()),
        key: "parallax/parallax-checkpoint".parse().unwrap(),
    };
    let first = Life::start(storage(), FIRST).await;
    let nonce = first.nonce.clone();
    assert_ne!(nonce, FIRST);
    first.end(checkpoint("http://a.example.test/", 7)).await;
    let second = Life::start(storage(), SECOND).await;
    assert_eq!(second.nonce, nonce);
    assert_eq!(second.restored, checkpoint("http://a.example.test/", 7));
    second.end(Checkpoint::default()).await;
}

#[tokio::test]
async fn without_the_config_map_it_starts_with_nothing() {
    let server = ApiServer::start(&[]).await;
    let storage = CheckpointStorage::ConfigMap {
        client: ApiClient(kube::Client::try_from(kube::Config::new(server.url().parse().unwrap())).unwrap()),
        key: "parallax/parallax-checkpoint".parse().unwrap(),
    };
    let instance = Life::start(storage, FIRST).await;
    assert_eq!(
        (instance.nonce.as_str(), &instance.restored),
        (FIRST, &Checkpoint::default())
    );
    instance.end(checkpoint("http://a.example.test/", 7)).await;
}

#[tokio::test]
async fn a_file_that_is_no_checkpoint_is_no_reason_not_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.json");
    std::fs::write(&path, "\u{0}\u{1}nonsense").unwrap();
    let instance = Life::start(CheckpointStorage::File(path.clone()), FIRST).await;
    assert_eq!(instance.restored, Checkpoint::default());
    instance.end(checkpoint("http://a.example.test/", 7)).await;
    let next = Life::start(CheckpointStorage::File(path), SECOND).await;
    assert_eq!(
        next.restored.judged_until,
        Some(EventTime(7)),
        "the file was replaced by a valid one"
    );
    next.end(Checkpoint::default()).await;
}

#[test]
fn what_another_version_wrote_counts_as_far_as_it_is_understood() {
    let mut written: Value = CheckpointDocument {
        nonce: Some("short".to_owned()),
        checkpoint: checkpoint("http://a.example.test/", 7),
    }
    .to_value();
    written["checkpoint"]["targets"]["http://b.example.test/"] = json!({"worked": "perhaps"});
    written["checkpoint"]["targets"]["http://c.example.test/"] = json!({"worked": true, "more": 1});
    written["checkpoint"]["nodes"] = json!(["n1", {"name": "n2"}, "n3"]);
    written["checkpoint"]["incidents"] = json!([{"id": "of another form"}]);
    written["checkpoint"]["weather"] = json!("fine");
    let read = CheckpointDocument::from_value(written).unwrap();
    assert_eq!(read.nonce, None, "not a valid nonce");
    let targets: Vec<&str> = read.checkpoint.targets.keys().map(TargetId::as_str).collect();
    assert_eq!(targets, ["http://a.example.test/", "http://c.example.test/"]);
    assert_eq!(read.checkpoint.nodes.len(), 2);
    assert_eq!(read.checkpoint.judged_until, Some(EventTime(7)));
}

#[test]
fn what_does_not_fit_is_kept_without_baselines() {
    let mut large = checkpoint("http://a.example.test/", 7);
    for n in 0..2_000 {
        let memory = json!({"worked": true, "baseline": {"rounds": 12, "answers": [
            {"class": "served", "status": 200, "servers": [format!("server-{}", n * 7919 % 104_729)], "since": n, "last": n}
        ]}});
        large.targets.insert(
            format!("http://host-{n}.example.test/").parse().unwrap(),
            serde_json::from_value(memory).unwrap(),
        );
    }
    let document = CheckpointDocument {
        nonce: None,
        checkpoint: large,
    };
    let whole = document.to_gzip().unwrap().len();
    let kept = document.to_gzip_within(whole - 1).unwrap();
    assert!(kept.len() < whole);
    let read = CheckpointDocument::from_gzip(&kept).unwrap().checkpoint;
    assert_eq!(read.targets.len(), 2_001);
    assert!(
        read.targets
            .values()
            .all(|memory| memory.worked && memory.baseline.is_none())
    );
    assert!(document.to_gzip_within(100).is_err());
}
