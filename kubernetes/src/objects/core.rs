//! Nodes, Services, `EndpointSlices`, Ingresses, prober Pods and related objects.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::{ANNOTATION_PREFIX, KeptMetadata, SOLVER_LABEL, WatchedObject};

macro_rules! object {
    ($type:ident $(, uid: $uid:expr)? $(, labels: $labels:expr)? $(, annotations: $annotations:expr)?) => {
        impl WatchedObject for $type {
            $(const KEEPS_UID: bool = $uid;)?
            fn meta(&self) -> &KeptMetadata {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut KeptMetadata {
                &mut self.metadata
            }
            $(fn keeps_label(name: &str) -> bool {
                let keeps: fn(&str) -> bool = $labels;
                keeps(name)
            })?
            $(fn keeps_annotation(name: &str) -> bool {
                let keeps: fn(&str) -> bool = $annotations;
                keeps(name)
            })?
        }
    };
}
pub(super) use object;

/// An API type in which every field may be missing.
macro_rules! tolerant {
    ($(#[$doc:meta])* $vis:vis $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        $vis struct $name {
            $($(#[$attr])* pub(crate) $field: $type,)*
        }
    };
}
pub(super) use tolerant;

tolerant!(pub NamespaceMeta {
    metadata: KeptMetadata
});
object!(NamespaceMeta);

tolerant!(pub Node {
    metadata: KeptMetadata,
    spec: NodeSpec,
    status: NodeStatus,
});
object!(
    Node,
    labels: |name| matches!(
        name,
        "topology.kubernetes.io/zone" | "kubernetes.io/os" | "type" | "eks.amazonaws.com/compute-type"
    ),
    annotations: |_| false
);

tolerant!(pub(crate) NodeSpec { unschedulable: bool });
tolerant!(pub(crate) NodeStatus {
    conditions: Vec<NodeCondition>,
    addresses: Vec<NodeAddress>,
    node_info: NodeInfo,
});
tolerant!(pub(crate) NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
});
tolerant!(pub(crate) NodeCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
});
tolerant!(pub(crate) NodeInfo {
    kube_proxy_version: String,
    kubelet_version: String,
});

tolerant!(pub Pod {
    metadata: KeptMetadata,
    spec: PodSpec,
    status: PodStatus,
});
object!(
    Pod,
    uid: true,
    labels: |name| name == "app.kubernetes.io/component",
    annotations: |_| false
);

tolerant!(pub(crate) PodSpec {
    node_name: String,
    host_network: bool,
    containers: Vec<Container>,
});
tolerant!(pub(crate) Container { ports: Vec<ContainerPort> });
tolerant!(pub(crate) ContainerPort {
    name: String,
    container_port: i64,
});
tolerant!(pub(crate) PodStatus {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
});

tolerant!(pub Service {
    metadata: KeptMetadata,
    spec: ServiceSpec,
    status: ServiceStatus,
});
object!(
    Service,
    labels: |name| matches!(
        name,
        "app.kubernetes.io/name"
            | "app.kubernetes.io/instance"
            | "app"
            | "k8s-app"
            | "gateway.networking.k8s.io/gateway-name"
            | "parallax.dev/echo"
            | SOLVER_LABEL
    ),
    // Annotations of load balancer controllers; the diagnosis decides which of them matter.
    annotations: |name| name.starts_with(ANNOTATION_PREFIX) || name.contains("proxy-protocol")
);

tolerant!(pub(crate) ServiceSpec {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Vec<String>,
    #[serde(rename = "externalIPs")]
    external_ips: Vec<String>,
    external_traffic_policy: String,
    internal_traffic_policy: String,
    health_check_node_port: i64,
    load_balancer_source_ranges: Vec<String>,
    selector: BTreeMap<String, String>,
    ports: Vec<ServicePort>,
});
tolerant!(pub(crate) ServicePort {
    name: String,
    protocol: String,
    app_protocol: String,
    port: i64,
    target_port: PortRef,
    node_port: i64,
});
tolerant!(pub(crate) ServiceStatus {
    load_balancer: LoadBalancer
});
tolerant!(pub(crate) LoadBalancer { ingress: Vec<Address> });
tolerant!(
    /// An address of a load balancer in the status of a Service or Ingress.
    pub(crate) Address {
        ip: String,
        hostname: String,
        ip_mode: String,
    }
);

/// A port by number or name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum PortRef {
    /// Not set.
    #[default]
    Unset,
    Number(i64),
    Name(String),
}

