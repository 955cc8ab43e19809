//! The controller of `Preflight` objects: a separate workload, with the permissions that preflights need and the
//! aggregator lacks.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
        core::v1::{
            PodSpec, PodTemplateSpec, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume,
            VolumeProjection,
        },
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use parallax_api::TOKEN_AUDIENCE;

use super::{
    aggregator::{API_CREDENTIALS_PATH, api_credentials_volume},
    meta::Component,
    pod,
    rbac::{RBAC, REACH_ROLE, rule},
    values::{PreflightValues, Values},
};

/// Role with the permissions to execute preflights, in all namespaces or in selected ones.
const EXECUTE_ROLE: &str = "parallax-preflight";
/// Role for cluster-scoped objects.
const CLUSTER_ROLE: &str = "parallax-preflight-cluster";
/// Role to find out where cert-manager's Pod runs.
const PLACEMENT_ROLE: &str = "parallax-preflight-seat";

/// Default namespace of cert-manager's Lease.
const CERT_MANAGER_LEASE_NAMESPACE: &str = "kube-system";

/// Time to remove the objects of a running preflight: three, with a slow API server.
const TERMINATION_GRACE_SECONDS: i64 = 60;

/// Builds its ClusterRoles, by the scope in which they are bound.
pub(super) fn cluster_roles() -> Vec<ClusterRole> {
    let role = |name: &str, rules| ClusterRole {
        metadata: cluster_metadata(name),
        rules: Some(rules),
        ..ClusterRole::default()
    };
    let made = &["create", "delete", "get", "list"];
    vec![
        role(
            EXECUTE_ROLE,
            vec![
                rule("parallax.dev", &["preflights"], &["delete", "list", "watch"]),
                rule("parallax.dev", &["preflights/status"], &["patch"]),
                rule("", &["pods"], made),
                rule("", &["services"], &["create", "delete", "list"]),
                rule("networking.k8s.io", &["ingresses"], made),
                rule("gateway.networking.k8s.io", &["httproutes"], made),
                rule("cert-manager.io", &["certificates", "issuers"], &["get"]),
            ],
        ),
        role(
            CLUSTER_ROLE,
            vec![
                rule("cert-manager.io", &["clusterissuers"], &["get"]),
                rule("networking.k8s.io", &["ingressclasses"], &["get", "list"]),
                // The aggregator requires this permission of every client that starts a run.
                rule("parallax.dev", &["runs"], &["create"]),
            ],
        ),
        role(
            PLACEMENT_ROLE,
            vec![
                rule("", &["pods"], &["list"]),
                rule("apps", &["deployments"], &["list"]),
                rule("networking.k8s.io", &["networkpolicies"], &["list"]),
                PolicyRule {
                    resource_names: Some(vec!["cert-manager-controller".to_owned()]),
                    ..rule("coordination.k8s.io", &["leases"], &["get"])
                },
            ],
        ),
    ]
}

/// Binds the roles that it has in the whole cluster.
pub(super) fn cluster_bindings(values: &Values, wanted: &PreflightValues) -> Vec<ClusterRoleBinding> {
    let names: &[&str] = if wanted.namespaces.is_empty() {
        &[EXECUTE_ROLE, CLUSTER_ROLE, PLACEMENT_ROLE]
    } else {
        &[CLUSTER_ROLE]
    };
    names
        .iter()
        .map(|name| ClusterRoleBinding {
            metadata: cluster_metadata(name),
            role_ref: role_ref("ClusterRole", name),
            subjects: Some(vec![subject(values)]),
        })
        .collect()
}

/// Allows it to read the image of the probers, which the responder uses too.
pub(super) fn image_role(values: &Values) -> Role {
    Role {
        metadata: Component::Preflight.metadata(EXECUTE_ROLE, values),
        rules: Some(vec![PolicyRule {
            resource_names: Some(vec![Component::Prober.name().to_owned()]),
            ..rule("apps", &["daemonsets"], &["get"])
        }]),
    }
}

