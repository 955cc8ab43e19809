//! The owner of a synthetic solver's objects: its Pod, or the Preflight object that requested it.

use serde_json::{Value, json};

use super::objects::{RouteObject, SyntheticSolver};

/// Label with the UID of the Preflight object that an object was created for. A recreated Preflight has another
/// UID.
pub const PREFLIGHT_UID_LABEL: &str = "parallax.dev/preflight-uid";

/// A Preflight object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflightOwner {
    /// The name; the owned objects are in its namespace.
    pub name: String,
    /// The UID.
    pub uid: String,
}

impl SyntheticSolver {
    /// Makes the Pod the owner of the other objects, so that deleting it removes everything.
    pub fn set_pod_owner(&mut self, pod_uid: &str) {
        let name = self.pod["metadata"]["name"].clone();
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod_uid}]);
        for object in self.objects_mut().skip(1) {
            object["metadata"]["ownerReferences"] = owner.clone();
        }
    }

    /// Makes a Preflight object the owner of all objects, and labels them with its UID.
    ///
    /// The reference does not set `blockOwnerDeletion`: deletion need not wait for these objects, and a cluster may
    /// require a separate permission for it (`update` on the owner's finalizers).
    pub fn set_preflight_owner(&mut self, owner: &PreflightOwner) {
        let reference = json!([{"apiVersion": "parallax.dev/v1alpha1", "kind": "Preflight", "name": owner.name,
            "uid": owner.uid, "controller": true}]);
        for object in self.objects_mut() {
            object["metadata"]["ownerReferences"] = reference.clone();
            object["metadata"]["labels"][PREFLIGHT_UID_LABEL] = owner.uid.as_str().into();
        }
    }

    /// All objects, the Pod first. An Ingress that is edited in place belongs to someone else and gets no owner.
    fn objects_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        let way = match &mut self.route {
            RouteObject::Ingress(way) | RouteObject::Route(way) => Some(way),
            RouteObject::Path { .. } => None,
        };
        [&mut self.pod, &mut self.service].into_iter().chain(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IngressSolver, SolverInputs, SolverRoute};

    fn solver() -> SyntheticSolver {
        let material = SolverInputs {
            name: "parallax-preflight-1".to_owned(),
            namespace: "shop".to_owned(),
            host: "shop.example.test".to_owned(),
            token: "t".to_owned(),
            key: "t.k".to_owned(),
            image: "parallax:test".to_owned(),
            deadline: "2026-11-22T00:00:00Z".to_owned(),
            lifetime_seconds: 600,
        };
        SyntheticSolver::from_route(&SolverRoute::Ingress(IngressSolver::default()), &material)
    }

    fn owners(solver: &mut SyntheticSolver) -> Vec<Value> {
        let objects = solver.objects_mut();
        objects
            .map(|object| object["metadata"]["ownerReferences"].clone())
            .collect()
    }

    #[test]
    fn a_preflight_object_owns_everything_as_its_controller_and_everything_names_its_owner() {
        let mut solver = solver();
        solver.set_preflight_owner(&PreflightOwner {
            name: "web".to_owned(),
            uid: "uid-8".to_owned(),
        });
        for reference in owners(&mut solver) {
            assert_eq!(
                reference,
                json!([{"apiVersion": "parallax.dev/v1alpha1", "kind": "Preflight", "name": "web", "uid": "uid-8",
                        "controller": true}])
            );
        }
        for object in solver.objects_mut() {
            let labels = &object["metadata"]["labels"];
            assert_eq!(labels[PREFLIGHT_UID_LABEL], "uid-8");
            assert_eq!(labels[super::super::PREFLIGHT_LABEL], "parallax-preflight-1");
        }
        // The Service's selector must match the Pod's labels, including labels that were added later.
        let selector = &solver.service["spec"]["selector"];
        for (name, value) in selector.as_object().unwrap() {
            assert_eq!(&solver.pod["metadata"]["labels"][name], value);
        }
    }
}