impl<'de> Deserialize<'de> for PortRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum IntOrName {
            Number(i64),
            Name(String),
        }
        Ok(match IntOrName::deserialize(deserializer)? {
            IntOrName::Number(number) => Self::Number(number),
            IntOrName::Name(name) => Self::Name(name),
        })
    }
}

tolerant!(pub EndpointSlice {
    metadata: KeptMetadata,
    address_type: String,
    endpoints: Vec<Endpoint>,
    ports: Vec<SlicePort>,
});
object!(
    EndpointSlice,
    labels: |name| name == "kubernetes.io/service-name",
    annotations: |_| false
);

tolerant!(pub(crate) Endpoint {
    addresses: Vec<String>,
    conditions: Condition,
    node_name: Option<String>,
    target_ref: TargetRef,
    hints: EndpointHints,
});
tolerant!(pub(crate) Condition {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
});
tolerant!(pub(crate) TargetRef {
    kind: String,
    name: String,
});
tolerant!(pub(crate) EndpointHints {
    for_zones: Vec<Hint>,
    for_nodes: Vec<Hint>,
});
tolerant!(pub(crate) Hint { name: String });
tolerant!(pub(crate) SlicePort {
    name: String,
    port: Option<i64>,
    protocol: String,
    app_protocol: String,
});

tolerant!(pub NetworkPolicy {
    metadata: KeptMetadata,
    spec: NetworkPolicySpec,
});
object!(NetworkPolicy, annotations: |_| false);
tolerant!(pub(crate) NetworkPolicySpec {
    pod_selector: PodSelector,
    policy_types: Vec<String>,
    ingress: Vec<IngressOpening>,
});
tolerant!(pub(crate) PodSelector {
    match_labels: BTreeMap<String, String>,
    /// Only their presence is relevant.
    match_expressions: Vec<Expression>,
});
tolerant!(pub(crate) Expression { key: String });
tolerant!(
    /// One ingress rule; an empty rule allows all traffic.
    pub(crate) IngressOpening {
        from: Vec<Anything>,
        ports: Vec<Anything>,
    }
);
tolerant!(pub(crate) Anything {});

tolerant!(pub Job {
    metadata: KeptMetadata,
    spec: JobSpec,
    status: JobStatus,
});
object!(Job, annotations: |_| false);
tolerant!(pub(crate) JobSpec {
    template: PodTemplate
});
tolerant!(pub(crate) PodTemplate {
    metadata: TemplateMeta
});
tolerant!(pub(crate) TemplateMeta {
    labels: BTreeMap<String, String>
});
tolerant!(pub(crate) JobStatus { conditions: Vec<NodeCondition> });

tolerant!(pub IngressClass {
    metadata: KeptMetadata,
    spec: IngressClassSpec,
});
object!(
    IngressClass,
    labels: |name| matches!(name, "app.kubernetes.io/name" | "app.kubernetes.io/instance"),
    annotations: |name| name == "ingressclass.kubernetes.io/is-default-class"
);
tolerant!(pub(crate) IngressClassSpec { controller: String });

tolerant!(pub Ingress {
    metadata: KeptMetadata,
    spec: IngressSpec,
    status: IngressStatus,
});
object!(
    Ingress,
    labels: |name| name == SOLVER_LABEL,
    annotations: |name| name.starts_with(ANNOTATION_PREFIX) || name == "kubernetes.io/ingress.class"
);
tolerant!(pub(crate) IngressSpec {
    ingress_class_name: String,
    default_backend: Option<Backend>,
    rules: Vec<IngressRule>,
    tls: Vec<IngressTls>,
});
tolerant!(pub(crate) IngressTls { hosts: Vec<String> });
tolerant!(pub(crate) IngressRule {
    host: String,
    http: RulePaths,
});
tolerant!(pub(crate) RulePaths { paths: Vec<RulePath> });
tolerant!(pub(crate) RulePath {
    path: String,
    backend: Backend,
});
tolerant!(pub(crate) Backend {
    service: BackendService
});
tolerant!(pub(crate) BackendService { name: String });
tolerant!(pub(crate) IngressStatus {
    load_balancer: LoadBalancer
});
