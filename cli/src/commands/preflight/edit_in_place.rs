//! An Ingress that serves others, with one more path for a moment. Only ever with `--edit-in-place`, and undone whatever
//! happens: on success, failure and Ctrl-C by the same process, of a killed one by the next preflight in the namespace.

use jiff::Timestamp;
use parallax_preflight::{DEADLINE, preflights_in, with_path, without_path};
use serde_json::{Value, json};

use super::{
    cluster::{ClusterClient, MissingReason, ObjectKind},
    error::{NoVerdict, NoVerdictReason},
};

/// Tries against others who write the same Ingress.
const TRIES: usize = 10;

/// Whether an Ingress could be edited at all, before anything is made.
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
                    "there is no Ingress {namespace}/{name} to edit; cert-manager would fail in the same way"
                )),
                failed @ MissingReason::Failed(..) => failed.into(),
            })?;
    with_path(&ingress, host, &Value::Null)
        .map(|_| ())
        .map_err(|why| {
            NoVerdictReason::EditInPlace.could_not(format!("Ingress {namespace}/{name} is left alone: {why}"))
        })
}

/// Adds the path.
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
                format!("Ingress {namespace}/{name} is left alone: {why}"),
            )
        })
    })
    .await
}

/// Removes the path of one preflight, and nothing else. An Ingress that is gone has none.
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

/// Writes other rules, guarded by the version that they were made from: who wrote in between is never overwritten.
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
            "cannot patch Ingress {namespace}/{name}: somebody else wrote it each of {TRIES} times; try again"
        ),
    ))
}

/// Removes the paths of preflights that were killed: their Service is gone, or its deadline has passed. What cannot be
/// removed is said and does not hinder this one.
pub(super) async fn collect(cluster: &ClusterClient, namespace: &str, tell: &dyn Fn(&str)) {
    let ingresses = match cluster.list(ObjectKind::Ingress, namespace, "").await {
        Ok(ingresses) => ingresses,
        Err(MissingReason::NotFound) => return,
        Err(MissingReason::Failed(_, said)) => {
            tell(&format!(
                "cannot look for paths that earlier preflights left: {said}"
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
                    "removed the path of {preflight} from Ingress {namespace}/{name}, left by an earlier preflight"
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
        // It may be under way.
        Err(MissingReason::Failed(..)) => false,
    }
}
