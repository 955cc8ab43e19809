//! Who may ask the API server for what. Probers may nothing; docs/use/install.md says what each right is for.

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
};

use super::{
    meta::{self, Component},
    settings::{self, CA_MAP, CHECKPOINT_MAP, HANDLING_MAP, NOTIFICATIONS_MAP},
    values::{CertManager, Values},
};

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
/// What is cluster-wide; its name carries no namespace, as there is one installation in a cluster.
const CLUSTER: &str = "parallax-aggregator";

/// What people need who reach the aggregator by `kubectl parallax`.
pub(super) const REACH: &str = "parallax-reach";

/// Where cert-manager keeps its Lease unless it is told otherwise.
const LEASES: &str = "kube-system";

/// An account of its own for everybody; none gets a token of the API server unless a pod asks for one.
pub(super) fn accounts(values: &Values) -> Vec<ServiceAccount> {
    let mut parts = vec![Component::Aggregator, Component::Prober];
    if values.responder {
        parts.push(Component::Responder);
    }
    if values.host_vantage {
        parts.push(Component::HostProber);
    }
    if values.preflight.is_some() {
        parts.push(Component::Preflight);
    }
    parts
        .into_iter()
        .map(|part| ServiceAccount {
            metadata: part.meta(part.name(), values),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        })
        .collect()
}

/// Read what the cluster publishes, ask whose a token is and what they may; with custom resources, follow and answer our own
/// objects.
pub(super) fn cluster_role(values: &Values) -> ClusterRole {
    let mut rules = vec![
        read("", &["namespaces", "nodes", "services"]),
        read("discovery.k8s.io", &["endpointslices"]),
        read(
            "networking.k8s.io",
            &["ingressclasses", "ingresses", "networkpolicies"],
        ),
        read("gateway.networking.k8s.io", &["gateways", "httproutes"]),
        read("batch", &["jobs"]),
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        // Whether somebody may ask for a run or handle an incident.
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    ];
    if values.cert_manager == CertManager::Auto {
        rules.extend([
            read("cert-manager.io", &["certificates", "clusterissuers", "issuers"]),
            read("acme.cert-manager.io", &["challenges"]),
        ]);
    }
    if values.custom_resources {
        rules.extend([
            read("parallax.dev", &["runs", "targets"]),
            rule("parallax.dev", &["runs"], &["delete"]),
            rule("parallax.dev", &["runs/status", "targets/status"], &["patch"]),
        ]);
    }
    if values.notify.events {
        // About objects of any namespace, in that namespace; a name cannot bound what is created.
        rules.push(rule("events.k8s.io", &["events"], &["create", "patch"]));
    }
    ClusterRole {
        metadata: meta::common(CLUSTER, None),
        rules: Some(rules),
        ..ClusterRole::default()
    }
}

/// The rights above, for the aggregator.
pub(super) fn cluster_binding(values: &Values) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: meta::common(CLUSTER, None),
        role_ref: RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: CLUSTER.to_owned(),
        },
        subjects: Some(vec![aggregator(values)]),
    }
}

/// What people may, for a cluster administrator to hand out. Each takes in what the one before may. The rights about runs
/// and targets also come with the cluster's own roles `view`, `edit` and `admin`, in whose habit they are. `incidents` is no
/// kind of object: a rule about it is what the aggregator asks for.
pub(super) fn people() -> Vec<ClusterRole> {
    let reading = [
        rule("parallax.dev", &["incidents"], &["list"]),
        rule(
            "parallax.dev",
            &["preflights", "runs", "targets"],
            &["get", "list", "watch"],
        ),
    ];
    let asking = [
        rule("parallax.dev", &["runs"], &["create", "delete"]),
        rule(
            "parallax.dev",
            &["preflights"],
            &["create", "delete", "patch", "update"],
        ),
    ];
    let handling = [
        rule("parallax.dev", &["incidents"], &["update"]),
        rule(
            "parallax.dev",
            &["targets"],
            &["create", "delete", "patch", "update"],
        ),
    ];
    // Who may edit may view, and so on: the cluster's own roles see to that.
    let role = |name: &str, joins: &str, rules: Vec<PolicyRule>| {
        let mut metadata = meta::common(name, None);
        let joined = (format!("{RBAC}/aggregate-to-{joins}"), "true".to_owned());
        metadata.labels.get_or_insert_default().extend([joined]);
        ClusterRole {
            metadata,
            rules: Some(rules),
            ..ClusterRole::default()
        }
    };
    vec![
        role("parallax-viewer", "view", reading.to_vec()),
        role("parallax-runner", "edit", [&reading[..], &asking].concat()),
        role(
            "parallax-operator",
            "admin",
            [&reading[..], &asking, &handling].concat(),
        ),
    ]
}

