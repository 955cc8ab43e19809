//! Hosts claimed by `HTTPRoutes` at their Gateways.

use parallax_model::{ObjectName, Scheme, ServiceKey};

use super::{
    ProbeSelection,
    annotations::parse_annotations,
    hosts::{HostClaim, host_matches, sample_hosts},
    notes::{NoteCollector, quote},
    services::ServiceIndex,
};
use crate::{
    cluster::ClusterState,
    objects::{Gateway, HttpRoute, Key, Listener, ParentRef},
};

/// Label of the objects that a controller creates for a Gateway (GEP-1762).
const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

pub(super) fn claims(
    cluster: &ClusterState,
    services: &ServiceIndex<'_>,
    selection: &ProbeSelection<'_>,
    notes: &mut NoteCollector,
) -> Vec<HostClaim> {
    let mut claims = Vec::new();
    for (key, route) in &cluster.routes {
        let owner = format!("HTTPRoute {key}");
        let wish = parse_annotations(&owner, &route.metadata, notes);
        if !selection.is_target(&wish, &key.namespace) {
            continue;
        }
        note_rejections(&owner, route, notes);
        for parent in &route.spec.parent_refs {
            if !matches!(parent.kind.as_str(), "" | "Gateway") {
                continue;
            }
            let gateway_key = parent_key(route, parent);
            let Some(gateway) = cluster.gateways.get(&gateway_key) else {
                notes.add(&owner, format_args!("its Gateway {gateway_key} does not exist"));
                continue;
            };
            let entry = entry_service(gateway, services);
            for (host, scheme, port) in listener_hosts(route, gateway, parent) {
                let found = entry.as_ref().and_then(|key| services.all.get(key));
                if found.is_some_and(|found| found.entry_port(port).is_none()) {
                    continue;
                }
                for name in sample_hosts(&owner, &host, &wish, notes) {
                    claims.push(HostClaim {
                        owner: owner.clone(),
                        created: route.metadata.creation_timestamp.clone(),
                        host: name,
                        scheme,
                        port,
                        entry: entry.clone(),
                        // Two Gateways are two separate entries, whatever their class.
                        class: ObjectName::new(format!("gateway:{gateway_key}")).ok(),
                        origin: origin_service(route),
                        annotations: wish.clone(),
                    });
                }
            }
        }
    }
    claims
}

fn parent_key(route: &HttpRoute, parent: &ParentRef) -> Key {
    let namespace = if parent.namespace.is_empty() {
        &route.metadata.namespace
    } else {
        &parent.namespace
    };
    Key {
        namespace: namespace.clone(),
        name: parent.name.clone(),
    }
}

/// Notes routes that their Gateway does not accept. They are probed nevertheless.
fn note_rejections(owner: &str, route: &HttpRoute, notes: &mut NoteCollector) {
    for parent in &route.status.parents {
        for condition in &parent.conditions {
            if condition.status == "False" && matches!(condition.kind.as_str(), "Accepted" | "ResolvedRefs") {
                notes.add(
                    owner,
                    format_args!(
                        "the Gateway {} reports that the route is not {} ({})",
                        quote(&parent.parent_ref.name),
                        condition.kind,
                        quote(&condition.reason)
                    ),
                );
            }
        }
    }
}

/// The hosts of a route at its listeners; the narrower of route and listener host each.
fn listener_hosts(route: &HttpRoute, gateway: &Gateway, parent: &ParentRef) -> Vec<(String, Scheme, u16)> {
    let mut all = Vec::new();
    for listener in &gateway.spec.listeners {
        let named = parent.section_name.is_empty() || parent.section_name == listener.name;
        let on_port = parent.port.is_none_or(|port| port == listener.port);
        let (Some(scheme), Ok(port)) = (scheme(listener), u16::try_from(listener.port)) else {
            continue;
        };
        if !named || !on_port {
            continue;
        }
        if route.spec.hostnames.is_empty() {
            all.push((listener.hostname.clone(), scheme, port));
        }
        let met = route
            .spec
            .hostnames
            .iter()
            .filter_map(|host| narrower_host(host, &listener.hostname));
        all.extend(met.map(|host| (host.to_owned(), scheme, port)));
    }
    all
}

fn scheme(listener: &Listener) -> Option<Scheme> {
    match listener.protocol.as_str() {
        "HTTP" => Some(Scheme::Http),
        "HTTPS" => Some(Scheme::Https),
        _ => None,
    }
}

fn narrower_host<'a>(route: &'a str, listener: &'a str) -> Option<&'a str> {
    let bare = |pattern: &'a str| pattern.strip_prefix('*').unwrap_or(pattern);
    if host_matches(listener, bare(route)) || listener == route {
        Some(route)
    } else if host_matches(route, bare(listener)) {
        Some(listener)
    } else {
        None
    }
}

/// The Service that was created for the Gateway, otherwise the one with its address.
fn entry_service(gateway: &Gateway, services: &ServiceIndex<'_>) -> Option<ServiceKey> {
    let made = services.all.values().find(|found| {
        found.object.metadata.namespace == gateway.metadata.namespace
            && found.object.metadata.label(GATEWAY_NAME) == Some(gateway.metadata.name.as_str())
    });
    made.map(|found| found.spec.key()).or_else(|| {
        let listens = |listener: &Listener| u16::try_from(listener.port).ok();
        let ports: Vec<u16> = gateway.spec.listeners.iter().filter_map(listens).collect();
        let addresses = gateway.status.addresses.iter();
        let addresses: Vec<&str> = addresses.map(|address| address.value.as_str()).collect();
        services.entry_for(&addresses, &ports)
    })
}

fn origin_service(route: &HttpRoute) -> Option<ServiceKey> {
    let backend = route
        .spec
        .rules
        .iter()
        .flat_map(|rule| &rule.backend_refs)
        .find(|backend| matches!(backend.kind.as_str(), "" | "Service"))?;
    let namespace = if backend.namespace.is_empty() {
        &route.metadata.namespace
    } else {
        &backend.namespace
    };
    format!("{namespace}/{}", backend.name).parse().ok()
}
