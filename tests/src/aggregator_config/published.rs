//! Targets that are published with the Service they enter through.

use parallax_diagnosis::topology::PublishedSpec;
use parallax_model::TargetSpec;

use crate::{cluster::Service, incident::Ingress};

/// Whether it says more than the file's Ingresses can.
pub(super) const fn is_published(ingress: &Ingress) -> bool {
    ingress.expect_status.is_some() || ingress.origin.is_some()
}

/// An Ingress knows no status and no Service behind its controller; a target that enters through its Service does.
pub(super) fn published(ingress: &Ingress) -> impl Iterator<Item = PublishedSpec> {
    ingress.hosts.names().iter().map(|host| PublishedSpec {
        target: TargetSpec {
            expect_status: ingress.expect_status.clone(),
            ..TargetSpec::of(format!("http://{host}/"))
        },
        service: ingress.service.clone(),
        port: 80,
        class: ingress.class.clone(),
        origin: ingress.origin.clone(),
    })
}

/// A headless Service is asked by its name, as the watch of an API server has it asked.
pub(super) fn headless(service: &Service) -> impl Iterator<Item = PublishedSpec> {
    let ports = service.ports.iter().filter(|_| service.cluster_ip.is_none());
    let name = format!("{}.{}.svc", service.key.name, service.key.namespace);
    ports.map(move |port| PublishedSpec {
        target: TargetSpec::of(format!("http://{name}:{}/", port.target_port)),
        service: service.key.clone(),
        port: port.port,
        class: None,
        origin: None,
    })
}
