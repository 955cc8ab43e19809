use std::collections::BTreeMap;

use kube::api::DynamicObject;
use parallax_diagnosis::topology::{Topology, TopologySpec};
use parallax_kubernetes::topology_state::{PublisherKind, TargetPublisher};
use parallax_model::{Scope, TargetSpec};
use serde_json::{Value, json};

use super::{
    TenantOptions, definitions,
    judgement::{TargetRules, TargetVerdict, validate},
    preflights,
};

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds.yaml");

/// `PARALLAX_BLESS=1` regenerates the committed file.
#[test]
fn the_committed_definitions_are_what_the_types_say() {
    let written = definitions::crds_yaml().unwrap();
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        std::fs::write(COMMITTED, &written).unwrap();
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(
        committed == written,
        "deploy/crds.yaml is out of date; regenerate it with `make manifests` and review the diff"
    );
}

/// The API server requires structural schemas (KEP-1111).
#[test]
fn every_schema_is_structural() {
    fn holds(schema: &Value, path: &str) {
        let Value::Object(map) = schema else { return };
        assert!(!map.contains_key("$ref"), "{path}");
        let untyped = map.contains_key("x-kubernetes-int-or-string")
            || map.contains_key("x-kubernetes-preserve-unknown-fields");
        assert!(
            map.contains_key("type") || untyped,
            "{path} has no type: {schema}"
        );
        for (name, inner) in map
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            holds(inner, &format!("{path}.{name}"));
        }
        for inner in [map.get("items"), map.get("additionalProperties")]
            .into_iter()
            .flatten()
        {
            holds(inner, &format!("{path}[]"));
        }
    }
    let all = definitions::crds().into_iter().chain([preflights::crd()]);
    for definition in all {
        let definition = serde_json::to_value(definition).unwrap();
        let version = &definition["spec"]["versions"][0];
        holds(&version["schema"]["openAPIV3Schema"], "");
        assert_eq!(version["subresources"]["status"], json!({}));
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert!(spec["x-kubernetes-validations"].as_array().unwrap().len() >= 5);
        if definition["spec"]["names"]["kind"] == "Preflight" {
            assert_eq!(spec["properties"]["hosts"]["maxItems"], 100);
            assert_eq!(spec["properties"]["hosts"]["items"]["maxLength"], 253);
            for reference in ["issuerRef", "gatewayRef", "certificateRef", "ingressRef"] {
                assert_eq!(
                    spec["properties"][reference]["properties"]["name"]["maxLength"],
                    253
                );
            }
        } else {
            assert_eq!(spec["properties"]["url"]["maxLength"], 2_048);
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "reads as a table of objects")]
fn object(namespace: &str, name: &str, second: u32, spec: Value) -> ((String, String), DynamicObject) {
    let object = json!({"apiVersion": "parallax.dev/v1alpha1", "kind": "Target", "spec": spec, "metadata":
        {"namespace": namespace, "name": name, "creationTimestamp": format!("2026-11-21T20:00:{second:02}Z")}});
    (
        (namespace.to_owned(), name.to_owned()),
        serde_json::from_value(object).unwrap(),
    )
}

fn verdicts(
    objects: impl IntoIterator<Item = ((String, String), DynamicObject)>,
) -> BTreeMap<String, String> {
    let bare = Topology::try_from(TopologySpec {
        targets: vec![
            TargetSpec::new("http://published.example.test/"),
            TargetSpec::new("http://other.example.test/"),
        ],
        ..TopologySpec::default()
    })
    .unwrap();
    let scope = Scope {
        refuse: vec!["10.96.0.1".parse().unwrap()],
        allow: Vec::new(),
    };
    let publisher = TargetPublisher {
        kind: PublisherKind::Ingress,
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    };
    let rules = TargetRules {
        topology: &bare,
        publishers: &[("http://published.example.test/".parse().unwrap(), publisher)].into(),
        scope: &scope,
        options: &TenantOptions::default(),
    };
    let judged = validate(&objects.into_iter().collect(), rules);
    let words = |verdict: TargetVerdict| match verdict {
        TargetVerdict::Accepted(id) => id.to_string(),
        TargetVerdict::Rejected { reason, message } => format!("{reason}: {message}"),
    };
    judged
        .verdicts
        .into_iter()
        .map(|((_, name), verdict)| (name, words(verdict)))
        .collect()
}

