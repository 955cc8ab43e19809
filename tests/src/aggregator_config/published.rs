//! Targets published by the Service through which clients enter.

use parallax_diagnosis::topology::PublishedSpec;
use parallax_model::TargetSpec;

use crate::{cluster::Service, incident::Ingress};

/// Reports whether the Ingress has settings that an Ingress object in the topology file cannot express.
pub(super) const fn is_published(ingress: &Ingress) -> bool {
    ingress.expect_status.is_some() || ingress.origin.is_some()
}

/// Returns targets for an Ingress. An Ingress object has no expected status and no Service behind its controller; a
/// target of a Service has both.
pub(super) fn published(ingress: &Ingress) -> impl Iterator<Item = PublishedSpec> {
    ingress.hosts.names().iter().map(|host| PublishedSpec {
        target: TargetSpec {
            expect_status: ingress.expect_status.clone(),
            ..TargetSpec::new(format!("http://{host}/"))
        },
        service: ingress.service.clone(),
        port: 80,
        class: ingress.class.clone(),
        origin: ingress.origin.clone(),
    })
}

/// Returns targets for a headless Service, which are probed by name, as when an API server is watched.
pub(super) fn headless(service: &Service) -> impl Iterator<Item = PublishedSpec> {
    let ports = service.ports.iter().filter(|_| service.cluster_ip.is_none());
    let name = format!("{}.{}.svc", service.key.name, service.key.namespace);
    ports.map(move |port| PublishedSpec {
        target: TargetSpec::new(format!("http://{name}:{}/", port.target_port)),
        service: service.key.clone(),
        port: port.port,
        class: None,
        origin: None,
    })
}
