use std::process::Stdio;

use jiff::SignedDuration;

use super::*;

#[test]
fn a_synthetic_solver_is_made_as_cert_manager_would_asked_for_and_removed() {
    let fixture = Fixture::start();
    fixture.cluster.put("clusterissuers", issuer(&nginx()));
    let output = fixture.preflight(&[HOST, "--cluster-issuer", "letsencrypt"]);
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains(
            "shop.example.test: an Ingress of class nginx (solver 1 of 1 of ClusterIssuer letsencrypt)"
        ),
        "{out}"
    );
    assert!(out.contains("✓ self check: passes on 1 of 1 vantages"), "{out}");
    assert!(out.contains("? CA: by the CA's rules it passes from"), "{out}");
    assert!(out.contains("after the last object was created"), "{out}");
    assert!(!out.contains("nothing was created"), "{out}");
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    let ingress = &fixture.cluster.created_of("ingresses")[0];
    assert_eq!(ingress["spec"]["ingressClassName"], "nginx");
    assert_eq!(ingress["metadata"]["namespace"], "shop");
    assert_eq!(ingress["metadata"]["ownerReferences"][0]["kind"], "Pod");
    let pod = &fixture.cluster.created_of("pods")[0];
    assert_eq!(pod["spec"]["containers"][0]["image"], "parallax:test");
    fixture.stop();
}

#[test]
fn a_certificate_names_hosts_issuer_and_overrides_and_a_route_is_waited_for() {
    let fixture = Fixture::start();
    fixture.cluster.put(
        "issuers",
        json!({"metadata": {"namespace": "shop", "name": "le"}, "spec": {"acme": {"solvers": [
            {"http01": {"ingress": {}}},
            {"selector": {"matchLabels": {"team": "a"}}, "http01": {"gatewayHTTPRoute": {"parentRefs": [{"name": "gw"}]}}}]}}}),
    );
    fixture.cluster.put(
        "certificates",
        json!({"metadata": {"namespace": "shop", "name": "web", "labels": {"team": "a"}},
               "spec": {"dnsNames": [HOST], "issuerRef": {"name": "le"}}}),
    );
    let output = fixture.preflight(&["--certificate", "web", "--json"]);
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        document["hosts"][0]["solver"],
        "an HTTPRoute on gw (solver 2 of 2 of Issuer shop/le)"
    );
    assert!(document["hosts"][0]["propagationMs"].is_u64());
    assert_eq!(fixture.cluster.created_of("httproutes").len(), 1);
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    fixture.stop();
}

#[test]
fn what_fails_on_the_way_leaves_nothing_behind_and_says_what_would_help() {
    let fixture = Fixture::start();
    let class = || fixture.preflight(&[HOST, "--class", "nginx", "--ready", "2"]);
    // (verb, resource, status, message, expected error)
    for (verb, resource, status, words, expected) in [
        (
            "create",
            "pods",
            403,
            "pods is forbidden: User may not",
            "missing rule in namespace shop: {apiGroups: [\"\"], resources: [pods], verbs: [create]}",
        ),
        (
            "create",
            "services",
            403,
            "services is forbidden",
            "resources: [services], verbs: [create]",
        ),
        (
            "create",
            "ingresses",
            403,
            "ingresses is forbidden",
            "apiGroups: [\"networking.k8s.io\"], resources: [ingresses], verbs: [create]",
        ),
        (
            "create",
            "ingresses",
            400,
            "admission webhook \"validate.nginx.ingress.kubernetes.io\" denied the request: path cannot be used with pathType Exact",
            "pathType Exact",
        ),
        (
            "create",
            "ingresses",
            403,
            "admission webhook \"policy.example.test\" denied the request: no",
            "cert-manager's own object would be rejected as well",
        ),
        (
            "get",
            "pods",
            403,
            "pods is forbidden",
            "resources: [pods], verbs: [get]",
        ),
    ] {
        fixture.cluster.reject(verb, resource, status, words);
        let (code, out, err) = outcome(&class());
        assert_eq!(code, Some(3), "{verb} {resource}: {out}{err}");
        assert!(err.contains(expected), "{verb} {resource}: {err}");
        assert!(
            err.contains(words),
            "the API server's message is quoted verbatim: {err}"
        );
        fixture.cluster.clear_rejections();
        assert_eq!(
            fixture.cluster.leftovers(),
            Vec::<String>::new(),
            "{verb} {resource}"
        );
    }
    fixture.cluster.state().pods_stay_pending = true;
    let (code, _, err) = outcome(&class());
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("is not ready after 2 s"), "{err}");
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    // No controller adopts the Ingress: another controller answers 404.
    fixture.cluster.state().pods_stay_pending = false;
    fixture.cluster.state().routes_ignored = true;
    let (code, out, err) = outcome(&class());
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(
        out.contains("F19") && out.contains("wrong status code '404', expected '200'"),
        "{out}"
    );
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    fixture.cluster.state().routes_ignored = false;
    // Deleting fails too: the error lists what is left and when it may be deleted.
    fixture.cluster.reject("delete", "ingresses", 500, "later");
    let (code, _, err) = outcome(&class());
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("still exist") && err.contains("kubectl -n shop delete ingresses,services,pods"),
        "{err}"
    );
    assert_eq!(fixture.cluster.leftovers().len(), 1);
    fixture.stop();
}

