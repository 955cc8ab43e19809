//! DaemonSets of the probers: one in the Pod network; optionally one in the host network, and a responder.

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet},
        core::v1::{
            Affinity, ConfigMapProjection, ConfigMapVolumeSource, KeyToPath, NodeAffinity, NodeSelector,
            NodeSelectorRequirement, NodeSelectorTerm, PodSpec, PodTemplateSpec, ProjectedVolumeSource,
            ServiceAccountTokenProjection, Sysctl, Volume, VolumeProjection,
        },
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{
    aggregator,
    meta::Component,
    pod::{self, USER},
    settings::{CA_FILE, CA_MAP},
    values::{ExtraRoots, Values},
};

/// Mount path of token and CA.
const IDENTITY_PATH: &str = "/var/run/parallax";

/// Mount path of additional CA certificates.
const ROOTS_PATH: &str = "/etc/parallax/roots";

/// Validity of a token in seconds; the kubelet renews it at 80 %. The minimum in Kubernetes is 600.
const TOKEN_SECONDS: i64 = 3_600;

/// Maximum surge of a rollout. No node is ever without a prober: the new Pod is ready before the old one stops.
const MAX_SURGE: &str = "10%";

/// Minimum time for which a new Pod is ready before the old one stops, enough for its first plan.
const MIN_READY_SECONDS: i32 = 10;

/// Builds all prober DaemonSets of an installation.
pub(super) fn daemon_sets(values: &Values) -> Vec<DaemonSet> {
    let mut sets = vec![daemon_set(Component::Prober, values)];
    if values.responder {
        sets.push(daemon_set(Component::Responder, values));
    }
    if values.host_vantage {
        sets.push(daemon_set(Component::HostProber, values));
    }
    sets
}

fn daemon_set(part: Component, values: &Values) -> DaemonSet {
    let percent = |text: &str| Some(IntOrString::String(text.to_owned()));
    let update = if part == Component::HostProber {
        // Two Pods cannot use the same host port of a node, so no surge.
        RollingUpdateDaemonSet {
            max_surge: None,
            max_unavailable: Some(IntOrString::Int(1)),
        }
    } else {
        RollingUpdateDaemonSet {
            max_surge: percent(MAX_SURGE),
            max_unavailable: Some(IntOrString::Int(0)),
        }
    };
    DaemonSet {
        metadata: part.metadata(part.name(), values),
        spec: Some(DaemonSetSpec {
            selector: part.selector(),
            min_ready_seconds: Some(MIN_READY_SECONDS),
            update_strategy: Some(DaemonSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(update),
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(part.labels()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(part, values)),
            },
            ..DaemonSetSpec::default()
        }),
        ..DaemonSet::default()
    }
}

