//! From an API server to the published state, over real connections.

use std::time::Duration;

use parallax_api_server::{ApiServer, Behaviour};
use parallax_kubernetes::watch::{ApiServerAccess, Key, WatchFailureReason, WatchHealth, WatchTiming};
use parallax_preflight::Certificate;
use parallax_runtime::Clock;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::*;

const KINDS: &[&str] = &["certificates", "issuers", "clusterissuers", "challenges"];

/// Only a failing test waits this long.
const DEADLINE: Duration = Duration::from_mins(1);

const PACE: WatchTiming = WatchTiming {
    debounce: Duration::from_millis(5),
    max_debounce: Duration::from_millis(50),
    first_retry_delay: Duration::from_millis(10),
    max_retry_delay: Duration::from_millis(50),
    recheck_interval: Duration::from_millis(20),
    request_timeout: Duration::from_secs(20),
    idle_timeout: Duration::from_secs(20),
};

struct Scene {
    server: ApiServer,
    state: watch::Receiver<CertManagerState>,
    watches: watch::Receiver<WatchHealth<CertManagerKind>>,
    cancelled: CancellationToken,
    task: JoinHandle<()>,
    _folder: TempDir,
}

/// Settings for a cluster whose kubeconfig is in this folder.
fn settings(folder: &TempDir) -> KubernetesSettings {
    KubernetesSettings::new(ApiServerAccess::File {
        path: folder.path().join("kubeconfig"),
        context: None,
    })
}

fn followed(server: ApiServer) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).unwrap();
    let mut kubernetes = cluster_to_watch(Some(&settings(&folder))).expect("followed by default");
    kubernetes.timing = PACE;
    let (picture, picture_out) = watch::channel(CertManagerState::missing(&UnavailableReason::NotWatched));
    let (watches, watches_out) = watch::channel(WatchHealth::default());
    let cancelled = CancellationToken::new();
    let task = tokio::spawn(watch_objects(
        kubernetes,
        picture,
        watches,
        Clock::system(),
        cancelled.clone(),
    ));
    Scene {
        server,
        state: picture_out,
        watches: watches_out,
        cancelled,
        task,
        _folder: folder,
    }
}

impl Scene {
    async fn until(&mut self, holds: impl FnMut(&CertManagerState) -> bool) -> CertManagerState {
        let found = tokio::time::timeout(DEADLINE, self.state.wait_for(holds))
            .await
            .map(|state| state.unwrap().clone());
        found.unwrap_or_else(|_| panic!("timed out; the state is {:?}", self.state.borrow()))
    }

    async fn stop(self) {
        self.cancelled.cancel();
        self.task.await.unwrap();
    }
}

fn key(namespace: &str, name: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn certificate(name: &str, not_after: Option<&str>) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "acme.cert-manager.io/http01-override-ingress-class": "public",
        }},
        "spec": {"secretName": "tls", "dnsNames": ["shop.example.test"], "renewBefore": "720h",
                 "issuerRef": {"name": "le", "kind": "ClusterIssuer"}},
        "status": {"notAfter": not_after, "renewalTime": "2026-12-01T00:00:00Z", "conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "message": "up to date",
             "lastTransitionTime": "2026-10-01T00:00:00Z"}]},
    })
}

fn challenge() -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "web-1-2-3", "creationTimestamp": "2026-11-22T07:00:00Z"},
        "spec": {"dnsName": "shop.example.test", "token": "tok", "key": "tok.thumbprint", "type": "HTTP-01",
                 "solver": {"http01": {"ingress": {"ingressClassName": "public"}}},
                 "issuerRef": {"name": "le", "kind": "ClusterIssuer"}},
        "status": {"state": "pending", "presented": true, "processing": true, "reason": "wrong status code '404', expected '200'"},
    })
}

fn nothing(state: &CertManagerState, reason: &UnavailableReason) -> bool {
    *state == CertManagerState::missing(reason)
}

fn certificates(state: &CertManagerState) -> Vec<&Certificate> {
    let objects = state.certificates.objects();
    objects
        .into_iter()
        .flat_map(|all| all.values().map(AsRef::as_ref))
        .collect()
}

#[tokio::test]
async fn objects_are_known_by_namespace_and_name_with_what_is_of_use_and_follow_every_change() {
    let server = ApiServer::start(&[]).await;
    server.put("certificates", certificate("web", None));
    server.put(
        "clusterissuers",
        json!({"metadata": {"name": "le"}, "spec": {"acme": {"server": "https://acme.example.test/dir"}}}),
    );
    server.put("challenges", challenge());
    let mut harness = followed(server);
    let full = |state: &CertManagerState| {
        state.issuers.objects().is_some()
            && state.challenges.objects().is_some_and(|all| !all.is_empty())
            && state.certificates.objects().is_some_and(|all| !all.is_empty())
            && state.cluster_issuers.objects().is_some_and(|all| !all.is_empty())
    };
    let state = harness.until(full).await;
    assert!(
        state.issuers.objects().unwrap().is_empty(),
        "an empty list is known to be empty"
    );
    assert!(
        state
            .cluster_issuers
            .objects()
            .unwrap()
            .contains_key(&key("", "le"))
    );
    let web = &state.certificates.objects().unwrap()[&key("shop", "web")];
    assert_eq!(web.spec.renew_before.as_deref(), Some("720h"));
    assert_eq!(web.status.renewal_time.as_deref(), Some("2026-12-01T00:00:00Z"));
    assert_eq!(
        (
            web.status.conditions[0].condition_type.as_str(),
            web.status.conditions[0].status.as_str()
        ),
        ("Ready", "True")
    );
    assert_eq!(
        web.metadata.annotations.len(),
        1,
        "only the relevant annotations are kept"
    );
    let waiting = &state.challenges.objects().unwrap()[&key("shop", "web-1-2-3")];
    assert_eq!(waiting.metadata.creation_timestamp, "2026-11-22T07:00:00Z");
    assert_eq!(waiting.spec.key.as_str(), "tok.thumbprint");

    harness
        .server
        .put("certificates", certificate("web", Some("2026-12-31T00:00:00Z")));
    let changed = harness
        .until(|state| {
            certificates(state)
                .iter()
                .any(|web| web.status.not_after.is_some())
        })
        .await;
    assert_eq!(certificates(&changed).len(), 1);
    harness.server.delete("challenges", "shop", "web-1-2-3");
    harness
        .until(|state| {
            state
                .challenges
                .objects()
                .is_some_and(std::collections::BTreeMap::is_empty)
        })
        .await;
    harness.stop().await;
}

