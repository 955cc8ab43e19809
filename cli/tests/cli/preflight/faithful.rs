use std::{process::Stdio, time::Duration};

use super::*;

#[test]
fn a_synthetic_solver_is_made_as_cert_manager_would_asked_for_and_removed() {
    let bench = Bench::start();
    bench.api.put("clusterissuers", issuer(&nginx()));
    let output = bench.preflight(&[HOST, "--cluster-issuer", "letsencrypt"]);
    let (code, out, err) = said(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains(
            "shop.example.test: an Ingress of class nginx (solver 1 of 1 of ClusterIssuer letsencrypt)"
        ),
        "{out}"
    );
    assert!(out.contains("✓ self check: passes on 1 of 1 vantages"), "{out}");
    assert!(out.contains("✓ CA: by the CA's rules it passes from"), "{out}");
    assert!(out.contains("after the last object was created"), "{out}");
    assert!(!out.contains("nothing was created"), "{out}");
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    let ingress = &bench.api.created("ingresses")[0];
    assert_eq!(ingress["spec"]["ingressClassName"], "nginx");
    assert_eq!(ingress["metadata"]["namespace"], "shop");
    assert_eq!(ingress["metadata"]["ownerReferences"][0]["kind"], "Pod");
    let pod = &bench.api.created("pods")[0];
    assert_eq!(pod["spec"]["containers"][0]["image"], "parallax:test");
    bench.stop();
}

#[test]
fn a_certificate_names_hosts_issuer_and_overrides_and_a_route_is_waited_for() {
    let bench = Bench::start();
    bench.api.put(
        "issuers",
        json!({"metadata": {"namespace": "shop", "name": "le"}, "spec": {"acme": {"solvers": [
            {"http01": {"ingress": {}}},
            {"selector": {"matchLabels": {"team": "a"}}, "http01": {"gatewayHTTPRoute": {"parentRefs": [{"name": "gw"}]}}}]}}}),
    );
    bench.api.put(
        "certificates",
        json!({"metadata": {"namespace": "shop", "name": "web", "labels": {"team": "a"}},
               "spec": {"dnsNames": [HOST], "issuerRef": {"name": "le"}}}),
    );
    let output = bench.preflight(&["--certificate", "web", "--json"]);
    let (code, out, err) = said(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        document["hosts"][0]["solver"],
        "an HTTPRoute on gw (solver 2 of 2 of Issuer shop/le)"
    );
    assert!(document["hosts"][0]["propagationMs"].is_u64());
    assert_eq!(bench.api.created("httproutes").len(), 1);
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    bench.stop();
}

#[test]
fn what_fails_on_the_way_leaves_nothing_behind_and_says_what_would_help() {
    let bench = Bench::start();
    let class = || bench.preflight(&[HOST, "--class", "nginx", "--ready", "2"]);
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
        bench.api.reject(verb, resource, status, words);
        let (code, out, err) = said(&class());
        assert_eq!(code, Some(3), "{verb} {resource}: {out}{err}");
        assert!(err.contains(expected), "{verb} {resource}: {err}");
        assert!(
            err.contains(words),
            "the API server's message is quoted verbatim: {err}"
        );
        bench.api.allow();
        assert_eq!(bench.api.leftovers(), Vec::<String>::new(), "{verb} {resource}");
    }
    bench.api.held().pods_stay_pending = true;
    let (code, _, err) = said(&class());
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("is not ready after 2 s"), "{err}");
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    // No controller adopts the Ingress: another controller answers 404.
    bench.api.held().pods_stay_pending = false;
    bench.api.held().routes_ignored = true;
    let (code, out, err) = said(&class());
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(
        out.contains("F19") && out.contains("wrong status code '404', expected '200'"),
        "{out}"
    );
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    bench.api.held().routes_ignored = false;
    // Deleting fails too: the error lists what is left and when it may be deleted.
    bench.api.reject("delete", "ingresses", 500, "later");
    let (code, _, err) = said(&class());
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("still exist") && err.contains("kubectl -n shop delete ingresses,services,pods"),
        "{err}"
    );
    assert_eq!(bench.api.leftovers().len(), 1);
    bench.stop();
}