#[test]
fn each_target_is_judged_alone_and_what_is_wrong_with_one_never_stops_another() {
    let results = verdicts([
        object(
            "shop",
            "good",
            1,
            json!({"url": "https://pay.example.test/", "expectStatus": "2xx"}),
        ),
        object("shop", "younger", 2, json!({"url": "https://pay.example.test"})),
        object(
            "shop",
            "typo",
            1,
            json!({"url": "https://a.example.test/", "expectStatus": "fine"}),
        ),
        object(
            "shop",
            "field",
            1,
            json!({"url": "https://a.example.test/", "expectBdy": "x"}),
        ),
        object("shop", "port", 1, json!({"url": "tcp://db.example.test"})),
        object(
            "shop",
            "known",
            1,
            json!({"url": "http://published.example.test/"}),
        ),
        object(
            "evil",
            "metadata",
            1,
            json!({"url": "http://169.254.169.254/latest/"}),
        ),
        object("evil", "api", 1, json!({"url": "https://10.96.0.1/"})),
        object(
            "evil",
            "resolver",
            1,
            json!({"url": "dns://a.example.test", "resolver": "127.0.0.1:53"}),
        ),
        object(
            "shop",
            "inner",
            1,
            json!({"url": "http://published.example.test/", "mustNotAnswerAt": ["203.0.113.10"]}),
        ),
        object(
            "evil",
            "hush",
            2,
            json!({"url": "http://other.example.test/", "mustNotAnswerFrom": ["nodes"]}),
        ),
        object(
            "evil",
            "silent",
            1,
            json!({"url": "https://b.example.test/", "mustNotAnswerAt": ["169.254.169.254"]}),
        ),
        object("evil", "empty", 1, Value::Null),
    ]);
    assert_eq!(results["good"], "https://pay.example.test/");
    assert_eq!(
        results["inner"], "http://published.example.test/",
        "mustNotAnswerAt may be added to a published host"
    );
    for (name, words) in [
        (
            "younger",
            "Duplicate: https://pay.example.test/ is already probed by Target shop/good",
        ),
        ("typo", "Invalid: spec: "),
        ("field", "Invalid: spec: "),
        ("port", "Invalid: spec.url: a tcp:// target needs a port"),
        ("known", "AlreadyProbed: "),
        (
            "metadata",
            "Forbidden: spec.url: 169.254.169.254 is a link-local address",
        ),
        (
            "api",
            "Forbidden: spec.url: 10.96.0.1 is an address of the API server",
        ),
        (
            "resolver",
            "Forbidden: spec.resolver: 127.0.0.1 is a loopback address",
        ),
        (
            "silent",
            "Forbidden: spec.mustNotAnswerAt: 169.254.169.254 is a link-local address",
        ),
        (
            "hush",
            "AlreadyProbed: http://other.example.test/ is published by the cluster or listed in the configuration, which determine who",
        ),
        ("empty", "Invalid: spec: "),
    ] {
        assert!(results[name].starts_with(words), "{name}: {}", results[name]);
    }
}

#[test]
fn an_older_squatter_does_not_keep_a_namespace_from_the_host_that_it_publishes() {
    let health = json!({"url": "http://published.example.test/healthz"});
    let results = verdicts([
        object("evil", "squatter", 1, health.clone()),
        object("shop", "owner", 30, health),
    ]);
    assert_eq!(results["owner"], "http://published.example.test/healthz");
    assert!(
        results["squatter"].starts_with("Duplicate: ") && results["squatter"].contains("Target shop/owner"),
        "{}",
        results["squatter"]
    );
    // Without an owner, age decides.
    let free = json!({"url": "http://free.example.test/"});
    let results = verdicts([
        object("b", "younger", 2, free.clone()),
        object("a", "older", 1, free),
    ]);
    assert_eq!(results["older"], "http://free.example.test/");
}

#[test]
fn a_target_that_could_be_a_tool_is_refused_with_the_rule_and_what_to_do() {
    let results = verdicts([
        object(
            "evil",
            "post",
            1,
            json!({"url": "http://a.test/", "method": "POST", "body": "x"}),
        ),
        object(
            "evil",
            "flush",
            1,
            json!({"url": "tcp://a.test:6379", "send": "FLUSHALL"}),
        ),
        object("evil", "vault", 1, json!({"url": "http://vault.bank.svc/"})),
        object("bank", "own", 1, json!({"url": "http://vault.bank.svc:81/"})),
    ]);
    for (name, start, advice) in [
        (
            "post",
            "NotPermitted: spec.method: only GET and HEAD",
            "tenants.namespaces.evil.anyProbe",
        ),
        (
            "flush",
            "NotPermitted: spec.send: raw bytes",
            "list the target in the aggregator's configuration",
        ),
        (
            "vault",
            "Forbidden: spec.url: vault.bank.svc is a Service of namespace bank",
            "tenants.namespaces.evil.allow",
        ),
    ] {
        assert!(
            results[name].starts_with(start) && results[name].contains(advice),
            "{}",
            results[name]
        );
    }
    assert_eq!(results["own"], "http://vault.bank.svc:81/");
}

#[test]
fn one_namespace_cannot_fill_the_mesh() {
    let objects = (0..150).map(|i| {
        object(
            "shop",
            &format!("t{i:03}"),
            1,
            json!({"url": format!("http://h{i}.test/")}),
        )
    });
    let results = verdicts(objects);
    assert_eq!(
        results
            .values()
            .filter(|text| text.starts_with("TooMany"))
            .count(),
        50
    );
}
