//! The checks of the tools' own linters.

use std::{fs, path::Path, process::Command};

use parallax_dashboards::{
    alerts::parallax::ANY_INSTALLATION,
    promql::{Leader, OWN_NAMESPACE},
};
use serde_json::{Value, json};

use crate::{is_skipped, repository, tool};

/// Runs a tool that must succeed.
fn run_tool(name: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(tool(name))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {text}");
    text
}

#[test]
fn prometheus_takes_the_rules() {
    if is_skipped("prometheus_takes_the_rules") {
        return;
    }
    let text = run_tool(
        "promtool",
        &repository("dashboards"),
        &["check", "rules", "parallax.rules.yaml"],
    );
    let alerts = parallax_dashboards::alerts::all(Leader::Recorded).len();
    // And the recorded series.
    let rules = alerts + 1;
    assert!(text.contains(&format!("{rules} rules found")), "{text}");
}

#[test]
fn each_alert_fires_and_stays_silent_as_its_cases_say() {
    if is_skipped("each_alert_fires_and_stays_silent_as_its_cases_say") {
        return;
    }
    run_tool(
        "promtool",
        &repository("dashboards/tests"),
        &["test", "rules", "alerts.test.yaml"],
    );
}

/// The cases of every alert, with the committed rules at their place.
fn cases() -> Value {
    let text = fs::read_to_string(repository("dashboards/tests/alerts.test.yaml")).unwrap();
    let mut cases: Value = serde_saphyr::from_str(&text).unwrap();
    let rules = repository("dashboards/parallax.rules.yaml")
        .canonicalize()
        .unwrap();
    cases["rule_files"] = vec![rules.to_str().unwrap()].into();
    cases
}

/// Runs changed cases. JSON is YAML.
fn run_cases(cases: &Value) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cases.test.yaml"), cases.to_string()).unwrap();
    run_tool("promtool", folder.path(), &["test", "rules", "cases.test.yaml"]);
}

/// A series of a test case: the metric and its labels.
fn parse_series(series: &str) -> (&str, Vec<(&str, &str)>) {
    let (metric, rest) = series.split_once('{').unwrap();
    let mut rest = rest.strip_suffix('}').unwrap();
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (name, value_on) = rest.split_once("=\"").unwrap();
        let (value, after) = value_on.split_once('"').unwrap();
        labels.push((name, value));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (metric, labels)
}

/// A series as Prometheus stores it if the operator has configured the scrape from a `PodMonitor`, which is called after
/// its component. A case that has some of the target's labels keeps them.
fn as_the_operator_scrapes(series: &str, honor_labels: bool) -> String {
    let (metric, labels) = parse_series(series);
    let value = |name: &str| labels.iter().find(|label| label.0 == name).map(|label| label.1);
    let (namespace, monitor) = value("job").unwrap().split_once('/').unwrap();
    let instance = value("instance").unwrap();
    let component = monitor.strip_prefix("parallax-").unwrap();
    let pod = format!("{monitor}-{instance}");
    let endpoint = if component == "aggregator" { "http" } else { "echo" };
    let target = [
        ("namespace", namespace),
        ("pod", pod.as_str()),
        ("container", component),
        ("endpoint", endpoint),
    ];
    let is_own = OWN_NAMESPACE.contains(&metric) && value("exported_namespace").is_none();
    let mut stored: Vec<(&str, &str)> = Vec::new();
    for &(name, value) in &labels {
        let exported = name == "namespace" && is_own && !honor_labels;
        stored.push((if exported { "exported_namespace" } else { name }, value));
    }
    for (name, value) in target {
        if !stored.iter().any(|label| label.0 == name) {
            stored.push((name, value));
        }
    }
    let stored: Vec<String> = stored
        .iter()
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    format!("{metric}{{{}}}", stored.join(","))
}

