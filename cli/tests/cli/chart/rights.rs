//! Permissions at the API server in every rendered installation.

use serde_json::json;

use super::installations::{Installation, installations, list, of};

#[test]
fn probers_ask_the_api_server_nothing_and_the_aggregator_changes_nothing_but_its_own() {
    let test = "probers_ask_the_api_server_nothing_and_the_aggregator_changes_nothing_but_its_own";
    let Some(installations) = installations(test) else {
        return;
    };
    for Installation {
        values, objects: all, ..
    } in installations
    {
        for workload in of(all, &["DaemonSet"]) {
            for volume in list(&workload["spec"]["template"]["spec"]["volumes"]) {
                for source in list(&volume["projected"]["sources"]) {
                    let token = &source["serviceAccountToken"];
                    assert!(
                        token.is_null() || token["audience"].is_string(),
                        "{values}: a token of the API server: {source}"
                    );
                }
            }
        }
        for role in of(all, &["ClusterRole", "Role"]) {
            for rule in list(&role["rules"]) {
                let printed = rule.to_string();
                assert!(
                    !printed.contains('*') && !printed.contains("secrets"),
                    "{values}: {rule}"
                );
                let writes = list(&rule["verbs"])
                    .iter()
                    .any(|verb| !["get", "list", "watch"].contains(&verb.as_str().unwrap()));
                let bounded = rule["resourceNames"].is_array();
                if role["metadata"]["name"]
                    .as_str()
                    .unwrap()
                    .starts_with("parallax-preflight")
                {
                    // The objects of a solver, our own resources, and the request of a run.
                    let made = [
                        "httproutes",
                        "ingresses",
                        "pods",
                        "preflights",
                        "preflights/status",
                        "runs",
                        "services",
                    ];
                    let known = list(&rule["resources"])
                        .iter()
                        .all(|resource| made.contains(&resource.as_str().unwrap()));
                    assert!(!writes || known, "{values}: {rule}");
                    continue;
                }
                if role["metadata"]["name"] != "parallax-aggregator" {
                    // Roles for users are not bound to anybody, and cover only our resources or our namespace.
                    let own_group = rule["apiGroups"] == json!(["parallax.dev"]);
                    assert!(own_group || role["kind"] == "Role", "{values}: {rule}");
                    continue;
                }
                // `resourceNames` cannot restrict creation, nor objects whose names users choose.
                let unbounded = [
                    "tokenreviews",
                    "subjectaccessreviews",
                    "leases",
                    "events",
                    "runs",
                    "runs/status",
                    "targets/status",
                ];
                let known = list(&rule["resources"])
                    .iter()
                    .all(|r| unbounded.contains(&r.as_str().unwrap()));
                assert!(!writes || bounded || known, "{values}: {rule}");
            }
        }
    }
}
