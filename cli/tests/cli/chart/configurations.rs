//! The aggregator accepts the configuration that the chart renders, and the chart knows every key of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::TcpListener,
    path::Path,
};

use parallax_aggregator::Config;
use parallax_test_support::helm::Helm;
use serde_json::{Value, json};

use crate::commands::{parallax, text};

use super::{
    cases,
    differences::Case,
    helm::{self, with_values},
    installations::{configuration, of},
    read,
};

/// Mount path of the Secrets, whose files exist only in the Pod.
const SECRETS: &str = "/etc/parallax-secrets";

/// Creates the files that a configuration names, and returns it with their paths.
fn with_secrets(configuration: &str, folder: &Path) -> String {
    for rest in configuration.split(&format!("{SECRETS}/")).skip(1) {
        let name = rest.split(['\'', '\n']).next().unwrap();
        let content = match name {
            "heartbeat" => "https://heartbeat.example.com/1",
            _ => "0123456789abcdef",
        };
        fs::write(folder.join(name), content).unwrap();
    }
    configuration.replace(SECRETS, folder.to_str().unwrap())
}

#[test]
fn the_aggregator_accepts_the_configuration_for_each_set_of_values() {
    let Some(helm) = helm::installed("the_aggregator_accepts_the_configuration_for_each_set_of_values")
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parallax.yaml");
    let cases: Vec<Case> = cases("values");
    let mut audiences = 0;
    for case in cases {
        let all = with_values(&helm, &case.namespace, &case.values);
        let text = with_secrets(configuration(&all), folder.path());
        fs::write(&path, &text).unwrap();
        let config = Config::load(&path).unwrap_or_else(|error| panic!("{}: {error}\n{text}", case.name));
        audiences += usize::from(config.identity.unwrap().audience != "parallax");
    }
    assert_eq!(audiences, 2);
}

/// Places of the configuration with an unknown key, and the properties of the schema for them.
const UNKNOWN_KEYS: [(&str, &str); 18] = [
    ("unknownKey: 1", "/properties/configuration"),
    (
        "topology: {kubernetes: {unknownKey: 1}}",
        "/properties/configuration/properties/topology/properties/kubernetes",
    ),
    (
        "access: {unknownKey: 1}",
        "/properties/configuration/properties/access",
    ),
    (
        "access: {proxy: {secretFile: a, unknownKey: 1}}",
        "/properties/configuration/properties/access/properties/proxy",
    ),
    (
        "runs: {unknownKey: 1}",
        "/properties/configuration/properties/runs",
    ),
    (
        "tenants: {unknownKey: 1}",
        "/properties/configuration/properties/tenants",
    ),
    (
        "tenants: {namespaces: {shop: {unknownKey: 1}}}",
        "/definitions/tenant",
    ),
    (
        "challenges: {unknownKey: 1}",
        "/properties/configuration/properties/challenges",
    ),
    (
        "replicas: {lease: a/b, unknownKey: 1}",
        "/properties/configuration/properties/replicas",
    ),
    (
        "forecast: {unknownKey: 1}",
        "/properties/configuration/properties/forecast",
    ),
    (
        "store: {path: a, unknownKey: 1}",
        "/properties/configuration/properties/store",
    ),
    (
        "resolvers: {unknownKey: 1}",
        "/properties/configuration/properties/resolvers",
    ),
    (
        "balancers: [{name: a, services: [], unknownKey: 1}]",
        "/properties/configuration/properties/balancers/items",
    ),
    (
        "balancers: [{name: a, services: [], quota: {targets: 1, unknownKey: 1}}]",
        "/properties/configuration/properties/balancers/items/properties/quota",
    ),
    (
        "targets: [{url: 'https://a.example.com/', unknownKey: 1}]",
        "/definitions/target",
    ),
    (
        "targets: [{url: 'https://a.example.com/', expectTls: {unknownKey: 1}}]",
        "/definitions/target/properties/expectTls",
    ),
    (
        "targets: [{url: 'https://a.example.com/', redirects: {max: 1, unknownKey: 1}}]",
        "/definitions/target/properties/redirects",
    ),
    ("links: {unknownKey: 1}", "/properties/links"),
];

/// Keys of the chart that name a Secret, where the configuration names a file.
const KEYS_OF_SECRETS: [&str; 2] = ["secret", "tokenSecret"];

fn schema() -> Value {
    serde_json::from_str(&read("deploy/chart/values.schema.json")).unwrap()
}

/// Returns the keys that the aggregator names when it meets an unknown one.
fn keys_of_the_aggregator(configuration: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parallax.yaml");
    fs::write(&path, configuration).unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    let (_, expected) = error
        .split_once("unknown field \"unknownKey\"; expected ")
        .unwrap_or_else(|| panic!("{configuration}: {error}"));
    let expected = expected.lines().next().unwrap().replace(" or ", ", ");
    expected.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_chart_knows_every_key_of_the_configuration() {
    let schema = schema();
    for (configuration, pointer) in UNKNOWN_KEYS {
        let part = schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
        assert_eq!(part["additionalProperties"], false, "{pointer}");
        let known: BTreeSet<String> = part["properties"]
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| !KEYS_OF_SECRETS.contains(&key.as_str()))
            .cloned()
            .collect();
        assert_eq!(known, keys_of_the_aggregator(configuration), "{pointer}");
    }
}

