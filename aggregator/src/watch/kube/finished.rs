//! Services whose Pods have finished: a Job ends, and its Service stays without an endpoint. Nothing is broken then.
//!
//! Slices do not name the owner of a Pod, and Pods of other namespaces may not be read. What tells a finished Pod from one
//! that is deleted, or selected no more, is how its endpoint leaves
//! (`k8s.io/endpointslice`, `reconciler.go` and `trigger_time_tracker.go`):
//!
//! | what happens | the endpoint | the time of the latest trigger |
//! |---|---|---|
//! | a Pod is deleted | is terminating, then leaves | is left out when it leaves |
//! | the selector changes | leaves | is left out |
//! | a container fails | stays, not ready | is new |
//! | a Pod finishes: `Succeeded` or `Failed` | leaves | is new, as the Pod is still selected and its readiness changed |

use super::objects::{Endpoint, EndpointSlice, TRIGGER_TIME};

/// Letters of generated names (`k8s.io/apimachinery/pkg/util/rand`).
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Whether an endpoint left a slice because its Pod has finished, and no controller will start another in its place.
pub(super) fn left_finished(was: &EndpointSlice, is: &EndpointSlice) -> bool {
    let trigger = is.metadata.annotation(TRIGGER_TIME);
    let triggered = trigger.is_some() && trigger != was.metadata.annotation(TRIGGER_TIME);
    let gone = |endpoint: &&Endpoint| {
        let same = |other: &Endpoint| other.target_ref.name == endpoint.target_ref.name;
        !is.endpoints.iter().any(same)
    };
    let finished = |endpoint: &Endpoint| {
        endpoint.target_ref.kind == "Pod"
            && !endpoint.conditions.terminating.unwrap_or(false)
            && !is_replaced(&endpoint.target_ref.name)
    };
    triggered && was.endpoints.iter().filter(gone).any(finished)
}

/// Whether the name is one of a Pod whose controller starts another when it has failed, as after an eviction: a
/// `ReplicaSet` of a Deployment (`NAME-HASH-RANDOM`) or a `StatefulSet` (`NAME-ORDINAL`). Names of a Job's Pods are
/// `NAME-RANDOM`, `NAME-INDEX-RANDOM`, and `NAME-MINUTES-RANDOM` for a `CronJob`.
fn is_replaced(pod: &str) -> bool {
    let generated = |part: &str| part.chars().all(|c| GENERATED.contains(c));
    let ordinal = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let mut parts = pod.rsplit('-');
    let (last, before) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let hash = (6..=10).contains(&before.len()) && generated(before) && !ordinal(before);
    if last.len() == 5 && generated(last) {
        hash && parts.next().is_some()
    } else {
        ordinal(last)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::watch::kube::{cluster::Cluster, objects::Thing, resource::Resource};

    fn slice(trigger: Option<&str>, endpoints: &[(&str, bool)]) -> Value {
        let endpoints: Vec<Value> = endpoints
            .iter()
            .map(|(pod, terminating)| {
                json!({
                    "addresses": ["10.244.1.7"], "targetRef": {"kind": "Pod", "name": pod},
                    "conditions": {"ready": !terminating, "serving": true, "terminating": terminating},
                })
            })
            .collect();
        let annotations = trigger.map_or_else(|| json!({}), |time| json!({(TRIGGER_TIME): time}));
        json!({
            "metadata": {"namespace": "night", "name": "import-1", "labels": {"kubernetes.io/service-name": "import"},
                "annotations": annotations},
            "addressType": "IPv4", "endpoints": endpoints,
        })
    }

    fn finished(slices: &[Value]) -> bool {
        let mut cluster = Cluster::default();
        for slice in slices {
            cluster.put(Thing::read(Resource::EndpointSlices, slice.clone()).unwrap());
        }
        !cluster.finished.is_empty()
    }

    const JOB: &str = "import-x7k2p";

    #[test]
    fn the_pods_of_a_service_have_finished_when_the_last_endpoint_leaves_with_a_changed_readiness() {
        let runs = slice(Some("a"), &[(JOB, false)]);
        assert!(finished(&[runs.clone(), slice(Some("b"), &[])]));
        // The next run of a CronJob.
        let again = slice(Some("c"), &[("import-29402346-vqz8t", false)]);
        assert!(!finished(&[runs.clone(), slice(Some("b"), &[]), again]));
        // Another one goes on.
        let two = slice(Some("a"), &[(JOB, false), ("import-b9d4c", false)]);
        assert!(!finished(&[
            two.clone(),
            slice(Some("b"), &[("import-b9d4c", false)])
        ]));
        assert!(finished(&[
            two,
            slice(Some("b"), &[("import-b9d4c", false)]),
            slice(Some("c"), &[])
        ]));
    }

    #[test]
    fn pods_that_are_deleted_or_selected_no_more_or_replaced_have_not_finished() {
        let runs = slice(Some("a"), &[(JOB, false)]);
        assert!(!finished(&[runs.clone(), slice(None, &[])]), "another selector");
        let ends = slice(Some("b"), &[(JOB, true)]);
        assert!(
            !finished(&[runs.clone(), ends.clone(), slice(None, &[])]),
            "deleted"
        );
        assert!(
            !finished(&[runs, ends, slice(Some("c"), &[])]),
            "deleted, and another's readiness changed"
        );
        for replaced in ["shop-76bcc87978-ctzwn", "ledger-0"] {
            let runs = slice(Some("a"), &[(replaced, false)]);
            assert!(!finished(&[runs, slice(Some("b"), &[])]), "{replaced} is evicted");
        }
    }

    #[test]
    fn names_of_pods_that_are_replaced() {
        for name in [
            "shop-76bcc87978-ctzwn",
            "a-b-5d4f8c7b9-x2x4z",
            "ledger-0",
            "ledger-12",
        ] {
            assert!(is_replaced(name), "{name}");
        }
        for name in [
            "import-x7k2p",
            "import-3-x7k2p",
            "import-29402345-x7k2p",
            "import-data-x7k2p",
            "once",
        ] {
            assert!(!is_replaced(name), "{name}");
        }
    }

    #[test]
    fn a_service_that_is_gone_is_forgotten() {
        let mut cluster = Cluster::default();
        for slice in [slice(Some("a"), &[(JOB, false)]), slice(Some("b"), &[])] {
            cluster.put(Thing::read(Resource::EndpointSlices, slice).unwrap());
        }
        let key = cluster.finished.first().unwrap().clone();
        assert_eq!(key.to_string(), "night/import");
        cluster.remove(Resource::Services, &key);
        assert!(cluster.finished.is_empty());
    }
}
