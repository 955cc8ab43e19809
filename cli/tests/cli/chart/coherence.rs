//! Every rendered installation is coherent, and is removed completely.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use super::{
    default_installation,
    helm::{self, with_values},
    installations::{Installation, configuration, has, installations, list, of, workloads},
};

#[test]
fn everything_that_is_mounted_named_or_bound_is_part_of_the_installation() {
    let test = "everything_that_is_mounted_named_or_bound_is_part_of_the_installation";
    let Some(installations) = installations(test) else {
        return;
    };
    for Installation {
        values, objects: all, ..
    } in installations
    {
        for object in all.values() {
            let space = &object["metadata"]["namespace"];
            // Permissions in other namespaces exist only if the values name these namespaces.
            let in_other_namespace = object["kind"] == "RoleBinding" && elsewhere(values, object);
            assert!(
                space.is_null() || in_other_namespace || has(all, "Namespace", &Value::Null, space),
                "{values}: a delete takes the namespace of {object}"
            );
        }
        for workload in workloads(all) {
            let space = &workload["metadata"]["namespace"];
            let pod = &workload["spec"]["template"]["spec"];
            assert!(
                has(all, "ServiceAccount", space, &pod["serviceAccountName"]),
                "{values}: {workload}"
            );
            for volume in list(&pod["volumes"]) {
                let claim = &volume["persistentVolumeClaim"]["claimName"];
                assert!(
                    claim.is_null() || has(all, "PersistentVolumeClaim", space, claim),
                    "{values}: {volume}"
                );
                for source in list(&volume["projected"]["sources"]) {
                    let map = &source["configMap"]["name"];
                    // Kubernetes creates this ConfigMap in every namespace.
                    let known =
                        map.is_null() || map == "kube-root-ca.crt" || has(all, "ConfigMap", space, map);
                    assert!(known, "{values}: {source}");
                }
            }
        }
        for binding in of(all, &["RoleBinding", "ClusterRoleBinding"]) {
            let role = &binding["roleRef"];
            let space = &binding["metadata"]["namespace"];
            let space = if role["kind"] == "ClusterRole" {
                &Value::Null
            } else {
                space
            };
            assert!(
                has(all, role["kind"].as_str().unwrap(), space, &role["name"]),
                "{values}: {binding}"
            );
            for subject in list(&binding["subjects"]) {
                assert!(
                    has(all, "ServiceAccount", &subject["namespace"], &subject["name"]),
                    "{values}: {subject}"
                );
                let known = ["parallax-aggregator", "parallax-preflight"];
                assert!(
                    known.iter().any(|known| subject["name"] == *known),
                    "{values}: unexpected subject with permissions: {subject}"
                );
                // The account that creates objects is never the one that serves everybody's requests.
                let of_preflights = role["name"].as_str().unwrap().starts_with("parallax-preflight")
                    || role["name"] == "parallax-reach";
                assert_eq!(
                    subject["name"] == "parallax-preflight",
                    of_preflights,
                    "{values}: {binding}"
                );
            }
        }
    }
}

/// Reports whether a binding of the preflight controller is in a namespace that the values name, or that of the Leases.
fn elsewhere(values: &str, binding: &Value) -> bool {
    let space = binding["metadata"]["namespace"].as_str().unwrap();
    let named = values.contains("namespaces: [") && (values.contains(space) || space == "kube-system");
    let role = binding["roleRef"]["name"].as_str().unwrap();
    named && role.starts_with("parallax-preflight")
}

#[test]
fn every_selector_selects_pods_of_the_installation() {
    let Some(installations) = installations("every_selector_selects_pods_of_the_installation") else {
        return;
    };
    for Installation {
        values, objects: all, ..
    } in installations
    {
        let pods: Vec<(&Value, &Value)> = workloads(all)
            .map(|w| {
                (
                    &w["metadata"]["namespace"],
                    &w["spec"]["template"]["metadata"]["labels"],
                )
            })
            .collect();
        let selects = |space: &Value, labels: &Value| {
            let wanted = labels.as_object().cloned().unwrap_or_default();
            pods.iter()
                .any(|(at, has)| *at == space && wanted.iter().all(|(key, value)| &has[key] == value))
        };
        let mut seen = 0;
        for object in of(
            all,
            &[
                "Service",
                "NetworkPolicy",
                "PodDisruptionBudget",
                "DaemonSet",
                "Deployment",
                "PodMonitor",
            ],
        ) {
            let spec = &object["spec"];
            let selector = match object["kind"].as_str().unwrap() {
                "Service" => &spec["selector"],
                "NetworkPolicy" => &spec["podSelector"]["matchLabels"],
                _ => &spec["selector"]["matchLabels"],
            };
            assert!(
                selects(&object["metadata"]["namespace"], selector),
                "{values}: {object}"
            );
            seen += 1;
        }
        assert!(seen >= 10, "{values}: {seen}");
        for service in of(all, &["Service"]) {
            let space = &service["metadata"]["namespace"];
            let names: BTreeSet<&str> = workloads(all)
                .filter(|w| &w["metadata"]["namespace"] == space)
                .filter(|w| {
                    let labels = &w["spec"]["template"]["metadata"]["labels"];
                    let wanted = service["spec"]["selector"].as_object().unwrap();
                    wanted.iter().all(|(key, value)| &labels[key] == value)
                })
                .flat_map(|w| list(&w["spec"]["template"]["spec"]["containers"]))
                .flat_map(|container| list(&container["ports"]))
                .filter_map(|port| port["name"].as_str())
                .collect();
            for port in list(&service["spec"]["ports"]) {
                assert!(
                    names.contains(port["targetPort"].as_str().unwrap()),
                    "{values}: {service}"
                );
            }
        }
    }
}

