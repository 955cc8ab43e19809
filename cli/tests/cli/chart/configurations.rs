//! The aggregator accepts the configuration that the chart renders.

use std::{fs, path::Path};

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
