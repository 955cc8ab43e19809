//! Privileges of Pods, network policies, and permissions of the aggregator.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    helm::{self, with_values},
    installations::{Installation, configuration, has, installations, list, of, workloads},
};

/// Reports whether a volume is the external `ConfigMap` that the values name.
fn trusts(values: &str, volume: &Value) -> bool {
    values.contains("extraRoots") && volume["configMap"]["name"] == "company-ca"
}

#[test]
fn no_pod_has_a_privilege_and_only_the_host_prober_has_the_nodes_network() {
    let test = "no_pod_has_a_privilege_and_only_the_host_prober_has_the_nodes_network";
    let Some(installations) = installations(test) else {
        return;
    };
    for Installation {
        values, objects: all, ..
    } in installations
    {
        for workload in workloads(all) {
            let name = workload["metadata"]["name"].as_str().unwrap();
            let space = &workload["metadata"]["namespace"];
            let pod = &workload["spec"]["template"]["spec"];
            let host = name == "parallax-prober-host";
            assert_eq!(
                pod["hostNetwork"],
                if host { json!(true) } else { Value::Null },
                "{values}"
            );
            for absent in ["hostPID", "hostIPC", "initContainers", "ephemeralContainers"] {
                assert!(pod[absent].is_null(), "{values}: {name} {absent}");
            }
            assert_eq!(pod["automountServiceAccountToken"], false, "{values}: {name}");
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            for sysctl in list(&pod["securityContext"]["sysctls"]) {
                assert_eq!(
                    sysctl["name"], "net.ipv4.ping_group_range",
                    "one of the safe ones"
                );
                assert!(!host, "the nodes' own settings are not ours");
            }
            for container in list(&pod["containers"]) {
                let context = &container["securityContext"];
                assert_eq!(context["allowPrivilegeEscalation"], false, "{values}: {name}");
                assert_eq!(context["readOnlyRootFilesystem"], true);
                assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
            }
            for volume in list(&pod["volumes"]) {
                let kinds: Vec<_> = volume
                    .as_object()
                    .unwrap()
                    .keys()
                    .filter(|k| *k != "name")
                    .collect();
                let harmless = ["projected", "emptyDir", "persistentVolumeClaim"];
                assert!(
                    kinds.iter().all(|kind| harmless.contains(&kind.as_str())) || trusts(values, volume),
                    "{values}: {volume}"
                );
            }
            let level = &all[&(
                "Namespace".to_owned(),
                String::new(),
                space.as_str().unwrap().to_owned(),
            )]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
            assert_eq!(
                level,
                if host { "privileged" } else { "restricted" },
                "{values}: {name}"
            );
        }
    }
}

#[test]
fn the_default_is_to_deny_and_each_policy_opens_what_it_names() {
    let test = "the_default_is_to_deny_and_each_policy_opens_what_it_names";
    let Some(installations) = installations(test) else {
        return;
    };
    for Installation {
        values, objects: all, ..
    } in installations
    {
        let spaces: BTreeSet<&str> = workloads(all)
            .filter(|w| w["spec"]["template"]["spec"]["hostNetwork"].is_null())
            .map(|w| w["metadata"]["namespace"].as_str().unwrap())
            .collect();
        for space in spaces {
            let policy = &all[&(
                "NetworkPolicy".to_owned(),
                space.to_owned(),
                "parallax-default-deny".to_owned(),
            )]["spec"];
            assert_eq!(
                policy,
                &json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}),
                "{values}"
            );
        }
        for policy in of(all, &["NetworkPolicy"]) {
            for rule in list(&policy["spec"]["ingress"]) {
                assert!(
                    !list(&rule["ports"]).is_empty(),
                    "{values}: every port is too many: {policy}"
                );
            }
        }
    }
}

#[test]
fn events_may_be_written_only_where_they_are_asked_for_and_a_secret_is_mounted_never_read() {
    let test = "events_may_be_written_only_where_they_are_asked_for_and_a_secret_is_mounted_never_read";
    let mut events = 0;
    let Some(installations) = installations(test) else {
        return;
    };
    for Installation {
        namespace,
        values,
        objects: all,
    } in installations
    {
        let enabled = values.contains("events: true");
        let may = of(all, &["ClusterRole", "Role"]).any(|role| role.to_string().contains("events.k8s.io"));
        assert_eq!(may, enabled, "{values}");
        assert_eq!(
            has(
                all,
                "ConfigMap",
                &json!(namespace),
                &json!("parallax-notifications")
            ),
            enabled,
            "{values}"
        );
        events += usize::from(enabled);
    }
    assert_eq!(events, 1);

    let Some(helm) = helm::installed(test) else {
        return;
    };
    let all = with_values(
        &helm,
        "parallax",
        "notify: {webhooks: [{name: oncall, url: 'https://calls.example.test:8443/hook', secret: parallax-oncall}]}",
    );
    let deployment = of(&all, &["Deployment"]).next().unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let volume = list(&pod["volumes"])
        .iter()
        .find(|volume| volume["name"] == "secrets")
        .unwrap();
    let secret = &volume["projected"]["sources"][0]["secret"];
    assert_eq!(
        (&secret["name"], &secret["items"][0]["path"]),
        (&json!("parallax-oncall"), &json!("oncall"))
    );
    let mount = list(&pod["containers"][0]["volumeMounts"])
        .iter()
        .find(|mount| mount["name"] == "secrets")
        .unwrap();
    let configuration = configuration(&all);
    let file = format!("secretFile: '{}/oncall'", mount["mountPath"].as_str().unwrap());
    assert!(configuration.contains(&file), "{configuration}");
    let policy = &all[&(
        "NetworkPolicy".to_owned(),
        "parallax".to_owned(),
        "parallax-aggregator".to_owned(),
    )];
    let open = list(&policy["spec"]["egress"])
        .iter()
        .any(|rule| rule.to_string().contains("8443") && rule["to"].is_null());
    assert!(open, "{policy}");
}
