//! Services in front of the probers' echo. The responder is known, so a fault on the path shows.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{
    meta::{self, Component},
    values::Values,
};

/// Builds one with a `ClusterIP`, one headless, and one whose only endpoint is the caller itself; with the responder
/// also one whose only endpoint is the other Pod on the caller's node.
pub(super) fn services(values: &Values) -> Vec<Service> {
    let own_node = |spec: ServiceSpec| ServiceSpec {
        internal_traffic_policy: Some("Local".to_owned()),
        publish_not_ready_addresses: Some(true),
        ..spec
    };
    let plain = spec(Component::Prober, values);
    let mut services = vec![
        service("parallax-echo", Component::Prober, values, plain.clone()),
        service(
            "parallax-echo-headless",
            Component::Prober,
            values,
            ServiceSpec {
                cluster_ip: Some("None".to_owned()),
                ..plain.clone()
            },
        ),
        service("parallax-echo-local", Component::Prober, values, own_node(plain)),
    ];
    if values.responder {
        services.push(service(
            "parallax-echo-neighbour",
            Component::Responder,
            values,
            own_node(spec(Component::Responder, values)),
        ));
    }
    services
}

fn service(name: &str, part: Component, values: &Values, spec: ServiceSpec) -> Service {
    let mut metadata = part.metadata(name, values);
    if let Some(labels) = &mut metadata.labels {
        labels.insert("parallax.dev/echo".to_owned(), "true".to_owned());
    }
    // As an ordinary target, it is probed on a path that answers any client.
    metadata.annotations = Some(meta::string_map([
        ("parallax.dev/path", "/healthz"),
        ("parallax.dev/expect", "200"),
    ]));
    Service {
        metadata,
        spec: Some(spec),
        ..Service::default()
    }
}

fn spec(part: Component, values: &Values) -> ServiceSpec {
    ServiceSpec {
        selector: Some(part.labels()),
        ip_family_policy: Some("PreferDualStack".to_owned()),
        ports: Some(vec![ServicePort {
            name: Some("http-echo".to_owned()),
            app_protocol: Some("http".to_owned()),
            port: values.echo_port.into(),
            target_port: Some(IntOrString::String("echo".to_owned())),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        }]),
        ..ServiceSpec::default()
    }
}
