//! The aggregator's Deployment, Services and PodDisruptionBudget.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            Affinity, ConfigMapProjection, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath,
            ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSpec, PodTemplateSpec,
            ProjectedVolumeSource, SecretProjection, Service, ServiceAccountTokenProjection, ServicePort,
            ServiceSpec, Volume, VolumeProjection, WeightedPodAffinityTerm,
        },
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{
    meta::{self, Component},
    outside,
    pod::{self, USER},
    settings::{CONFIG_DIGEST_ANNOTATION, CONFIG_FILE, CONFIG_MAP, SECRETS_MOUNT_PATH, start_digest},
    storage,
    values::Values,
};

/// Port of page, API and metrics, for people and programs inside the cluster.
pub(super) const PAGE_PORT: u16 = 8_080;
/// Port for the probers' reports, over TLS.
pub(super) const PROBER_PORT: u16 = 8_443;
/// Service for people and programs.
const PAGE_SERVICE: &str = "parallax";

/// Mount path of the configuration.
const CONFIG_MOUNT_PATH: &str = "/etc/parallax";
/// Standard path of a Pod's API server credentials.
pub(super) const API_CREDENTIALS_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Returns the host name by which probers reach the aggregator. Without the cluster domain, so that it works with any.
pub(super) fn report_host(values: &Values) -> String {
    format!("{}.{}.svc", Component::Aggregator.name(), values.namespace)
}

/// Returns the URL for the probers' reports.
pub(super) fn report_url(values: &Values) -> String {
    format!("https://{}:{PROBER_PORT}", report_host(values))
}

/// Builds the Services of page and probers, and of vantages outside the cluster.
pub(super) fn services(values: &Values) -> Vec<Service> {
    let mut page = service(
        PAGE_SERVICE,
        values,
        ServiceSpec {
            ports: Some(vec![port("http", 80, "http", "http")]),
            ..ServiceSpec::default()
        },
    );
    // Not a target: the NetworkPolicies deny probers this port, and a probe would only detect our own policy.
    page.metadata.annotations = Some(meta::string_map([("parallax.dev/probe", "false")]));
    let mut services = vec![
        // Headless: probers must not lose the aggregator to the very fault that they report.
        service(
            Component::Aggregator.name(),
            values,
            ServiceSpec {
                cluster_ip: Some("None".to_owned()),
                // A replica that is briefly not ready must not lose the reports of that time.
                publish_not_ready_addresses: values.leader_election_enabled().then_some(true),
                ports: Some(vec![port("https-probers", PROBER_PORT, "https", "probers")]),
                ..ServiceSpec::default()
            },
        ),
        page,
    ];
    if let Some(host) = values.external_hosts.first() {
        let mut outside = service(
            outside::SERVICE,
            values,
            ServiceSpec {
                type_: Some("LoadBalancer".to_owned()),
                ports: Some(vec![port("https-probers", PROBER_PORT, "https", "probers")]),
                ..ServiceSpec::default()
            },
        );
        outside.metadata.annotations = Some(meta::string_map([(outside::HOST, host)]));
        services.push(outside);
    }
    services
}

fn service(name: &str, values: &Values, spec: ServiceSpec) -> Service {
    Service {
        metadata: Component::Aggregator.metadata(name, values),
        spec: Some(ServiceSpec {
            selector: Some(Component::Aggregator.labels()),
            ..spec
        }),
        ..Service::default()
    }
}

fn port(name: &str, number: u16, protocol: &str, target: &str) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        app_protocol: Some(protocol.to_owned()),
        port: number.into(),
        target_port: Some(IntOrString::String(target.to_owned())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}

/// Allows a drain to evict one replica at a time, and never blocks it.
pub(super) fn disruption_budget(values: &Values) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: Component::Aggregator.metadata(Component::Aggregator.name(), values),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(Component::Aggregator.selector()),
            // A replica that is not ready must not hold up a drain.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

