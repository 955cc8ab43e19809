//! The synthetic solver: the objects that cert-manager would make for a challenge, around a responder and a token of
//! our own.
//!
//! Labels, annotations, class, path and Service are cert-manager's, because policies, controllers and webhooks choose by
//! them. The hash of our own token is among the labels, so cert-manager's own look-ups never find these objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    approach::Approach,
    types::{GatewaySolver, IngressSolver},
};

/// Label of everything that is made: which preflight owns it.
pub const OWNER: &str = "parallax.dev/preflight";
/// Annotation of everything that is made: it may be removed by anybody after this time (RFC 3339).
pub const DEADLINE: &str = "parallax.dev/deadline";
/// Where solvers listen.
pub const LISTEN_PORT: u16 = 8089;

/// What the objects are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// Name of the preflight and of every object.
    pub name: String,
    /// The Certificate's namespace.
    pub namespace: String,
    /// The name to be certified.
    pub host: String,
    /// The token.
    pub token: String,
    /// The key authorization.
    pub key: String,
    /// The image that responds.
    pub image: String,
    /// The end of its life, RFC 3339.
    pub deadline: String,
    /// The same in seconds from its start.
    pub lifetime_seconds: u32,
}

/// The objects, not yet created.
#[derive(Debug, Clone, PartialEq)]
pub struct Solver {
    /// The responder.
    pub pod: Value,
    /// The Service in front of it.
    pub service: Value,
    /// The way in.
    pub way: Made,
}

/// The way in to the solver.
#[derive(Debug, Clone, PartialEq)]
pub enum Made {
    /// An Ingress.
    Ingress(Value),
    /// An HTTPRoute.
    Route(Value),
}

impl Solver {
    /// What is made for an approach; nothing where an Ingress of somebody else's would be edited.
    #[must_use]
    pub fn of(approach: &Approach, material: &Material) -> Option<Self> {
        let none = BTreeMap::new();
        let (service_type, pod_template, way) = match approach {
            Approach::EditInPlace { .. } => return None,
            Approach::Ingress(solver) => (
                &solver.service_type,
                &solver.pod_template,
                Made::Ingress(ingress(solver, material)),
            ),
            Approach::Route(solver) => (
                &solver.service_type,
                &solver.pod_template,
                Made::Route(route(solver, material)),
            ),
        };
        let mut pod = pod(material);
        if let Some(template) = pod_template {
            merge_pod(&mut pod, template);
        }
        let service_type = if service_type.is_empty() {
            "NodePort"
        } else {
            service_type
        };
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": meta(material, &none, &none),
            "spec": {
                "type": service_type,
                "ports": [{"name": "http", "port": LISTEN_PORT, "targetPort": LISTEN_PORT}],
                "selector": labels(material),
            },
        });
        service["metadata"]["annotations"]["auth.istio.io/8089"] = "NONE".into();
        Some(Self { pod, service, way })
    }

    /// Makes the Pod the owner of the rest, so that whoever removes it removes everything.
    pub fn owned_by(&mut self, pod_uid: &str) {
        let name = self.pod["metadata"]["name"].clone();
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod_uid}]);
        self.service["metadata"]["ownerReferences"] = owner.clone();
        let (Made::Ingress(way) | Made::Route(way)) = &mut self.way;
        way["metadata"]["ownerReferences"] = owner;
    }
}

/// cert-manager's labels and ours.
fn labels(material: &Material) -> BTreeMap<String, String> {
    let hash = |text: &str| adler2::adler32_slice(text.as_bytes()).to_string();
    [
        ("acme.cert-manager.io/http-domain", hash(&material.host)),
        ("acme.cert-manager.io/http-token", hash(&material.token)),
        ("acme.cert-manager.io/http01-solver", "true".to_owned()),
        (OWNER, material.name.clone()),
        ("app.kubernetes.io/managed-by", "parallax".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn meta(
    material: &Material,
    more_labels: &BTreeMap<String, String>,
    more_annotations: &BTreeMap<String, String>,
) -> Value {
    // What an issuer adds never takes ours away: by these the objects are found again.
    let mut all = more_labels.clone();
    all.extend(labels(material));
    let mut annotations = more_annotations.clone();
    annotations.insert(DEADLINE.to_owned(), material.deadline.clone());
    json!({"name": material.name, "namespace": material.namespace, "labels": all, "annotations": annotations})
}

fn path(material: &Material) -> String {
    format!("{}{}", parallax_model::CHALLENGE_PATH, material.token)
}

fn ingress(solver: &IngressSolver, material: &Material) -> Value {
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
        "metadata": meta(material, &template.labels, &annotations),
        "spec": {"rules": [{"host": material.host, "http": {"paths": [{
            "path": path(material), "pathType": "Exact",
            "backend": {"service": {"name": material.name, "port": {"number": LISTEN_PORT}}},
        }]}}]},
    });
    if !solver.ingress_class_name.is_empty() {
        object["spec"]["ingressClassName"] = solver.ingress_class_name.as_str().into();
    }
    object
}

fn route(solver: &GatewaySolver, material: &Material) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": meta(material, &solver.labels, &BTreeMap::new()),
        "spec": {
            "parentRefs": solver.parent_refs,
            "hostnames": [material.host],
            "rules": [{
                "matches": [{"path": {"type": "Exact", "value": path(material)}}],
                "backendRefs": [{"group": "", "kind": "Service", "name": material.name,
                                 "namespace": material.namespace, "port": LISTEN_PORT, "weight": 1}],
            }],
        },
    })
}

