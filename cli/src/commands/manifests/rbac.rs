//! Permissions. Probers have none; docs/use/install.md explains why each permission is needed.

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
};

use super::{
    meta::{self, Component},
    settings::{self, CA_MAP, CHECKPOINT_MAP, INCIDENT_ACTIONS_MAP, NOTIFICATIONS_MAP},
    values::{CertManager, Values},
};

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
/// Name of the cluster-wide objects. Without the namespace, because a cluster has one installation.
const CLUSTER_ROLE: &str = "parallax-aggregator";

/// Role for users of `kubectl parallax`.
pub(super) const REACH_ROLE: &str = "parallax-reach";

/// Default namespace of cert-manager's Lease.
const CERT_MANAGER_LEASE_NAMESPACE: &str = "kube-system";

/// Builds one ServiceAccount per component. No token is mounted unless a Pod requests it.
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
            metadata: part.metadata(part.name(), values),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        })
        .collect()
}

/// Permissions of the aggregator in the cluster: read what the cluster publishes, review tokens and access; with custom
/// resources also watch them and write their status.
pub(super) fn cluster_role(values: &Values) -> ClusterRole {
    let mut rules = vec![
        read_rule("", &["namespaces", "nodes", "services"]),
        read_rule("discovery.k8s.io", &["endpointslices"]),
        read_rule(
            "networking.k8s.io",
            &["ingressclasses", "ingresses", "networkpolicies"],
        ),
        read_rule("gateway.networking.k8s.io", &["gateways", "httproutes"]),
        read_rule("batch", &["jobs"]),
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        // SubjectAccessReview: whether a user may start a run or handle an incident.
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    ];
    if values.cert_manager == CertManager::Auto {
        rules.extend([
            read_rule("cert-manager.io", &["certificates", "clusterissuers", "issuers"]),
            read_rule("acme.cert-manager.io", &["challenges"]),
        ]);
    }
    if values.custom_resources {
        rules.extend([
            read_rule("parallax.dev", &["runs", "targets"]),
            rule("parallax.dev", &["runs"], &["delete"]),
            rule("parallax.dev", &["runs/status", "targets/status"], &["patch"]),
        ]);
    }
    if values.notify.events {
        // Events are created in the namespaces of their objects; `resourceNames` cannot restrict `create`.
        rules.push(rule("events.k8s.io", &["events"], &["create", "patch"]));
    }
    ClusterRole {
        metadata: meta::installation_metadata(CLUSTER_ROLE, None),
        rules: Some(rules),
        ..ClusterRole::default()
    }
}

/// Binds these permissions to the aggregator.
pub(super) fn cluster_binding(values: &Values) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: meta::installation_metadata(CLUSTER_ROLE, None),
        role_ref: RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: CLUSTER_ROLE.to_owned(),
        },
        subjects: Some(vec![aggregator_subject(values)]),
    }
}