/// Runs the cases with the labels of the operator, without `honorLabels` only those with series that it changes. The alerts
/// are the same: of the target's labels they have `job` and, if they are about one Pod, `instance`.
fn run_cases_as_the_operator_scrapes(honor_labels: bool) {
    let mut cases = cases();
    let mut changed = 0;
    let is_exported = |series: &str| series.contains("exported_namespace=");
    cases["tests"].as_array_mut().unwrap().retain_mut(|case| {
        let mut exported = false;
        for input in case["input_series"].as_array_mut().unwrap() {
            let before = input["series"].as_str().unwrap().to_owned();
            let after = as_the_operator_scrapes(&before, honor_labels);
            changed += usize::from(after != before);
            exported |= is_exported(&after) && !is_exported(&before);
            input["series"] = after.into();
        }
        assert!(!exported || !honor_labels);
        honor_labels || exported
    });
    assert!(changed > 500, "{changed}");
    let number = cases["tests"].as_array().unwrap().len();
    assert!(number >= if honor_labels { 40 } else { 5 }, "{number}");
    run_cases(&cases);
}

#[test]
fn each_alert_fires_and_stays_silent_with_the_labels_of_the_operator() {
    if is_skipped("each_alert_fires_and_stays_silent_with_the_labels_of_the_operator") {
        return;
    }
    run_cases_as_the_operator_scrapes(true);
}

#[test]
fn each_alert_fires_and_stays_silent_if_the_operator_overrides_labels_of_series() {
    if is_skipped("each_alert_fires_and_stays_silent_if_the_operator_overrides_labels_of_series") {
        return;
    }
    run_cases_as_the_operator_scrapes(false);
}

/// The same series or alerts of a second installation, in a namespace of its own.
fn in_another_namespace(values: &Value) -> Value {
    let text = values
        .to_string()
        .replace("parallax/parallax-", "other/parallax-");
    serde_json::from_str(&text).unwrap()
}

/// The cases with the series of only one installation.
fn cases_of_one_installation() -> Value {
    let mut cases = cases();
    let is_of_one = |case: &Value| {
        let series = case["input_series"].to_string();
        series.contains("parallax/parallax-") && !series.contains("cluster=")
    };
    cases["tests"].as_array_mut().unwrap().retain(is_of_one);
    cases
}

/// The same series or alerts of an installation with the same name in another cluster.
fn in_another_cluster(values: &Value) -> Value {
    let text = values.to_string();
    let text = text.replace("{job=", "{cluster=\\\"other\\\",job=");
    serde_json::from_str(&text.replace("\"exp_labels\":{", "\"exp_labels\":{\"cluster\":\"other\",")).unwrap()
}

/// Runs the cases with the series of a second installation, which has the same fault.
fn run_cases_twice(second: impl Fn(&Value) -> Value) {
    let mut cases = cases_of_one_installation();
    let mut expected = 0;
    for case in cases["tests"].as_array_mut().unwrap() {
        let added = second(&case["input_series"]);
        let series = case["input_series"].as_array_mut().unwrap();
        series.extend(added.as_array().unwrap().clone());
        for alert in case["alert_rule_test"].as_array_mut().unwrap() {
            let added = second(&alert["exp_alerts"]);
            // An alert without a job says that nothing is scraped at all.
            let has_job = |alert: &&Value| alert["exp_labels"]["job"].is_string();
            let added: Vec<Value> = added
                .as_array()
                .unwrap()
                .iter()
                .filter(has_job)
                .cloned()
                .collect();
            expected += added.len();
            alert["exp_alerts"].as_array_mut().unwrap().extend(added);
        }
    }
    assert!(expected > 30, "{expected}");
    run_cases(&cases);
}

#[test]
fn each_alert_fires_for_each_of_two_installations_with_the_same_fault() {
    if is_skipped("each_alert_fires_for_each_of_two_installations_with_the_same_fault") {
        return;
    }
    run_cases_twice(in_another_namespace);
}

#[test]
fn each_alert_fires_for_each_of_two_clusters_with_the_same_fault() {
    if is_skipped("each_alert_fires_for_each_of_two_clusters_with_the_same_fault") {
        return;
    }
    run_cases_twice(in_another_cluster);
}

