//! The aggregator accepts the configuration that the chart renders.

use std::{fs, net::TcpListener, path::Path};

use parallax_test_support::helm::Helm;

use crate::commands::parallax;

use super::{
    cases,
    differences::Case,
    helm::{self, with_values},
    installations::configuration,
};

/// Mount path of the Secrets, whose files exist only in the Pod.
const SECRETS: &str = "/etc/parallax-secrets";

/// Creates the files that a configuration names, and returns it with their paths.
fn with_secrets(configuration: &str, folder: &Path) -> String {
    for rest in configuration.split(&format!("{SECRETS}/")).skip(1) {
        let name = rest.split('\'').next().unwrap();
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
        let config = parallax_aggregator::Config::load(&path)
            .unwrap_or_else(|error| panic!("{}: {error}\n{text}", case.name));
        audiences += usize::from(config.identity.unwrap().audience != "parallax");
    }
    assert_eq!(audiences, 2);
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
