//! docs/use/install.md and the page of the chart are correct: the commands work, and every permission, every overlay and every
//! value is explained.

use std::fs;

use serde_json::Value;

use super::{
    Objects, default_installation,
    helm::{self, with_values},
    objects, read,
};
use crate::commands::{parallax, repository, text};

fn page() -> String {
    fs::read_to_string(repository("docs/use/install.md")).unwrap()
}

#[test]
fn every_command_is_run_here_or_names_what_another_test_holds() {
    let page = page().replace("\\\n", "");
    let commands: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(commands.len() >= 7, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            // A test compares it with what the chart renders.
            ["kubectl", "apply" | "delete", "-f", file] => assert!(repository(file).is_file(), "{command}"),
            // The tests of the overlays compare it with what the chart renders with its values.
            ["kubectl", "apply", "-k", folder] => {
                assert!(
                    repository(folder).join("kustomization.yaml").is_file(),
                    "{command}"
                );
            }
            ["kubectl", "-n", namespace, "port-forward", service, ports] => {
                let (_, name) = service.split_once('/').unwrap();
                let all = default_installation();
                let key = ("Service".to_owned(), (*namespace).to_owned(), name.to_owned());
                let port: u64 = ports.split_once(':').unwrap().1.parse().unwrap();
                assert_eq!(all[&key]["spec"]["ports"][0]["port"], port, "{command}");
            }
            [
                "helm",
                "template",
                "parallax",
                "deploy/chart",
                args @ ..,
                "|",
                "kubectl",
                "apply",
                "-f",
                "-",
            ] => {
                let Some(helm) = helm::installed(command) else {
                    continue;
                };
                let rendered = [&["template", "parallax", "deploy/chart"], args].concat();
                let rendered = objects(&helm::printed(&helm.run(&rendered).unwrap()));
                let namespace = ("Namespace".to_owned(), String::new(), "parallax".to_owned());
                assert!(rendered.contains_key(&namespace), "{command}");
            }
            // The tests of the chart render its test; those with a real API server uninstall a release.
            [
                "helm",
                "test" | "uninstall",
                "parallax",
                "--namespace",
                "parallax",
            ]
            | ["kubectl", "delete", "namespace", "parallax"] => {}
            [
                "helm",
                "install" | "upgrade",
                release,
                chart,
                "--namespace",
                namespace,
                args @ ..,
            ] => {
                assert_eq!((*release, *chart), ("parallax", "deploy/chart"), "{command}");
                let Some(helm) = helm::installed(command) else {
                    continue;
                };
                let mut args: Vec<&str> = args.to_vec();
                // What concerns the cluster only.
                args.retain(|arg| !["--create-namespace", "--reset-then-reuse-values"].contains(arg));
                helm::printed(&helm.template((release, namespace), &args).unwrap());
            }
            // The options are right if the cluster is what is missing.
            ["kubectl", "parallax", args @ ..] => {
                let missing = ["--kubeconfig", "there-is-no-cluster"];
                let output = parallax().args(args).args(missing).output().unwrap();
                let stderr = text(&output.stderr);
                assert!(
                    stderr.contains("cannot use the kubeconfig"),
                    "{command}: {stderr}"
                );
            }
            ["target/debug/parallax" | "parallax", args @ ..] => {
                let output = parallax()
                    .args(args)
                    .current_dir(repository(""))
                    .env("KUBECONFIG", "there-is-no-cluster")
                    .env_remove("KUBERNETES_SERVICE_HOST")
                    .output()
                    .unwrap();
                // Enrolling needs a cluster, but the command must parse.
                let expected = if args[0] == "vantage" { 3 } else { 0 };
                assert_eq!(
                    output.status.code(),
                    Some(expected),
                    "{command}: {}",
                    text(&output.stderr)
                );
            }
            _ => panic!("no test runs {command:?}"),
        }
    }
}

/// Asserts that each permission of a role has a row in the table; returns the number of rows.
fn explained(role: &Value, rights: &str) -> usize {
    let mut seen = 0;
    for rule in role["rules"].as_array().unwrap() {
        for resource in rule["resources"].as_array().unwrap() {
            let resource = resource.as_str().unwrap();
            let rows = rights.lines().filter(|line| line.starts_with("| "));
            let mut rows = rows.filter(|line| {
                line.to_lowercase()
                    .replace("the configmap `", "configmaps ")
                    .contains(resource)
            });
            let verbs = rule["verbs"].as_array().unwrap();
            assert!(
                rows.any(|row| verbs.iter().all(|verb| row.contains(verb.as_str().unwrap()))),
                "docs/use/install.md does not explain why {verbs:?} {resource} is needed"
            );
            seen += 1;
        }
    }
    seen
}

