use super::*;

/// Runs with arguments that are rejected without an aggregator.
fn refused(args: &[&str], cluster: &TestCluster, folder: &std::path::Path) -> (Option<i32>, String) {
    let output = parallax()
        .arg("preflight")
        .args(args)
        .args(["-n", "shop", "--server", "http://127.0.0.1:1/"])
        .env("KUBECONFIG", cluster.write_kubeconfig(folder))
        .output()
        .unwrap();
    let (code, _, err) = outcome(&output);
    (code, err)
}

/// Issuers whose solvers cannot answer an HTTP-01 challenge for [`HOST`], and an Ingress without an issuer.
fn put_unusable_objects(cluster: &TestCluster) {
    let dns = json!([{"dns01": {"route53": {}}}]);
    for (name, solvers) in [
        ("nginx", nginx()),
        ("dns", dns),
        (
            "narrow",
            json!([{"selector": {"dnsZones": ["other.test"]}, "http01": {"ingress": {}}}]),
        ),
        (
            "several",
            json!([{"http01": {"ingress": {"class": "a", "ingressClassName": "b"}}}]),
        ),
        ("in-place", json!([{"http01": {"ingress": {"name": "web"}}}])),
        (
            "alb",
            json!([{"http01": {"ingress": {"ingressClassName": "public"}}}]),
        ),
    ] {
        let mut object = issuer(&solvers);
        object["metadata"]["name"] = name.into();
        cluster.put("clusterissuers", object);
    }
    cluster.put(
        "clusterissuers",
        json!({"metadata": {"name": "selfsigned"}, "spec": {"selfSigned": {}}}),
    );
    cluster.put(
        "ingressclasses",
        json!({"metadata": {"name": "public"}, "spec": {"controller": "ingress.k8s.aws/alb"}}),
    );
    cluster.put(
        "ingresses",
        json!({"metadata": {"namespace": "shop", "name": "plain"}, "spec": {"tls": [{"hosts": [HOST]}]}}),
    );
}

#[test]
fn every_name_and_object_that_cannot_be_preflighted_says_why_and_makes_nothing() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    put_unusable_objects(&cluster);
    for (args, code, expected) in [
        (
            &["*.example.test", "--class", "nginx"][..],
            2,
            "a wildcard is never validated by HTTP-01",
        ),
        (&["203.0.113.10", "--class", "nginx"], 2, "RFC 8738"),
        (
            &["bücher.example", "--class", "nginx"],
            2,
            "xn--bcher-kva.example",
        ),
        (
            &["localhost", "--class", "nginx"],
            2,
            "cannot get a public certificate",
        ),
        (&[HOST], 2, "no issuer given"),
        (
            &[HOST, "--cluster-issuer", "none"],
            3,
            "there is no ClusterIssuer none",
        ),
        (&[HOST, "--issuer", "none"], 3, "there is no Issuer shop/none"),
        (
            &[HOST, "--cluster-issuer", "selfsigned"],
            3,
            "is not an ACME issuer",
        ),
        (&[HOST, "--cluster-issuer", "dns"], 3, "would use DNS-01"),
        (
            &[HOST, "--cluster-issuer", "narrow"],
            3,
            "no configured challenge solvers can be used",
        ),
        (
            &[HOST, "--cluster-issuer", "several"],
            3,
            "accepts only one of class, ingressClassName and name",
        ),
        (
            &[HOST, "--cluster-issuer", "in-place"],
            2,
            "would edit Ingress shop/web in place",
        ),
        (
            &[HOST, "--cluster-issuer", "in-place", "--edit-in-place"],
            3,
            "there is no Ingress shop/web to edit",
        ),
        (&[HOST, "--cluster-issuer", "alb"], 2, "add --yes"),
        (&["--certificate", "none"], 3, "there is no Certificate shop/none"),
        (&["--ingress", "plain"], 2, "names no issuer"),
        (&[HOST, "--class", "nginx"], 3, "give --image"),
    ] {
        let (got, err) = refused(args, &cluster, folder.path());
        assert_eq!(got, Some(code), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
    cluster.reject("get", "clusterissuers", 403, "clusterissuers is forbidden");
    let (code, err) = refused(&[HOST, "--cluster-issuer", "nginx"], &cluster, folder.path());
    assert_eq!(code, Some(3));
    assert!(
        err.contains("missing rule in a ClusterRole: {apiGroups: [\"cert-manager.io\"], resources: [clusterissuers], verbs: [get]}"),
        "{err}"
    );
    assert!(cluster.created().is_empty(), "nothing was made");
}

#[test]
fn two_solvers_that_match_as_well_are_said_and_the_first_is_taken() {
    let fixture = Fixture::start();
    let two = json!([{"http01": {"ingress": {"ingressClassName": "nginx"}}}, {"http01": {"ingress": {"ingressClassName": "other"}}}]);
    fixture.cluster.put("clusterissuers", issuer(&two));
    let output = fixture.preflight(&[HOST, "--cluster-issuer", "letsencrypt", "--no-create"]);
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("an Ingress of class nginx (solver 1 of 2"), "{out}");
    assert!(
        out.contains("solver 2 matches shop.example.test equally well"),
        "{out}"
    );
    fixture.stop();
}

#[test]
fn a_name_that_does_not_resolve_fails_both_and_is_never_fine() {
    let fixture = Fixture::start();
    let args = [
        "preflight",
        "gone.example.test",
        "--no-create",
        "--profile",
        "pebble",
    ];
    let output = fixture.command(&args).output().unwrap();
    let (code, _, err) = outcome(&output);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("no host of a known target") && err.contains("runs.targets: any"),
        "{err}"
    );
    fixture.stop();
    let dns = Dns::start(|_, _| ScriptedResponse::NoSuchName);
    let (_folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 5000\ntimeoutMs: 500\ntargets:\n  - url: http://{HOST}/\n"
    ));
    let up = Up::resolving(&path, dns.addr);
    let server = format!("http://{}/", up.page);
    let output = parallax()
        .args(["preflight", HOST, "--no-create", "--server", &server])
        .env("KUBECONFIG", "/nowhere")
        .output()
        .unwrap();
    let (code, out, err) = outcome(&output);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("no such host") && out.contains("F15"), "{out}");
    assert_eq!(up.interrupt(), Some(0));
}
