//! Checks whether a preflight may create its objects: never in an Ingress that serves other traffic, and nothing
//! that costs money, unless a flag allows it.

use parallax_preflight::{SolverRoute, billable_resource};
use serde_json::Value;

use super::{
    args::{PreflightSettings, Request},
    cluster::{ClusterClient, ClusterError, ObjectKind},
    edit_in_place,
    error::{NoVerdict, NoVerdictReason},
    route_plan::PlannedName,
};
use crate::commands::query::DEFAULT_NAMESPACE;

/// The DaemonSet whose image is the default.
const PROBER_DAEMON_SET: &str = "parallax-prober";

/// Checks whether a solver may be created for a plan.
pub(super) async fn check_allowed(
    request: &Request,
    notify: &dyn Fn(&str),
    cluster: &ClusterClient,
    planned: &PlannedName,
) -> Result<(), NoVerdict> {
    let solver = match &planned.route {
        Some(SolverRoute::Ingress(solver)) => solver,
        Some(SolverRoute::EditInPlace { name, .. }) if request.edit_in_place => {
            return edit_in_place::check_editable(cluster, &request.namespace, name, planned.host.as_str())
                .await;
        }
        Some(SolverRoute::EditInPlace { name, .. }) => {
            return Err(NoVerdictReason::EditInPlace.usage(format!(
                "{}: cert-manager would edit Ingress {}/{name} in place, which serves other traffic; a preflight edits it only with --edit-in-place; --no-create (noCreate) tests the existing path",
                planned.host, request.namespace
            )));
        }
        Some(SolverRoute::Route(_)) | None => return Ok(()),
    };
    let class = if solver.ingress_class_name.is_empty() {
        &solver.class
    } else {
        &solver.ingress_class_name
    };
    let controller = ingress_controller(cluster, class).await;
    let balancer = if solver.service_type == "LoadBalancer" {
        Some("a load balancer for the solver's Service (serviceType: LoadBalancer)")
    } else {
        billable_resource(&controller, class)
    };
    match balancer {
        Some(description) if !request.yes => Err(NoVerdictReason::Billable.usage(format!(
            "{}: {} provisions {description}, which costs money and takes minutes; add --yes (allowBillable) to continue, or --no-create (noCreate) to test the existing path",
            planned.host,
            planned.description()
        ))),
        Some(description) => {
            notify(&format!("{}: creating {description}, as --yes allows", planned.host));
            Ok(())
        }
        None => Ok(()),
    }
}

/// Returns the controller of a class or, without a class, of the default class; empty if unknown.
async fn ingress_controller(cluster: &ClusterClient, class: &str) -> String {
    let of = |class: &Value| {
        class["spec"]["controller"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    if !class.is_empty() {
        let found = cluster.get(ObjectKind::IngressClass, "", class).await;
        return found.map(|class| of(&class)).unwrap_or_default();
    }
    let classes = cluster
        .list(ObjectKind::IngressClass, "", "")
        .await
        .unwrap_or_default();
    let default = classes.iter().find(|class| {
        class["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"] == "true"
    });
    default.map(of).unwrap_or_default()
}

/// Returns the image of the responder.
pub(super) async fn responder_image(
    settings: &PreflightSettings,
    cluster: &ClusterClient,
) -> Result<String, NoVerdict> {
    if let Some(image) = &settings.image {
        return Ok(image.clone());
    }
    let namespace = settings
        .parallax_namespace
        .as_deref()
        .unwrap_or(DEFAULT_NAMESPACE);
    let problem = match cluster
        .get(ObjectKind::DaemonSet, namespace, PROBER_DAEMON_SET)
        .await
    {
        Ok(set) => match set["spec"]["template"]["spec"]["containers"][0]["image"].as_str() {
            Some(image) => return Ok(image.to_owned()),
            None => "it has no image".to_owned(),
        },
        Err(ClusterError::NotFound) => "it does not exist".to_owned(),
        Err(ClusterError::Failed(_, problem)) => problem,
    };
    Err(NoVerdictReason::NotFound.indeterminate(format!(
        "the image of the responder is unknown: it is that of DaemonSet {namespace}/{PROBER_DAEMON_SET}, but {problem}; give --image, or the DaemonSet's namespace with --parallax-namespace"
    )))
}