#[test]
fn every_right_is_explained() {
    let page = page();
    let section = |title: &str| {
        let rest = page.split(&format!("\n{title}\n")).nth(1).unwrap();
        rest.split("\n## ").next().unwrap()
    };
    let (rights, of_preflights) = (
        section("## Permissions"),
        section("## Permissions of the preflight controller"),
    );
    let Some(helm) = helm::installed("every_right_is_explained") else {
        return;
    };
    let values = "customResources: true\npreflight: {}\naggregator: {replicas: 2}\nnotify: {events: true}\n\
                  certManagerNamespace: cert-manager\n";
    let all = with_values(&helm, "parallax", values);
    let mut seen = 0;
    let people = fs::read_to_string(repository("docs/reference/api.md")).unwrap();
    for ((kind, _, name), role) in &all {
        if !["ClusterRole", "Role"].contains(&kind.as_str()) {
            continue;
        }
        if name.starts_with("parallax-preflight") {
            seen += explained(role, of_preflights);
            continue;
        }
        // Permissions of users are documented with the API.
        if name != "parallax-aggregator" {
            assert!(
                people.contains(name.as_str()),
                "docs/reference/api.md does not explain {name}"
            );
            continue;
        }
        seen += explained(role, rights);
    }
    assert!(seen >= 30, "{seen}");
}

#[test]
fn every_overlay_and_every_object_of_the_default_is_listed() {
    let page = page();
    for entry in fs::read_dir(repository("deploy/overlays")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    let part = page
        .split("## Installed objects")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    for ((kind, _, name), object) in default_installation() {
        let role = [
            "Role",
            "RoleBinding",
            "ClusterRole",
            "ClusterRoleBinding",
            "ServiceAccount",
        ];
        let documented_elsewhere = role.contains(&kind.as_str())
            || ["NetworkPolicy", "PodDisruptionBudget"].contains(&kind.as_str());
        let short = name.replace("parallax-echo-", "-");
        assert!(
            documented_elsewhere
                || part.contains(&format!("`{name}`"))
                || part.contains(&format!("`{short}`")),
            "{kind} {name}"
        );
        assert_ne!(object, Value::Null);
    }
}

#[test]
fn every_link_leads_to_a_file() {
    let page = page();
    for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let file = link.split('#').next().unwrap();
        assert!(repository("docs/use").join(file).exists(), "{link}");
    }
}

#[test]
fn what_is_read_of_cert_manager_is_granted_as_the_values_say() {
    let test = "what_is_read_of_cert_manager_is_granted_as_the_values_say";
    let Some(helm) = helm::installed(test) else {
        return;
    };
    let made = |values: &str| -> Objects { with_values(&helm, "parallax", values) };
    let rules = |values: &str, kind: &str, namespace: &str| {
        let key = (
            kind.to_owned(),
            namespace.to_owned(),
            "parallax-aggregator".to_owned(),
        );
        let all = made(values);
        all.get(&key)
            .map(|role| role["rules"].to_string())
            .unwrap_or_default()
    };
    assert!(rules("{}", "ClusterRole", "").contains("challenges"));
    assert_eq!(rules("{}", "Role", "kube-system"), "");
    assert!(!rules("certManager: off", "ClusterRole", "").contains("challenges"));
    let configured = |values: &str, words: &str| {
        let all = made(values);
        all.values()
            .any(|object| object["data"].to_string().contains(words))
    };
    assert!(configured("certManager: off", "kubernetes: {certManager: off}"));
    let named = "certManagerNamespace: tls";
    assert!(configured(named, "challenges:\\n  certManagerNamespace: tls"));
    let own = rules(named, "Role", "tls");
    assert!(own.contains("deployments") && own.contains("pods"), "{own}");
    let lease = rules(named, "Role", "kube-system");
    assert!(!lease.contains("pods"), "{lease}");
    for role in [&own, &lease] {
        assert!(
            role.contains("cert-manager-controller") && role.contains("\"get\""),
            "{role}"
        );
    }
    for namespace in ["tls", "kube-system"] {
        let key = (
            "RoleBinding".to_owned(),
            namespace.to_owned(),
            "parallax-aggregator".to_owned(),
        );
        assert!(made(named).contains_key(&key), "{namespace}");
    }
}

#[test]
fn the_page_of_the_chart_lists_every_value() {
    let page = read("deploy/chart/README.md");
    let section = page.split("\n## Values\n").nth(1).unwrap();
    // The first cell of each row: `image`, `prober.credentials`, `aggregator.replicas: 2`.
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells: Vec<&str> = rows.filter_map(|row| row.split(" | ").next()).collect();
    let listed = cells.join(" ");
    let schema: Value = serde_json::from_str(&read("deploy/chart/values.schema.json")).unwrap();
    // Helm defines `global` itself.
    let values = schema["properties"].as_object().unwrap().keys();
    for value in values.filter(|value| *value != "global") {
        let whole = listed.contains(&format!("`{value}`"));
        let part = listed.contains(&format!("`{value}."));
        assert!(whole || part, "deploy/chart/README.md does not list {value}");
    }
}