/// The way of `kubectl parallax` to the aggregator: the Service, its Pods, a port forwarded into one. In the namespace of
/// Parallax only, where no Pod has anything to hide behind a port.
pub(super) fn reach(values: &Values) -> Role {
    Role {
        metadata: meta::common(REACH, Some(values.namespace.clone())),
        rules: Some(vec![
            rule("", &["services"], &["get"]),
            rule("", &["pods"], &["list"]),
            // A web socket is opened by a GET, and is let in by `create` since Kubernetes 1.35.
            rule("", &["pods/portforward"], &["create", "get"]),
        ]),
    }
}

/// What the aggregator may in the namespaces of Parallax.
pub(super) fn roles(values: &Values) -> Vec<Role> {
    let seat = seat_rules(values);
    let seat = seat.into_iter().map(|(namespace, rules)| Role {
        metadata: Component::Aggregator.meta_in(&namespace),
        rules: Some(rules),
    });
    settings::spaces(values)
        .into_iter()
        .map(|namespace| {
            let own = namespace == values.namespace;
            let ca = PolicyRule {
                resource_names: Some(vec![CA_MAP.to_owned()]),
                ..rule("", &["configmaps"], &["get", "update"])
            };
            let mut rules = vec![read("", &["pods"]), ca];
            if own {
                rules.push(PolicyRule {
                    resource_names: Some(vec![HANDLING_MAP.to_owned(), CHECKPOINT_MAP.to_owned()]),
                    ..rule("", &["configmaps"], &["get", "update"])
                });
                rules.push(rule("", &["serviceaccounts"], &["get", "list"]));
            }
            if own && !values.notify.is_empty() {
                rules.push(PolicyRule {
                    resource_names: Some(vec![NOTIFICATIONS_MAP.to_owned()]),
                    ..rule("", &["configmaps"], &["get", "update"])
                });
            }
            if own && values.elects() {
                // A name cannot bound the creation of an object.
                rules.push(rule("coordination.k8s.io", &["leases"], &["create"]));
                rules.push(PolicyRule {
                    resource_names: Some(vec![Component::Aggregator.name().to_owned()]),
                    ..rule("coordination.k8s.io", &["leases"], &["get", "update"])
                });
            }
            Role {
                metadata: Component::Aggregator.meta_in(&namespace),
                rules: Some(rules),
            }
        })
        .chain(seat)
        .collect()
}

/// What it takes to know where cert-manager's pod sits, where the values name its namespace. Its Lease is in `kube-system`
/// unless it is told otherwise.
fn seat_rules(values: &Values) -> Vec<(String, Vec<PolicyRule>)> {
    let Some(namespace) = &values.cert_manager_namespace else {
        return Vec::new();
    };
    let lease = PolicyRule {
        resource_names: Some(vec![parallax_preflight::LEASE.to_owned()]),
        ..rule("coordination.k8s.io", &["leases"], &["get"])
    };
    let own = vec![
        rule("", &["pods"], &["list"]),
        rule("apps", &["deployments"], &["list"]),
        lease.clone(),
    ];
    let mut all = vec![(namespace.clone(), own)];
    if namespace != LEASES {
        all.push((LEASES.to_owned(), vec![lease]));
    }
    all
}

/// These rights, for the aggregator.
pub(super) fn bindings(values: &Values) -> Vec<RoleBinding> {
    let seat = seat_rules(values).into_iter().map(|(namespace, _)| namespace);
    settings::spaces(values)
        .into_iter()
        .chain(seat)
        .map(|namespace| RoleBinding {
            metadata: Component::Aggregator.meta_in(&namespace),
            role_ref: RoleRef {
                api_group: Some(RBAC.to_owned()),
                kind: "Role".to_owned(),
                name: Component::Aggregator.name().to_owned(),
            },
            subjects: Some(vec![aggregator(values)]),
        })
        .collect()
}

fn aggregator(values: &Values) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: Component::Aggregator.name().to_owned(),
        namespace: Some(values.namespace.clone()),
        api_group: None,
    }
}

fn read(group: &str, resources: &[&str]) -> PolicyRule {
    rule(group, resources, &["list", "watch"])
}

pub(super) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
