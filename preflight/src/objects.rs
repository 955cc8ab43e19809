//! The synthetic solver: the objects that cert-manager would create for a challenge, with Parallax's responder and
//! a token of its own.
//!
//! Labels, annotations, class, path and Service equal cert-manager's, because policies, controllers and webhooks
//! select by them. cert-manager never finds these objects: it looks up objects by the hash of its own token, and
//! the labels contain the hash of Parallax's token.

use std::collections::BTreeMap;

use parallax_kubernetes::objects::SOLVER_LABEL;
use serde_json::{Map, Value, json};

use super::{
    cert_manager::{GatewaySolver, IngressSolver},
    route::SolverRoute,
};

/// Label of every created object: the preflight that owns it.
pub const PREFLIGHT_LABEL: &str = "parallax.dev/preflight";
/// Annotation of every created object: the time (RFC 3339) after which any preflight may remove it.
pub const DEADLINE_ANNOTATION: &str = "parallax.dev/deadline";
/// The port on which solvers listen.
pub const SOLVER_PORT: u16 = 8089;

/// The values that the objects are built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolverInputs {
    /// The name of the preflight and of every object.
    pub name: String,
    /// The namespace of the Certificate.
    pub namespace: String,
    /// The host name to certify.
    pub host: String,
    /// The token.
    pub token: String,
    /// The key authorization.
    pub key: String,
    /// The image of the responder.
    pub image: String,
    /// The deadline, RFC 3339.
    pub deadline: String,
    /// The lifetime in seconds, from the start of the Pod.
    pub lifetime_seconds: u32,
}

/// The objects, before creation.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticSolver {
    /// The responder.
    pub pod: Value,
    /// The Service in front of the responder.
    pub service: Value,
    /// The route to the Service.
    pub route: RouteObject,
}

/// The route to the solver's Service.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteObject {
    /// An Ingress.
    Ingress(Value),
    /// An `HTTPRoute`.
    Route(Value),
    /// A path in an existing Ingress that serves other traffic.
    Path {
        /// The name of the Ingress.
        ingress: String,
        /// The path.
        path: Value,
    },
}

impl SyntheticSolver {
    /// Builds the objects for a route.
    #[must_use]
    pub fn from_route(route: &SolverRoute, inputs: &SolverInputs) -> Self {
        let none = BTreeMap::new();
        let (service_type, pod_template, way) = match route {
            SolverRoute::EditInPlace { name, solver } => (
                &solver.service_type,
                &solver.pod_template,
                RouteObject::Path {
                    ingress: name.clone(),
                    path: rule_path(inputs),
                },
            ),
            SolverRoute::Ingress(solver) => (
                &solver.service_type,
                &solver.pod_template,
                RouteObject::Ingress(ingress_object(solver, inputs)),
            ),
            SolverRoute::Route(solver) => (
                &solver.service_type,
                &solver.pod_template,
                RouteObject::Route(http_route_object(solver, inputs)),
            ),
        };
        let mut pod = pod_object(inputs);
        if let Some(template) = pod_template {
            apply_pod_template(&mut pod, template);
        }
        let service_type = if service_type.is_empty() {
            "NodePort"
        } else {
            service_type
        };
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata(inputs, &none, &none),
            "spec": {
                "type": service_type,
                "ports": [{"name": "http", "port": SOLVER_PORT, "targetPort": SOLVER_PORT}],
                "selector": labels(inputs),
            },
        });
        service["metadata"]["annotations"]["auth.istio.io/8089"] = "NONE".into();
        Self {
            pod,
            service,
            route: way,
        }
    }
}

