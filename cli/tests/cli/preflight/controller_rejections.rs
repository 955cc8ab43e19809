//! Objects without a verdict: each gets a reason, and nothing is created or left behind.

use super::{
    controller::{Controller, condition, is, simple, status_and_reason},
    *,
};

/// (case, spec, reason of Ready, part of its message, whether it is retried)
type Row = (&'static str, Value, &'static str, &'static str, bool);

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn what_cannot_be_asked_is_unknown_with_a_reason_and_leaves_nothing() {
    let cluster = TestCluster::start();
    let folder = tempfile::tempdir().unwrap();
    let solvers = |name: &str, solvers: Value| {
        let object =
            json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"acme": {"solvers": solvers}}});
        cluster.put("issuers", object);
    };
    solvers("dns", json!([{"dns01": {"webhook": {}}}]));
    solvers(
        "none",
        json!([{"selector": {"dnsZones": ["other.test"]}, "http01": {"ingress": {}}}]),
    );
    solvers("edits", json!([{"http01": {"ingress": {"name": "web"}}}]));
    cluster.put(
        "issuers",
        json!({"metadata": {"namespace": "shop", "name": "ca"}, "spec": {"ca": {}}}),
    );
    let by = |issuer: &str| json!({"hosts": [HOST], "issuerRef": {"name": issuer}});
    let table: Vec<Row> = vec![
        (
            "wildcard",
            simple("*.example.test"),
            "InvalidHost",
            "never validated by HTTP-01",
            false,
        ),
        (
            "address",
            simple("203.0.113.10"),
            "InvalidHost",
            "RFC 8738",
            false,
        ),
        (
            "idn",
            simple("bücher.example"),
            "InvalidHost",
            "xn--bcher-kva.example",
            false,
        ),
        (
            "typo",
            json!({"hosts": [HOST], "clas": "nginx"}),
            "Invalid",
            "clas",
            false,
        ),
        (
            "nobody",
            json!({"hosts": [HOST]}),
            "Invalid",
            "no issuer given",
            false,
        ),
        (
            "unknown",
            by("missing"),
            "NotFound",
            "there is no Issuer shop/missing",
            true,
        ),
        ("acme", by("ca"), "NotAcme", "not an ACME issuer", false),
        ("dns", by("dns"), "NoHttpSolver", "DNS-01", false),
        (
            "none",
            by("none"),
            "NoSolver",
            "no configured challenge solvers",
            false,
        ),
        ("edits", by("edits"), "EditInPlace", "serves other traffic", false),
        (
            "billable",
            json!({"hosts": [HOST], "class": "alb"}),
            "Billable",
            "allowBillable",
            false,
        ),
    ];
    for (name, spec, ..) in &table {
        cluster.apply_preflight(name, spec);
    }
    let controller = Controller::with_passing_aggregator(&cluster, folder.path(), &[]);
    for (name, _, reason, words, again) in &table {
        let status = controller.wait_finished(name);
        assert_eq!(
            status_and_reason(&status, "Ready"),
            is("Unknown", reason),
            "{name}: {status}"
        );
        let message = condition(&status, "Ready")["message"].as_str().unwrap();
        assert!(message.contains(words), "{name}: {message}");
        for sort in ["SelfCheckPassed", "CAPassed"] {
            assert_eq!(
                status_and_reason(&status, sort),
                is("Unknown", "NotAsked"),
                "{name}"
            );
        }
        assert_eq!(status_and_reason(&status, "Stalled").0, "True", "{name}");
        assert_eq!(status["attempts"], if *again { 6 } else { 1 }, "{name}: {status}");
        assert!(status["completionTime"].is_string(), "{name}");
    }
    assert!(cluster.created().is_empty());

    // Rejections of the API server: a permission by its rule, an object by the component that rejects it.
    for (n, (verb, resource, status, words, reason, expected)) in [
        (
            "create",
            "ingresses",
            403,
            "ingresses is forbidden",
            "Forbidden",
            "missing rule in namespace shop: {apiGroups: [\"networking.k8s.io\"], resources: [ingresses], verbs: [create]}",
        ),
        (
            "list",
            "pods",
            403,
            "pods is forbidden",
            "Forbidden",
            "resources: [pods], verbs: [list]",
        ),
        (
            "create",
            "ingresses",
            403,
            "admission webhook \"policy.example.test\" denied the request: no",
            "AdmissionRefused",
            "cert-manager's own object would be rejected as well",
        ),
        (
            "create",
            "pods",
            403,
            "pods \"solver\" is forbidden: violates PodSecurity \"restricted:latest\": seccompProfile",
            "AdmissionRefused",
            "admission rejects Pod shop/parallax-preflight-",
        ),
        (
            "create",
            "pods",
            403,
            "pods \"solver\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3",
            "NotReady",
            "the quota has no room for Pod shop/parallax-preflight-",
        ),
        (
            "create",
            "ingresses",
            400,
            "admission webhook \"validate.nginx\" denied the request: pathType Exact",
            "AdmissionRefused",
            "pathType Exact",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        cluster.reject(verb, resource, status, words);
        let name = format!("refused-{n}");
        cluster.apply_preflight(&name, &simple(HOST));
        let status = controller.wait_finished(&name);
        assert_eq!(status_and_reason(&status, "Ready"), is("Unknown", reason), "{status}");
        let message = condition(&status, "Ready")["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        assert_eq!(cluster.leftovers(), Vec::<String>::new(), "{expected}");
        cluster.clear_rejections();
    }
}
