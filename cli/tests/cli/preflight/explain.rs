use super::*;

fn challenge(key: &str, reason: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": "web-1"},
           "spec": {"dnsName": HOST, "token": "t0ken", "key": key, "type": "HTTP-01",
                    "solver": {"http01": {"ingress": {"ingressClassName": "nginx"}}}},
           "status": {"processing": true, "presented": true, "state": "pending", "reason": reason}})
}

fn controller(cluster: &TestCluster, namespace: &str, node: &str, spec: &Value) {
    let labels =
        json!({"app.kubernetes.io/component": "controller", "app.kubernetes.io/name": "cert-manager"});
    cluster.put(
        "deployments",
        json!({"metadata": {"namespace": namespace, "name": "cert-manager", "labels": labels},
               "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}}),
    );
    cluster.put(
        "pods",
        json!({"metadata": {"namespace": namespace, "name": "cert-manager-1", "labels": labels},
               "spec": {"nodeName": node}, "status": {"phase": "Running"}}),
    );
}

#[test]
fn a_challenge_that_waits_is_replayed_from_every_node_and_its_reason_is_read() {
    let fixture = Fixture::start();
    let refused = "Waiting for HTTP-01 challenge propagation: failed to perform self check GET request 'http://shop.example.test/.well-known/acme-challenge/t0ken': Get \"http://shop.example.test/.well-known/acme-challenge/t0ken\": dial tcp 203.0.113.10:80: connect: connection refused";
    fixture
        .cluster
        .put("challenges", challenge("t0ken.thumb", refused));
    let document: Value =
        serde_json::from_str(&outcome(&fixture.command(&["status", "-o", "json"]).output().unwrap()).1)
            .unwrap();
    let node = document["vantages"][0]["vantage"]
        .as_str()
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    controller(&fixture.cluster, "tls", &node, &json!({"containers": [{}]}));
    let output = fixture
        .command(&["explain", "challenge/shop/web-1"])
        .output()
        .unwrap();
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains("Challenge shop/web-1 for shop.example.test: pending"),
        "{out}"
    );
    assert!(
        out.contains("connection refused at 203.0.113.10:80; cert-manager repeats the check indefinitely; usual causes: F1"),
        "{out}"
    );
    // Nothing serves the token: the controller answers 404.
    assert!(
        out.contains(&format!(
            "✗ self check: cert-manager's Pod runs on {node}/host, where the check fails: unexpected status (404)"
        )),
        "{out}"
    );
    assert!(out.contains("F19"), "{out}");
    assert!(out.contains("cert-manager's Pod is cert-manager-1"), "{out}");
    assert!(
        out.contains("there is no evidence that the CA gets through"),
        "{out}"
    );
    assert!(fixture.cluster.created().is_empty(), "it reads and makes nothing");
    fixture.stop();
}

#[test]
fn what_is_different_about_cert_managers_pod_makes_the_answer_uncertain() {
    let fixture = Fixture::start();
    fixture.cluster.put("challenges", challenge("t0ken.thumb", ""));
    let proxied =
        json!({"containers": [{"env": [{"name": "HTTP_PROXY", "value": "http://proxy.example.test:3128"}]}]});
    controller(&fixture.cluster, "cert-manager", "elsewhere", &proxied);
    let output = fixture
        .command(&["explain", "challenge/shop/web-1", "-o", "json"])
        .output()
        .unwrap();
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["selfCheck"]["state"], "unknown");
    assert!(
        document["selfCheck"]["sentence"]
            .as_str()
            .unwrap()
            .contains("uses the proxy http://proxy.example.test:3128"),
        "{out}"
    );
    fixture.stop();
}

#[test]
fn what_is_no_challenge_over_http_or_not_there_is_said() {
    let fixture = Fixture::start();
    let mut dns = challenge("t0ken.thumb", "");
    dns["spec"]["type"] = "DNS-01".into();
    fixture.cluster.put("challenges", dns);
    let explain = |id: &str| outcome(&fixture.command(&["explain", id]).output().unwrap());
    let (code, out, _) = explain("challenge/shop/web-1");
    assert_eq!(code, Some(0));
    assert!(out.contains("uses DNS-01"), "{out}");
    let (code, _, err) = explain("challenge/shop/none");
    assert_eq!(code, Some(3));
    assert!(err.contains("there is no Challenge shop/none"), "{err}");
    let (code, _, err) = explain("challenge/shop");
    assert_eq!(code, Some(2));
    assert!(err.contains("expected challenge/NAMESPACE/NAME"), "{err}");
    fixture
        .cluster
        .reject("get", "challenges", 403, "challenges is forbidden");
    let (code, _, err) = explain("challenge/shop/web-1");
    assert_eq!(code, Some(3));
    assert!(err.contains("resources: [challenges], verbs: [get]"), "{err}");
    fixture.cluster.clear_rejections();
    fixture.cluster.put("challenges", challenge("t0ken.thumb", ""));
    fixture
        .cluster
        .reject("list", "deployments", 403, "deployments is forbidden");
    let (code, out, _) = explain("challenge/shop/web-1");
    assert_eq!(code, Some(0));
    let rule =
        "missing rule in a ClusterRole: {apiGroups: [\"apps\"], resources: [deployments], verbs: [list]}";
    assert!(
        out.contains(rule) && out.contains("--cert-manager-namespace"),
        "{out}"
    );
    fixture.stop();
}
