//! Nodes, Services with their slices, Ingresses, prober Pods.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::{ANNOTATION, KeptMetadata, SOLVER, WatchedObject};

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

/// A type of the API: every field may be missing.
macro_rules! tolerant {
    ($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub(crate) struct $name {
            $($(#[$attr])* pub(in crate::watch::kube) $field: $type,)*
        }
    };
}
pub(super) use tolerant;

tolerant!(NamespaceMeta {
    metadata: KeptMetadata
});
object!(NamespaceMeta);

tolerant!(Node {
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

tolerant!(NodeSpec { unschedulable: bool });
tolerant!(NodeStatus {
    conditions: Vec<NodeCondition>,
    addresses: Vec<NodeAddress>,
    node_info: NodeInfo,
});
tolerant!(NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
});
tolerant!(NodeCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
});
tolerant!(NodeInfo {
    kube_proxy_version: String,
    kubelet_version: String,
});

tolerant!(Pod {
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

tolerant!(PodSpec {
    node_name: String,
    host_network: bool,
    containers: Vec<Container>,
});
tolerant!(Container { ports: Vec<ContainerPort> });
tolerant!(ContainerPort {
    name: String,
    container_port: i64,
});
tolerant!(PodStatus {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
});

tolerant!(Service {
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
            | SOLVER
    ),
    // Words of balancers' controllers; which of them matter is the diagnosis' business.
    annotations: |name| name.starts_with(ANNOTATION) || name.contains("proxy-protocol")
);

tolerant!(ServiceSpec {
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
    selector: BTreeMap<String, String>,
    ports: Vec<ServicePort>,
});
tolerant!(ServicePort {
    name: String,
    protocol: String,
    app_protocol: String,
    port: i64,
    target_port: PortRef,
    node_port: i64,
});
tolerant!(ServiceStatus {
    load_balancer: LoadBalancer
});
tolerant!(LoadBalancer { ingress: Vec<Address> });
tolerant!(
    /// An address of a balancer, in the status of a Service or of an Ingress.
    Address {
        ip: String,
        hostname: String,
        ip_mode: String,
    }
);

/// A port by number or by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum PortRef {
    /// Not said.
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

tolerant!(EndpointSlice {
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

tolerant!(Endpoint {
    addresses: Vec<String>,
    conditions: Condition,
    node_name: Option<String>,
    target_ref: TargetRef,
    hints: EndpointHints,
});
tolerant!(Condition {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
});
tolerant!(TargetRef {
    kind: String,
    name: String,
});
tolerant!(EndpointHints {
    for_zones: Vec<Hint>,
    for_nodes: Vec<Hint>,
});
tolerant!(Hint { name: String });
tolerant!(SlicePort {
    name: String,
    port: Option<i64>,
    protocol: String,
    app_protocol: String,
});

tolerant!(NetworkPolicy {
    metadata: KeptMetadata,
    spec: NetworkPolicySpec,
});
object!(NetworkPolicy, annotations: |_| false);
tolerant!(NetworkPolicySpec {
    pod_selector: PodSelector,
    policy_types: Vec<String>,
    ingress: Vec<IngressOpening>,
});
tolerant!(PodSelector {
    match_labels: BTreeMap<String, String>,
    /// Kept only as far as there are any.
    match_expressions: Vec<Expression>,
});
tolerant!(Expression { key: String });
tolerant!(
    /// One rule; without anything in it it lets everybody in.
    IngressOpening {
        from: Vec<Anything>,
        ports: Vec<Anything>,
    }
);
tolerant!(Anything {});

tolerant!(Job {
    metadata: KeptMetadata,
    spec: JobSpec,
    status: JobStatus,
});
object!(Job, annotations: |_| false);
tolerant!(JobSpec {
    template: PodTemplate
});
tolerant!(PodTemplate {
    metadata: TemplateMeta
});
tolerant!(TemplateMeta {
    labels: BTreeMap<String, String>
});
tolerant!(JobStatus { conditions: Vec<NodeCondition> });

tolerant!(IngressClass {
    metadata: KeptMetadata,
    spec: IngressClassSpec,
});
object!(
    IngressClass,
    labels: |name| matches!(name, "app.kubernetes.io/name" | "app.kubernetes.io/instance"),
    annotations: |name| name == "ingressclass.kubernetes.io/is-default-class"
);
tolerant!(IngressClassSpec { controller: String });

tolerant!(Ingress {
    metadata: KeptMetadata,
    spec: IngressSpec,
    status: IngressStatus,
});
object!(
    Ingress,
    labels: |name| name == SOLVER,
    annotations: |name| name.starts_with(ANNOTATION) || name == "kubernetes.io/ingress.class"
);
tolerant!(IngressSpec {
    ingress_class_name: String,
    default_backend: Option<Backend>,
    rules: Vec<IngressRule>,
    tls: Vec<IngressTls>,
});
tolerant!(IngressTls { hosts: Vec<String> });
tolerant!(IngressRule {
    host: String,
    http: RulePaths,
});
tolerant!(RulePaths { paths: Vec<RulePath> });
tolerant!(RulePath {
    path: String,
    backend: Backend,
});
tolerant!(Backend {
    service: BackendService
});
tolerant!(BackendService { name: String });
tolerant!(IngressStatus {
    load_balancer: LoadBalancer
});
