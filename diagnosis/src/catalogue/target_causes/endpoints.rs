//! Services without a usable endpoint, and the commands that show endpoints and Pods.

use parallax_model::KindClass;

use crate::{
    catalogue::{CauseContext, Claim, Clause, Wording},
    topology::Service,
};

/// Names the Service without a usable endpoint, the state of its endpoints, and what clients get instead.
pub(super) fn no_endpoint_mechanism(s: &CauseContext<'_>) -> Vec<Clause> {
    let what_is = |service: &Service| match service.endpoints.len() {
        0 => "none exists".to_owned(),
        1 => "the only one is not ready".to_owned(),
        count => format!("none of {count} is ready"),
    };
    let own = s.service.filter(|service| service.usable().is_empty());
    if let Some(service) = own {
        return Wording::new(s)
            .add_if(
                &[Claim::NoEndpoint],
                format!(
                    "Service {} has no usable endpoint ({})",
                    service.key,
                    what_is(service)
                ),
            )
            .add_if(
                &[Claim::NoEndpoint, Claim::MostlyClass(KindClass::Refused)],
                ", so connections are refused",
            )
            .add_if(
                &[Claim::NoEndpoint, Claim::MostlyClass(KindClass::NxDomain)],
                ", so its name has no address",
            )
            .clauses();
    }
    let Some(origin) = s.origin else {
        return Vec::new();
    };
    let answers = s
        .main_status()
        .map_or_else(|| "an error".to_owned(), |status| status.to_string());
    Wording::new(s)
        .add_if(
            &[Claim::NoOrigin],
            format!(
                "Service {} behind the route has no usable endpoint ({})",
                origin.key,
                what_is(origin)
            ),
        )
        .add_if(
            &[Claim::NoOrigin, Claim::Routed, Claim::Answered],
            format!(", so the controller answers {answers}"),
        )
        .clauses()
}

pub(super) fn endpoint_slices_command(service: &Service) -> String {
    let key = &service.key;
    format!(
        "kubectl -n {} get endpointslices -l kubernetes.io/service-name={} -o yaml",
        key.namespace, key.name
    )
}

pub(super) fn pods_command(service: &Service) -> String {
    let key = &service.key;
    format!(
        "kubectl -n {} get endpointslices,pods -l kubernetes.io/service-name={} -o wide",
        key.namespace, key.name
    )
}