/// cert-manager's labels and Parallax's.
fn labels(inputs: &SolverInputs) -> BTreeMap<String, String> {
    let hash = |text: &str| adler2::adler32_slice(text.as_bytes()).to_string();
    [
        ("acme.cert-manager.io/http-domain", hash(&inputs.host)),
        ("acme.cert-manager.io/http-token", hash(&inputs.token)),
        (SOLVER_LABEL, "true".to_owned()),
        (PREFLIGHT_LABEL, inputs.name.clone()),
        ("app.kubernetes.io/managed-by", "parallax".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn metadata(
    inputs: &SolverInputs,
    more_labels: &BTreeMap<String, String>,
    more_annotations: &BTreeMap<String, String>,
) -> Value {
    // Parallax's labels take precedence over those of the issuer, because they identify the objects for cleanup.
    let mut all = more_labels.clone();
    all.extend(labels(inputs));
    let mut annotations = more_annotations.clone();
    annotations.insert(DEADLINE_ANNOTATION.to_owned(), inputs.deadline.clone());
    json!({"name": inputs.name, "namespace": inputs.namespace, "labels": all, "annotations": annotations})
}

fn challenge_path(inputs: &SolverInputs) -> String {
    format!("{}{}", parallax_model::CHALLENGE_PATH, inputs.token)
}

/// The path entry of an Ingress rule.
fn rule_path(inputs: &SolverInputs) -> Value {
    json!({
        "path": challenge_path(inputs), "pathType": "Exact",
        "backend": {"service": {"name": inputs.name, "port": {"number": SOLVER_PORT}}},
    })
}

fn ingress_object(solver: &IngressSolver, inputs: &SolverInputs) -> Value {
    let template = solver.ingress_template.clone().unwrap_or_default().metadata;
    let mut annotations = BTreeMap::from([(
        "nginx.ingress.kubernetes.io/whitelist-source-range".to_owned(),
        "0.0.0.0/0,::/0".to_owned(),
    )]);
    if !solver.class.is_empty() {
        annotations.insert("kubernetes.io/ingress.class".to_owned(), solver.class.clone());
    }
    annotations.extend(template.annotations);
    let mut object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": metadata(inputs, &template.labels, &annotations),
        "spec": {"rules": [{"host": inputs.host, "http": {"paths": [rule_path(inputs)]}}]},
    });
    if !solver.ingress_class_name.is_empty() {
        object["spec"]["ingressClassName"] = solver.ingress_class_name.as_str().into();
    }
    object
}

fn http_route_object(solver: &GatewaySolver, inputs: &SolverInputs) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": metadata(inputs, &solver.labels, &BTreeMap::new()),
        "spec": {
            "parentRefs": solver.parent_refs,
            "hostnames": [inputs.host],
            "rules": [{
                "matches": [{"path": {"type": "Exact", "value": challenge_path(inputs)}}],
                "backendRefs": [{"group": "", "kind": "Service", "name": inputs.name,
                                 "namespace": inputs.namespace, "port": SOLVER_PORT, "weight": 1}],
            }],
        },
    })
}