/// ClusterRoles for users, to be bound by a cluster administrator. Each includes the previous one. The permissions on
/// runs and targets are also aggregated into the built-in roles `view`, `edit` and `admin`. `incidents` is no API
/// resource: the aggregator only checks rules about it.
pub(super) fn user_roles() -> Vec<ClusterRole> {
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
    // The aggregated roles `edit` and `admin` already include `view`.
    let role = |name: &str, joins: &str, rules: Vec<PolicyRule>| {
        let mut metadata = meta::installation_metadata(name, None);
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

/// Access of `kubectl parallax` to the aggregator: get the Service, list its Pods, forward a port. Limited to the
/// namespace of Parallax, where no Pod has a port to protect.
pub(super) fn reach_role(values: &Values) -> Role {
    Role {
        metadata: meta::installation_metadata(REACH_ROLE, Some(values.namespace.clone())),
        rules: Some(vec![
            rule("", &["services"], &["get"]),
            rule("", &["pods"], &["list"]),
            // A WebSocket starts with a GET; since Kubernetes 1.35 it requires `create`.
            rule("", &["pods/portforward"], &["create", "get"]),
        ]),
    }
}

/// Permissions of the aggregator in the namespaces of Parallax.
pub(super) fn roles(values: &Values) -> Vec<Role> {
    let cert_manager = cert_manager_rules(values);
    let cert_manager = cert_manager.into_iter().map(|(namespace, rules)| Role {
        metadata: Component::Aggregator.metadata_in(&namespace),
        rules: Some(rules),
    });
    settings::prober_namespaces(values)
        .into_iter()
        .map(|namespace| {
            let own = namespace == values.namespace;
            let ca = PolicyRule {
                resource_names: Some(vec![CA_MAP.to_owned()]),
                ..rule("", &["configmaps"], &["get", "update"])
            };
            let mut rules = vec![read_rule("", &["pods"]), ca];
            if own {
                rules.push(PolicyRule {
                    resource_names: Some(vec![INCIDENT_ACTIONS_MAP.to_owned(), CHECKPOINT_MAP.to_owned()]),
                    ..rule("", &["configmaps"], &["get", "update"])
                });
                rules.push(rule("", &["serviceaccounts"], &["get", "list", "watch"]));
            }
            if own && !values.notify.is_empty() {
                rules.push(PolicyRule {
                    resource_names: Some(vec![NOTIFICATIONS_MAP.to_owned()]),
                    ..rule("", &["configmaps"], &["get", "update"])
                });
            }
            if own && values.leader_election_enabled() {
                // `resourceNames` cannot restrict `create`.
                rules.push(rule("coordination.k8s.io", &["leases"], &["create"]));
                rules.push(PolicyRule {
                    resource_names: Some(vec![Component::Aggregator.name().to_owned()]),
                    ..rule("coordination.k8s.io", &["leases"], &["get", "update"])
                });
            }
            Role {
                metadata: Component::Aggregator.metadata_in(&namespace),
                rules: Some(rules),
            }
        })
        .chain(cert_manager)
        .collect()
}

/// Permissions to find the node of cert-manager's Pod, if the values name its namespace. Its Lease is in `kube-system`
/// unless its flags change that.
fn cert_manager_rules(values: &Values) -> Vec<(String, Vec<PolicyRule>)> {
    let Some(namespace) = &values.cert_manager_namespace else {
        return Vec::new();
    };
    let lease = PolicyRule {
        resource_names: Some(vec![parallax_preflight::LEASE_NAME.to_owned()]),
        ..rule("coordination.k8s.io", &["leases"], &["get"])
    };
    let own = vec![
        rule("", &["pods"], &["list"]),
        rule("apps", &["deployments"], &["list"]),
        lease.clone(),
    ];
    let mut all = vec![(namespace.clone(), own)];
    if namespace != CERT_MANAGER_LEASE_NAMESPACE {
        all.push((CERT_MANAGER_LEASE_NAMESPACE.to_owned(), vec![lease]));
    }
    all
}

/// Binds these permissions to the aggregator.
pub(super) fn bindings(values: &Values) -> Vec<RoleBinding> {
    let cert_manager = cert_manager_rules(values)
        .into_iter()
        .map(|(namespace, _)| namespace);
    settings::prober_namespaces(values)
        .into_iter()
        .chain(cert_manager)
        .map(|namespace| RoleBinding {
            metadata: Component::Aggregator.metadata_in(&namespace),
            role_ref: RoleRef {
                api_group: Some(RBAC.to_owned()),
                kind: "Role".to_owned(),
                name: Component::Aggregator.name().to_owned(),
            },
            subjects: Some(vec![aggregator_subject(values)]),
        })
        .collect()
}

fn aggregator_subject(values: &Values) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: Component::Aggregator.name().to_owned(),
        namespace: Some(values.namespace.clone()),
        api_group: None,
    }
}

fn read_rule(group: &str, resources: &[&str]) -> PolicyRule {
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