#[test]
fn each_alert_fires_and_stays_silent_beside_a_healthy_installation() {
    if is_skipped("each_alert_fires_and_stays_silent_beside_a_healthy_installation") {
        return;
    }
    let mut cases = cases_of_one_installation();
    let healthy = in_another_namespace(&cases["tests"][0]["input_series"]);
    for case in cases["tests"].as_array_mut().unwrap() {
        let series = case["input_series"].as_array_mut().unwrap();
        series.extend(healthy.as_array().unwrap().clone());
        // Without the job that the chart writes into this rule, an aggregator that was never scraped is not missed while another
        // one is; `an_installation_of_the_chart_is_down_until_it_is_back_although_another_one_is_scraped` has it.
        let alerts = case["alert_rule_test"].as_array_mut().unwrap();
        alerts.retain(|alert| alert["alertname"] != "ParallaxAggregatorDown");
    }
    run_cases(&cases);
}

#[test]
fn an_installation_of_the_chart_is_down_until_it_is_back_although_another_one_is_scraped() {
    if is_skipped("an_installation_of_the_chart_is_down_until_it_is_back_although_another_one_is_scraped") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = fs::read_to_string(repository("dashboards/parallax.rules.yaml")).unwrap();
    assert_eq!(rules.matches(ANY_INSTALLATION).count(), 1);
    let rules = rules.replace(ANY_INSTALLATION, "job=\"b/parallax-aggregator\"");
    fs::write(folder.path().join("b.rules.yaml"), rules).unwrap();
    let leader = |job: &str, values: &str| {
        let series =
            format!("parallax_aggregator_leader{{job=\"{job}/parallax-aggregator\",instance=\"{job}\"}}");
        json!({"series": series, "values": values})
    };
    let firing = |at: &str| {
        json!({"alertname": "ParallaxAggregatorDown", "eval_time": at, "exp_alerts": [{
            "exp_labels": {"job": "b/parallax-aggregator", "severity": "critical"},
            "exp_annotations": {
                "summary": "no aggregator of b/parallax-aggregator can be scraped",
                "description": "Nothing is judged. The alerts of open incidents keep firing for an hour; no other alert of this installation can fire.",
                "runbook": "docs/runbooks/ParallaxAggregatorDown.md",
            },
        }]})
    };
    let silent = |at: &str| json!({"alertname": "ParallaxAggregatorDown", "eval_time": at, "exp_alerts": []});
    let case = |name: &str, series: Vec<Value>, alerts: Vec<Value>| {
        json!({
            "name": name,
            "interval": "1m",
            "input_series": series,
            "alert_rule_test": alerts,
        })
    };
    let cases = json!({
        "rule_files": ["b.rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            case(
                "it stops, and is restored after more than an hour",
                vec![leader("a", "1x90"), leader("b", "1x4 stale _x70 1x10")],
                vec![silent("6m"), firing("7m"), firing("75m"), silent("80m")],
            ),
            case(
                "it is never scraped",
                vec![leader("a", "1x10")],
                vec![silent("1m"), firing("2m")],
            ),
        ],
    });
    fs::write(folder.path().join("b.test.yaml"), cases.to_string()).unwrap();
    run_tool("promtool", folder.path(), &["test", "rules", "b.test.yaml"]);
}

#[test]
fn alertmanager_takes_the_inhibition() {
    if is_skipped("alertmanager_takes_the_inhibition") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("alertmanager.yaml");
    let inhibit = fs::read_to_string(repository("dashboards/alertmanager-inhibit.yaml")).unwrap();
    fs::write(
        &config,
        format!("route: {{receiver: nobody}}\nreceivers: [{{name: nobody}}]\n{inhibit}"),
    )
    .unwrap();
    let text = run_tool(
        "amtool",
        folder.path(),
        &["check-config", config.to_str().unwrap()],
    );
    assert!(text.contains("8 inhibit rules"), "{text}");
}
