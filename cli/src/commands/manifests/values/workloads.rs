//! Overlays the given values of workloads: resources, placement, replicas and volumes.

use super::{
    PreflightValues, ResourceValues, Toleration, Values, VolumeClaim, WorkloadValues,
    check::ValueProblems,
    raw::{self, RawPreflight, RawResources, RawWorkload},
};

impl Values {
    pub(super) fn overlay_aggregator(&mut self, raw: raw::RawAggregator, check: &mut ValueProblems<'_>) {
        if let Some(replicas) = raw.replicas {
            if !(1..=2).contains(&replicas) {
                check.add(
                    "aggregator.replicas",
                    format!("expected 1 or 2, found {replicas}: a leader and a standby, and every prober reports to both"),
                );
            }
            self.replicas = if replicas == 2 { 2 } else { 1 };
        }
        if self.replicas > 1 && raw.volume.is_some() {
            check.add(
                "aggregator.volume",
                "expected none with 2 replicas: only one Pod at a time can mount the volume".to_owned(),
            );
        }
        self.volume = raw.volume.map(|raw| {
            check.quantity("aggregator.volume.size", &raw.size);
            if let Some(class) = &raw.storage_class {
                check.name("aggregator.volume.storageClass", class);
            }
            VolumeClaim {
                size: raw.size,
                storage_class: raw.storage_class,
            }
        });
        let place = RawWorkload {
            resources: raw.resources,
            node_selector: raw.node_selector,
            tolerations: raw.tolerations,
            priority_class_name: raw.priority_class_name,
        };
        self.aggregator = workload(self.aggregator.clone(), place, "aggregator", check);
    }
}

pub(super) fn preflight(raw: RawPreflight, check: &mut ValueProblems<'_>) -> PreflightValues {
    let known = PreflightValues::default();
    for (i, namespace) in raw.namespaces.iter().enumerate() {
        check.namespace(&format!("preflight.namespaces[{i}]"), namespace);
    }
    if let Some(namespace) = &raw.cert_manager_namespace {
        check.namespace("preflight.certManagerNamespace", namespace);
    }
    let place = RawWorkload {
        resources: raw.resources,
        node_selector: raw.node_selector,
        tolerations: raw.tolerations,
        priority_class_name: raw.priority_class_name,
    };
    PreflightValues {
        workload: workload(known.workload, place, "preflight", check),
        namespaces: raw.namespaces,
        cert_manager_namespace: raw.cert_manager_namespace.unwrap_or(known.cert_manager_namespace),
    }
}

pub(super) fn workload(
    mut known: WorkloadValues,
    raw: RawWorkload,
    at: &str,
    check: &mut ValueProblems<'_>,
) -> WorkloadValues {
    if let Some(raw) = raw.resources {
        known.resources = resources(known.resources, raw, &format!("{at}.resources"), check);
    }
    if let Some(selector) = raw.node_selector {
        check.labels(&format!("{at}.nodeSelector"), &selector);
        known.placement.node_selector = selector;
    }
    if let Some(tolerations) = raw.tolerations {
        known.placement.tolerations = tolerations
            .into_iter()
            .enumerate()
            .map(|(i, raw)| {
                let at = format!("{at}.tolerations[{i}]");
                check.toleration(&at, &raw);
                Toleration {
                    key: raw.key,
                    operator: raw.operator,
                    value: raw.value,
                    effect: raw.effect,
                    seconds: raw.toleration_seconds,
                }
            })
            .collect();
    }
    if let Some(class) = raw.priority_class_name {
        check.name(&format!("{at}.priorityClassName"), &class);
        known.placement.priority_class_name = Some(class);
    }
    known
}

/// Given quantities replace the defaults of their resources; the other defaults stay.
pub(super) fn resources(
    mut known: ResourceValues,
    raw: RawResources,
    at: &str,
    check: &mut ValueProblems<'_>,
) -> ResourceValues {
    for (name, kept, given) in [
        ("requests", &mut known.requests, raw.requests),
        ("limits", &mut known.limits, raw.limits),
    ] {
        for (resource, amount) in given.pairs() {
            check.quantity(&format!("{at}.{name}.{resource}"), &amount);
            kept.insert(resource.to_owned(), amount);
        }
    }
    known
}