/// Binds the roles that it has per namespace: access to the aggregator, and the rest if it is not cluster-wide.
pub(super) fn bindings(values: &Values, wanted: &PreflightValues) -> Vec<RoleBinding> {
    let bound = |name: &str, namespace: &str, (kind, role): (&str, &str)| RoleBinding {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..Component::Preflight.metadata_in(namespace)
        },
        role_ref: role_ref(kind, role),
        subjects: Some(vec![subject(values)]),
    };
    let own = &values.namespace;
    let mut all = vec![
        bound(&format!("{EXECUTE_ROLE}-image"), own, ("Role", EXECUTE_ROLE)),
        bound(&format!("{EXECUTE_ROLE}-reach"), own, ("Role", REACH_ROLE)),
    ];
    if wanted.namespaces.is_empty() {
        return all;
    }
    let chosen = wanted.namespaces.iter();
    all.extend(chosen.map(|namespace| bound(EXECUTE_ROLE, namespace, ("ClusterRole", EXECUTE_ROLE))));
    let mut namespaces = vec![
        wanted.cert_manager_namespace.as_str(),
        CERT_MANAGER_LEASE_NAMESPACE,
    ];
    namespaces.dedup();
    let placement = namespaces.into_iter();
    all.extend(placement.map(|namespace| bound(PLACEMENT_ROLE, namespace, ("ClusterRole", PLACEMENT_ROLE))));
    all
}

/// Mount path of the token for the aggregator.
const AGGREGATOR_TOKEN_PATH: &str = "/var/run/secrets/parallax";
/// The token for the aggregator. It is read again for each preflight, and the kubelet renews it.
const AGGREGATOR_TOKEN_FILE: &str = "/var/run/secrets/parallax/token";
/// Lifetime of that token in seconds.
const AGGREGATOR_TOKEN_LIFETIME_S: i64 = 3_600;

fn aggregator_token_volume() -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(TOKEN_AUDIENCE.to_owned()),
        expiration_seconds: Some(AGGREGATOR_TOKEN_LIFETIME_S),
        path: "token".to_owned(),
    };
    let source = VolumeProjection {
        service_account_token: Some(token),
        ..VolumeProjection::default()
    };
    Volume {
        name: "aggregator".to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(0o444),
            sources: Some(vec![source]),
        }),
        ..Volume::default()
    }
}

/// Builds the Deployment.
pub(super) fn deployment(values: &Values, wanted: &PreflightValues) -> Deployment {
    let part = Component::Preflight;
    let mut args = vec![
        "preflight",
        "controller",
        "--parallax-namespace",
        &values.namespace,
        "--cert-manager-namespace",
        &wanted.cert_manager_namespace,
        "--token-file",
        AGGREGATOR_TOKEN_FILE,
    ];
    for namespace in &wanted.namespaces {
        args.extend(["--watch", namespace]);
    }
    let mut container = pod::container("controller", &args, values, &wanted.workload.resources);
    container.volume_mounts = Some(vec![
        pod::mount("api", API_CREDENTIALS_PATH, true),
        pod::mount("aggregator", AGGREGATOR_TOKEN_PATH, true),
    ]);
    Deployment {
        metadata: part.metadata(part.name(), values),
        spec: Some(DeploymentSpec {
            // A second replica would execute the same preflights and interfere.
            replicas: Some(1),
            selector: part.selector(),
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                rolling_update: None,
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(part.labels()),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    service_account_name: Some(part.name().to_owned()),
                    volumes: Some(vec![api_credentials_volume(), aggregator_token_volume()]),
                    containers: vec![container],
                    termination_grace_period_seconds: Some(TERMINATION_GRACE_SECONDS),
                    ..pod::hardened(values, &wanted.workload.placement)
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn cluster_metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(Component::Preflight.labels()),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn subject(values: &Values) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: Component::Preflight.name().to_owned(),
        namespace: Some(values.namespace.clone()),
        api_group: None,
    }
}
