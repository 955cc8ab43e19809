//! Finds the Service through which an Ingress is entered.
//!
//! The status of an Ingress names the address of a load balancer, which identifies a Service, or addresses of
//! nodes, where Pods of a Service listen in the host network. If the status is empty or names an address that
//! no Service has, the other Ingresses of the class decide, and otherwise the labels that controllers and
//! their charts set on the class and the Service.

use std::collections::{BTreeMap, BTreeSet};

use parallax_diagnosis::topology::ServiceType;
use parallax_model::ServiceKey;

use super::services::{ConvertedService, ServiceIndex};
use crate::{
    cluster::ClusterState,
    objects::{Ingress, IngressClass},
};

/// The ports on which an Ingress is served.
const INGRESS_PORTS: [u16; 2] = [80, 443];

/// Class annotation from before `IngressClass` existed.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Ingress classes and the Services that serve them.
#[derive(Debug)]
pub(super) struct IngressEntries<'a> {
    classes: BTreeMap<&'a str, &'a IngressClass>,
    default: Option<&'a str>,
    by_class: BTreeMap<String, ServiceKey>,
}

/// The class of an Ingress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryClass {
    pub(super) name: String,
    /// The class is named by the spec field, but does not exist.
    pub(super) missing: bool,
}

impl<'a> IngressEntries<'a> {
    pub(super) fn new(cluster: &'a ClusterState, services: &ServiceIndex<'_>) -> Self {
        let classes: BTreeMap<&str, &IngressClass> = cluster
            .classes
            .values()
            .map(|class| (class.metadata.name.as_str(), class.as_ref()))
            .collect();
        let is_default = |class: &&&IngressClass| {
            class
                .metadata
                .annotation("ingressclass.kubernetes.io/is-default-class")
                == Some("true")
        };
        // Of several defaults, the youngest, as in the API server's admission plugin.
        let default = classes
            .values()
            .filter(is_default)
            .max_by_key(|class| (&class.metadata.creation_timestamp, &class.metadata.name))
            .map(|class| class.metadata.name.as_str());
        let mut entries = Self {
            classes,
            default,
            by_class: BTreeMap::new(),
        };
        let mut entry_counts: BTreeMap<String, BTreeMap<ServiceKey, usize>> = BTreeMap::new();
        for ingress in cluster.ingresses.values() {
            if let (Some(class), Some(entry)) =
                (entries.class_of(ingress), entry_by_status(ingress, services))
            {
                *entry_counts
                    .entry(class.name)
                    .or_default()
                    .entry(entry)
                    .or_default() += 1;
            }
        }
        for (class, counts) in entry_counts {
            let most = counts
                .into_iter()
                .max_by_key(|(key, n)| (*n, std::cmp::Reverse(key.clone())));
            entries.by_class.extend(most.map(|(key, _)| (class, key)));
        }
        let names: BTreeSet<String> = entries
            .classes
            .keys()
            .map(|name| (*name).to_owned())
            .chain(
                cluster
                    .ingresses
                    .values()
                    .filter_map(|i| Some(entries.class_of(i)?.name)),
            )
            .collect();
        for name in names {
            if !entries.by_class.contains_key(&name)
                && let Some(key) =
                    entry_by_labels(&name, entries.classes.get(name.as_str()).copied(), services)
            {
                entries.by_class.insert(name, key);
            }
        }
        entries
    }

    /// The class of an Ingress: the spec field, otherwise the old annotation, otherwise the default class.
    pub(super) fn class_of(&self, ingress: &Ingress) -> Option<EntryClass> {
        let field = ingress.spec.ingress_class_name.as_str();
        if !field.is_empty() {
            return Some(EntryClass {
                name: field.to_owned(),
                missing: !self.classes.contains_key(field),
            });
        }
        let name = ingress
            .metadata
            .annotation(CLASS_ANNOTATION)
            .filter(|name| !name.is_empty())
            .or(self.default)?;
        Some(EntryClass {
            name: name.to_owned(),
            missing: false,
        })
    }

    /// The Service through which an Ingress is entered; `None` if its front is outside the cluster.
    pub(super) fn entry_of(&self, ingress: &Ingress, services: &ServiceIndex<'_>) -> Option<ServiceKey> {
        entry_by_status(ingress, services)
            .or_else(|| self.by_class.get(&self.class_of(ingress)?.name).cloned())
    }

    /// The classes that each entry serves.
    pub(super) fn classes_of(&self) -> BTreeMap<&ServiceKey, Vec<&str>> {
        let mut all: BTreeMap<&ServiceKey, Vec<&str>> = BTreeMap::new();
        for (class, key) in &self.by_class {
            all.entry(key).or_default().push(class);
        }
        all
    }
}

fn entry_by_status(ingress: &Ingress, services: &ServiceIndex<'_>) -> Option<ServiceKey> {
    services.entry_for(&status_addresses(ingress).collect::<Vec<_>>(), &INGRESS_PORTS)
}

/// Addresses and host names in the status of an Ingress.
pub(super) fn status_addresses(ingress: &Ingress) -> impl Iterator<Item = &str> {
    let balancer = ingress.status.load_balancer.ingress.iter();
    balancer
        .flat_map(|address| [address.ip.as_str(), address.hostname.as_str()])
        .filter(|address| !address.is_empty())
}

/// Charts set the same labels on class and Service (`app.kubernetes.io/name`, `/instance`). Without them, the
/// controller's name is compared: `k8s.io/ingress-nginx` gives `ingress-nginx`,
/// `traefik.io/ingress-controller` gives `traefik`.
fn entry_by_labels(
    name: &str,
    class: Option<&IngressClass>,
    services: &ServiceIndex<'_>,
) -> Option<ServiceKey> {
    const NAME: &str = "app.kubernetes.io/name";
    const INSTANCE: &str = "app.kubernetes.io/instance";
    let controller = class.map_or("", |class| class.spec.controller.as_str());
    let (domain, last) = controller.split_once('/').unwrap_or(("", controller));
    let mut words = vec![name, last, domain.split('.').next().unwrap_or_default()];
    words.retain(|word| !matches!(*word, "" | "k8s" | "ingress-controller" | "controller"));
    let likeness = |found: &ConvertedService<'_>| -> u8 {
        let label = |label: &str| found.object.metadata.label(label);
        let app_name = class.and_then(|class| class.metadata.label(NAME));
        if app_name.is_some() && app_name == label(NAME) {
            let instance = class.and_then(|class| class.metadata.label(INSTANCE));
            return if instance == label(INSTANCE) { 3 } else { 0 };
        }
        let labels = [label(NAME), label("app"), label("k8s-app")];
        let named = labels.into_iter().flatten().any(|value| words.contains(&value));
        u8::from(named)
    };
    let reachable = |found: &ConvertedService<'_>| match found.spec.service_type {
        ServiceType::LoadBalancer => 2_u8,
        ServiceType::NodePort => 1,
        ServiceType::ClusterIP => 0,
    };
    services
        .all
        .values()
        // The controller's admission webhook serves only 443.
        .filter(|found| found.entry_port(80).is_some())
        .map(|found| (likeness(found), reachable(found), found))
        .filter(|(likeness, ..)| *likeness > 0)
        .max_by_key(|(likeness, reachable, found)| {
            (*likeness, *reachable, std::cmp::Reverse(found.spec.key()))
        })
        .map(|(.., found)| found.spec.key())
}