#[test]
fn an_interrupt_removes_what_was_created() {
    let bench = Bench::start();
    bench.api.held().pods_stay_pending = true;
    let port = bench.api.entry.port().to_string();
    let mut child = bench
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
    until(|| !bench.api.created("ingresses").is_empty());
    let told = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(told.success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    bench.stop();
}

#[test]
fn several_hosts_are_made_at_once_so_many_at_a_time_and_an_interrupt_removes_them_all() {
    let bench = Bench::start();
    bench.api.held().pods_stay_pending = true;
    let hosts = [
        "d.example.test",
        "a.example.test",
        "c.example.test",
        "b.example.test",
    ];
    let mut child = bench
        .command(&["preflight", "--class", "nginx", "-n", "shop", "--image", "i"])
        .args(hosts)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // None of them is ready, so they were created concurrently.
    until(|| bench.api.created("ingresses").len() == 3);
    let told = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(told.success());
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(bench.api.created("ingresses").len(), 3, "the fourth had to wait");
    assert_eq!(bench.api.leftovers(), Vec::<String>::new());
    bench.stop();
}

#[test]
fn the_report_keeps_the_order_of_the_hosts_and_too_many_runs_are_waited_for() {
    let api = Api::start();
    let folder = tempfile::tempdir().unwrap();
    api.held().rejected_runs = 2;
    let hosts = [
        "d.example.test",
        "a.example.test",
        "c.example.test",
        "b.example.test",
    ];
    let output = parallax()
        .args(["preflight", "--no-create", "--json", "-n", "shop"])
        .args(hosts)
        .args(["--server", &format!("http://{}/", api.aggregator)])
        .env("KUBECONFIG", api.kubeconfig(folder.path()))
        .output()
        .unwrap();
    let (code, out, err) = said(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(api.held().rejected_runs, 0, "it was refused, and asked again");
    let document: Value = serde_json::from_str(&out).unwrap();
    let told: Vec<&str> = document["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["host"].as_str().unwrap())
        .collect();
    assert_eq!(told, hosts);
}

#[test]
fn after_a_hundred_runs_that_are_killed_at_any_point_the_next_one_leaves_nothing() {
    let api = Api::start();
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
            .args(["--server", &format!("http://{}/", api.aggregator)])
            .env("KUBECONFIG", api.kubeconfig(folder.path()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    // The number of requests of a complete preflight; the kills cover all of them.
    assert_eq!(start().wait().unwrap().code(), Some(0));
    let whole = api.held().requests;
    let mut left = 0;
    for n in 0..100 {
        let last = api.held().requests + n % whole;
        // The next request takes effect but gets no response; the client is killed there.
        api.held().max_answered_requests = Some(last);
        let mut child = start();
        until(|| api.held().requests > last);
        child.kill().unwrap();
        child.wait().unwrap();
        api.held().max_answered_requests = None;
        left += usize::from(!api.leftovers().is_empty());
    }
    assert!(
        left > 10,
        "{left} of 100 left something, too few to prove anything; a whole one asks {whole} times"
    );
    // Wait until the last deadline has passed.
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(start().wait().unwrap().code(), Some(0));
    assert_eq!(api.leftovers(), Vec::<String>::new());
}

#[test]
fn what_is_left_of_another_preflight_is_removed_only_after_its_deadline() {
    let bench = Bench::start();
    let left = |name: &str, deadline: &str| {
        json!({"metadata": {"namespace": "shop", "name": name, "labels": {"parallax.dev/preflight": name},
               "annotations": {"parallax.dev/deadline": deadline}}})
    };
    bench.api.put("services", left("old", "2020-01-01T00:00:00Z"));
    bench.api.put("pods", left("running", "2999-01-01T00:00:00Z"));
    let output = bench.preflight(&[HOST, "--class", "nginx"]);
    let (code, out, err) = said(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        err.contains("removed Service shop/old, left over from an earlier preflight"),
        "{err}"
    );
    assert_eq!(bench.api.leftovers(), ["pods/running"]);
    bench.stop();
}