fn pod_spec(part: Component, values: &Values) -> PodSpec {
    let host = part == Component::HostProber;
    let echo_port = if host {
        values.host_echo_port
    } else {
        values.echo_port
    };
    let echo = IntOrString::Int(echo_port.into());
    // A responder makes no probes and needs no CA certificates.
    let roots = values
        .extra_roots
        .as_ref()
        .filter(|_| part != Component::Responder);
    let trusted = roots.map(|roots| format!("--extra-roots={ROOTS_PATH}/{}", roots.key));
    let mut args = vec!["prober"];
    args.extend((part == Component::Responder).then_some("--responder"));
    args.extend(trusted.as_deref());
    let mut container = pod::container("prober", &args, values, &values.prober.resources);
    let mut env = vec![
        pod::env_field("NODE_NAME", "spec.nodeName"),
        pod::env(
            "PARALLAX_VANTAGE",
            if host {
                "$(NODE_NAME)/host"
            } else {
                "$(NODE_NAME)/pod"
            },
        ),
        pod::env_field("PARALLAX_POD", "metadata.name"),
        pod::env("PARALLAX_AGGREGATOR", &aggregator::report_url(values)),
        pod::env("PARALLAX_TOKEN_FILE", &format!("{IDENTITY_PATH}/token")),
        pod::env("PARALLAX_AGGREGATOR_ROOTS", &format!("{IDENTITY_PATH}/{CA_FILE}")),
        pod::env("PARALLAX_ECHO_LISTEN", &format!("[::]:{echo_port}")),
    ];
    if values.leader_election_enabled() {
        env.push(pod::env("PARALLAX_EVERY_ADDRESS", "true"));
    }
    container.env = Some(env);
    container.ports = Some(vec![pod::port("echo", echo_port.into())]);
    container.readiness_probe = Some(pod::http_probe("/healthz", echo.clone(), 1));
    container.liveness_probe = Some(pod::http_probe("/healthz", echo, 6));
    let mut mounts = vec![pod::mount("identity", IDENTITY_PATH, true)];
    mounts.extend(roots.map(|_| pod::mount("roots", ROOTS_PATH, true)));
    container.volume_mounts = Some(mounts);
    let mut volumes = vec![identity_volume(values)];
    volumes.extend(roots.map(extra_roots_volume));

    let mut spec = PodSpec {
        service_account_name: Some(part.name().to_owned()),
        affinity: Some(real_node_affinity()),
        // The last reports are sent, while other probers may still use the echo.
        termination_grace_period_seconds: Some(10),
        volumes: Some(volumes),
        containers: vec![container],
        ..pod::hardened(values, &values.prober.placement)
    };
    if host {
        spec.host_network = Some(true);
        // Resolve names of the cluster in the host network too.
        spec.dns_policy = Some("ClusterFirstWithHostNet".to_owned());
    } else if let Some(context) = &mut spec.security_context {
        // Unprivileged ICMP: the TTL of the replies shows whether the node itself answers. A safe sysctl, limited to
        // the Pod's network namespace.
        context.sysctls = Some(vec![Sysctl {
            name: "net.ipv4.ping_group_range".to_owned(),
            value: format!("{USER} {USER}"),
        }]);
    }
    spec
}

/// ConfigMap of the administrator. If it is missing, the kubelet does not start the Pod, and an event gives the reason.
fn extra_roots_volume(roots: &ExtraRoots) -> Volume {
    Volume {
        name: "roots".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: roots.config_map.clone(),
            items: Some(vec![KeyToPath {
                key: roots.key.clone(),
                path: roots.key.clone(),
                mode: None,
            }]),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Token for the aggregator and the CA to trust for it. The CA is optional, because it is published only after the
/// first start of the aggregator.
fn identity_volume(values: &Values) -> Volume {
    Volume {
        name: "identity".to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(0o444),
            sources: Some(vec![
                VolumeProjection {
                    service_account_token: Some(ServiceAccountTokenProjection {
                        audience: Some(values.audience.clone()),
                        expiration_seconds: Some(TOKEN_SECONDS),
                        path: "token".to_owned(),
                    }),
                    ..VolumeProjection::default()
                },
                VolumeProjection {
                    config_map: Some(ConfigMapProjection {
                        name: CA_MAP.to_owned(),
                        items: Some(vec![KeyToPath {
                            key: CA_FILE.to_owned(),
                            path: CA_FILE.to_owned(),
                            mode: None,
                        }]),
                        optional: Some(true),
                    }),
                    ..VolumeProjection::default()
                },
            ]),
        }),
        ..Volume::default()
    }
}

/// Excludes virtual nodes, which run no `DaemonSet` Pods: with a toleration of every taint the Pod would stay pending
/// there.
fn real_node_affinity() -> Affinity {
    let without = |key: &str, value: &str| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![value.to_owned()]),
    };
    Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_expressions: Some(vec![
                        without("type", "virtual-kubelet"),
                        without("eks.amazonaws.com/compute-type", "fargate"),
                    ]),
                    ..NodeSelectorTerm::default()
                }],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}
