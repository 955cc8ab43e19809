//! Hosts claimed by Ingresses.

use std::collections::BTreeSet;

use parallax_model::{ObjectName, Scheme, ServiceKey};

use super::{
    ProbeSelection,
    annotations::parse_annotations,
    entries::{IngressEntries, status_addresses},
    hosts::{HostClaim, host_matches, sample_hosts},
    notes::{NoteCollector, quote},
    services::ServiceIndex,
};
use crate::{
    cluster::ClusterState,
    objects::{Backend, Ingress, IngressRule},
};

pub(super) fn claims(
    cluster: &ClusterState,
    services: &ServiceIndex<'_>,
    entries: &IngressEntries<'_>,
    selection: &ProbeSelection<'_>,
    notes: &mut NoteCollector,
) -> Vec<HostClaim> {
    let mut claims = Vec::new();
    for (key, ingress) in &cluster.ingresses {
        let owner = format!("Ingress {key}");
        let wish = parse_annotations(&owner, &ingress.metadata, notes);
        if !selection.is_target(&wish, &key.namespace) {
            continue;
        }
        let class = entries.class_of(ingress);
        if let Some(class) = class.as_ref().filter(|class| class.missing) {
            notes.add(
                &owner,
                format_args!("the IngressClass {} does not exist", quote(&class.name)),
            );
        }
        let entry = entries.entry_of(ingress, services);
        if entry.is_none() {
            note_node_address(&owner, ingress, services, notes);
        }
        for (host, rules) in rules_by_host(ingress) {
            for name in sample_hosts(&owner, host, &wish, notes) {
                let schemes = [(Scheme::Http, 80_u16), (Scheme::Https, 443)];
                for (scheme, port) in schemes {
                    let found = entry.as_ref().and_then(|key| services.all.get(key));
                    let served = found.is_none_or(|found| found.entry_port(port).is_some());
                    if !served || (scheme == Scheme::Https && !has_tls(ingress, name.as_str())) {
                        continue;
                    }
                    claims.push(HostClaim {
                        owner: owner.clone(),
                        created: ingress.metadata.creation_timestamp.clone(),
                        host: name.clone(),
                        scheme,
                        port,
                        entry: entry.clone(),
                        class: class
                            .as_ref()
                            .and_then(|class| ObjectName::new(class.name.as_str()).ok()),
                        origin: origin_service(ingress, &rules),
                        annotations: wish.clone(),
                    });
                }
            }
        }
    }
    claims
}

/// Notes an Ingress whose status names a node on which no known Pod listens.
fn note_node_address(owner: &str, ingress: &Ingress, services: &ServiceIndex<'_>, notes: &mut NoteCollector) {
    let own = status_addresses(ingress).find_map(|address| Some((address, services.node_at(address)?)));
    if let Some((address, node)) = own {
        notes.add(
            owner,
            format_args!(
                "its status names {address}, an address of node {node}, where no endpoint of a Service listens on 80 or 443; \
                 endpoints behind a hostPort, or hostNetwork without a Service, are unknown"
            ),
        );
    }
}

/// Each host with its rules. An Ingress with only a default backend applies to every host.
fn rules_by_host(ingress: &Ingress) -> Vec<(&str, Vec<&IngressRule>)> {
    let names: BTreeSet<&str> = ingress.spec.rules.iter().map(|rule| rule.host.as_str()).collect();
    if names.is_empty() && ingress.spec.default_backend.is_some() {
        return vec![("", Vec::new())];
    }
    names
        .into_iter()
        .map(|host| {
            let rules = ingress.spec.rules.iter().filter(|rule| rule.host == host);
            (host, rules.collect())
        })
        .collect()
}

/// A `tls` section without hosts applies to every host that the controller serves.
fn has_tls(ingress: &Ingress, host: &str) -> bool {
    ingress
        .spec
        .tls
        .iter()
        .any(|tls| tls.hosts.is_empty() || tls.hosts.iter().any(|pattern| host_matches(pattern, host)))
}

/// Path prefix of challenges; cert-manager adds such a path to an Ingress that it edits in place.
const CHALLENGE_PREFIX: &str = "/.well-known/acme-challenge/";

/// The Service behind the path that clients most likely request: `/`, otherwise the first path, otherwise the
/// default backend.
fn origin_service(ingress: &Ingress, rules: &[&IngressRule]) -> Option<ServiceKey> {
    let paths = || {
        let all = rules.iter().flat_map(|rule| &rule.http.paths);
        all.filter(|path| !path.path.starts_with(CHALLENGE_PREFIX))
    };
    let backend: &Backend = paths()
        .find(|path| matches!(path.path.as_str(), "" | "/"))
        .or_else(|| paths().next())
        .map(|path| &path.backend)
        .or(ingress.spec.default_backend.as_ref())?;
    format!("{}/{}", ingress.metadata.namespace, backend.service.name)
        .parse()
        .ok()
}
