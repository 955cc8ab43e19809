//! Inserts one path into an existing Ingress that serves other traffic, only with `--edit-in-place`, and always
//! removes it: the same process does on success, failure and Ctrl-C, and the next preflight in the namespace does
//! for a killed one.

use jiff::Timestamp;
use parallax_preflight::{DEADLINE, preflights_in, with_path, without_path};
use serde_json::{Value, json};

use super::{
    cluster::{ClusterClient, MissingReason, ObjectKind},
    error::{NoVerdict, NoVerdictReason},
};

/// The maximum number of attempts against concurrent writes.
const TRIES: usize = 10;

/// Checks whether the Ingress can be edited, before anything is created.
pub(super) async fn possible(
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
                MissingReason::NotFound => NoVerdictReason::NotFound.could_not(format!(
                    "there is no Ingress {namespace}/{name} to edit; cert-manager would fail as well"
                )),
                failed @ MissingReason::Failed(..) => failed.into(),
            })?;
    with_path(&ingress, host, &Value::Null)
        .map(|_| ())
        .map_err(|why| {
            NoVerdictReason::EditInPlace.could_not(format!("Ingress {namespace}/{name} is not edited: {why}"))
        })
}

/// Inserts the path.
pub(super) async fn add(
    cluster: &ClusterClient,
    namespace: &str,
    name: &str,
    (host, path): (&str, &Value),
) -> Result<(), MissingReason> {
    write(cluster, namespace, name, |ingress| {
        with_path(ingress, host, path).map_err(|why| {
            MissingReason::Failed(
                NoVerdictReason::EditInPlace,
                format!("Ingress {namespace}/{name} is not edited: {why}"),
            )
        })
    })
    .await
}

/// Removes the path of one preflight, and nothing else. A missing Ingress is not an error.
pub(super) async fn remove(
    cluster: &ClusterClient,
    namespace: &str,
    name: &str,
    preflight: &str,
) -> Result<(), MissingReason> {
    match write(cluster, namespace, name, |ingress| {
        Ok(without_path(ingress, preflight))
    })
    .await
    {
        Err(MissingReason::NotFound) => Ok(()),
        done => done,
    }
}

/// Replaces the rules, guarded by the resourceVersion that was read, so that concurrent edits are never
/// overwritten.
async fn write(
    cluster: &ClusterClient,
    namespace: &str,
    name: &str,
    rules: impl Fn(&Value) -> Result<Option<Value>, MissingReason>,
) -> Result<(), MissingReason> {
    for _ in 0..TRIES {
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
    Err(MissingReason::Failed(
        NoVerdictReason::Busy,
        format!(
            "cannot patch Ingress {namespace}/{name}: another client changed it during each of {TRIES} attempts; try again"
        ),
    ))
}

/// Removes the paths of killed preflights: those whose Service is gone or past its deadline. Failures are reported
/// and do not stop this preflight.
pub(super) async fn collect(cluster: &ClusterClient, namespace: &str, tell: &dyn Fn(&str)) {
    let ingresses = match cluster.list(ObjectKind::Ingress, namespace, "").await {
        Ok(ingresses) => ingresses,
        Err(MissingReason::NotFound) => return,
        Err(MissingReason::Failed(_, said)) => {
            tell(&format!(
                "cannot list Ingresses to remove paths of earlier preflights: {said}"
            ));
            return;
        }
    };
    for ingress in ingresses {
        let name = ingress["metadata"]["name"].as_str().unwrap_or_default();
        for preflight in preflights_in(&ingress) {
            if !is_over(cluster, namespace, &preflight).await {
                continue;
            }
            match remove(cluster, namespace, name, &preflight).await {
                Ok(()) => tell(&format!(
                    "removed the path of {preflight} from Ingress {namespace}/{name}, left over from an earlier preflight"
                )),
                Err(missing) => tell(&NoVerdict::from(missing).failure.to_string()),
            }
        }
    }
}

async fn is_over(cluster: &ClusterClient, namespace: &str, preflight: &str) -> bool {
    match cluster.get(ObjectKind::Service, namespace, preflight).await {
        Ok(service) => service["metadata"]["annotations"][DEADLINE]
            .as_str()
            .and_then(|deadline| deadline.parse::<Timestamp>().ok())
            .is_none_or(|deadline| deadline < Timestamp::now()),
        Err(MissingReason::NotFound) => true,
        // The preflight may be in progress.
        Err(MissingReason::Failed(..)) => false,
    }
}
