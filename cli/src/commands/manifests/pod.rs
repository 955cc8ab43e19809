//! Properties of all Parallax Pods: one image, no permissions, no root.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, LocalObjectReference,
        ObjectFieldSelector, PodSecurityContext, PodSpec, Probe, ResourceRequirements, SeccompProfile,
        SecurityContext, Toleration, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};

use super::values::{PlacementValues, ResourceValues, Values};

/// UID and GID of the processes; any but root would do.
pub(super) const USER: i64 = 65_532;

/// Builds a Pod spec without any privilege.
pub(super) fn hardened(values: &Values, place: &PlacementValues) -> PodSpec {
    PodSpec {
        // Pods that need the API server mount its token explicitly.
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        image_pull_secrets: non_empty(
            values
                .image_pull_secrets
                .iter()
                .map(|name| LocalObjectReference { name: name.clone() })
                .collect(),
        ),
        node_selector: (!place.node_selector.is_empty()).then(|| place.node_selector.clone()),
        priority_class_name: place.priority_class_name.clone(),
        tolerations: non_empty(
            place
                .tolerations
                .iter()
                .map(|toleration| Toleration {
                    key: toleration.key.clone(),
                    operator: toleration.operator.clone(),
                    value: toleration.value.clone(),
                    effect: toleration.effect.clone(),
                    toleration_seconds: toleration.seconds,
                })
                .collect(),
        ),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    }
}

/// Builds a container of the image.
pub(super) fn container(name: &str, args: &[&str], values: &Values, resources: &ResourceValues) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(values.image.clone()),
        image_pull_policy: values.image_pull_policy.clone(),
        args: Some(args.iter().map(|arg| (*arg).to_owned()).collect()),
        resources: Some(ResourceRequirements {
            requests: quantities(&resources.requests),
            limits: quantities(&resources.limits),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn quantities(given: &BTreeMap<String, String>) -> Option<BTreeMap<String, Quantity>> {
    (!given.is_empty()).then(|| {
        given
            .iter()
            .map(|(name, amount)| (name.clone(), Quantity(amount.clone())))
            .collect()
    })
}

/// Returns `None` for an empty list.
pub(super) fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// Builds an environment variable with a literal value.
pub(super) fn env(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..EnvVar::default()
    }
}

/// Builds an environment variable from a field of the Pod.
pub(super) fn env_field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// Builds a named TCP port.
pub(super) fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// Builds an HTTP probe for a path and port.
pub(super) fn http_probe(path: &str, port: IntOrString, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port,
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(5),
        timeout_seconds: Some(3),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// Builds a volume mount.
pub(super) fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}
