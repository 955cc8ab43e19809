//! Removes leftover objects: of any preflight once its deadline has passed, and of a Preflight object before a new
//! attempt.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use parallax_preflight::{DEADLINE_ANNOTATION, PREFLIGHT_LABEL, PREFLIGHT_UID_LABEL};

use super::{
    cluster::{ClusterClient, ClusterError, ObjectKind},
    error::{NoVerdict, NoVerdictReason},
};

/// The kinds of all created objects, the route first.
const CREATED_KINDS: [ObjectKind; 4] = [
    ObjectKind::Ingress,
    ObjectKind::Route,
    ObjectKind::Service,
    ObjectKind::Pod,
];

/// How long deleted objects may take to disappear: the kubelet stops the Pod first.
const DELETION_TIMEOUT: Duration = Duration::from_mins(1);

/// The pause between two checks for deleted objects.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Removes objects of earlier preflights whose deadline has passed. Failures are reported and do not stop this
/// preflight.
pub(super) async fn remove_expired(cluster: &ClusterClient, namespace: &str, notify: &dyn Fn(&str)) {
    let now = Timestamp::now();
    for sort in CREATED_KINDS {
        let left = match cluster.list(sort, namespace, PREFLIGHT_LABEL).await {
            Ok(left) => left,
            // Without the Gateway API there are no HTTPRoutes.
            Err(ClusterError::NotFound) => continue,
            Err(ClusterError::Failed(_, error)) => {
                notify(&format!("cannot list objects of earlier preflights: {error}"));
                continue;
            }
        };
        for object in left {
            let deadline = object["metadata"]["annotations"][DEADLINE_ANNOTATION].as_str();
            let over = deadline
                .and_then(|deadline| deadline.parse::<Timestamp>().ok())
                .is_none_or(|deadline| deadline < now);
            let Some(name) = object["metadata"]["name"].as_str().filter(|_| over) else {
                continue;
            };
            match cluster.delete(sort, namespace, name).await {
                Ok(()) => notify(&format!(
                    "removed {}, left over from an earlier preflight",
                    sort.qualified_name(namespace, name)
                )),
                Err(missing) => notify(&NoVerdict::from(missing).failure.to_string()),
            }
        }
    }
}

/// Removes all objects of a Preflight object, and waits until they are gone, so that there are never two sets.
pub(super) async fn remove_for_preflight(
    cluster: &ClusterClient,
    namespace: &str,
    uid: &str,
) -> Result<(), NoVerdict> {
    let labels = format!("{PREFLIGHT_UID_LABEL}={uid}");
    let since = Instant::now();
    loop {
        let mut going = Vec::new();
        for sort in CREATED_KINDS {
            let left = match cluster.list(sort, namespace, &labels).await {
                Ok(left) => left,
                // Without the Gateway API there are no HTTPRoutes.
                Err(ClusterError::NotFound) => continue,
                Err(failed) => return Err(failed.into()),
            };
            for object in left {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                going.push(sort.qualified_name(namespace, name));
                if object["metadata"]["deletionTimestamp"].is_null() {
                    cluster.delete(sort, namespace, name).await?;
                }
            }
        }
        if going.is_empty() {
            return Ok(());
        }
        if since.elapsed() >= DELETION_TIMEOUT {
            return Err(NoVerdictReason::NotRemoved.indeterminate(format!(
                "objects of an earlier attempt still exist after {} s: {}; check what blocks their deletion (a finalizer, or an unreachable node)",
                DELETION_TIMEOUT.as_secs(),
                going.join(", ")
            )));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