/// Finds the keys that the schema calls refused, by their paths.
fn refused_keys(part: &Value, path: &str, found: &mut Vec<String>) {
    for (key, property) in part["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{key}");
        let description = property["description"].as_str().unwrap_or_default();
        if description.starts_with("Refused: ") {
            found.push(path);
        } else {
            refused_keys(property, &format!("{path}."), found);
        }
    }
}

#[test]
fn keys_that_the_chart_writes_are_refused_with_what_sets_them() {
    let Some(helm) = helm::installed("keys_that_the_chart_writes_are_refused_with_what_sets_them") else {
        return;
    };
    let mut refused = Vec::new();
    refused_keys(&schema()["properties"]["configuration"], "", &mut refused);
    assert!(refused.len() >= 20, "{refused:?}");
    for path in refused {
        let nested = path.rsplit('.').fold(json!("a"), |value, key| {
            let mut section = json!({ key: value });
            if key == "secretFile" {
                section["secret"] = json!("b");
            }
            section
        });
        let values = format!("configuration={nested}");
        let output = helm
            .template(("parallax", "parallax"), &["--set-json", &values])
            .unwrap();
        let message = text(&output.stderr);
        let wanted = format!("configuration.{path}: the chart writes this key; ");
        assert!(
            !output.status.success() && message.contains(&wanted),
            "{values}: {message}"
        );
    }
}

#[test]
fn sections_that_are_reloaded_do_not_roll_out_the_aggregator() {
    let Some(helm) = helm::installed("sections_that_are_reloaded_do_not_roll_out_the_aggregator") else {
        return;
    };
    let digest = |values: &str| {
        let all = with_values(&helm, "parallax", values);
        let deployment = of(&all, &["Deployment"]).next().unwrap();
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        annotations["parallax.dev/configuration"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let initial = digest("{}");
    let rolled_out: BTreeMap<&str, bool> = [
        ("intervalMs: 1000", false),
        ("timeoutMs: 1000", false),
        (
            "configuration: {targets: [{url: 'https://a.example.com/'}]}",
            false,
        ),
        ("configuration: {vantages: ['internet:office']}", false),
        ("configuration: {resolvers: {public: [192.0.2.53]}}", false),
        (
            "configuration: {balancers: [{name: a, services: [ingress/nginx]}]}",
            false,
        ),
        ("configuration: {runs: {targets: any}}", true),
        ("configuration: {tenants: {maxTargets: 5}}", true),
        ("configuration: {access: {kubernetes: true}}", true),
        ("configuration: {allowedHosts: [a.example.com]}", true),
        ("configuration: {forecast: {interval: 1h}}", true),
        ("configuration: {challenges: {waitBefore: 1m}}", true),
        (
            "configuration: {topology: {kubernetes: {targets: annotated}}}",
            true,
        ),
    ]
    .into();
    for (values, expected) in rolled_out {
        assert_eq!(digest(values) != initial, expected, "{values}");
    }
}

#[test]
fn the_prober_accepts_the_credentials_that_the_chart_renders() {
    let Some(helm) = helm::installed("the_prober_accepts_the_credentials_that_the_chart_renders") else {
        return;
    };
    let cases: Vec<Case> = cases("values");
    for name in ["prober credentials", "prober credentials with a header"] {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        accepts_rendered_credentials(&helm, case);
    }
}

fn accepts_rendered_credentials(helm: &Helm, case: &Case) {
    let all = with_values(helm, &case.namespace, &case.values);
    let map = all
        .values()
        .find(|object| object["metadata"]["name"] == "parallax-credentials")
        .unwrap();
    let text = map["data"]["credentials.yaml"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials.yaml");
    // The port is in use, so that the prober ends once it has read the file.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let echo = port.local_addr().unwrap().to_string();
    for (text, code) in [(text, 3), ("credentials: [{name: a}]", 2)] {
        fs::write(&path, text).unwrap();
        let output = parallax()
            .args([
                "prober",
                "--vantage",
                "n1/pod",
                "--pod",
                "a",
                "--aggregator",
                "http://127.0.0.1:9",
            ])
            .args(["--echo-listen", &echo, "--credentials"])
            .arg(&path)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
    }
}

#[test]
fn the_chart_refuses_the_headers_that_the_prober_refuses() {
    let checks = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/templates/checks.yaml"),
    )
    .unwrap();
    let list = checks.split("$reserved := list ").nth(1).unwrap();
    let list = list.split(" }}").next().unwrap();
    let mut expected: Vec<String> = parallax_model::reserved_headers()
        .map(|name| format!("{name:?}"))
        .collect();
    expected.sort();
    assert_eq!(list, expected.join(" "));
}
