//! Values that no API server would accept are rejected as a whole, with line and expectation.

use std::fs;

use crate::commands::{run, text};

fn refused(yaml: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values.yaml");
    fs::write(&path, yaml).unwrap();
    let output = run(&["manifests", "--values", path.to_str().unwrap()]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{yaml:?}: {stderr}");
    assert!(output.stdout.is_empty(), "half an installation is none");
    for words in expected {
        assert!(
            stderr.contains(words),
            "{yaml:?}: expected {words:?} in: {stderr}"
        );
    }
}

#[test]
fn each_mistake_is_answered_with_file_line_and_what_was_expected() {
    for (yaml, expected) in [
        (
            "namespce: x\n",
            "values.yaml:1:1: namespce: unknown field \"namespce\"; did you mean \"namespace\"?",
        ),
        (
            "\nintervalMs: soon\n",
            "values.yaml:2:13: intervalMs: expected a whole number, found \"soon\"",
        ),
        (
            "intervalMs: 100\n",
            "values.yaml:1:13: intervalMs: expected 200 to 3600000 milliseconds, found 100",
        ),
        (
            "image: 'a b'\n",
            "values.yaml:1:8: image: expected an image like REGISTRY/parallax:TAG, found \"a b\"",
        ),
        (
            "namespace: Parallax\n",
            "values.yaml:1:12: namespace: expected the name of a namespace",
        ),
        (
            "imagePullPolicy: Sometimes\n",
            "expected Always or IfNotPresent or Never, found \"Sometimes\"",
        ),
        (
            "prober:\n  resources:\n    requests: {cpu: lots}\n",
            "values.yaml:3:21: prober.resources.requests.cpu: expected a quantity like 500m, 1.5 or 128Mi, found \"lots\"",
        ),
        (
            "prober:\n  resources:\n    requests: {gpu: 1}\n",
            "values.yaml:3:16: prober.resources.requests.gpu: unknown field \"gpu\"",
        ),
        (
            "prober:\n  tolerations:\n    - {key: a, operator: Is}\n",
            "values.yaml:3:26: prober.tolerations[0].operator: expected Exists or Equal, found \"Is\"",
        ),
        (
            "prober:\n  tolerations:\n    - {value: a}\n",
            "values.yaml:3:7: prober.tolerations[0]: expected a key, or operator: Exists to tolerate every taint",
        ),
        (
            "prober:\n  nodeSelector: {'not a label': x}\n",
            "prober.nodeSelector: expected label keys like kubernetes.io/os, found \"not a label\"",
        ),
        (
            "aggregator: {replicas: 3}\n",
            "values.yaml:1:24: aggregator.replicas: expected 1 or 2, found 3",
        ),
        (
            "aggregator: {replicas: 2, volume: {size: 1Gi}}\n",
            "aggregator.volume: expected none with 2 replicas",
        ),
        (
            "aggregator: {replicas: 2}\nexternalHosts: [parallax.example.test]\n",
            "externalHosts: expected none with 2 replicas",
        ),
        (
            "aggregator:\n  volume: {size: big}\n",
            "values.yaml:2:18: aggregator.volume.size: expected a quantity",
        ),
        (
            "aggregator:\n  volume: {}\n",
            "values.yaml:2:11: aggregator.volume: the field \"size\" is missing",
        ),
        (
            "echoPort: 80\n",
            "values.yaml:1:11: echoPort: expected 1024 to 65535, found 80",
        ),
        (
            "apiServerPorts: []\n",
            "values.yaml:1:17: apiServerPorts: expected at least one",
        ),
        (
            "extraRoots: {configMap: ca, key: ../ca.crt}\n",
            "extraRoots.key: expected a key of letters, digits, -, _ and .",
        ),
        (
            "externalHosts: ['https://a/']\n",
            "externalHosts[0]: expected a host name or an IP address, without a port",
        ),
        (
            "podMonitor: yes please\n",
            "values.yaml:1:13: podMonitor: expected a mapping",
        ),
        (
            "links: {page: parallax.example.com}\n",
            "values.yaml:1:15: links.page: expected an address like https://grafana.example.com/",
        ),
        ("a: [\n", "values.yaml:1:4: not valid YAML"),
    ] {
        refused(yaml, &[expected]);
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    refused(
        "namespace: UP\nimage: 'a b'\naggregator: {replicas: 0}\n",
        &["values.yaml:1:", "values.yaml:2:", "values.yaml:3:"],
    );
}

#[test]
fn a_file_that_is_not_there_is_a_mistake_of_the_caller() {
    let output = run(&["manifests", "--values", "there-is-no-such-file.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there-is-no-such-file.yaml: cannot read the values"));
}