/// Builds the Deployment.
pub(super) fn deployment(values: &Values) -> Deployment {
    let part = Component::Aggregator;
    let strategy = if values.volume.is_some() {
        // Only one Pod at a time can mount the volume.
        DeploymentStrategy {
            type_: Some("Recreate".to_owned()),
            rolling_update: None,
        }
    } else {
        DeploymentStrategy {
            type_: Some("RollingUpdate".to_owned()),
            rolling_update: Some(RollingUpdateDeployment {
                max_surge: Some(IntOrString::Int(1)),
                max_unavailable: Some(IntOrString::Int(0)),
            }),
        }
    };
    Deployment {
        metadata: part.metadata(part.name(), values),
        spec: Some(DeploymentSpec {
            replicas: Some(values.replicas),
            selector: part.selector(),
            strategy: Some(strategy),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(part.labels()),
                    annotations: Some(meta::string_map([(
                        CONFIG_DIGEST_ANNOTATION,
                        start_digest(values).as_str(),
                    )])),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(values)),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod_spec(values: &Values) -> PodSpec {
    let name = |name: &str| IntOrString::String(name.to_owned());
    let mut container = pod::container(
        "aggregator",
        &["aggregator"],
        values,
        &values.aggregator.resources,
    );
    let mut env = vec![
        pod::env("PARALLAX_CONFIG", &format!("{CONFIG_MOUNT_PATH}/{CONFIG_FILE}")),
        pod::env_field("PARALLAX_POD", "metadata.name"),
        pod::env_field("PARALLAX_NODE", "spec.nodeName"),
    ];
    if values.leader_election_enabled() {
        env.push(pod::env_field("PARALLAX_ADDRESS", "status.podIP"));
    }
    container.env = Some(env);
    container.ports = Some(vec![
        pod::port("http", PAGE_PORT.into()),
        pod::port("probers", PROBER_PORT.into()),
    ]);
    container.readiness_probe = Some(pod::http_probe("/readyz", name("http"), 2));
    container.liveness_probe = Some(pod::http_probe("/healthz", name("http"), 6));
    container.volume_mounts = Some(vec![
        pod::mount("config", CONFIG_MOUNT_PATH, true),
        pod::mount("api", API_CREDENTIALS_PATH, true),
        pod::mount("data", storage::MOUNT_PATH, false),
    ]);
    let mut volumes = vec![config_volume(), api_credentials_volume(), storage::volume(values)];
    if !values.notify.secrets().is_empty() {
        volumes.push(secrets_volume(values));
        let mounts = container.volume_mounts.get_or_insert_default();
        mounts.push(pod::mount("secrets", SECRETS_MOUNT_PATH, true));
    }
    let mut spec = PodSpec {
        service_account_name: Some(Component::Aggregator.name().to_owned()),
        volumes: Some(volumes),
        containers: vec![container],
        affinity: values.leader_election_enabled().then(anti_affinity),
        ..pod::hardened(values, &values.aggregator.placement)
    };
    if let Some(context) = &mut spec.security_context {
        context.fs_group = Some(USER);
    }
    spec
}

/// Secrets that sign webhooks, and the address of the heartbeat. The kubelet mounts them, so no ServiceAccount needs
/// permission to read Secrets.
fn secrets_volume(values: &Values) -> Volume {
    let secrets = values.notify.secrets().into_iter();
    let sources = secrets.map(|(secret, key, file)| VolumeProjection {
        secret: Some(SecretProjection {
            name: secret.to_owned(),
            items: Some(vec![KeyToPath {
                key: key.to_owned(),
                path: file.to_owned(),
                mode: None,
            }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    });
    Volume {
        name: "secrets".to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(sources.collect()),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Prefers different nodes for the replicas: the failure of one node must not take down both.
fn anti_affinity() -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(Component::Aggregator.selector()),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
                pod_affinity_term: term,
                weight: 100,
            }]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn config_volume() -> Volume {
    Volume {
        name: "config".to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![config_map(CONFIG_MAP, CONFIG_FILE)]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// Explicit form of what `automountServiceAccountToken` would mount: the Pod's API server credentials.
pub(super) fn api_credentials_volume() -> Volume {
    Volume {
        name: "api".to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![
                VolumeProjection {
                    service_account_token: Some(ServiceAccountTokenProjection {
                        expiration_seconds: Some(3_607),
                        path: "token".to_owned(),
                        ..ServiceAccountTokenProjection::default()
                    }),
                    ..VolumeProjection::default()
                },
                config_map("kube-root-ca.crt", "ca.crt"),
                VolumeProjection {
                    downward_api: Some(DownwardAPIProjection {
                        items: Some(vec![DownwardAPIVolumeFile {
                            path: "namespace".to_owned(),
                            field_ref: Some(ObjectFieldSelector {
                                field_path: "metadata.namespace".to_owned(),
                                ..ObjectFieldSelector::default()
                            }),
                            ..DownwardAPIVolumeFile::default()
                        }]),
                    }),
                    ..VolumeProjection::default()
                },
            ]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn config_map(name: &str, file: &str) -> VolumeProjection {
    VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: name.to_owned(),
            items: Some(vec![KeyToPath {
                key: file.to_owned(),
                path: file.to_owned(),
                mode: None,
            }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    }
}
