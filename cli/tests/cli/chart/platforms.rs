//! The values for platforms that need other values than the defaults.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use parallax_test_support::helm::Helm;
use serde_json::{Value, json};

use super::{
    Objects,
    helm::{self, with_values},
    installations::{list, of, workloads},
    read,
};
use crate::commands::repository;

/// Platforms that must be in the table.
const PLATFORMS: [&str; 10] = [
    "AKS",
    "EKS",
    "GKE",
    "GKE Autopilot",
    "MicroK8s",
    "OpenShift",
    "Talos Linux",
    "k3s",
    "kind",
    "minikube",
];

/// Names of the platforms that have a values file.
pub(super) fn names() -> BTreeSet<String> {
    let names: BTreeSet<String> = fs::read_dir(repository("deploy/chart/platforms"))
        .unwrap()
        .map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".yaml")
                .unwrap_or_else(|| panic!("{name}"))
                .to_owned()
        })
        .collect();
    assert!(!names.is_empty());
    names
}

/// Path of the values file of a platform, in the repository.
pub(super) fn path(name: &str) -> String {
    format!("deploy/chart/platforms/{name}.yaml")
}

/// Rows of the table of platforms: the second cell by the first.
fn table() -> BTreeMap<String, String> {
    let page = read("docs/use/install.md");
    let section = page.split("\n## Platforms\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    // The first row is the header; the row below it has no space.
    rows.skip(1)
        .map(|row| {
            let mut cells = row.split(" | ").map(str::to_owned);
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect()
}

#[test]
fn the_table_names_every_platform_and_the_file_of_each_that_has_one() {
    let table = table();
    let named: Vec<&str> = table.keys().map(String::as_str).collect();
    assert_eq!(named, PLATFORMS);
    let mut with_file = BTreeSet::new();
    for (platform, cell) in table {
        if cell == "none" {
            continue;
        }
        let name = platform.to_lowercase().replace(' ', "-");
        let wanted = format!("[{name}.yaml](../../{})", path(&name));
        assert_eq!(cell, wanted, "{platform}");
        with_file.insert(name);
    }
    assert_eq!(with_file, names());
}

#[test]
fn each_file_differs_from_the_defaults() {
    let defaults: Value = serde_saphyr::from_str(&read("deploy/chart/values.yaml")).unwrap();
    for name in names() {
        let values: Value = serde_saphyr::from_str(&read(&path(&name))).unwrap();
        for (key, value) in values.as_object().unwrap() {
            assert_ne!(value, &defaults[key], "{name}: {key} is the default");
        }
    }
}

/// Renders everything that has Pods or opens DNS with the values of a platform.
fn with_all_workloads(helm: &Helm, platform: &str) -> Objects {
    let further = "aggregator: {volume: {size: 1Gi}}\nhostVantage: true\npreflight: {}\nresponder: true\n";
    with_values(helm, "parallax", &format!("{}{further}", read(&path(platform))))
}

#[test]
fn on_openshift_no_pod_names_an_id_and_any_group_may_ping() {
    let Some(helm) = helm::installed("on_openshift_no_pod_names_an_id_and_any_group_may_ping") else {
        return;
    };
    let all = with_all_workloads(&helm, "openshift");
    let mut seen = 0;
    for workload in workloads(&all) {
        let pod = &workload["spec"]["template"]["spec"];
        let container = &pod["containers"][0]["securityContext"];
        for id in ["runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"] {
            assert!(pod["securityContext"][id].is_null(), "{workload}");
            assert!(container[id].is_null(), "{workload}");
        }
        for sysctl in list(&pod["securityContext"]["sysctls"]) {
            assert_eq!(sysctl["value"], "0 65535", "{workload}");
        }
        seen += 1;
    }
    assert_eq!(seen, 5);
}

#[test]
fn on_openshift_every_policy_that_opens_dns_opens_the_port_of_its_pods() {
    let test = "on_openshift_every_policy_that_opens_dns_opens_the_port_of_its_pods";
    let Some(helm) = helm::installed(test) else {
        return;
    };
    let all = with_all_workloads(&helm, "openshift");
    let mut seen = 0;
    for policy in of(&all, &["NetworkPolicy"]) {
        for rule in list(&policy["spec"]["egress"]) {
            let ports = list(&rule["ports"]);
            let opens =
                |port: u16, protocol: &str| ports.contains(&json!({"port": port, "protocol": protocol}));
            if opens(53, "UDP") {
                let pods = opens(5353, "UDP") && opens(5353, "TCP");
                assert!(pods && rule["to"].is_null(), "{policy}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 3, "aggregator, responder and preflight controller");
}

#[test]
fn on_autopilot_nodes_are_selected_only_by_labels_that_it_permits() {
    let Some(helm) = helm::installed("on_autopilot_nodes_are_selected_only_by_labels_that_it_permits") else {
        return;
    };
    for workload in workloads(&with_all_workloads(&helm, "gke-autopilot")) {
        let pod = &workload["spec"]["template"]["spec"];
        assert!(pod["affinity"]["nodeAffinity"].is_null(), "{workload}");
        assert_eq!(
            pod["nodeSelector"],
            json!({"kubernetes.io/os": "linux"}),
            "{workload}"
        );
    }
}