#[test]
fn an_interrupt_removes_what_was_created() {
    let fixture = Fixture::start();
    fixture.cluster.state().pods_stay_pending = true;
    let port = fixture.cluster.entry.port().to_string();
    let mut child = fixture
        .command(&[
            "preflight",
            HOST,
            "--class",
            "nginx",
            "-n",
            "shop",
            "--image",
            "i",
            "--port",
            &port,
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    fixture.cluster.wait_until("everything is created", || {
        !fixture.cluster.created_of("ingresses").is_empty()
    });
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    fixture.stop();
}

#[test]
fn several_hosts_are_made_at_once_so_many_at_a_time_and_an_interrupt_removes_them_all() {
    let fixture = Fixture::start();
    fixture.cluster.state().pods_stay_pending = true;
    let hosts = [
        "d.example.test",
        "a.example.test",
        "c.example.test",
        "b.example.test",
    ];
    let mut child = fixture
        .command(&["preflight", "--class", "nginx", "-n", "shop", "--image", "i"])
        .args(hosts)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // None of them is ready, so they were created concurrently.
    fixture.cluster.wait_until("three hosts are prepared", || {
        fixture.cluster.created_of("ingresses").len() == 3
    });
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(
        fixture.cluster.created_of("ingresses").len(),
        3,
        "the fourth had to wait"
    );
    assert_eq!(fixture.cluster.leftovers(), Vec::<String>::new());
    fixture.stop();
}

#[test]
fn the_report_keeps_the_order_of_the_hosts_and_too_many_runs_are_waited_for() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    cluster.state().rejected_runs = 2;
    let hosts = [
        "d.example.test",
        "a.example.test",
        "c.example.test",
        "b.example.test",
    ];
    let output = parallax()
        .args(["preflight", "--no-create", "--json", "-n", "shop"])
        .args(hosts)
        .args(["--server", &format!("http://{}/", cluster.aggregator)])
        .env("KUBECONFIG", cluster.write_kubeconfig(folder.path()))
        .output()
        .unwrap();
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(
        cluster.state().rejected_runs,
        0,
        "it was refused, and asked again"
    );
    let document: Value = serde_json::from_str(&out).unwrap();
    let hosts_in_report: Vec<&str> = document["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["host"].as_str().unwrap())
        .collect();
    assert_eq!(hosts_in_report, hosts);
}

#[test]
fn after_a_hundred_runs_that_are_killed_at_any_point_the_next_one_leaves_nothing() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        parallax()
            .args([
                "preflight",
                HOST,
                "--class",
                "nginx",
                "-n",
                "shop",
                "--image",
                "i",
                "--lifetime",
                "1",
            ])
            .args(["--server", &format!("http://{}/", cluster.aggregator)])
            .env("KUBECONFIG", cluster.write_kubeconfig(folder.path()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    // The number of requests of a complete preflight; the kills cover all of them.
    assert_eq!(start().wait().unwrap().code(), Some(0));
    let whole = cluster.requests();
    let mut left = 0;
    for n in 0..100 {
        // The client is killed at the request whose response is lost.
        cluster.lose_responses_after(n % whole);
        let mut child = start();
        cluster.wait_until("a response is lost", || cluster.response_lost());
        child.kill().unwrap();
        child.wait().unwrap();
        cluster.restore_responses();
        left += usize::from(!cluster.leftovers().is_empty());
    }
    assert!(
        left > 10,
        "{left} of 100 left something, too few to prove anything; a whole one asks {whole} times"
    );
    cluster.pass_deadlines(SignedDuration::from_secs(1));
    assert_eq!(start().wait().unwrap().code(), Some(0));
    assert_eq!(cluster.leftovers(), Vec::<String>::new());
}

#[test]
fn what_is_left_of_another_preflight_is_removed_only_after_its_deadline() {
    let fixture = Fixture::start();
    let left = |name: &str, deadline: &str| {
        json!({"metadata": {"namespace": "shop", "name": name, "labels": {"parallax.dev/preflight": name},
               "annotations": {"parallax.dev/deadline": deadline}}})
    };
    fixture
        .cluster
        .put("services", left("old", "2020-01-01T00:00:00Z"));
    fixture
        .cluster
        .put("pods", left("running", "2999-01-01T00:00:00Z"));
    let output = fixture.preflight(&[HOST, "--class", "nginx"]);
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        err.contains("removed Service shop/old, left over from an earlier preflight"),
        "{err}"
    );
    assert_eq!(fixture.cluster.leftovers(), ["pods/running"]);
    fixture.stop();
}