#[tokio::test]
async fn the_key_of_a_challenge_is_in_no_text_about_the_state() {
    let server = ApiServer::start(&[]).await;
    server.put("challenges", challenge());
    let mut harness = followed(server);
    let state = harness
        .until(|state| state.challenges.objects().is_some_and(|all| !all.is_empty()))
        .await;
    let words = format!("{state:?}");
    assert!(
        words.contains("shop.example.test") && !words.contains("thumbprint"),
        "{words}"
    );
    harness.stop().await;
}

#[tokio::test]
async fn without_cert_manager_nothing_is_known_until_its_definitions_come_and_again_when_they_go() {
    let mut harness = followed(ApiServer::start(KINDS).await);
    harness
        .until(|state| nothing(state, &UnavailableReason::NotInstalled))
        .await;
    for kind in KINDS {
        harness.server.define(kind);
    }
    harness.server.put("certificates", certificate("web", None));
    harness.until(|state| certificates(state).len() == 1).await;
    for kind in KINDS {
        harness.server.undefine(kind);
    }
    harness
        .until(|state| nothing(state, &UnavailableReason::NotInstalled))
        .await;
    harness.stop().await;
}

#[tokio::test]
async fn a_missing_right_is_named_by_its_rule_and_found_when_it_is_granted_or_taken_away() {
    let server = ApiServer::start(&[]).await;
    server.put("certificates", certificate("web", None));
    server.set_behaviour("certificates", Behaviour::Status(403));
    let mut harness = followed(server);
    let forbidden = |state: &CertManagerState| {
        matches!(
            state.certificates.missing_reason(),
            Some(UnavailableReason::Forbidden { .. })
        )
    };
    let state = harness
        .until(|state| forbidden(state) && state.issuers.objects().is_some())
        .await;
    let reason = state.certificates.missing_reason().unwrap().to_string();
    assert!(
        reason.contains("{apiGroups: [cert-manager.io], resources: [certificates], verbs: [list, watch]}"),
        "{reason}"
    );
    assert!(
        harness
            .watches
            .borrow()
            .get(&CertManagerKind::Certificates)
            .unwrap()
            .errors
            .contains_key(&WatchFailureReason::Forbidden)
    );
    harness.server.set_behaviour("certificates", Behaviour::Normal);
    harness.until(|state| certificates(state).len() == 1).await;
    harness
        .server
        .set_behaviour("certificates", Behaviour::Status(403));
    harness.server.interrupt_watches();
    harness.until(forbidden).await;
    harness.stop().await;
}

/// An API server checks permissions before it looks up the kind, so a list request cannot distinguish the two
/// cases.
#[tokio::test]
async fn where_neither_definitions_nor_rights_are_there_no_right_is_asked_for() {
    let server = ApiServer::start(KINDS).await;
    for kind in KINDS {
        server.set_behaviour(kind, Behaviour::Status(403));
    }
    let mut harness = followed(server);
    harness
        .until(|state| nothing(state, &UnavailableReason::NotInstalled))
        .await;
    for kind in KINDS {
        harness.server.define(kind);
    }
    let all = |state: &CertManagerState| {
        matches!(
            state.challenges.missing_reason(),
            Some(UnavailableReason::Forbidden { .. })
        )
    };
    harness.until(all).await;
    harness.stop().await;
}

#[tokio::test]
async fn an_unavailable_api_server_leaves_the_last_state_with_its_age() {
    let server = ApiServer::start(&[]).await;
    server.put("certificates", certificate("web", None));
    let mut harness = followed(server);
    harness.until(|state| certificates(state).len() == 1).await;
    harness.server.stop_listening().await;
    let is_stale =
        |state: &CertManagerState| matches!(&state.certificates, ObjectStore::Known { stale: Some(_), .. });
    let state = harness.until(is_stale).await;
    assert_eq!(certificates(&state).len(), 1);
    harness.server.listen_again().await;
    harness
        .until(|state| !is_stale(state) && certificates(state).len() == 1)
        .await;
    harness.stop().await;
}

#[test]
fn off_asks_for_nothing_and_a_topology_of_files_neither() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&folder);
    assert!(cluster_to_watch(Some(&settings)).is_some());
    settings.cert_manager = CertManagerMode::Off;
    assert!(cluster_to_watch(Some(&settings)).is_none());
    assert!(cluster_to_watch(None).is_none());
}
