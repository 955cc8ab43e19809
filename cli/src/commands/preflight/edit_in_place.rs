//! Inserts one path into an existing Ingress that serves other traffic, only with `--edit-in-place`, and always
//! removes it: the same process does on success, failure and Ctrl-C, and the next preflight in the namespace does
//! for a killed one.

use jiff::Timestamp;
use parallax_preflight::{
    DEADLINE_ANNOTATION, insert_path, preflights_with_path, remove_path as remove_solver_path,
};
use serde_json::{Value, json};

use super::{
    cluster::{ClusterClient, ClusterError, ObjectKind},
    error::{NoVerdict, NoVerdictReason},
};

/// The maximum number of attempts against concurrent writes.
const MAX_ATTEMPTS: usize = 10;

/// Checks whether the Ingress can be edited, before anything is created.
pub(super) async fn check_editable(
    cluster: &ClusterClient,
    namespace: &str,
    name: &str,
    host: &str,
) -> Result<(), NoVerdict> {
    let ingress =
        cluster
            .get(ObjectKind::Ingress, namespace, name)
            .await
            .map_err(|missing| match missing {
                ClusterError::NotFound => NoVerdictReason::NotFound.indeterminate(format!(
                    "there is no Ingress {namespace}/{name} to edit; cert-manager would fail as well"
                )),
                failed @ ClusterError::Failed(..) => failed.into(),
            })?;
    insert_path(&ingress, host, &Value::Null)
        .map(|_| ())
        .map_err(|reason| {
            NoVerdictReason::EditInPlace
                .indeterminate(format!("Ingress {namespace}/{name} is not edited: {reason}"))
        })
}

/// Inserts the path.
pub(super) async fn add_path(
    cluster: &ClusterClient,
    namespace: &str,
    name: &str,
    (host, path): (&str, &Value),
) -> Result<(), ClusterError> {
    update_rules(cluster, namespace, name, |ingress| {
        insert_path(ingress, host, path).map_err(|reason| {
            ClusterError::Failed(
                NoVerdictReason::EditInPlace,
                format!("Ingress {namespace}/{name} is not edited: {reason}"),
            )
        })
    })
    .await
}

/// Removes the path of one preflight, and nothing else. A missing Ingress is not an error.
pub(super) async fn remove_path(
    cluster: &ClusterClient,
    namespace: &str,
    name: &str,
    preflight: &str,
) -> Result<(), ClusterError> {
    match update_rules(cluster, namespace, name, |ingress| {
        Ok(remove_solver_path(ingress, preflight))
    })
    .await
    {
        Err(ClusterError::NotFound) => Ok(()),
        done => done,
    }
}

/// Replaces the rules, guarded by the resourceVersion that was read, so that concurrent edits are never
/// overwritten.
async fn update_rules(
    cluster: &ClusterClient,
    namespace: &str,
    name: &str,
    rules: impl Fn(&Value) -> Result<Option<Value>, ClusterError>,
) -> Result<(), ClusterError> {
    for _ in 0..MAX_ATTEMPTS {
        let ingress = cluster.get(ObjectKind::Ingress, namespace, name).await?;
        let Some(rules) = rules(&ingress)? else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {"resourceVersion": ingress["metadata"]["resourceVersion"]},
            "spec": {"rules": rules},
        });
        if cluster
            .patch(ObjectKind::Ingress, namespace, name, &patch)
            .await?
        {
            return Ok(());
        }
    }
    Err(ClusterError::Failed(
        NoVerdictReason::Busy,
        format!(
            "cannot patch Ingress {namespace}/{name}: another client changed it during each of {MAX_ATTEMPTS} attempts; try again"
        ),
    ))
}

/// Removes the paths of killed preflights: those whose Service is gone or past its deadline. Failures are reported
/// and do not stop this preflight.
pub(super) async fn remove_expired_paths(cluster: &ClusterClient, namespace: &str, notify: &dyn Fn(&str)) {
    let ingresses = match cluster.list(ObjectKind::Ingress, namespace, "").await {
        Ok(ingresses) => ingresses,
        Err(ClusterError::NotFound) => return,
        Err(ClusterError::Failed(_, error)) => {
            notify(&format!(
                "cannot list Ingresses to remove paths of earlier preflights: {error}"
            ));
            return;
        }
    };
    for ingress in ingresses {
        let name = ingress["metadata"]["name"].as_str().unwrap_or_default();
        for preflight in preflights_with_path(&ingress) {
            if !is_expired(cluster, namespace, &preflight).await {
                continue;
            }
            match remove_path(cluster, namespace, name, &preflight).await {
                Ok(()) => notify(&format!(
                    "removed the path of {preflight} from Ingress {namespace}/{name}, left over from an earlier preflight"
                )),
                Err(missing) => notify(&NoVerdict::from(missing).failure.to_string()),
            }
        }
    }
}

async fn is_expired(cluster: &ClusterClient, namespace: &str, preflight: &str) -> bool {
    match cluster.get(ObjectKind::Service, namespace, preflight).await {
        Ok(service) => service["metadata"]["annotations"][DEADLINE_ANNOTATION]
            .as_str()
            .and_then(|deadline| deadline.parse::<Timestamp>().ok())
            .is_none_or(|deadline| deadline < Timestamp::now()),
        Err(ClusterError::NotFound) => true,
        // The preflight may be in progress.
        Err(ClusterError::Failed(..)) => false,
    }
}
