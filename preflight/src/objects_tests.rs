use super::*;
use crate::from_object;

fn material() -> SolverInputs {
    SolverInputs {
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

fn made(approach: &SolverRoute) -> SyntheticSolver {
    SyntheticSolver::from_route(approach, &material())
}

fn by_ingress(solver: Value) -> (SyntheticSolver, Value) {
    let solver = made(&SolverRoute::Ingress(from_object(solver).unwrap()));
    let RouteObject::Ingress(way) = solver.route.clone() else {
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
               "nginx.ingress.kubernetes.io/ssl-redirect": "false", DEADLINE_ANNOTATION: "2026-11-22T04:00:00Z"})
    );
    let labels = &way["metadata"]["labels"];
    // adler32 of the host name and of the token, in decimal.
    assert_eq!(labels["acme.cert-manager.io/http-domain"], "1019152067");
    assert_eq!(labels["acme.cert-manager.io/http01-solver"], "true");
    assert_eq!(
        (&labels["a"], &labels[PREFLIGHT_LABEL]),
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
    let solver = made(&SolverRoute::Route(
        from_object(json!({"parentRefs": [parent], "labels": {"expose": "yes"}})).unwrap(),
    ));
    let RouteObject::Route(way) = &solver.route else {
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
        "metadata": {"labels": {"team": "a", PREFLIGHT_LABEL: "somebody", "acme.cert-manager.io/http-token": "1"}},
        "spec": {"nodeSelector": {"pool": "edge"}, "tolerations": [{"key": "edge"}], "priorityClassName": "high",
                 "serviceAccountName": "solver", "containers": [{"image": "other"}]}}}));
    let pod = &solver.pod;
    assert_eq!(pod["metadata"]["labels"]["team"], "a");
    assert_eq!(
        pod["metadata"]["labels"][PREFLIGHT_LABEL],
        "parallax-preflight-0a1b2c3d"
    );
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
    let approach = SolverRoute::EditInPlace {
        name: "web".to_owned(),
        solver: IngressSolver::default(),
    };
    let mut solver = SyntheticSolver::from_route(&approach, &material());
    solver.set_pod_owner("uid-1");
    let RouteObject::Path { ingress, path } = solver.route else {
        panic!("a path in it, and no object")
    };
    assert_eq!(ingress, "web");
    assert_eq!(
        path,
        json!({"path": "/.well-known/acme-challenge/t0ken", "pathType": "Exact",
               "backend": {"service": {"name": "parallax-preflight-0a1b2c3d", "port": {"number": 8089}}}})
    );
}

#[test]
fn the_pod_owns_the_rest() {
    let (mut solver, _) = by_ingress(json!({}));
    solver.set_pod_owner("uid-1");
    let RouteObject::Ingress(way) = &solver.route else {
        panic!("an Ingress")
    };
    for object in [&solver.service, way] {
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    }
}

#[test]
fn a_class_that_makes_a_balancer_is_known_by_its_controller_or_its_old_name() {
    assert!(billable_resource("ingress.k8s.aws/alb", "public").is_some());
    assert!(billable_resource("", "gce").is_some());
    assert!(billable_resource("k8s.io/ingress-nginx", "alb").is_none());
    assert!(billable_resource("k8s.io/ingress-nginx", "nginx").is_none());
}

#[test]
fn a_pod_that_will_never_run_says_why() {
    let waiting = |reason: &str| {
        json!({"status": {"phase": "Pending", "containerStatuses":
            [{"state": {"waiting": {"reason": reason, "message": "no such image"}}}]}})
    };
    assert_eq!(is_pod_ready(&waiting("ContainerCreating")), Ok(false));
    assert!(
        is_pod_ready(&waiting("ImagePullBackOff"))
            .unwrap_err()
            .contains("no such image")
    );
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(is_pod_ready(&ready), Ok(true));
    assert_eq!(is_pod_ready(&json!({})), Ok(false));
    assert!(is_pod_ready(&json!({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}})).is_err());
}

#[test]
fn a_route_waits_for_every_gateway_and_says_which_one_refuses() {
    let route =
        |parents: Value| json!({"spec": {"parentRefs": [{"name": "gw"}]}, "status": {"parents": parents}});
    let parent = |accepted: &str, resolved: &str| {
        json!({"parentRef": {"name": "gw"}, "conditions": [
            {"type": "Accepted", "status": accepted, "reason": "NotAllowedByListeners", "message": "no listener"},
            {"type": "ResolvedRefs", "status": resolved, "reason": "RefNotPermitted"}]})
    };
    assert_eq!(is_route_accepted(&route(json!([]))), Ok(false));
    assert_eq!(
        is_route_accepted(&route(json!([parent("True", "True")]))),
        Ok(true)
    );
    let refused = is_route_accepted(&route(json!([parent("False", "True")]))).unwrap_err();
    assert!(refused.contains("NotAllowedByListeners no listener"), "{refused}");
    assert!(is_route_accepted(&route(json!([parent("True", "False")]))).is_err());
}