#[test]
fn the_configuration_is_one_that_the_aggregator_accepts() {
    let Some(installations) = installations("the_configuration_is_one_that_the_aggregator_accepts") else {
        return;
    };
    for Installation {
        values, objects: all, ..
    } in installations
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parallax.yaml");
        fs::write(&path, configuration(all)).unwrap();
        let config = parallax_aggregator::Config::load(&path).unwrap();
        let (tls, identity) = (config.tls.unwrap(), config.identity.unwrap());
        // The probers' report URL, and their identity.
        for set in of(all, &["DaemonSet"]) {
            let pod = &set["spec"]["template"]["spec"];
            let account = format!(
                "{}/{}",
                set["metadata"]["namespace"].as_str().unwrap(),
                pod["serviceAccountName"].as_str().unwrap()
            );
            let known = identity.probers.iter().chain(&identity.responders);
            assert!(
                known.map(ToString::to_string).any(|known| known == account),
                "{values}: {account}"
            );
            let variable = |name: &str| {
                let env = list(&pod["containers"][0]["env"]);
                env.iter().find(|env| env["name"] == name).unwrap()["value"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            };
            let url: url::Url = variable("PARALLAX_AGGREGATOR").parse().unwrap();
            assert!(
                tls.hosts.iter().any(|host| Some(host.as_str()) == url.host_str()),
                "{values}: {url}"
            );
            assert_eq!(url.port(), Some(tls.listen.port()));
            let sources = list(&pod["volumes"][0]["projected"]["sources"]);
            assert_eq!(
                sources[0]["serviceAccountToken"]["audience"],
                identity.audience.as_str()
            );
            let published = format!("{}/parallax-ca", set["metadata"]["namespace"].as_str().unwrap());
            assert!(
                tls.publish_to.iter().any(|place| place.to_string() == published),
                "{values}: {published}"
            );
        }
    }
}

#[test]
fn custom_resources_are_followed_where_they_are_defined_and_nowhere_else() {
    let mut followed = 0;
    let test = "custom_resources_are_followed_where_they_are_defined_and_nowhere_else";
    let Some(installations) = installations(test) else {
        return;
    };
    for Installation {
        values, objects: all, ..
    } in installations
    {
        let defined: Vec<&Value> = of(all, &["CustomResourceDefinition"])
            .map(|definition| &definition["spec"]["names"]["kind"])
            .collect();
        let configuration = configuration(all);
        let mut wanted: Vec<&str> = Vec::new();
        if values.contains("preflight:") {
            wanted.push("Preflight");
            followed += 1;
        }
        if values.contains("customResources") {
            wanted.extend(["Run", "Target"]);
            followed += 1;
        }
        assert_eq!(defined, wanted, "{values}");
        assert_eq!(
            configuration.contains("customResources: true"),
            values.contains("customResources"),
            "{values}"
        );
        let controller = of(all, &["Deployment"]).any(|w| w["metadata"]["name"] == "parallax-preflight");
        assert_eq!(controller, values.contains("preflight:"), "{values}");
    }
    assert_eq!(followed, 7);
}

#[test]
fn a_rolling_update_leaves_no_node_without_its_prober() {
    let Some(installations) = installations("a_rolling_update_leaves_no_node_without_its_prober") else {
        return;
    };
    for Installation {
        values, objects: all, ..
    } in installations
    {
        for set in of(all, &["DaemonSet"]) {
            let update = &set["spec"]["updateStrategy"]["rollingUpdate"];
            if set["metadata"]["name"] == "parallax-prober-host" {
                assert_eq!(update, &json!({"maxUnavailable": 1}), "{values}");
            } else {
                assert_eq!(
                    update,
                    &json!({"maxUnavailable": 0, "maxSurge": "10%"}),
                    "{values}"
                );
                let pod = &set["spec"]["template"]["spec"];
                let identity = &pod["volumes"][0]["projected"]["sources"][1]["configMap"];
                assert_eq!(identity["name"], "parallax-ca", "{values}");
                assert_eq!(identity["optional"], Value::Null, "{values}");
                // Ready with the first plan; the first probes take a moment longer.
                assert!(set["spec"]["minReadySeconds"].as_i64().unwrap() >= 5, "{values}");
                let container = &pod["containers"][0];
                assert_eq!(
                    container["readinessProbe"]["httpGet"]["path"], "/readyz",
                    "{values}"
                );
            }
        }
    }
}

#[test]
fn every_node_that_can_run_a_pod_gets_one() {
    let all = default_installation();
    let prober = of(&all, &["DaemonSet"]).next().unwrap();
    let pod = &prober["spec"]["template"]["spec"];
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
}

#[test]
fn what_enrolling_a_vantage_reads_is_part_of_the_installation() {
    let Some(helm) = helm::installed("what_enrolling_a_vantage_reads_is_part_of_the_installation") else {
        return;
    };
    let all = with_values(
        &helm,
        "parallax",
        "externalHosts: [parallax.example.test, 203.0.113.7]",
    );
    let object = |kind: &str, name: &str| {
        let key = (kind.to_owned(), "parallax".to_owned(), name.to_owned());
        all[&key].clone()
    };
    // The names and the port of cli/src/commands/vantage/external_access.rs.
    let service = object("Service", "parallax-outside");
    assert_eq!(
        service["metadata"]["annotations"],
        json!({"parallax.dev/host": "parallax.example.test"})
    );
    assert_eq!(service["spec"]["ports"][0]["port"], 8443);
    assert_eq!(object("ConfigMap", "parallax-ca")["data"], Value::Null);
    let tls = configuration(&all);
    assert!(tls.contains("parallax.example.test, 203.0.113.7]"), "{tls}");
}