/// cert-manager's own Pod with our responder in it. It ends by itself, whoever forgets it.
fn pod(material: &Material) -> Value {
    let annotations = BTreeMap::from(
        [
            ("sidecar.istio.io/inject", "false"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": meta(material, &BTreeMap::new(), &annotations),
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "restartPolicy": "OnFailure",
            "activeDeadlineSeconds": material.lifetime_seconds,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "acmesolver",
                "image": material.image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["solver", "--listen-port", LISTEN_PORT.to_string(), "--domain", material.host,
                         "--token", material.token, "--key", material.key],
                "ports": [{"name": "http", "containerPort": LISTEN_PORT}],
                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"},
                              "limits": {"cpu": "100m", "memory": "64Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                    "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

/// What a solver's podTemplate may change: labels, annotations and where the Pod runs; lists are added to.
fn merge_pod(pod: &mut Value, template: &Value) {
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

/// Why a class costs money: its controller makes a balancer for each Ingress.
#[must_use]
pub fn billable(controller: &str, class: &str) -> Option<&'static str> {
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

/// Whether the responder runs.
///
/// # Errors
/// Why it never will: the image is not there, or the Pod ended.
pub fn ready_pod(pod: &Value) -> Result<bool, String> {
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
            "it is {ended}: {}",
            status["message"]
                .as_str()
                .or(status["reason"].as_str())
                .unwrap_or("no reason is given")
        )),
        _ => Ok(condition(&status["conditions"], "Ready").is_some_and(|(is, _)| is)),
    }
}

/// Whether every Gateway of a route has accepted it.
///
/// # Errors
/// What a Gateway says against it.
pub fn route_accepted(route: &Value) -> Result<bool, String> {
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
                return Err(format!("Gateway {name} says {sort} is false: {message}"));
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
    let says = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    let is = match found["status"].as_str()? {
        "True" => true,
        "False" => false,
        _ => return None,
    };
    Some((
        is,
        format!("{} {}", says("reason"), says("message"))
            .trim()
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::read;

    fn material() -> Material {
        Material {
            name: "parallax-preflight-0a1b2c3d".to_owned(),
            namespace: "shop".to_owned(),
            host: "shop.example.test".to_owned(),
            token: "t0ken".to_owned(),
            key: "t0ken.thumb".to_owned(),
            image: "parallax:0.1.0".to_owned(),
            deadline: "2026-11-22T04:00:00Z".to_owned(),
            lifetime_seconds: 300,
        }
    }

    fn made(approach: &Approach) -> Solver {
        Solver::of(approach, &material()).unwrap()
    }

    fn by_ingress(solver: Value) -> (Solver, Value) {
        let solver = made(&Approach::Ingress(read(solver).unwrap()));
        let Made::Ingress(way) = solver.way.clone() else {
            panic!("an Ingress")
        };
        (solver, way)
    }

    #[test]
    fn the_ingress_is_the_one_that_cert_manager_would_make() {
        let (solver, way) = by_ingress(json!({"ingressClassName": "nginx", "ingressTemplate":
            {"metadata": {"labels": {"a": "b"}, "annotations": {"nginx.ingress.kubernetes.io/ssl-redirect": "false"}}}}));
        assert_eq!(
            way["spec"],
            json!({"ingressClassName": "nginx", "rules": [{"host": "shop.example.test", "http": {"paths": [{
                "path": "/.well-known/acme-challenge/t0ken", "pathType": "Exact",
                "backend": {"service": {"name": "parallax-preflight-0a1b2c3d", "port": {"number": 8089}}}}]}}]})
        );
        assert_eq!(
            way["metadata"]["annotations"],
            json!({"nginx.ingress.kubernetes.io/whitelist-source-range": "0.0.0.0/0,::/0",
                   "nginx.ingress.kubernetes.io/ssl-redirect": "false", DEADLINE: "2026-11-22T04:00:00Z"})
        );
        let labels = &way["metadata"]["labels"];
        // adler32 of the name and of the token, in decimal.
        assert_eq!(labels["acme.cert-manager.io/http-domain"], "1019152067");
        assert_eq!(labels["acme.cert-manager.io/http01-solver"], "true");
        assert_eq!(
            (&labels["a"], &labels[OWNER]),
            (&json!("b"), &json!("parallax-preflight-0a1b2c3d"))
        );
        assert_eq!(solver.service["spec"]["type"], "NodePort");
        assert_eq!(
            solver.service["spec"]["selector"],
            solver.pod["metadata"]["labels"]
        );
        let (_, by_annotation) = by_ingress(json!({"class": "old", "serviceType": "ClusterIP"}));
        assert_eq!(
            by_annotation["metadata"]["annotations"]["kubernetes.io/ingress.class"],
            "old"
        );
        assert!(by_annotation["spec"].get("ingressClassName").is_none());
        let (cluster_ip, _) = by_ingress(json!({"serviceType": "ClusterIP"}));
        assert_eq!(cluster_ip.service["spec"]["type"], "ClusterIP");
    }

    #[test]
    fn the_route_hangs_on_the_solvers_gateways_and_has_its_labels() {
        let parent = json!({"name": "gw", "namespace": "infra", "sectionName": "http"});
        let solver = made(&Approach::Route(
            read(json!({"parentRefs": [parent], "labels": {"expose": "yes"}})).unwrap(),
        ));
        let Made::Route(way) = &solver.way else {
            panic!("a route")
        };
        assert_eq!(way["spec"]["parentRefs"], json!([parent]));
        assert_eq!(way["metadata"]["labels"]["expose"], "yes");
        let rule = &way["spec"]["rules"][0];
        assert_eq!(rule["matches"][0]["path"]["type"], "Exact");
        assert_eq!(rule["backendRefs"][0]["port"], 8089);
    }

    #[test]
    fn a_pod_template_changes_where_the_pod_runs_and_never_whose_it_is() {
        let (solver, _) = by_ingress(json!({"podTemplate": {
            "metadata": {"labels": {"team": "a", OWNER: "somebody", "acme.cert-manager.io/http-token": "1"}},
            "spec": {"nodeSelector": {"pool": "edge"}, "tolerations": [{"key": "edge"}], "priorityClassName": "high",
                     "serviceAccountName": "solver", "containers": [{"image": "other"}]}}}));
        let pod = &solver.pod;
        assert_eq!(pod["metadata"]["labels"]["team"], "a");
        assert_eq!(pod["metadata"]["labels"][OWNER], "parallax-preflight-0a1b2c3d");
        assert_eq!(
            pod["spec"]["nodeSelector"],
            json!({"kubernetes.io/os": "linux", "pool": "edge"})
        );
        assert_eq!(pod["spec"]["tolerations"], json!([{"key": "edge"}]));
        assert_eq!(pod["spec"]["containers"][0]["image"], "parallax:0.1.0");
        assert_eq!(pod["spec"]["activeDeadlineSeconds"], 300, "it ends by itself");
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    }

    #[test]
    fn an_ingress_of_somebody_else_is_never_made_into_ours() {
        let approach = Approach::EditInPlace {
            name: "web".to_owned(),
            solver: IngressSolver::default(),
        };
        assert_eq!(Solver::of(&approach, &material()), None);
    }

    #[test]
    fn the_pod_owns_the_rest() {
        let (mut solver, _) = by_ingress(json!({}));
        solver.owned_by("uid-1");
        let Made::Ingress(way) = &solver.way else {
            panic!("an Ingress")
        };
        for object in [&solver.service, way] {
            assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-1");
        }
    }

    #[test]
    fn a_class_that_makes_a_balancer_is_known_by_its_controller_or_its_old_name() {
        assert!(billable("ingress.k8s.aws/alb", "public").is_some());
        assert!(billable("", "gce").is_some());
        assert!(billable("k8s.io/ingress-nginx", "alb").is_none());
        assert!(billable("k8s.io/ingress-nginx", "nginx").is_none());
    }

    #[test]
    fn a_pod_that_will_never_run_says_why() {
        let waiting = |reason: &str| {
            json!({"status": {"phase": "Pending", "containerStatuses":
                [{"state": {"waiting": {"reason": reason, "message": "no such image"}}}]}})
        };
        assert_eq!(ready_pod(&waiting("ContainerCreating")), Ok(false));
        assert!(
            ready_pod(&waiting("ImagePullBackOff"))
                .unwrap_err()
                .contains("no such image")
        );
        let ready =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(ready_pod(&ready), Ok(true));
        assert_eq!(ready_pod(&json!({})), Ok(false));
        assert!(ready_pod(&json!({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}})).is_err());
    }

    #[test]
    fn a_route_waits_for_every_gateway_and_says_which_one_refuses() {
        let route = |parents: Value| json!({"spec": {"parentRefs": [{"name": "gw"}]}, "status": {"parents": parents}});
        let parent = |accepted: &str, resolved: &str| {
            json!({"parentRef": {"name": "gw"}, "conditions": [
                {"type": "Accepted", "status": accepted, "reason": "NotAllowedByListeners", "message": "no listener"},
                {"type": "ResolvedRefs", "status": resolved, "reason": "RefNotPermitted"}]})
        };
        assert_eq!(route_accepted(&route(json!([]))), Ok(false));
        assert_eq!(route_accepted(&route(json!([parent("True", "True")]))), Ok(true));
        let refused = route_accepted(&route(json!([parent("False", "True")]))).unwrap_err();
        assert!(refused.contains("NotAllowedByListeners no listener"), "{refused}");
        assert!(route_accepted(&route(json!([parent("True", "False")]))).is_err());
    }
}
