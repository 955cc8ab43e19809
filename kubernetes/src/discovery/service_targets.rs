//! Targets of Services themselves: load balancer addresses, headless names, the API server.

use std::collections::BTreeSet;

use parallax_diagnosis::topology::{PortSpec, PublishedSpec, ServiceSpec, ServiceType};
use parallax_model::{SearchManner, ServiceKey, TargetSpec};

use super::{
    ProbeSelection,
    notes::NoteCollector,
    services::{ConvertedService, ServiceIndex},
};

/// Decides for each Service whether to probe its cluster addresses, and adds its other targets.
pub(super) fn targets(
    services: &mut ServiceIndex<'_>,
    entries: &BTreeSet<ServiceKey>,
    selection: &ProbeSelection<'_>,
    notes: &mut NoteCollector,
) -> Vec<PublishedSpec> {
    let mut published = Vec::new();
    for (key, found) in &mut services.all {
        let namespace = key.namespace.as_str();
        if found.between_jobs && found.annotations.probe != Some(true) {
            found.spec.probe.enabled = Some(false);
            notes.add(
                found.label(),
                "its Pods belong to a Job, and none of them is serving; it is not probed",
            );
            continue;
        }
        let choice = selection.explicit_choice(&found.annotations, namespace);
        found.spec.probe.enabled = match choice {
            Some(choice) => Some(choice),
            None if selection.by_default => None,
            None => Some(false),
        };
        if !selection.is_target(&found.annotations, namespace) {
            continue;
        }
        let before = published.len();
        if found.spec.service_type == ServiceType::LoadBalancer {
            note_pending(found, notes);
            // The hosts of an entry already probe its load balancer.
            if !entries.contains(key) {
                add_load_balancer(found, &mut published);
            }
        }
        add_headless(found, choice == Some(true), &mut published);
        let probed = published.len() > before
            || choice == Some(true)
            || (!found.spec.cluster_ips.is_empty() && found.spec.ports.iter().any(speaks_http));
        if probed && !found.has_endpoints() {
            notes.add(found.label(), "it is probed but has no serving endpoint");
        }
    }
    published
}

/// `kubernetes.default`, by name and by address, as used by every client in the cluster.
pub(super) fn api_server(services: &ServiceIndex<'_>) -> Vec<TargetSpec> {
    let is_api = |key: &ServiceKey| key.namespace.as_str() == "default" && key.name.as_str() == "kubernetes";
    let Some((_, found)) = services.all.iter().find(|(key, _)| is_api(key)) else {
        return Vec::new();
    };
    if found.spec.probe.enabled == Some(false) {
        return Vec::new();
    }
    let name = TargetSpec {
        search: Some(SearchManner::Glibc),
        ..TargetSpec::new("dns://kubernetes.default.svc")
    };
    let port = found.spec.ports.first().map(|port| port.port);
    let connect = port.map(|port| TargetSpec::new(format!("tcp://kubernetes.default.svc:{port}")));
    [name].into_iter().chain(connect).collect()
}

fn note_pending(found: &ConvertedService<'_>, notes: &mut NoteCollector) {
    let ingress = &found.object.status.load_balancer.ingress;
    if ingress.is_empty() && found.spec.load_balancer.is_empty() {
        notes.add(found.label(), "its load balancer has no address yet");
    }
}

fn add_load_balancer(found: &ConvertedService<'_>, published: &mut Vec<PublishedSpec>) {
    let addresses = found
        .spec
        .load_balancer
        .iter()
        .map(|lb| bracketed(&lb.ip.to_string()));
    let names = found.balancer_names().map(ToOwned::to_owned);
    for address in addresses.chain(names) {
        for port in &found.spec.ports {
            let mut target = target_at(&found.spec, port, &format!("{address}:{}", port.port));
            target.target.pending |= found.refuses_nodes;
            published.push(target);
        }
    }
}

/// A headless Service has a name but no address; each lookup leads to one of its Pods.
fn add_headless(found: &ConvertedService<'_>, requested: bool, published: &mut Vec<PublishedSpec>) {
    if !found.spec.cluster_ips.is_empty() {
        return;
    }
    let name = format!("{}.{}.svc", found.spec.name, found.spec.namespace);
    for port in found
        .spec
        .ports
        .iter()
        .filter(|port| requested || speaks_http(port))
    {
        published.push(target_at(
            &found.spec,
            port,
            &format!("{name}:{}", port.target_port),
        ));
    }
}

fn target_at(spec: &ServiceSpec, port: &PortSpec, authority: &str) -> PublishedSpec {
    let probe = &spec.probe;
    let target = if speaks_http(port) {
        TargetSpec {
            expect_status: probe.expect_status.clone(),
            ..TargetSpec::new(format!(
                "http://{authority}{}",
                probe.path.as_deref().unwrap_or("/")
            ))
        }
    } else {
        TargetSpec::new(format!("tcp://{authority}"))
    };
    PublishedSpec {
        target: TargetSpec {
            interval_ms: probe.interval_ms,
            pending: probe.pending,
            ..target
        },
        service: spec.key(),
        port: port.port,
        class: None,
        origin: None,
    }
}

fn bracketed(address: &str) -> String {
    if address.contains(':') {
        format!("[{address}]")
    } else {
        address.to_owned()
    }
}

fn speaks_http(port: &PortSpec) -> bool {
    let word = port.app_protocol.as_ref().or(port.name.as_ref());
    word.is_some_and(|word| word.as_str() == "http" || word.as_str().starts_with("http-"))
}
