//! What preflights left behind: of anybody once its time is over, of a Preflight object before it is made anew.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use parallax_preflight::{DEADLINE, OWNER, PREFLIGHT_UID};

use super::{
    cluster::{ClusterClient, MissingReason, ObjectKind},
    error::{NoVerdict, NoVerdictReason},
};

/// Everything that is made, the way in first.
const SORTS: [ObjectKind; 4] = [
    ObjectKind::Ingress,
    ObjectKind::Route,
    ObjectKind::Service,
    ObjectKind::Pod,
];

/// How long what was told to go may take to be gone: a kubelet ends the Pod first.
const GOING: Duration = Duration::from_mins(1);

/// Between two looks at what is going.
const LOOK: Duration = Duration::from_millis(300);

/// Removes what earlier preflights left behind and whose time is over. What cannot be removed is said and does not
/// hinder this one.
pub(super) async fn collect(cluster: &ClusterClient, namespace: &str, tell: &dyn Fn(&str)) {
    let now = Timestamp::now();
    for sort in SORTS {
        let left = match cluster.list(sort, namespace, OWNER).await {
            Ok(left) => left,
            // Without the Gateway API there are no routes.
            Err(MissingReason::NotFound) => continue,
            Err(MissingReason::Failed(_, said)) => {
                tell(&format!("cannot look for what earlier preflights left: {said}"));
                continue;
            }
        };
        for object in left {
            let deadline = object["metadata"]["annotations"][DEADLINE].as_str();
            let over = deadline
                .and_then(|deadline| deadline.parse::<Timestamp>().ok())
                .is_none_or(|deadline| deadline < now);
            let Some(name) = object["metadata"]["name"].as_str().filter(|_| over) else {
                continue;
            };
            match cluster.delete(sort, namespace, name).await {
                Ok(()) => tell(&format!(
                    "removed {}, left by an earlier preflight",
                    sort.named(namespace, name)
                )),
                Err(missing) => tell(&NoVerdict::from(missing).failure.to_string()),
            }
        }
    }
}

/// Removes everything that was made for a Preflight object, and waits until it is gone: there are never two sets of it.
pub(super) async fn of_preflight(
    cluster: &ClusterClient,
    namespace: &str,
    uid: &str,
) -> Result<(), NoVerdict> {
    let labels = format!("{PREFLIGHT_UID}={uid}");
    let since = Instant::now();
    loop {
        let mut going = Vec::new();
        for sort in SORTS {
            let left = match cluster.list(sort, namespace, &labels).await {
                Ok(left) => left,
                // Without the Gateway API there are no routes.
                Err(MissingReason::NotFound) => continue,
                Err(failed) => return Err(failed.into()),
            };
            for object in left {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                going.push(sort.named(namespace, name));
                if object["metadata"]["deletionTimestamp"].is_null() {
                    cluster.delete(sort, namespace, name).await?;
                }
            }
        }
        if going.is_empty() {
            return Ok(());
        }
        if since.elapsed() >= GOING {
            return Err(NoVerdictReason::NotRemoved.could_not(format!(
                "what an attempt before has left is still there after {} s: {}; see what keeps it (a finalizer, or a node that is away)",
                GOING.as_secs(),
                going.join(", ")
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
}
