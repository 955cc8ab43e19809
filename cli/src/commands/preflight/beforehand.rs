//! What is decided before anything is made: whether a solver may be made at all, and by which image.

use parallax_aggregator::preflight::{Approach, billable};
use serde_json::Value;

use super::{
    Args,
    cluster::{Cluster, Missing, Sort},
    edited,
    plan::Planned,
};
use crate::{commands::ask::NAMESPACE, exit::Failure};

/// The image of the installed probers, where nobody names one.
const PROBERS: &str = "parallax-prober";

/// Whether a synthetic solver may be made for a plan at all.
pub(super) async fn allowed(args: &Args, cluster: &Cluster, planned: &Planned) -> Result<(), Failure> {
    let solver = match &planned.approach {
        Some(Approach::Ingress(solver)) => solver,
        Some(Approach::EditInPlace { name, .. }) if args.edit_in_place => {
            return edited::possible(cluster, &args.namespace, name, planned.host.as_str()).await;
        }
        Some(Approach::EditInPlace { name, .. }) => {
            return Err(Failure::Usage(format!(
                "{}: cert-manager would edit Ingress {}/{name} in place, which serves others; a preflight touches it with --edit-in-place only. --no-create looks at the way that is there",
                planned.host, args.namespace
            )));
        }
        Some(Approach::Route(_)) | None => return Ok(()),
    };
    let class = if solver.ingress_class_name.is_empty() {
        &solver.class
    } else {
        &solver.ingress_class_name
    };
    let controller = controller(cluster, class).await;
    let balancer = if solver.service_type == "LoadBalancer" {
        Some("a load balancer for the solver's Service (serviceType: LoadBalancer)")
    } else {
        billable(&controller, class)
    };
    match balancer {
        Some(what) if !args.yes => Err(Failure::Usage(format!(
            "{}: {} makes {what}, which costs money and takes minutes; add --yes to go on, or --no-create",
            planned.host,
            planned.words()
        ))),
        Some(what) => {
            eprintln!("{}: this makes {what}, as --yes allows", planned.host);
            Ok(())
        }
        None => Ok(()),
    }
}

/// The controller of a class, of the default one where none is named; empty where it cannot be known.
async fn controller(cluster: &Cluster, class: &str) -> String {
    let of = |class: &Value| {
        class["spec"]["controller"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    if !class.is_empty() {
        let found = cluster.get(Sort::IngressClass, "", class).await;
        return found.map(|class| of(&class)).unwrap_or_default();
    }
    let classes = cluster.list(Sort::IngressClass, "", "").await.unwrap_or_default();
    let default = classes.iter().find(|class| {
        class["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"] == "true"
    });
    default.map(of).unwrap_or_default()
}

pub(super) async fn image(args: &Args, cluster: &Cluster) -> Result<String, Failure> {
    if let Some(image) = &args.image {
        return Ok(image.clone());
    }
    let namespace = args.parallax_namespace.as_deref().unwrap_or(NAMESPACE);
    let said = match cluster.get(Sort::DaemonSet, namespace, PROBERS).await {
        Ok(set) => match set["spec"]["template"]["spec"]["containers"][0]["image"].as_str() {
            Some(image) => return Ok(image.to_owned()),
            None => "it names no image".to_owned(),
        },
        Err(Missing::NotFound) => "it is not there".to_owned(),
        Err(Missing::Failed(said)) => said,
    };
    Err(Failure::CouldNot(format!(
        "which image responds? DaemonSet {namespace}/{PROBERS} would tell, but {said}; name one by --image, or the namespace by --parallax-namespace"
    )))
}
