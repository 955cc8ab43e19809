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
    let text = fs::read_to_string(repository("dashboards/tests/alerts.test.yaml")).unwrap();
    let mut cases: Value = serde_saphyr::from_str(&text).unwrap();
    let rules = repository("dashboards/parallax.rules.yaml")
        .canonicalize()
        .unwrap();
    cases["rule_files"] = vec![rules.to_str().unwrap()].into();
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
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML.
    fs::write(folder.path().join("operator.test.yaml"), cases.to_string()).unwrap();
    run_tool(
        "promtool",
        folder.path(),
        &["test", "rules", "operator.test.yaml"],
    );
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