/// cert-manager's Pod with Parallax's responder. It ends by itself, even if it is never removed.
fn pod_object(inputs: &SolverInputs) -> Value {
    let annotations = BTreeMap::from(
        [
            ("sidecar.istio.io/inject", "false"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": metadata(inputs, &BTreeMap::new(), &annotations),
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "restartPolicy": "OnFailure",
            "activeDeadlineSeconds": inputs.lifetime_seconds,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "acmesolver",
                "image": inputs.image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["solver", "--listen-port", SOLVER_PORT.to_string(), "--domain", inputs.host,
                         "--token", inputs.token, "--key", inputs.key],
                "ports": [{"name": "http", "containerPort": SOLVER_PORT}],
                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"},
                              "limits": {"cpu": "100m", "memory": "64Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                    "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

/// Applies a solver's podTemplate as cert-manager does: labels, annotations and scheduling fields; lists are
/// extended.
fn apply_pod_template(pod: &mut Value, template: &Value) {
    for field in ["labels", "annotations"] {
        let more = template["metadata"][field]
            .as_object()
            .cloned()
            .unwrap_or_default();
        for (name, value) in more {
            let own = name.starts_with("parallax.dev/") || name.starts_with("acme.cert-manager.io/http");
            if !own {
                pod["metadata"][field][name] = value;
            }
        }
    }
    let Some(spec) = template["spec"].as_object() else {
        return;
    };
    for field in [
        "affinity",
        "priorityClassName",
        "serviceAccountName",
        "securityContext",
    ] {
        if let Some(value) = spec.get(field) {
            pod["spec"][field] = value.clone();
        }
    }
    let selectors: Map<String, Value> = spec
        .get("nodeSelector")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    for (name, value) in selectors {
        pod["spec"]["nodeSelector"][name] = value;
    }
    for field in ["tolerations", "imagePullSecrets"] {
        if let Some(more) = spec.get(field).and_then(Value::as_array) {
            let mut all = pod["spec"][field].as_array().cloned().unwrap_or_default();
            all.extend(more.iter().cloned());
            pod["spec"][field] = all.into();
        }
    }
    if let Some(resources) = spec.get("resources") {
        pod["spec"]["containers"][0]["resources"] = resources.clone();
    }
}

/// Returns what a class provisions that costs money, if its controller creates a load balancer per Ingress.
#[must_use]
pub fn billable_resource(controller: &str, class: &str) -> Option<&'static str> {
    match (controller, class) {
        ("ingress.k8s.aws/alb" | "eks.amazonaws.com/alb", _) | ("", "alb") => {
            Some("an AWS application load balancer for each Ingress that shares no group")
        }
        ("k8s.io/ingress-gce" | "ingress-gce", _) | ("", "gce" | "gce-internal") => {
            Some("a Google Cloud load balancer for each Ingress")
        }
        ("ingress.k8s.alibabacloud/alb", _) => Some("an Alibaba Cloud application load balancer"),
        ("networking.k8s.tencent.com/qcloud" | "ingress.cloud.tencent.com/qcloud", _) | ("", "qcloud") => {
            Some("a Tencent Cloud load balancer for each Ingress")
        }
        _ => None,
    }
}

/// Reports whether the responder is running.
///
/// # Errors
/// The reason that it will never run: the image is not available, or the Pod has ended.
pub fn is_pod_ready(pod: &Value) -> Result<bool, String> {
    let status = &pod["status"];
    let waiting = status["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|container| &container["state"]["waiting"])
        .find(|waiting| waiting.is_object());
    if let Some(waiting) = waiting {
        let reason = waiting["reason"].as_str().unwrap_or_default();
        if matches!(
            reason,
            "ErrImagePull"
                | "ImagePullBackOff"
                | "InvalidImageName"
                | "ErrImageNeverPull"
                | "CrashLoopBackOff"
                | "CreateContainerConfigError"
                | "CreateContainerError"
        ) {
            let message = waiting["message"].as_str().unwrap_or_default();
            return Err(format!("{reason}: {message}"));
        }
    }
    match status["phase"].as_str() {
        Some(ended @ ("Failed" | "Succeeded")) => Err(format!(
            "phase {ended}: {}",
            status["message"]
                .as_str()
                .or(status["reason"].as_str())
                .unwrap_or("no reason given")
        )),
        _ => Ok(condition(&status["conditions"], "Ready").is_some_and(|(is, _)| is)),
    }
}

/// Reports whether every Gateway of a route has accepted it.
///
/// # Errors
/// The reason of a Gateway that rejects the route.
pub fn is_route_accepted(route: &Value) -> Result<bool, String> {
    let wanted = route["spec"]["parentRefs"].as_array().map_or(0, Vec::len);
    let parents: Vec<&Value> = route["status"]["parents"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    for parent in &parents {
        let name = parent["parentRef"]["name"].as_str().unwrap_or("?");
        for sort in ["Accepted", "ResolvedRefs"] {
            if let Some((false, message)) = condition(&parent["conditions"], sort) {
                return Err(format!("Gateway {name} reports {sort}=False: {message}"));
            }
        }
    }
    let accepted = parents
        .iter()
        .filter(|parent| condition(&parent["conditions"], "Accepted").is_some_and(|(is, _)| is))
        .count();
    Ok(wanted > 0 && accepted >= wanted)
}

fn condition(conditions: &Value, sort: &str) -> Option<(bool, String)> {
    let found = conditions
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == sort)?;
    let field_text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    let is = match found["status"].as_str()? {
        "True" => true,
        "False" => false,
        _ => return None,
    };
    Some((
        is,
        format!("{} {}", field_text("reason"), field_text("message"))
            .trim()
            .to_owned(),
    ))
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
